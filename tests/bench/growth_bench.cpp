// How the time of reading, judging and rendering a cluster grows with it. Not a test: it prints
// numbers and judges none.
//   growth_bench [PODS]      default 2500; every row is measured at PODS and at 8 x PODS
// A row that grows near 8 times is linear, near 64 quadratic. References, measured in the same run
// on the same cluster: nlohmann::json reading the file, for the reading and the checks;
// nlohmann::json writing the JSON report, for the renderers.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checks/check.h"
#include "probes/control/files/cluster_file.h"
#include "reports/render.h"

namespace dlc {
namespace {

constexpr int kFactor = 8;
constexpr int kPodsPerNode = 10;

std::string Address(int i) {
  return "10." + std::to_string(i / 62500) + "." + std::to_string(i / 250 % 250) + "." +
         std::to_string(i % 250 + 1);
}

/// A RayCluster of a head and `pods` workers, as kubectl would list it with its nodes.
std::string ClusterText(int pods) {
  const std::string digest = "@sha256:" + std::string(64, 'a');
  const auto pod = [&](int i) {
    const std::string kind = i == 0 ? "head" : "worker";
    const std::string container =
        "\"name\":\"ray-" + kind + "\",\"image\":\"example/ray" + digest + "\"";
    const std::string resources =
        i == 0 ? "{}" : R"({"limits":{"nvidia.com/gpu":"1","vpc.amazonaws.com/efa":"1"}})";
    return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-)" + std::to_string(i) +
           R"(","namespace":"ns","uid":"u)" + std::to_string(i) +
           R"(","labels":{"ray.io/cluster":"c","ray.io/group":"g","ray.io/node-type":")" + kind +
           R"("}},"spec":{"nodeName":"node-)" + std::to_string(i / kPodsPerNode) +
           R"(","containers":[{)" + container + R"(,"resources":)" + resources +
           R"(}]},"status":{"phase":"Running","podIP":")" + Address(i) +
           R"(","containerStatuses":[{)" + container + R"(,"imageID":"example/ray)" + digest +
           R"(","ready":true,"state":{"running":{}}}]}})";
  };
  std::string text = R"({"apiVersion":"v1","kind":"List","items":[)";
  for (int i = 0; i <= pods; ++i) {
    text += pod(i) + ",";
  }
  for (int i = 0; i <= pods / kPodsPerNode; ++i) {
    text +=
        R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"node-)" + std::to_string(i) +
        R"(","labels":{"node.kubernetes.io/instance-type":"p5.48xlarge","topology.kubernetes.io/zone":"a"}},)" +
        R"("status":{"allocatable":{"nvidia.com/gpu":"10","vpc.amazonaws.com/efa":"32","pods":"99"},)" +
        R"("nodeInfo":{"architecture":"amd64"}}},)";
  }
  text.back() = ']';
  return text + "}";
}

Observations SeenIn(const std::string& text) {
  Observations o;
  std::vector<std::string> notes;
  if (const auto read = ParseClusterFile(text, "pods.json", o.cluster, notes); !read) {
    std::fprintf(stderr, "growth_bench: %s\n", read.error().message.c_str());
    std::exit(1);
  }
  std::vector<RayNode> nodes(o.cluster.pods.value().size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].node_ip = Address(static_cast<int>(i));
    nodes[i].alive = true;
    nodes[i].resources["GPU"] = i == 0 ? 0 : 1;
  }
  o.ray.nodes = std::move(nodes);
  o.run.stages = {Stage::kImage, Stage::kGpu, Stage::kNccl};
  return o;
}

/// Seconds of the fastest of three.
double Seconds(const std::function<void()>& work) {
  double fastest = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    fastest = std::min(fastest, took.count());
  }
  return fastest;
}

struct Row {
  std::string name;
  double seconds;
  double reference;
};

std::vector<Row> Measure(int pods) {
  const std::string text = ClusterText(pods);
  const Observations o = SeenIn(text);
  std::vector<Row> rows;
  const double parse = Seconds([&] { static_cast<void>(nlohmann::json::parse(text).size()); });
  rows.push_back({"reference: nlohmann::json reads the file", parse, parse});
  rows.push_back(
      {"read the cluster file", Seconds([&] { static_cast<void>(SeenIn(text)); }), parse});
  for (const Check* check : AllChecks()) {
    rows.push_back({"check " + std::string(check->id),
                    Seconds([&] { static_cast<void>(check->judge(o, {})); }), parse});
  }
  const Report report = MakeReport(o, {}, {});
  const auto json = nlohmann::json::parse(FindRenderer("json")->render(report, {}));
  const double dump = Seconds([&] { static_cast<void>(json.dump(2).size()); });
  rows.push_back({"reference: nlohmann::json writes the report", dump, dump});
  for (const Renderer& renderer : AllRenderers()) {
    rows.push_back({"render " + std::string(renderer.format),
                    Seconds([&] { static_cast<void>(renderer.render(report, {}).size()); }), dump});
  }
  return rows;
}

}  // namespace
}  // namespace dlc

int main(int argc, char** argv) {
  const int pods = argc > 1 ? std::atoi(argv[1]) : 2500;
  const auto small = dlc::Measure(pods);
  const auto large = dlc::Measure(pods * dlc::kFactor);
  std::printf("%-46s %9d %9d   growth   ratio to its reference\n", "milliseconds at so many pods",
              pods, pods * dlc::kFactor);
  for (std::size_t i = 0; i < small.size(); ++i) {
    std::printf("%-46s %9.2f %9.2f   %6.1f   %6.2f\n", small[i].name.c_str(),
                small[i].seconds * 1e3, large[i].seconds * 1e3,
                large[i].seconds / std::max(small[i].seconds, 1e-9),
                large[i].seconds / std::max(large[i].reference, 1e-9));
  }
  return 0;
}

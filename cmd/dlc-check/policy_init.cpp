#include "cmd/dlc-check/policy_init.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "checks/instance_types.h"
#include "probes/documents/node.h"

namespace dlc {
namespace {

/// A share of the line rate that a healthy all-reduce should reach, and where that is from.
struct Share {
  double of_line_rate = 0;
  std::int64_t size_bytes = 0;
  std::string_view source;
};

constexpr std::int64_t kGibi = std::int64_t{1} << 30;

/// Of all_reduce, float32. Published results and NVIDIA's own limits are below the bound of any
/// algorithm and well above what a fallback gives.
Share ShareOf(const InstanceType& type, int nodes) {
  const std::string_view name = type.name;
  if (name.starts_with("p5.48") || name.starts_with("p5e.") || name.starts_with("p5en.")) {
    return {0.70, kGibi,
            "p5: 437 GB/s published for 2 nodes at 1 GiB (awsome-distributed-training); NVIDIA's "
            "aicr asks for 300"};
  }
  if (name.starts_with("p4d")) {
    return {nodes == 2 ? 1.0 : 0.5, kGibi,
            "p4de: 76.8 GB/s published for 2 nodes at 1 GiB (awsome-distributed-training); older "
            "stacks on more nodes gave half"};
  }
  if (name.starts_with("g6e.")) {
    return {0.05, kGibi / 4,
            "g6e.48xlarge without GPUDirect: about 3 GB/s (aws-ofi-nccl, issue 547)"};
  }
  return {0.25, kGibi / 4, "nothing published: a guess that tells a line from a trickle"};
}

Error UnknownType(const std::string& name) {
  std::vector<std::string> names;
  for (const InstanceType& type : AllInstanceTypes()) {
    names.emplace_back(type.name);
  }
  const std::string near = NearestName(name, names);
  std::string all;
  for (const std::string& one : names) {
    all += (all.empty() ? "" : ", ") + one;
  }
  return {ErrorCode::kInvalidInput, "unknown instance type '" + name + "'",
          near.empty() ? "known are " + all : "did you mean '" + near + "'?"};
}

std::string Fabric(const InstanceType& type) {
  if (type.efa_interfaces == 0) {
    return "fabric:\n  efa: no                  # the type has none\n";
  }
  return fmt::format(
      "fabric:\n"
      "  efa: required\n"
      "  interfacesPerWorkerPod: {}  # all that the type has; fewer is less bandwidth\n",
      type.efa_interfaces);
}

std::string Nccl(const InstanceType& type, int nodes) {
  std::string text = "nccl:\n  measure: required\n";
  if (nodes < 2 || type.efa_interfaces == 0) {
    return text + (nodes < 2 ? "  # one node: nothing goes between nodes, so no transport and no "
                               "bandwidth are asked for\n"
                             : "");
  }
  text +=
      "  transport: EFA_LOGGED    # EFA_PROVEN where the pods can read their EFA port counters "
      "(hostNetwork)\n";
  text += fmt::format("  gpuDirect: {}\n", type.gpu_direct == GpuDirect::kYes
                                               ? "required"
                                               : "no  # the type is not known to have it");
  text += "  tcpControl: true         # once more over sockets, to compare\n";
  if (type.line_rate_gbps <= 0) {
    return text;
  }
  const Share share = ShareOf(type, nodes);
  text += fmt::format(
      "  minBusBandwidth:\n"
      "    # {} Gbit/s are {:.1f} GB/s. {}.\n"
      "    # {}\n"
      "    - {{collective: all_reduce, sizeBytes: {}, shareOfLineRate: {}}}\n",
      type.line_rate_gbps, type.line_rate_gbps / 8, share.source,
      type.calibrated
          ? "Calibrated: below it the run fails."
          : "Uncalibrated: below it the run warns. Put in bytesPerSecond what a cluster "
            "that you trust gives.",
      share.size_bytes, share.of_line_rate);
  return text;
}

}  // namespace

Result<std::string> InitialPolicy(const std::string& instance_type, int nodes) {
  const InstanceType* type = FindInstanceType(instance_type);
  if (type == nullptr) {
    return UnknownType(instance_type);
  }
  return fmt::format(
             "# For {} x {}. Every limit is here; no check has a tolerance of its own.\n"
             "apiVersion: dlc-check/v1\n"
             "kind: Policy\n"
             "metadata: {{name: {}}}\n"
             "image:\n"
             "  # digest: sha256:...     # the one image that may run: skopeo inspect "
             "docker://REF\n"
             "  containerType: training\n"
             "gpu:\n"
             "  devices: required\n"
             "  perWorkerPod: {}\n"
             "  workerPods: {}\n"
             "  model: {}\n",
             nodes, type->name, type->name, type->gpus, nodes, type->gpu_model) +
         Fabric(*type) + Nccl(*type, nodes) +
         "fsdp:\n  measure: required      # ranks cut, gather and reduce models of Qwen2's "
         "shapes\n"
         "  training: {backend: cuda}   # and train one on their GPUs, over NCCL\n";
}

}  // namespace dlc

#include <doctest/doctest.h>

#include "tests/checks/gpu_run.h"

namespace dlc {
namespace {

using namespace testing;

constexpr const char* kId = "gpu-peers";
const Error kNone{ErrorCode::kUnsupported, "Not Supported (3)", ""};

GpuPeer PairOf(int a, int b, const char* access, const char* nvlink) {
  GpuPeer pair;
  pair.a = a;
  pair.b = b;
  pair.read = std::string(access);
  pair.write = std::string(access);
  pair.nvlink = std::string(nvlink);
  pair.path = std::string("node");
  return pair;
}

/// Nodes of `gpus` GPUs with 4 NVLinks each; all pairs joined by them. 0 links: none of it.
Observations Nodes(int ranks, int gpus, int links = 4) {
  Observations o = GoodGpuRun(ranks, gpus);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<GpuPeer> peers;
    for (int a = 0; a < gpus; ++a) {
      std::vector<GpuNvLink> states;
      for (int link = 0; link < links; ++link) {
        states.push_back({link, true});
      }
      NvmlAt(o, rank, a).nvlinks = links > 0 ? Observed<std::vector<GpuNvLink>>(states)
                                             : Observed<std::vector<GpuNvLink>>(kNone);
      for (int b = a + 1; b < gpus; ++b) {
        peers.push_back(PairOf(a, b, "ok", links > 0 ? "ok" : "not-supported"));
      }
    }
    GpuNodeAt(o, rank).nvml.peers = peers;
  }
  return o;
}

GpuPeer& PeerAt(Observations& o, std::size_t pair) {
  return GpuNodeAt(o, 0).nvml.peers.value()[pair];
}
GpuNvLink& LinkAt(Observations& o, int rank, int gpu, std::size_t link) {
  return NvmlAt(o, rank, gpu).nvlinks.value()[link];
}

Finding Links(const Observations& o, const Policy& policy = {}) {
  return OfRule(JudgeGpu(kId, o, policy), "gpu-peers/nvlinks-active").front();
}
Finding Access(const Observations& o, const Policy& policy = {}) {
  return OfRule(JudgeGpu(kId, o, policy), "gpu-peers/peer-access").front();
}

Policy Demanding() {
  Policy policy;
  policy.gpu.peer_access = "required";
  return policy;
}

}  // namespace

TEST_CASE("gpu-peers: good nodes pass, each once") {
  const Observations o = Nodes(2, 4);
  const auto findings = JudgeGpu(kId, o);
  CHECK(findings.size() == 4);
  for (const Finding& finding : findings) {
    CHECK(finding.verdict == Verdict::kPass);
  }
  CHECK(Mentions(Access(o).notes[0], "6 of 6 pairs"));
}

TEST_CASE("gpu-peers: ranks of one container are told of once, containers of one host each") {
  Observations o = Nodes(2, 2);
  GpuRankAt(o, 1).facts.host = GpuRankAt(o, 0).facts.host;
  CHECK(JudgeGpu(kId, o).size() == 4);
  GpuNodeAt(o, 1).nvml = GpuNodeAt(o, 0).nvml;
  CHECK(JudgeGpu(kId, o).size() == 2);
}

TEST_CASE("gpu-peers: a link that is down on one GPU fails by its number, also on another node") {
  Observations o = Nodes(2, 2);
  LinkAt(o, 0, 1, 2).active = false;
  const Finding finding = Links(o);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(
      Mentions(finding.reason.message, "GPU 1 (" + GpuUuid(1) + "): 3 of 4 NVLinks active, not 4"));
  Observations all = Nodes(2, 2);
  LinkAt(all, 1, 0, 0).active = LinkAt(all, 1, 1, 0).active = false;
  const auto links = OfRule(JudgeGpu(kId, all), "gpu-peers/nvlinks-active");
  CHECK(links[0].verdict == Verdict::kPass);
  CHECK(links[1].verdict == Verdict::kFail);  // the same on both of its GPUs
}

TEST_CASE("gpu-peers: a GPU without NVLinks beside some of its model that have them fails") {
  Observations o = Nodes(1, 2);
  NvmlAt(o, 0, 1).nvlinks = kNone;
  CHECK(Links(o).verdict == Verdict::kFail);
  NvmlAt(o, 0, 1).name = std::string("NVIDIA T4");
  CHECK(Links(o).verdict == Verdict::kPass);
}

TEST_CASE("gpu-peers: the policy's number of links, at the limit and beyond") {
  Observations o = Nodes(1, 2);
  Policy policy;
  policy.gpu.min_nvlinks = 4;
  CHECK(Links(o, policy).verdict == Verdict::kPass);
  policy.gpu.min_nvlinks = 5;
  CHECK(Links(o, policy).verdict == Verdict::kFail);
  policy.gpu.min_nvlinks = 1;
  CHECK(Links(Nodes(1, 2, 0), policy).verdict == Verdict::kFail);
}

TEST_CASE("gpu-peers: where no GPU has an active link there is nothing to judge") {
  CHECK(Links(Nodes(1, 2, 0)).verdict == Verdict::kNotApplicable);
  Observations o = Nodes(1, 1, 2);  // a GPU that is handed to a virtual machine alone
  LinkAt(o, 0, 0, 0).active = LinkAt(o, 0, 0, 1).active = false;
  CHECK(Links(o).verdict == Verdict::kNotApplicable);
  CHECK(Access(o).verdict == Verdict::kNotApplicable);
}

TEST_CASE("gpu-peers: links that were not read are no pass, and hide no fault") {
  Observations o = Nodes(1, 3);
  NvmlAt(o, 0, 2).nvlinks = Error{ErrorCode::kUnavailable, "GPU is lost (15)", ""};
  CHECK(Links(o).verdict == Verdict::kUnknown);
  LinkAt(o, 0, 0, 0).active = false;
  CHECK(Links(o).verdict == Verdict::kFail);
}

TEST_CASE("gpu-peers: a joined pair that may not reach each other fails, either way") {
  for (const auto way : {&GpuPeer::read, &GpuPeer::write}) {
    Observations o = Nodes(1, 3);
    PeerAt(o, 1).*way = std::string("disabled");
    const Finding finding = Access(o);
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(Mentions(finding.reason.message, "GPU 0 and GPU 2"));
    CHECK(Mentions(finding.reason.message, "disabled"));
    CHECK(!Mentions(finding.reason.message, "GPU 1"));
  }
}

TEST_CASE("gpu-peers: GPUs of one fabric are joined whatever NVML says of the pair") {
  Observations o = Nodes(1, 2);
  PeerAt(o, 0) = PairOf(0, 1, "topology-not-supported", "topology-not-supported");
  CHECK(Access(o).verdict == Verdict::kNotApplicable);
  NvmlAt(o, 0, 0).fabric = NvmlAt(o, 0, 1).fabric = GpuFabricState{"completed", 0, 0, "00", 7};
  CHECK(Access(o).verdict == Verdict::kFail);
  NvmlAt(o, 0, 1).fabric.value().clique = 8;
  CHECK(Access(o).verdict == Verdict::kNotApplicable);
  NvmlAt(o, 0, 1).fabric.value().clique = 7;
  NvmlAt(o, 0, 1).mig = GpuMigMode{true};
  CHECK(Access(o).verdict == Verdict::kNotApplicable);
}

TEST_CASE("gpu-peers: PCIe pairs are told, and judged where the policy demands access") {
  Observations o = Nodes(1, 2, 0);
  CHECK(Access(o).verdict == Verdict::kNotApplicable);
  CHECK(Mentions(Access(o).reason.message, "1 of 1 pair"));
  CHECK(Access(o, Demanding()).verdict == Verdict::kPass);
  PeerAt(o, 0) = PairOf(0, 1, "chipset-not-supported", "not-supported");
  CHECK(Access(o).verdict == Verdict::kNotApplicable);
  CHECK(Access(o, Demanding()).verdict == Verdict::kFail);
}

TEST_CASE("gpu-peers: a pair that was not read is no pass, and hides no fault") {
  const Error lost{ErrorCode::kUnavailable, "GPU is lost (15)", ""};
  Observations o = Nodes(1, 3);
  PeerAt(o, 0).write = lost;
  CHECK(Access(o).verdict == Verdict::kUnknown);
  PeerAt(o, 2).read = std::string("disabled");
  CHECK(Access(o).verdict == Verdict::kFail);
  // Whether it had to be joined is not known.
  Observations unsure = Nodes(1, 2);
  PeerAt(unsure, 0) = PairOf(0, 1, "disabled", "ok");
  PeerAt(unsure, 0).nvlink = lost;
  CHECK(Access(unsure).verdict == Verdict::kUnknown);
  PeerAt(unsure, 0).nvlink = kNone;
  CHECK(Access(unsure).verdict == Verdict::kNotApplicable);
  Observations blind = Nodes(1, 2);
  GpuNodeAt(blind, 0).nvml.peers = lost;
  CHECK(Access(blind).verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-peers: ranks that were not seen are unknown, and without ranks nothing is judged") {
  Observations o = Nodes(2, 2);
  GpuRankAt(o, 1).gpu_node[0].seen = Error{ErrorCode::kTimedOut, "did not end", ""};
  CHECK(OfRule(JudgeGpu(kId, o), "gpu-peers/peer-access").back().verdict == Verdict::kUnknown);
  Observations blind = Nodes(1, 2);
  GpuNodeAt(blind, 0).nvml.gpus = Error{ErrorCode::kNotFound, "cannot load libnvidia-ml.so.1", ""};
  CHECK(Access(blind).verdict == Verdict::kUnknown);
  Observations none;
  none.gpu_ranks = NotLookedAt{"no ranks", ""};
  CHECK(Access(none).verdict == Verdict::kNotApplicable);
  CHECK(Access(none, Demanding()).verdict == Verdict::kUnknown);
  Policy no;
  no.gpu.devices = "no";
  CHECK(Access(Nodes(1, 2), no).verdict == Verdict::kNotApplicable);
}

}  // namespace dlc

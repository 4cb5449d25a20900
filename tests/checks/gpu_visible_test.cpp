#include <doctest/doctest.h>

#include "checks/gpu_ranks.h"
#include "tests/checks/gpu_run.h"

namespace dlc {
namespace {

using namespace testing;

constexpr const char* kId = "gpu-visible";

Finding Only(const Observations& o, const std::string& rule, const Policy& policy = {}) {
  return One(JudgeGpu(kId, o, policy), std::string(kId) + "/" + rule);
}

/// A process that the container runtime gave nothing.
void TakeAllAway(GpuNode& node) {
  const Error error{ErrorCode::kNotFound, "cannot load libcuda.so.1: no such file", ""};
  node.device_files = std::vector<GpuDeviceFile>{};
  node.cuda.library = error;
  node.cuda.gpus = error;
  node.cuda.driver_version = error;
  node.nvml.library = Error{ErrorCode::kNotFound, "cannot load libnvidia-ml.so.1", ""};
  node.nvml.gpus = node.nvml.library.error();
  node.nvml.counted = node.nvml.library.error();
}

}  // namespace

TEST_CASE("gpu-visible: good ranks pass every rule that there is something to judge by") {
  for (const int ranks : {1, 3}) {
    const auto findings = JudgeGpu(kId, GoodGpuRun(ranks, 2));
    CHECK(Trouble(findings) == "");
    CHECK(One(findings, "gpu-visible/one-kind").verdict == Verdict::kPass);
    CHECK(OfRule(findings, "gpu-visible/gpu-given").size() == static_cast<std::size_t>(ranks));
  }
}

TEST_CASE("gpu-visible: a rank without a GPU fails, and is told all that is missing") {
  Observations o = GoodGpuRun(1);
  TakeAllAway(GpuNodeAt(o, 0));
  const Finding finding = Only(o, "gpu-given");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(Mentions(finding.reason.message, "/dev/nvidia0"));
  CHECK(Mentions(finding.reason.message, "libcuda.so.1"));
  CHECK(Mentions(finding.reason.message, "libnvidia-ml.so.1"));
  // What needs NVML is unknown, not fine.
  CHECK(Only(o, "cuda-shows-permitted").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-visible: no GPU asked for, none judged") {
  Observations o = GoodGpuRun(1);
  TakeAllAway(GpuNodeAt(o, 0));
  Policy policy;
  policy.gpu.devices = "no";
  const auto findings = JudgeGpu(kId, o, policy);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].verdict == Verdict::kNotApplicable);
}

TEST_CASE("gpu-visible: without ranks it is not applicable unless something is demanded of them") {
  Observations o;
  o.gpu_ranks = NotLookedAt{"the config has no target to run ranks on", ""};
  CHECK(Only(o, "gpu-given").verdict == Verdict::kNotApplicable);
  Policy policy;
  policy.gpu.devices = "required";
  CHECK(Only(o, "gpu-given", policy).verdict == Verdict::kUnknown);
  policy = {};
  policy.gpu.model = "L4";
  CHECK(Only(o, "gpu-given", policy).verdict == Verdict::kUnknown);
  o.run.interrupted = true;
  CHECK(Only(o, "gpu-given").verdict == Verdict::kUnknown);
  o.run.interrupted = false;
  o.gpu_ranks = NotLookedAt{"", "image-digest/x"};
  CHECK(Only(o, "gpu-given").reason.blocked_by == "image-digest/x");
  o.gpu_ranks = Error{ErrorCode::kNotFound, "no dlc-probe", ""};
  CHECK(Only(o, "gpu-given").verdict == Verdict::kUnknown);
  o.gpu_ranks = RankRun{};
  CHECK(Only(o, "gpu-given").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-visible: a lost rank and a lost step are unknown, by name") {
  Observations o = GoodGpuRun(2);
  GpuRankAt(o, 1).gpu_node[0].seen = Error{ErrorCode::kTimedOut, "rank 1 did not end", ""};
  auto findings = JudgeGpu(kId, o);
  CHECK(Mentions(Trouble(findings),
                 "gpu-visible/gpu-given: could not see the GPUs of its pod: rank 1"));
  CHECK(One(findings, "gpu-visible/one-kind").verdict == Verdict::kUnknown);
  o.gpu_ranks.value().ranks[1].seen = Error{ErrorCode::kUnavailable, "rank 1 was lost", ""};
  findings = JudgeGpu(kId, o);
  CHECK(OfRule(findings, "gpu-visible/gpu-given")[1].verdict == Verdict::kUnknown);
  CHECK(One(findings, "gpu-visible/own-gpu").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-visible: 7 of 8 fails and names the one that CUDA does not show") {
  Observations o = GoodGpuRun(1, 8);
  GpuNodeAt(o, 0).cuda.gpus.value().pop_back();
  const Finding finding = Only(o, "cuda-shows-permitted");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(Mentions(finding.notes[0], GpuUuid(7)));
}

TEST_CASE("gpu-visible: a GPU that is another container's is counted and no fault") {
  Observations o = GoodGpuRun(1, 2);
  NvmlGpu other;
  other.index = 2;
  other.uuid = Error{ErrorCode::kPermissionDenied, "Insufficient Permissions (4)", ""};
  GpuNodeAt(o, 0).nvml.gpus.value().push_back(other);
  const auto findings = JudgeGpu(kId, o);
  CHECK(Trouble(findings) == "");
  CHECK(Mentions(One(findings, "gpu-visible/cuda-shows-permitted").notes[0], "1 more on the node"));
}

TEST_CASE("gpu-visible: the same number by other uuids fails") {
  Observations o = GoodGpuRun(1, 2);
  CudaAt(o, 0, 1).uuid = "GPU-stranger";
  CHECK(Only(o, "cuda-shows-permitted").verdict == Verdict::kFail);
}

TEST_CASE("gpu-visible: a list with a bad entry fails with its text") {
  Observations o = GoodGpuRun(1, 2);
  CudaVisibleDevices& visible = GpuNodeAt(o, 0).cuda_visible_devices;
  visible = {{true, "0,1"}, {{"0", ""}, {"1", ""}}, 2, ""};
  CHECK(Only(o, "visible-devices-list").verdict == Verdict::kPass);
  visible = {{true, "0,9,1"}, {{"0", ""}, {"9", "is out of range"}}, 1, "entry 2 '9' is bad"};
  GpuNodeAt(o, 0).cuda.gpus.value().pop_back();
  const Finding finding = Only(o, "visible-devices-list");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.reason.message == "CUDA_VISIBLE_DEVICES='0,9,1': entry 2 '9' is bad");
  // NVML could not tell what is bad: CUDA's count does.
  visible = {{true, "0,9"}, {{"0", ""}, {"9", ""}}, std::nullopt, ""};
  CHECK(Only(o, "visible-devices-list").verdict == Verdict::kFail);
}

TEST_CASE("gpu-visible: a list is not held to name GPUs where CUDA could not be asked") {
  Observations o = GoodGpuRun(1, 2);
  TakeAllAway(GpuNodeAt(o, 0));
  CudaVisibleDevices& visible = GpuNodeAt(o, 0).cuda_visible_devices;
  // As Ray sets it, of GPUs that it was only told of.
  visible = {{true, "0,1"}, {{"0", ""}, {"1", ""}}, std::nullopt, ""};
  CHECK(Only(o, "visible-devices-list").verdict == Verdict::kUnknown);
  visible = {};
  CHECK(Only(o, "visible-devices-list").verdict == Verdict::kUnknown);
  visible = {{true, ""}, {}, 0, "every device is hidden"};
  CHECK(Only(o, "visible-devices-list").verdict == Verdict::kFail);
}

TEST_CASE("gpu-visible: a repeated entry is a process that is shown nothing, not a broken driver") {
  Observations o = GoodGpuRun(1);
  GpuNodeAt(o, 0).cuda_visible_devices = {{true, "0,0"}, {{"0", ""}, {"0", "repeats"}}, 0, "twice"};
  BreakCuda(GpuNodeAt(o, 0), 101);
  CHECK(Only(o, "gpu-given").verdict == Verdict::kFail);
  GpuNodeAt(o, 0).cuda_visible_devices = {};
  CHECK(Only(o, "gpu-given").reason.blocked_by == "gpu-driver/cuda-starts");
}

TEST_CASE("gpu-visible: device files that are missing or do not open") {
  Observations o = GoodGpuRun(1, 2);
  GpuDeviceFile& file = GpuNodeAt(o, 0).device_files.value()[2];
  file.usable = false;
  file.error = "EPERM";
  const Finding finding = Only(o, "device-files");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.notes[0] == "/dev/nvidia1 does not open: EPERM");
  GpuNodeAt(o, 0).device_files = Error{ErrorCode::kUnavailable, "cannot list /dev", ""};
  CHECK(Only(o, "device-files").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-visible: a lost GPU fails by its number, uuid and NVML's words") {
  Observations o = GoodGpuRun(1, 2);
  NvmlAt(o, 0, 1).memory = Error{ErrorCode::kUnavailable, "GPU is lost (15)", "drain it"};
  const Finding finding = Only(o, "gpus-answer");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.reason.message == "GPU 1 " + GpuUuid(1) + ": GPU is lost (15)");
  CHECK(finding.hint == "drain it");
}

TEST_CASE("gpu-visible: two ranks on one GPU fail by name, also on two hosts") {
  Observations o = GoodGpuRun(3);
  WorkAt(o, 2).uuid = GpuUuid(1);
  const Finding finding = Only(o, "own-gpu");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.reason.message == "ranks 1 and 2 share " + GpuUuid(1));
}

TEST_CASE("gpu-visible: more ranks than GPUs fails for the rank that has none") {
  Observations o = GoodGpuRun(2);
  GpuCompute& compute = GpuRankAt(o, 1).gpu_compute[0].seen.value();
  compute.gpus.clear();
  compute.failure = {-1, "no GPU for this rank", "choosing a GPU", "local rank 1 has none", ""};
  const Finding finding = Only(o, "own-gpu");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(Mentions(finding.reason.message, "rank 1 on pod-1: local rank 1 has none"));
}

TEST_CASE("gpu-visible: mixed models fail with the fewest first") {
  Observations o = GoodGpuRun(3);
  CudaAt(o, 1).name = "NVIDIA T4";
  const Finding finding = Only(o, "one-kind");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.reason.message.starts_with("NVIDIA T4 (compute capability 8.9): " + GpuUuid(1) +
                                           " of rank 1 on pod-1; NVIDIA L4"));
}

TEST_CASE("gpu-visible: a MIG slice is joined to its GPU, and warned of") {
  Observations o = GoodGpuRun(1);
  const std::string slice = "MIG-" + GpuUuid(0).substr(4);
  NvmlAt(o, 0).mig_devices =
      std::vector<GpuMigDevice>{{slice, std::string("1g.5gb"), GpuMemory{3'000, 20}}};
  CudaAt(o, 0).uuid = slice;
  GpuNodeAt(o, 0).cuda_visible_devices.expected = std::nullopt;
  const auto findings = JudgeGpu(kId, o);
  CHECK(One(findings, "gpu-visible/cuda-shows-permitted").verdict == Verdict::kPass);
  const Finding whole = One(findings, "gpu-visible/whole-gpus");
  CHECK(whole.verdict == Verdict::kFail);
  CHECK(whole.severity == Severity::kWarn);
  CHECK(FindNvmlGpu(GpuNodeAt(o, 0), GpuUuid(0)) != nullptr);
}

TEST_CASE("gpu-visible: the policy's model and memory, at the limit and beyond") {
  Observations o = GoodGpuRun(2);
  Policy policy;
  CHECK(Only(o, "as-policy", policy).verdict == Verdict::kNotApplicable);
  policy.gpu.model = "L4";
  policy.gpu.min_memory_bytes = 23'000;
  CHECK(Only(o, "as-policy", policy).verdict == Verdict::kPass);
  policy.gpu.min_memory_bytes = 23'001;
  CHECK(Only(o, "as-policy", policy).verdict == Verdict::kFail);
  policy.gpu.min_memory_bytes = 0;
  CudaAt(o, 1).name = "NVIDIA L40S";
  CHECK(Only(o, "as-policy", policy).verdict == Verdict::kFail);
  CudaAt(o, 1).name = "NVIDIA L4";
  BreakCuda(GpuNodeAt(o, 1), 999);
  CHECK(Only(o, "as-policy", policy).verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-visible: models are whole words") {
  CHECK(IsOfModel("NVIDIA H200", "H200"));
  CHECK(IsOfModel("NVIDIA A100-SXM4-40GB", "a100"));
  CHECK(IsOfModel("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000"));
  CHECK_FALSE(IsOfModel("NVIDIA L40S", "L4"));
  CHECK_FALSE(IsOfModel("NVIDIA A10G", "A10"));
}

TEST_CASE("gpu-visible: what the instance type of the pod's node promises") {
  Observations o = GoodGpuRun(1, 4);
  CHECK(Only(o, "as-instance-type").verdict == Verdict::kNotApplicable);
  Pod pod;
  pod.name = "pod-0";
  pod.node = "node-0";
  Node node;
  node.name = "node-0";
  node.instance_type = "g6.12xlarge";
  o.cluster.pods = std::vector<Pod>{pod};
  o.cluster.nodes = std::vector<Node>{node};
  CHECK(Only(o, "as-instance-type").verdict == Verdict::kPass);
  o.cluster.nodes.value()[0].instance_type = "g6e.12xlarge";
  CHECK(Only(o, "as-instance-type").verdict == Verdict::kFail);
  o.cluster.nodes.value()[0].instance_type = "g6.xlarge";  // one GPU
  CHECK(Only(o, "as-instance-type").verdict == Verdict::kFail);
  o.cluster.nodes.value()[0].instance_type = "x9.huge";
  CHECK(Mentions(Only(o, "as-instance-type").reason.message, "x9.huge"));
}

}  // namespace dlc

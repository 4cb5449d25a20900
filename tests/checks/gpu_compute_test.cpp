#include <doctest/doctest.h>

#include "tests/checks/gpu_run.h"

namespace dlc {
namespace {

using namespace testing;

constexpr const char* kId = "gpu-compute";

std::vector<Finding> All(const Observations& o, const Policy& policy = {}) {
  return JudgeGpu(kId, o, policy);
}
Finding Only(const Observations& o, const std::string& rule, const Policy& policy = {}) {
  return One(All(o, policy), std::string(kId) + "/" + rule);
}

}  // namespace

TEST_CASE("gpu-compute: good GPUs pass") {
  for (const int ranks : {1, 2}) {
    const auto findings = All(GoodGpuRun(ranks, 2));
    CHECK(Trouble(findings) == "");
    for (const char* rule : {"computes", "comparisons-proven", "right-memory", "right-transfers",
                             "right-product", "health", "unoccupied"}) {
      CAPTURE(rule);
      const auto some = OfRule(findings, std::string("gpu-compute/") + rule);
      REQUIRE(some.size() == static_cast<std::size_t>(2 * ranks));
      CHECK(some[0].verdict == Verdict::kPass);
    }
  }
}

TEST_CASE("gpu-compute: one wrong word or element fails, there and nowhere else") {
  Observations o = GoodGpuRun(2);
  WorkAt(o, 1).memory[2] = {"walking-zero", 5'000, 1, 4'096, "0xfe", "0xff", "0x01", 0.1, 0.1};
  auto findings = All(o);
  auto some = OfRule(findings, "gpu-compute/right-memory");
  CHECK(some[0].verdict == Verdict::kPass);
  CHECK(some[1].verdict == Verdict::kFail);
  CHECK(Mentions(some[1].reason.message, "pattern walking-zero: 1 wrong words"));
  CHECK(Mentions(some[1].reason.message, "offset 4096"));
  CHECK(Mentions(some[1].subject.name, "rank 1 on pod-1"));

  o = GoodGpuRun(1);
  WorkAt(o, 0).transfers[4].wrong_words = 2;
  CHECK(Only(o, "right-transfers").reason.message == "host-to-device: 2 wrong words of 8 bytes");
  CHECK(Only(o, "right-product").verdict == Verdict::kPass);

  o = GoodGpuRun(1);
  WorkAt(o, 0).product.value().wrong_elements = 1;
  WorkAt(o, 0).product.value().wrong_row = 7;
  CHECK(Mentions(Only(o, "right-product").reason.message, "row 7"));
  o = GoodGpuRun(1);
  WorkAt(o, 0).product.value().host_wrong_elements = 1;
  CHECK(Only(o, "right-product").verdict == Verdict::kFail);
}

TEST_CASE("gpu-compute: nothing wrong by a comparison that is blind is unknown") {
  Observations o = GoodGpuRun(1);
  WorkAt(o, 0).self_tests[0].caught = false;
  CHECK(Only(o, "comparisons-proven").verdict == Verdict::kUnknown);
  CHECK(Only(o, "right-memory").verdict == Verdict::kUnknown);
  CHECK(Only(o, "right-product").verdict == Verdict::kPass);
  // What it does find stays a finding.
  WorkAt(o, 0).memory[0].wrong_words = 1;
  CHECK(Only(o, "right-memory").verdict == Verdict::kFail);
  o = GoodGpuRun(1);
  WorkAt(o, 0).self_tests.pop_back();
  CHECK(Only(o, "comparisons-proven").verdict == Verdict::kFail);
  CHECK(Only(o, "right-product").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-compute: an error of CUDA fails, and what did not run is not fine") {
  Observations o = GoodGpuRun(1);
  GpuWork& work = WorkAt(o, 0);
  work.failure = {214, "cudaErrorECCUncorrectable", "the check kernel", "ECC", "drain the node"};
  work.transfers.clear();
  work.product = NotLookedAt{};
  const Finding finding = Only(o, "computes");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(Mentions(finding.reason.message, "cudaErrorECCUncorrectable (214)"));
  CHECK(finding.hint == "drain the node");
  CHECK(Only(o, "right-memory").verdict == Verdict::kPass);
  CHECK(Only(o, "right-transfers").verdict == Verdict::kUnknown);
  CHECK(Only(o, "right-product").reason.blocked_by == "gpu-compute/computes");
}

TEST_CASE("gpu-compute: a step that hung or crashed is unknown, with the rank's name") {
  Observations o = GoodGpuRun(2);
  GpuRankAt(o, 1).gpu_compute[0].seen = Error{ErrorCode::kTimedOut, "did not end in time", ""};
  CHECK(OfRule(All(o), "gpu-compute/computes")[1].verdict == Verdict::kUnknown);
  CHECK(OfRule(All(o), "gpu-compute/computes")[1].subject.name == "rank 1 on pod-1");
}

TEST_CASE("gpu-compute: why no GPU was put to work") {
  Observations o = GoodGpuRun(1);
  GpuCompute& compute = GpuRankAt(o, 0).gpu_compute[0].seen.value();
  compute.gpus.clear();
  compute.visible = 0;
  compute.failure = {100, "cudaErrorNoDevice", "cudaGetDeviceCount", "", ""};
  BreakCuda(GpuNodeAt(o, 0), 100);
  CHECK(Only(o, "computes").reason.blocked_by == "gpu-visible/gpu-given");
  BreakCuda(GpuNodeAt(o, 0), 802);
  compute.failure.code = 802;
  CHECK(Only(o, "computes").verdict == Verdict::kFail);
  compute.failure = {-1, "built without CUDA", "CUDA", "this build has no CUDA code", ""};
  CHECK(Mentions(Only(o, "computes").reason.message, "this build has no CUDA code"));
  CHECK(Only(o, "computes").verdict == Verdict::kUnknown);
  compute.failure = {};
  CHECK(Only(o, "computes").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-compute: memory errors that wait fail, and the look after the work counts") {
  Observations o = GoodGpuRun(1);
  NvmlAt(o, 0).ecc.value().volatile_uncorrected = 1;
  CHECK(Only(o, "health").verdict == Verdict::kPass);
  NvmlAfterAt(o, 0).ecc.value().volatile_uncorrected = 1;
  CHECK(Only(o, "health").verdict == Verdict::kFail);
  for (int which = 0; which < 3; ++which) {
    o = GoodGpuRun(1);
    NvmlAfterAt(o, 0).remapped_rows.value().pending = which == 0;
    NvmlAfterAt(o, 0).remapped_rows.value().failed = which == 1;
    NvmlAfterAt(o, 0).retired_pages = GpuRetiredPages{0, 0, which == 2};
    CAPTURE(which);
    CHECK(Only(o, "health").verdict == Verdict::kFail);
  }
}

TEST_CASE("gpu-compute: counters that a GPU lacks, and those that could not be read") {
  const Error none{ErrorCode::kUnsupported, "Not Supported (3)", ""};
  Observations o = GoodGpuRun(1);
  NvmlAfterAt(o, 0).ecc = none;
  CHECK(Only(o, "health").verdict == Verdict::kPass);
  NvmlAfterAt(o, 0).remapped_rows = none;
  CHECK(Only(o, "health").verdict == Verdict::kNotApplicable);
  NvmlAfterAt(o, 0).ecc = Error{ErrorCode::kUnavailable, "GPU is lost (15)", ""};
  CHECK(Only(o, "health").verdict == Verdict::kUnknown);
  GpuNodeAt(o, 0).nvml.gpus = Error{ErrorCode::kNotFound, "no NVML", ""};
  GpuAfterAt(o, 0).nvml.gpus = Error{ErrorCode::kNotFound, "no NVML", ""};
  CHECK(Only(o, "health").verdict == Verdict::kUnknown);
  CHECK(Only(o, "unoccupied").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-compute: memory in use at the limit and beyond, and a foreign process") {
  Policy policy;
  policy.gpu.max_used_memory_share = 0.25;
  Observations o = GoodGpuRun(1);
  NvmlAt(o, 0).memory = GpuMemory{24'000, 6'000};
  CHECK(Only(o, "unoccupied", policy).verdict == Verdict::kPass);
  NvmlAt(o, 0).memory = GpuMemory{24'000, 6'001};
  CHECK(Only(o, "unoccupied", policy).verdict == Verdict::kFail);
  o = GoodGpuRun(1);
  NvmlAt(o, 0).processes = std::vector<GpuProcess>{{42, std::nullopt}};
  CHECK(Only(o, "unoccupied").verdict == Verdict::kFail);
  CHECK(Mentions(Only(o, "unoccupied").reason.message, "1 process before ours"));
}

TEST_CASE("gpu-compute: who uses the GPU is not told by its memory alone, nor by processes alone") {
  const Error unseen{ErrorCode::kPermissionDenied, "no permission (4)", ""};
  Observations o = GoodGpuRun(1);
  NvmlAt(o, 0).processes = unseen;
  const Finding finding = Only(o, "unoccupied");
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(Mentions(finding.reason.message, "no permission (4)"));
  NvmlAt(o, 0).memory = GpuMemory{24'000, 24'000};  // somebody's, whoever it is
  CHECK(Only(o, "unoccupied").verdict == Verdict::kFail);
  o = GoodGpuRun(1);
  NvmlAt(o, 0).memory = unseen;
  CHECK(Only(o, "unoccupied").verdict == Verdict::kUnknown);
  NvmlAt(o, 0).processes = std::vector<GpuProcess>{{42, std::nullopt}};
  CHECK(Only(o, "unoccupied").verdict == Verdict::kFail);
}

TEST_CASE("gpu-compute: a MIG slice's processes are not claimed to have been seen") {
  Observations o = GoodGpuRun(1);
  GpuMigDevice slice;
  slice.uuid = "MIG-1";
  slice.memory = GpuMemory{10'000, 100};
  NvmlAt(o, 0).mig_devices = std::vector<GpuMigDevice>{slice};
  WorkAt(o, 0).uuid = "MIG-1";
  Finding finding = Only(o, "unoccupied");
  CHECK(finding.verdict == Verdict::kPass);
  CHECK(finding.establishes == std::vector<std::string>{"little memory of the slice was in use"});
  o = GoodGpuRun(1);
  finding = Only(o, "unoccupied");
  CHECK(Mentions(finding.establishes.at(0), "NVML listed no process"));
}

TEST_CASE("gpu-compute: speeds are judged where they are demanded, and never of a busy GPU") {
  Observations o = GoodGpuRun(1);
  Policy policy;
  CHECK(Mentions(Only(o, "speed").reason.message, "the policy demands no speed; measured copy"));
  policy.gpu.min_copy_bytes_per_second = 100;
  policy.gpu.min_host_copy_bytes_per_second = 100;
  policy.gpu.min_product_operations_per_second = 1'000;
  CHECK(Only(o, "speed", policy).verdict == Verdict::kPass);
  policy.gpu.min_product_operations_per_second = 1'000.5;
  CHECK(Only(o, "speed", policy).verdict == Verdict::kFail);
  WorkAt(o, 0).product = NotLookedAt{};
  CHECK(Only(o, "speed", policy).verdict == Verdict::kUnknown);
  policy.gpu.min_host_copy_bytes_per_second = 101;
  CHECK(Only(o, "speed", policy).verdict == Verdict::kFail);
  NvmlAt(o, 0).processes = std::vector<GpuProcess>{{42, std::nullopt}};
  const Finding busy = Only(o, "speed", policy);
  CHECK(busy.verdict == Verdict::kUnknown);
  CHECK(busy.reason.blocked_by == "gpu-compute/unoccupied");
  CHECK(Mentions(Only(o, "speed").reason.message, "would say nothing of the GPU"));
}

TEST_CASE("gpu-compute: GPUs of one model against their median") {
  Observations o = GoodGpuRun(3);
  CHECK(Only(o, "alike").verdict == Verdict::kPass);
  WorkAt(o, 2).transfers[2].bytes_per_second = 90;
  CHECK(Only(o, "alike").verdict == Verdict::kPass);
  WorkAt(o, 2).transfers[2].bytes_per_second = 89;
  const Finding finding = Only(o, "alike");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kWarn);
  CHECK(Mentions(finding.expected, "copy of " + GpuUuid(2)));
  // A busy one says nothing of itself, nor of the others.
  NvmlAt(o, 2).processes = std::vector<GpuProcess>{{42, std::nullopt}};
  CHECK(Only(o, "alike").verdict == Verdict::kPass);
  Policy policy;
  policy.gpu.min_share_of_median = 0;
  CHECK(Only(o, "alike", policy).verdict == Verdict::kNotApplicable);
  CHECK(Only(GoodGpuRun(1), "alike").verdict == Verdict::kNotApplicable);
}

TEST_CASE("gpu-compute: slowdowns and the PCIe link are warned of") {
  Observations o = GoodGpuRun(1);
  WorkAt(o, 0).during_products.value().clocks_event_reasons = 0x44;
  Finding finding = Only(o, "not-slowed-down");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kWarn);
  CHECK(Mentions(finding.reason.message, "hardware thermal slowdown"));
  WorkAt(o, 0).during_products = Error{ErrorCode::kNotFound, "no NVML", ""};
  CHECK(Only(o, "not-slowed-down").verdict == Verdict::kUnknown);

  CHECK(Only(o, "pcie-link").verdict == Verdict::kPass);
  WorkAt(o, 0).during_copies.value().pcie_width = 8;
  CHECK(Only(o, "pcie-link").verdict == Verdict::kFail);
  WorkAt(o, 0).during_copies.value().pcie_width =
      Error{ErrorCode::kUnsupported, "Not Supported (3)", ""};
  CHECK(Only(o, "pcie-link").verdict == Verdict::kNotApplicable);
}

TEST_CASE("gpu-compute: planted faults are named in every finding") {
  Observations o = GoodGpuRun(1);
  o.gpu_ranks.value().planted_faults = {{0, "gpu-compute", "flip-product", ""}};
  for (const Finding& finding : All(o)) {
    CHECK(finding.notes.back() == "faults were planted in this run: flip-product in rank 0");
  }
}

TEST_CASE("gpu-compute: without ranks and without a wish for GPUs") {
  Observations o;
  o.gpu_ranks = NotLookedAt{"no target", ""};
  CHECK(Only(o, "computes").verdict == Verdict::kNotApplicable);
  Policy policy;
  policy.gpu.min_copy_bytes_per_second = 1;
  CHECK(Only(o, "computes", policy).verdict == Verdict::kUnknown);
  policy = {};
  policy.gpu.devices = "no";
  CHECK(Only(GoodGpuRun(1), "computes", policy).verdict == Verdict::kNotApplicable);
}

TEST_CASE("gpu-allocation: the ranks hold what their pod, or the policy, gives them") {
  const auto held = [](const Observations& o, const Policy& policy) {
    return One(JudgeGpu("gpu-allocation", o, policy), "gpu-allocation/ranks-hold-limit");
  };
  Observations o = GoodGpuRun(1, 8);
  Policy policy;
  CHECK(held(o, policy).verdict == Verdict::kNotApplicable);
  policy.gpu.per_worker_pod = 8;
  CHECK(held(o, policy).verdict == Verdict::kPass);
  CHECK(Trouble(JudgeGpu("gpu-allocation", o, policy)) == "");
  policy.gpu.per_worker_pod = 7;  // more than it was given: it is shown another pod's
  CHECK(held(o, policy).verdict == Verdict::kFail);
  policy.gpu.per_worker_pod = 8;
  WorkAt(o, 0, 3).failure.code = 719;
  CHECK(held(o, policy).verdict == Verdict::kFail);
  // Not all were tried: nothing is known of the others.
  o = GoodGpuRun(1, 8);
  GpuRankAt(o, 0).gpu_compute[0].seen.value().gpus.pop_back();
  CHECK(held(o, policy).verdict == Verdict::kUnknown);
  GpuNodeAt(o, 0).cuda.gpus.value().pop_back();
  CHECK(held(o, policy).verdict == Verdict::kFail);
  o = GoodGpuRun(1, 8);
  GpuNodeAt(o, 0).nvml.gpus = Error{ErrorCode::kNotFound, "no NVML", ""};
  CHECK(held(o, policy).verdict == Verdict::kUnknown);
  GpuRankAt(o, 0).gpu_compute[0].seen = Error{ErrorCode::kTimedOut, "late", ""};
  CHECK(held(o, policy).verdict == Verdict::kUnknown);
}

TEST_CASE(
    "gpu-allocation: the limit of the pod of a rank's name comes before the policy's number") {
  Observations o = GoodGpuRun(1, 2);
  Pod pod;
  pod.name = "pod-0";
  pod.phase = "Running";
  pod.ray_cluster = "ray";
  pod.ray_node_type = "worker";
  pod.spec.containers.emplace_back();
  pod.spec.containers[0].limits["nvidia.com/gpu"] = "2";
  o.cluster.pods = std::vector<Pod>{pod};
  const auto held = [&] {
    return One(JudgeGpu("gpu-allocation", o), "gpu-allocation/ranks-hold-limit").verdict;
  };
  CHECK(held() == Verdict::kPass);
  // A pod that asks for none and is shown GPUs: they are somebody else's.
  o.cluster.pods.value()[0].spec.containers[0].limits.clear();
  CHECK(held() == Verdict::kFail);
}

TEST_CASE("gpu-allocation: on a host alone only what the policy demands of a cluster is unknown") {
  const Observations o = GoodGpuRun(1);
  CHECK(Trouble(JudgeGpu("gpu-allocation", o)) == "");
  Policy policy;
  policy.gpu.worker_pods = 2;
  CHECK(Mentions(Trouble(JudgeGpu("gpu-allocation", o, policy)), "worker-pods-asked"));
  policy = {};
  policy.gpu.total = 8;
  CHECK(Mentions(Trouble(JudgeGpu("gpu-allocation", o, policy)), "worker-total"));
  policy = {};
  policy.gpu.devices = "no";
  const auto findings = JudgeGpu("gpu-allocation", o, policy);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].verdict == Verdict::kNotApplicable);
  // Manifests that were named and could not be read are another story.
  Observations named = o;
  named.cluster.pods = Error{ErrorCode::kPermissionDenied, "forbidden", ""};
  CHECK(Mentions(Trouble(JudgeGpu("gpu-allocation", named)), "gpu-allocation/ray-flag-matches"));
}

}  // namespace dlc

#include <doctest/doctest.h>

#include "checks/driver_version.h"
#include "tests/checks/gpu_run.h"

namespace dlc {
namespace {

using namespace testing;

constexpr const char* kId = "gpu-driver";

Finding Only(const Observations& o, const std::string& rule, const Policy& policy = {}) {
  return One(JudgeGpu(kId, o, policy), std::string(kId) + "/" + rule);
}

}  // namespace

TEST_CASE("gpu-driver: good ranks pass") {
  const auto findings = JudgeGpu(kId, GoodGpuRun(2));
  CHECK(Trouble(findings) == "");
  for (const char* rule :
       {"cuda-starts", "library-matches-module", "runtime-supported", "works-at-the-end"}) {
    CAPTURE(rule);
    const auto some = OfRule(findings, std::string("gpu-driver/") + rule);
    REQUIRE(some.size() == 2);
    CHECK(some[0].verdict == Verdict::kPass);
  }
}

TEST_CASE("gpu-driver: a code of CUDA fails with number, name and what it means") {
  for (const int code : {802, 803, 804, 999, 35}) {
    CAPTURE(code);
    Observations o = GoodGpuRun(1);
    BreakCuda(GpuNodeAt(o, 0), code, "CUDA_ERROR_X");
    const Finding finding = Only(o, "cuda-starts");
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(finding.reason.message == "cuInit: CUDA_ERROR_X (" + std::to_string(code) + "): text");
    CHECK(finding.hint == "what it means");
  }
}

TEST_CASE("gpu-driver: no GPU shown is no fault of the driver, and no pass") {
  Observations o = GoodGpuRun(1);
  BreakCuda(GpuNodeAt(o, 0), 100);
  CHECK(Only(o, "cuda-starts").reason.blocked_by == "gpu-visible/gpu-given");
}

TEST_CASE("gpu-driver: libcuda missing beside GPUs is") {
  Observations o = GoodGpuRun(1);
  const Error error{ErrorCode::kNotFound, "cannot load libcuda.so.1", "give the pod a GPU"};
  GpuNodeAt(o, 0).cuda.library = error;
  GpuNodeAt(o, 0).cuda.gpus = error;
  GpuNodeAt(o, 0).cuda.driver_version = error;
  CHECK(Only(o, "cuda-starts").verdict == Verdict::kFail);
  CHECK(Only(o, "cuda-starts").reason.message == "cannot load libcuda.so.1");
  CHECK(Only(o, "runtime-supported").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-driver: a missing function, and two copies of libcuda") {
  Observations o = GoodGpuRun(1);
  GpuNodeAt(o, 0).cuda.failure = {-1, "missing function", "cuInit", "no symbol cuInit", ""};
  GpuNodeAt(o, 0).cuda.gpus = Error{ErrorCode::kUnavailable, "cuInit", ""};
  CHECK(Only(o, "cuda-starts").verdict == Verdict::kFail);
  o = GoodGpuRun(1);
  GpuNodeAt(o, 0).cuda.mapped.emplace_back("/usr/local/cuda/compat/libcuda.so.1");
  CHECK(Only(o, "cuda-starts").verdict == Verdict::kFail);
}

TEST_CASE("gpu-driver: library and kernel module of different versions") {
  Observations o = GoodGpuRun(1);
  GpuNodeAt(o, 0).nvml.failure_code = 18;
  GpuNodeAt(o, 0).nvml.gpus = Error{ErrorCode::kUnavailable, "mismatch (18)", ""};
  CHECK(Mentions(Only(o, "library-matches-module").reason.message, "the module is 580.95.05"));
  o = GoodGpuRun(1);
  GpuNodeAt(o, 0).kernel_module = std::string("570.1.2");
  CHECK(Only(o, "library-matches-module").verdict == Verdict::kFail);
  o = GoodGpuRun(1);
  GpuNodeAt(o, 0).cuda.library.value().version = "575.1.2";
  CHECK(Only(o, "library-matches-module").verdict == Verdict::kFail);
  GpuNodeAt(o, 0).cuda.compat = true;  // which is meant to be of another version
  CHECK(Only(o, "library-matches-module").verdict == Verdict::kPass);
  GpuNodeAt(o, 0).kernel_module = Error{ErrorCode::kNotFound, "no module", ""};
  CHECK(Only(o, "library-matches-module").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-driver: a library whose version was not seen fits nothing, and hides no other") {
  const Error unseen{ErrorCode::kUnavailable, "no answer", ""};
  Observations o = GoodGpuRun(1);
  GpuNodeAt(o, 0).nvml.driver_version = unseen;
  Finding finding = Only(o, "library-matches-module");
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(finding.reason.message == "could not see NVML's driver version: no answer");
  GpuNodeAt(o, 0).cuda.library.value().version = "575.1.2";
  CHECK(Only(o, "library-matches-module").verdict == Verdict::kFail);
  o = GoodGpuRun(1);
  GpuNodeAt(o, 0).cuda.library = unseen;
  CHECK(Only(o, "library-matches-module").verdict == Verdict::kUnknown);
  GpuNodeAt(o, 0).nvml.driver_version = std::string("570.1.2");
  CHECK(Only(o, "library-matches-module").verdict == Verdict::kFail);
  // A file name without a version tells none.
  o = GoodGpuRun(1);
  GpuNodeAt(o, 0).cuda.library = LoadedLibrary{"/usr/lib/libcuda.so.1", "1", ""};
  finding = Only(o, "library-matches-module");
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(Mentions(finding.reason.message, "/usr/lib/libcuda.so.1"));
}

TEST_CASE("gpu-driver: the image's runtime against what libcuda serves") {
  Observations o = GoodGpuRun(1);
  GpuNodeAt(o, 0).cuda.driver_version = 12'080;
  CHECK(Only(o, "runtime-supported").verdict == Verdict::kFail);
  GpuNodeAt(o, 0).cuda.image_runtime.value().version = "12090";
  const Finding minor = Only(o, "runtime-supported");
  CHECK(minor.verdict == Verdict::kPass);
  CHECK(Mentions(minor.notes.back(), "minor-version compatibility"));
  GpuNodeAt(o, 0).cuda.image_runtime = Error{ErrorCode::kNotFound, "no runtime", ""};
  CHECK(Only(o, "runtime-supported").verdict == Verdict::kNotApplicable);
  o.gpu_ranks.value().launcher = "ray";  // then it is the image, and must have one
  CHECK(Only(o, "runtime-supported").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-driver: the policy's least version, number by number") {
  Observations o = GoodGpuRun(1);
  CHECK(Only(o, "min-version").verdict == Verdict::kNotApplicable);
  Policy policy;
  policy.gpu.min_driver = "580.95.05";
  CHECK(Only(o, "min-version", policy).verdict == Verdict::kPass);
  policy.gpu.min_driver = "580.95.06";
  CHECK(Only(o, "min-version", policy).verdict == Verdict::kFail);
  GpuNodeAt(o, 0).kernel_module = Error{ErrorCode::kNotFound, "no module", ""};
  CHECK(Only(o, "min-version", policy).verdict == Verdict::kUnknown);
  CHECK(IsOlderDriver("580.9", "580.65.06"));
  CHECK_FALSE(IsOlderDriver("1000.1", "580.65.06"));
  CHECK(IsDriverVersion("535.183.01"));
  for (const char* text : {"", "580", "580.", "580.x", "1.2.3.4", "580.95.05 "}) {
    CAPTURE(text);
    CHECK_FALSE(IsDriverVersion(text));
  }
}

TEST_CASE("gpu-driver: versions that cannot be read are unknown") {
  Policy policy;
  policy.gpu.min_driver = "580.95.05";
  for (const char* text : {"", "0", "thirteen", "13.0", "12"}) {
    CAPTURE(text);
    Observations o = GoodGpuRun(1);
    GpuNodeAt(o, 0).cuda.image_runtime.value().version = text;
    const Finding finding = Only(o, "runtime-supported");
    CHECK(finding.verdict == Verdict::kUnknown);
    CHECK(Mentions(finding.reason.message, "/opt/venv/libcudart.so.13"));
  }
  for (const char* text : {"", "580", "five"}) {
    CAPTURE(text);
    Observations o = GoodGpuRun(1);
    GpuNodeAt(o, 0).kernel_module = std::string(text);
    CHECK(Only(o, "min-version", policy).verdict == Verdict::kUnknown);
  }
}

TEST_CASE("gpu-driver: the NVSwitch fabric where there is one") {
  Observations o = GoodGpuRun(1);
  CHECK(Only(o, "nvswitch-up").verdict == Verdict::kNotApplicable);
  NvmlAt(o, 0).fabric = GpuFabricState{"completed", 0, 0, "", 0};
  CHECK(Only(o, "nvswitch-up").verdict == Verdict::kPass);
  NvmlAt(o, 0).fabric = GpuFabricState{"in-progress", 0, 0, "", 0};
  CHECK(Only(o, "nvswitch-up").verdict == Verdict::kFail);
  NvmlAt(o, 0).fabric = GpuFabricState{"completed", 3, 0, "", 0};
  CHECK(Only(o, "nvswitch-up").verdict == Verdict::kFail);
  NvmlAt(o, 0).fabric = Error{ErrorCode::kUnavailable, "x", ""};
  CHECK(Only(o, "nvswitch-up").verdict == Verdict::kUnknown);
  NvmlAt(o, 0).fabric = Error{ErrorCode::kUnsupported, "x", ""};
  CHECK(Only(o, "nvswitch-up").verdict == Verdict::kNotApplicable);
}

TEST_CASE("gpu-driver: what was there at the start and is gone at the end") {
  Observations o = GoodGpuRun(1, 2);
  GpuAfterAt(o, 0).cuda.gpus.value().pop_back();
  CHECK(Mentions(Only(o, "works-at-the-end").reason.message, GpuUuid(1) + " gone"));
  o = GoodGpuRun(1);
  GpuAfterAt(o, 0).nvml.failure_code = 999;
  CHECK(Only(o, "works-at-the-end").verdict == Verdict::kFail);
  o = GoodGpuRun(1);
  GpuRankAt(o, 0).gpu_node.pop_back();
  CHECK(Only(o, "works-at-the-end").verdict == Verdict::kUnknown);
}

TEST_CASE("gpu-driver: different drivers are warned of") {
  Observations o = GoodGpuRun(2);
  CHECK(Only(o, "same-everywhere").verdict == Verdict::kPass);
  GpuNodeAt(o, 1).kernel_module = std::string("570.1.2");
  const Finding finding = Only(o, "same-everywhere");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kWarn);
}

TEST_CASE("gpu-driver: one driver everywhere takes all ranks, a difference only two") {
  const Error unseen{ErrorCode::kUnavailable, "no answer", ""};
  Observations o = GoodGpuRun(3);
  GpuRankAt(o, 1).gpu_node[0].seen = unseen;
  Finding finding = Only(o, "same-everywhere");
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(finding.reason.message == "could not see the driver of rank 1 on pod-1: no answer");
  GpuNodeAt(o, 2).kernel_module = std::string("570.1.2");
  CHECK(Only(o, "same-everywhere").verdict == Verdict::kFail);
  // Half of what is compared.
  o = GoodGpuRun(2);
  GpuNodeAt(o, 1).cuda.driver_version = unseen;
  CHECK(Only(o, "same-everywhere").verdict == Verdict::kUnknown);
  o = GoodGpuRun(3);
  GpuNodeAt(o, 0).kernel_module = unseen;
  CHECK(Only(o, "same-everywhere").verdict == Verdict::kUnknown);
  GpuNodeAt(o, 2).cuda.driver_version = 12'080;
  CHECK(Only(o, "same-everywhere").verdict == Verdict::kFail);
}

TEST_CASE("gpu-driver: a rank that was not seen is unknown") {
  Observations o = GoodGpuRun(1);
  GpuRankAt(o, 0).gpu_node[0].seen = Error{ErrorCode::kTimedOut, "did not end", ""};
  CHECK(Only(o, "cuda-starts").verdict == Verdict::kUnknown);
  o.gpu_ranks = NotLookedAt{"no target", ""};
  CHECK(Only(o, "cuda-starts").verdict == Verdict::kNotApplicable);
}

}  // namespace dlc

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/driver_version.h"
#include "checks/gpu_ranks.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kGpuDriver;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kStarts = "gpu-driver/cuda-starts";
constexpr std::string_view kMatches = "gpu-driver/library-matches-module";
constexpr std::string_view kRuntime = "gpu-driver/runtime-supported";
constexpr std::string_view kLeast = "gpu-driver/min-version";
constexpr std::string_view kSwitch = "gpu-driver/nvswitch-up";
constexpr std::string_view kEnd = "gpu-driver/works-at-the-end";
constexpr std::string_view kSameDriver = "gpu-driver/same-everywhere";

constexpr int kLibRmMismatch = 18;  // NVML_ERROR_LIB_RM_VERSION_MISMATCH

constexpr std::string_view kOfThisProcess =
    "the same of a process with another environment: LD_LIBRARY_PATH decides which libcuda is "
    "loaded";

constexpr Rule kRules[] = {
    {kStarts, Severity::kRequired, false, "CUDA starts in the rank's process",
     "libcuda was loaded once, cuInit and the listing of GPUs succeeded", kOfThisProcess,
     "see what the code named means; look at the node's driver and at the pod's LD_LIBRARY_PATH"},
    {kMatches, Severity::kRequired, false, "the driver's libraries fit its kernel module",
     "versions of NVML and, unless it is a forward-compatibility copy, of libcuda equal the kernel "
     "module's",
     kOfThisProcess,
     "reboot the node, then recreate the pod: the driver was changed under running containers"},
    {kRuntime, Severity::kRequired, false, "the driver serves the image's CUDA runtime",
     "libcuda in use is of the runtime's CUDA major version or later", kOfThisProcess,
     "update the node's driver; on data-centre GPUs the image's /usr/local/cuda/compat may do, "
     "first in LD_LIBRARY_PATH: a pod `command:` skips the entrypoint that puts it there"},
    {kLeast, Severity::kRequired, false, "the kernel module is as new as the policy demands",
     "its version, number by number, is not below gpu.minDriver", kOfThisProcess,
     "update the node's driver (the node group's AMI), or lower gpu.minDriver"},
    {kSwitch, Severity::kRequired, false, "the NVSwitch fabric is up",
     "every GPU that has a fabric registered with it, with success", "its speed",
     "start nvidia-fabricmanager, of the driver's exact version, on the node named"},
    {kEnd, Severity::kRequired, false, "GPUs are there at the end as at the start",
     "after the experiments CUDA still starts in a new process and shows the same GPUs",
     "that they stay: a systemd reload can take device permissions away at any time",
     "recreate the pod; look for Xid errors and for systemd reloads in the node's log"},
    {kSameDriver, Severity::kWarn, false, "one driver version runs everywhere",
     "kernel module and CUDA version of libcuda are equal on all ranks", kOfThisProcess,
     "keep one AMI in the worker groups"},
};

std::string LibcudaNote(const CudaView& cuda) {
  std::string text = "libcuda: " + (cuda.library.seen() ? cuda.library.value().path : "none");
  if (cuda.compat) {
    text += " (the image's forward-compatibility copy)";
  } else if (cuda.compat_file.seen()) {
    text +=
        "; the image's forward-compatibility copy " + cuda.compat_file.value() + " is not in use";
  }
  return text;
}

void NothingToStart(std::string_view rule, const GpuRankView& rank, Judge& judge) {
  judge.Unknown(rule, rank.RankSubject(),
                {"prerequisite-failed", "this process is shown no GPU", "gpu-visible/gpu-given"});
}

void JudgeStarts(const GpuRankView& rank, const GpuNode& node, Judge& judge) {
  const CudaView& cuda = node.cuda;
  const CudaUse use = CudaUseOf(node);
  if (use == CudaUse::kNone) {
    NothingToStart(kStarts, rank, judge);
    return;
  }
  if (use == CudaUse::kBroken && !cuda.library.failed() && cuda.failure.code == 0) {
    judge.Unseen(kStarts, rank.RankSubject(), "CUDA's GPUs", cuda.gpus);
    return;
  }
  const char* source = "observation:gpu_ranks.gpu_node.cuda";
  std::vector<Assertion> assertions = {
      {"libcuda.so.1 can be loaded", Op::kEq, true, !cuda.library.failed(), "", source}};
  if (!cuda.library.failed()) {
    const std::string call = cuda.failure.call.empty() ? "cuInit" : cuda.failure.call;
    assertions.push_back(
        {"code of " + call, Op::kEq, std::int64_t{0}, std::int64_t{cuda.failure.code}, "", source});
    assertions.push_back({"copies of libcuda in the process", Op::kLe, std::int64_t{1},
                          static_cast<std::int64_t>(cuda.mapped.size()), "", source});
  }
  Finding& finding = judge.Decide(kStarts, rank.RankSubject(), std::move(assertions));
  finding.notes.push_back(LibcudaNote(cuda));
  if (finding.verdict != Verdict::kFail) {
    return;
  }
  if (cuda.library.failed()) {
    finding.reason.message = cuda.library.error().message;
    finding.hint = cuda.library.error().hint.empty() ? finding.hint : cuda.library.error().hint;
  } else if (cuda.failure.code != 0) {
    finding.reason.message = FailureText(cuda.failure);
    finding.hint = cuda.failure.meaning.empty() ? finding.hint : cuda.failure.meaning;
  } else {
    finding.notes.push_back("mapped: " + NameSome(cuda.mapped));
  }
}

Observed<std::string> LibcudaVersion(const CudaView& cuda) {
  if (!cuda.library.seen()) {
    return UnseenAs<std::string>(cuda.library);
  }
  if (!IsDriverVersion(cuda.library.value().version)) {
    return Error{ErrorCode::kUnavailable,
                 "the name of " + cuda.library.value().path + " has no version", ""};
  }
  return cuda.library.value().version;
}

void JudgeMatches(const GpuRankView& rank, const GpuNode& node, Judge& judge) {
  const char* source = "observation:gpu_ranks.gpu_node.kernel_module";
  if (node.nvml.failure_code == kLibRmMismatch) {
    Finding& finding = judge.Decide(
        kMatches, rank.RankSubject(),
        {{"code of nvmlInit", Op::kEq, std::int64_t{0}, std::int64_t{kLibRmMismatch}, "", source}});
    if (finding.verdict == Verdict::kFail) {
      finding.reason.message =
          "the driver's library and its kernel module are of different versions (NVML 18)" +
          (node.kernel_module.seen() ? "; the module is " + node.kernel_module.value() : "");
    }
    return;
  }
  if (!node.kernel_module.seen()) {
    judge.Unseen(kMatches, rank.RankSubject(), "the kernel module's version", node.kernel_module);
    return;
  }
  const std::string& module = node.kernel_module.value();
  std::vector<Assertion> assertions;
  if (node.nvml.driver_version.seen()) {
    assertions.push_back(
        {"driver version of NVML", Op::kEq, module, node.nvml.driver_version.value(), "", source});
  }
  const Observed<std::string> libcuda = LibcudaVersion(node.cuda);
  if (libcuda.seen() && !node.cuda.compat) {
    assertions.push_back({"libcuda", Op::kEq, module, libcuda.value(), "", source});
  }
  // What does not fit stays a failure; what was not seen does not fit.
  if (std::all_of(assertions.begin(), assertions.end(), Holds)) {
    if (!node.nvml.driver_version.seen()) {
      judge.Unseen(kMatches, rank.RankSubject(), "NVML's driver version", node.nvml.driver_version);
      return;
    }
    if (!libcuda.seen() && !node.cuda.compat) {
      judge.Unseen(kMatches, rank.RankSubject(), "libcuda's version", libcuda);
      return;
    }
  }
  judge.Decide(kMatches, rank.RankSubject(), std::move(assertions))
      .notes.push_back(LibcudaNote(node.cuda));
}

std::string CudaVersionText(std::int64_t version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// 13000 of "13000": CUDA has no version below 1.0.
std::optional<std::int64_t> VersionNumber(const std::string& text) {
  const bool number = text.size() >= 4 && text.size() <= 9 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::optional<std::int64_t>(std::stoll(text)) : std::nullopt;
}

void JudgeRuntime(const GpuRankView& rank, const GpuNode& node, bool outside_image, Judge& judge) {
  const auto& runtime = node.cuda.image_runtime;
  if (!runtime.seen()) {
    const bool absent = runtime.failed() && runtime.error().code == ErrorCode::kNotFound;
    if (absent && outside_image) {
      judge.NotApplicable(kRuntime, rank.RankSubject(),
                          "no CUDA runtime is installed here: this host is not the image");
    } else {
      judge.Unseen(kRuntime, rank.RankSubject(), "the image's CUDA runtime", runtime);
    }
    return;
  }
  if (!node.cuda.driver_version.seen()) {
    judge.Unseen(kRuntime, rank.RankSubject(), "which CUDA libcuda serves",
                 node.cuda.driver_version);
    return;
  }
  const std::optional<std::int64_t> told = VersionNumber(runtime.value().version);
  if (!told) {
    judge.Unknown(
        kRuntime, rank.RankSubject(),
        {"unavailable",
         "cannot read the version '" + runtime.value().version + "' of " + runtime.value().path,
         ""});
    return;
  }
  const std::int64_t wanted = *told;
  const std::int64_t served = node.cuda.driver_version.value();
  Finding& finding =
      judge.Decide(kRuntime, rank.RankSubject(),
                   {{"CUDA major version of libcuda", Op::kGe, wanted / 1000, served / 1000, "",
                     "observation:gpu_ranks.gpu_node.cuda.image_runtime"}});
  finding.notes.push_back("runtime " + runtime.value().path + ": " + CudaVersionText(wanted) +
                          "; libcuda serves " + CudaVersionText(served));
  finding.notes.push_back(LibcudaNote(node.cuda));
  if (served < wanted && served / 1000 == wanted / 1000) {
    finding.notes.emplace_back(
        "by CUDA's minor-version compatibility: what only the newer driver does is refused");
  }
}

void JudgeLeast(const GpuRankView& rank, const GpuNode& node, const std::string& wanted,
                Judge& judge) {
  if (wanted.empty()) {
    return;  // said once for the run
  }
  if (!node.kernel_module.seen()) {
    judge.Unseen(kLeast, rank.RankSubject(), "the kernel module's version", node.kernel_module);
    return;
  }
  const std::string& module = node.kernel_module.value();
  if (!IsDriverVersion(module)) {
    judge.Unknown(kLeast, rank.RankSubject(),
                  {"unavailable", "cannot read the kernel module's version '" + module + "'", ""});
    return;
  }
  Finding& finding = judge.Decide(kLeast, rank.RankSubject(),
                                  {{"kernel module older than " + wanted, Op::kEq, false,
                                    IsOlderDriver(module, wanted), "", "policy:gpu.minDriver"}});
  if (finding.verdict == Verdict::kNotApplicable) {
    return;
  }
  finding.expected = wanted + " or later";
  finding.actual = module;
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = "the kernel module is " + module + ", the policy demands " + wanted;
  }
}

void JudgeSwitch(const GpuRankView& rank, const GpuNode& node, Judge& judge) {
  if (!node.nvml.gpus.seen()) {
    return;  // gpu-visible says so
  }
  std::vector<std::string> down;
  std::int64_t with_fabric = 0;
  const NvmlGpu* unread = nullptr;
  for (const NvmlGpu& gpu : node.nvml.gpus.value()) {
    if (!gpu.uuid.seen()) {
      continue;
    }
    const GpuFabricState* fabric = gpu.fabric.get();
    if (fabric == nullptr) {
      unread = HasNoSuch(gpu.fabric) ? unread : &gpu;
    } else if (fabric->state != "not-supported") {
      ++with_fabric;
      if (fabric->state != "completed" || fabric->status != 0) {
        down.push_back("GPU " + std::to_string(gpu.index) + ": " + fabric->state + ", status " +
                       std::to_string(fabric->status));
      }
    }
  }
  if (down.empty() && unread != nullptr) {
    judge.Unseen(kSwitch, rank.RankSubject(),
                 "the fabric state of GPU " + std::to_string(unread->index), unread->fabric);
  } else if (with_fabric == 0) {
    judge.NotApplicable(kSwitch, rank.RankSubject(), "no GPU here is on an NVSwitch fabric");
  } else {
    judge.Decide(kSwitch, rank.RankSubject(),
                 {{"GPUs whose fabric is not up", Op::kSubset, std::vector<std::string>{}, down, "",
                   "constant"}});
  }
}

void JudgeEnd(const GpuRankView& rank, const GpuNode& node, Judge& judge) {
  if (CudaUseOf(node) != CudaUse::kShows) {
    return;  // it did not work at the start
  }
  if (!rank.after.seen()) {
    judge.Unseen(kEnd, rank.RankSubject(), "the GPUs at the end", rank.after);
    return;
  }
  const GpuNode& after = rank.after.value();
  std::vector<std::string> gone;
  const auto still = ShownGpus(after);
  for (const CudaGpu& gpu : ShownGpus(node)) {
    const bool there = std::any_of(still.begin(), still.end(),
                                   [&](const CudaGpu& other) { return other.uuid == gpu.uuid; });
    if (!there) {
      gone.push_back(gpu.uuid);
    }
  }
  Finding& finding =
      judge.Decide(kEnd, rank.RankSubject(),
                   {{"GPUs that are gone", Op::kSubset, std::vector<std::string>{}, gone, "",
                     "observation:gpu_ranks.gpu_node"},
                    {"code of nvmlInit", Op::kEq, std::int64_t{node.nvml.failure_code},
                     std::int64_t{after.nvml.failure_code}, "", "observation:gpu_ranks.gpu_node"}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = "at the end of the run: " +
                             (gone.empty() ? "NVML stopped working" : NameSome(gone) + " gone");
    if (after.cuda.failure.code != 0) {
      finding.reason.message += "; " + FailureText(after.cuda.failure);
    }
  }
}

void JudgeRankDriver(const GpuRankView& rank, const Policy& policy, bool outside_image,
                     Judge& judge) {
  if (JudgeWithoutGpu(rank, kStarts, "its driver", judge)) {
    return;
  }
  const GpuNode& node = rank.node.value();
  JudgeStarts(rank, node, judge);
  JudgeLeast(rank, node, policy.gpu.min_driver, judge);
  if (CudaUseOf(node) == CudaUse::kNone && !node.nvml.gpus.seen() &&
      node.nvml.failure_code != kLibRmMismatch) {
    return;  // there is no driver here to be judged further
  }
  JudgeMatches(rank, node, judge);
  JudgeRuntime(rank, node, outside_image, judge);
  JudgeSwitch(rank, node, judge);
  JudgeEnd(rank, node, judge);
}

/// A rank whose kernel module or CUDA version was not seen; `rank` is nullptr for none.
struct UnseenDriver {
  const GpuRankView* rank = nullptr;
  Observed<std::string> why;
};

UnseenDriver FirstUnseenDriver(const std::vector<GpuRankView>& ranks) {
  for (const GpuRankView& rank : ranks) {
    if (!rank.node.seen()) {
      return {&rank, UnseenAs<std::string>(rank.node)};
    }
    const GpuNode& node = rank.node.value();
    if (rank.allotted == 0 && CudaUseOf(node) == CudaUse::kNone) {
      continue;  // it needs no driver
    }
    if (!node.kernel_module.seen()) {
      return {&rank, UnseenAs<std::string>(node.kernel_module)};
    }
    if (!node.cuda.driver_version.seen()) {
      return {&rank, UnseenAs<std::string>(node.cuda.driver_version)};
    }
  }
  return {};
}

void JudgeSameDriver(const std::vector<GpuRankView>& ranks, Judge& judge) {
  std::map<std::string, std::vector<std::string>> drivers;
  std::set<std::string> modules;
  std::set<std::int64_t> served;
  for (const GpuRankView& rank : ranks) {
    const GpuNode* node = rank.node.get();
    if (node == nullptr) {
      continue;
    }
    std::string cuda;
    if (const int* version = node->cuda.driver_version.get()) {
      served.insert(*version);
      cuda = ", libcuda serves " + CudaVersionText(*version);
    }
    if (node->kernel_module.seen()) {
      modules.insert(node->kernel_module.value());
      drivers[node->kernel_module.value() + cuda].push_back(rank.name);
    }
  }
  if (drivers.empty()) {
    return;  // each rank has said why
  }
  const Subject subject{"run", "all ranks"};
  const bool differ = modules.size() > 1 || served.size() > 1;
  if (const UnseenDriver unseen = FirstUnseenDriver(ranks); !differ && unseen.rank != nullptr) {
    judge.Unseen(kSameDriver, subject, "the driver of " + unseen.rank->name, unseen.why);
    return;
  }
  Finding& finding =
      judge.Decide(kSameDriver, subject,
                   {{"different drivers", Op::kEq, std::int64_t{1},
                     static_cast<std::int64_t>(std::max(modules.size(), served.size())), "",
                     "observation:gpu_ranks"}});
  for (const auto& [driver, names] : drivers) {
    finding.notes.push_back("driver " + driver + ": " + NameSome(names));
  }
}

std::vector<Finding> JudgeGpuDriver(const Observations& observations, const Policy& policy) {
  Judge judge(kGpuDriver, policy);
  if (JudgeWithoutGpuRanks(observations, policy, kStarts, "the ranks' driver", judge)) {
    return judge.Take();
  }
  const RankRun& run = observations.gpu_ranks.value();
  const auto ranks = GpuRanksOf(observations, policy);
  for (const GpuRankView& rank : ranks) {
    JudgeRankDriver(rank, policy, run.launcher == "local", judge);
  }
  JudgeSameDriver(ranks, judge);
  if (policy.gpu.min_driver.empty()) {
    judge.NotApplicable(kLeast, {"run", "all ranks"},
                        "the policy demands no driver version (gpu.minDriver)");
  }
  std::vector<Finding> findings = judge.Take();
  NotePlantedFaults(run, findings);
  return findings;
}

}  // namespace

constinit const Check kGpuDriver{
    "gpu-driver",
    Stage::kGpu,
    false,
    "the driver starts, fits its libraries and serves the image's CUDA",
    "per rank: cuInit, libcuda as mapped, NVML and kernel module, the image's CUDA runtime, the "
    "NVSwitch fabric; at the start and at the end",
    kRules,
    JudgeGpuDriver,
};

}  // namespace dlc

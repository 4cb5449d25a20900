#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/gpu_ranks.h"
#include "checks/gpu_types.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kGpuVisible;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kGiven = "gpu-visible/gpu-given";
constexpr std::string_view kList = "gpu-visible/visible-devices-list";
constexpr std::string_view kSame = "gpu-visible/cuda-shows-permitted";
constexpr std::string_view kFiles = "gpu-visible/device-files";
constexpr std::string_view kAnswers = "gpu-visible/gpus-answer";
constexpr std::string_view kOwn = "gpu-visible/own-gpu";
constexpr std::string_view kWhole = "gpu-visible/whole-gpus";

constexpr std::string_view kNotThatTheyWork =
    "that the GPUs compute right (gpu-compute looks at that)";

constexpr Rule kRules[] = {
    {kGiven, Severity::kRequired, false, "every rank is shown a GPU",
     "CUDA in the rank's own process lists at least one GPU", kNotThatTheyWork,
     "look at the pod's GPU limit, its runtime class, NVIDIA_VISIBLE_DEVICES and "
     "CUDA_VISIBLE_DEVICES; on a host without GPUs set gpu.devices: no in the policy"},
    {kList, Severity::kRequired, false, "CUDA_VISIBLE_DEVICES hides nothing by mistake",
     "every entry of the variable names a GPU, and CUDA shows as many", kNotThatTheyWork,
     "correct the list: CUDA stops at the first bad entry without a word"},
    {kSame, Severity::kRequired, false, "CUDA shows the GPUs that the process may use",
     "the GPUs of CUDA and of NVML are the same, joined by uuid, but for what CUDA_VISIBLE_DEVICES "
     "leaves out",
     kNotThatTheyWork,
     "compare `nvidia-smi -L` with the uuids named; a GPU that NVML lists and CUDA does not is "
     "broken or of another kind"},
    {kFiles, Severity::kRequired, false, "there is a device file for each permitted GPU",
     "as many /dev/nvidia<N> open for reading and writing as NVML permits GPUs", kNotThatTheyWork,
     "recreate the pod: its device files or cgroup rules do not fit what it was given"},
    {kAnswers, Severity::kRequired, false, "every permitted GPU answers the driver",
     "NVML reads the memory size of each", kNotThatTheyWork,
     "drain the node: a GPU that is lost (Xid 79) comes back with a reboot or not at all"},
    {kOwn, Severity::kRequired, false, "every rank has a GPU of its own",
     "no two ranks worked on one GPU, by uuid", "that NCCL takes the same GPUs",
     "start as many ranks on a host as it has GPUs; NCCL refuses two ranks on one GPU"},
    {kWhole, Severity::kWarn, false, "ranks compute on whole GPUs", "no GPU shown is a MIG slice",
     kNotThatTheyWork,
     "use whole GPUs: a MIG slice has no NVLink or peer-to-peer, and NCCL across slices is "
     "unsupported"},
    {kOneKind, Severity::kRequired, false, "all ranks have the same kind of GPU",
     "model, compute capability and MIG mode are equal on all ranks", "that they are as fast",
     "keep one instance type in the worker groups: the slowest GPU sets the pace of all"},
    {kAsPolicy, Severity::kRequired, false, "GPUs are of the policy's model, with its memory",
     "the model's words are in each GPU's name, and its memory is at least the policy's",
     "that they are as fast as this model is elsewhere",
     "look at the node group's instance type, or correct gpu.model or gpu.minMemoryBytes"},
    {kAsInstance, Severity::kRequired, false, "GPUs are what the instance type promises",
     "model, and no more GPUs than AWS lists for the type of the pod's node",
     "anything of types that dlc-check's table lacks; memory, whose published figures are nominal",
     "look at the node's label node.kubernetes.io/instance-type and at its device plugin"},
};

void JudgeGiven(const GpuRankView& rank, const GpuNode& node, Judge& judge) {
  const CudaUse use = CudaUseOf(node);
  if (use == CudaUse::kBroken) {
    judge.Unknown(kGiven, rank.RankSubject(),
                  {"prerequisite-failed", "CUDA does not start, so that it shows no GPU",
                   "gpu-driver/cuda-starts"});
    return;
  }
  const auto shown = ShownGpus(node);
  Finding& finding =
      judge.Decide(kGiven, rank.RankSubject(),
                   {{"GPUs that CUDA shows", Op::kGe, std::int64_t{1},
                     static_cast<std::int64_t>(shown.size()), "", "observation:gpu_ranks"}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = "this process is shown no GPU: " + WhyNoGpu(node);
  }
  for (const CudaGpu& gpu : shown) {
    finding.notes.push_back("CUDA device " + std::to_string(gpu.ordinal) + ": " + gpu.name + ", " +
                            gpu.uuid + ", " +
                            Fixed(static_cast<double>(gpu.total_bytes) / (1U << 30U), 1) + " GiB");
  }
}

/// Held against CUDA itself, so that it needs no NVML.
void JudgeList(const GpuRankView& rank, const GpuNode& node, Judge& judge) {
  const CudaVisibleDevices& visible = node.cuda_visible_devices;
  if (visible.problem.empty() && !node.cuda.gpus.seen()) {
    judge.Unseen(kList, rank.RankSubject(), "the GPUs that CUDA shows", node.cuda.gpus);
    return;  // its numbers may name anything
  }
  std::vector<Assertion> assertions = {
      {"problem of CUDA_VISIBLE_DEVICES", Op::kAbsent, std::monostate{},
       visible.problem.empty() ? AssertedValue{} : AssertedValue{visible.problem}, "",
       "observation:gpu_ranks"}};
  if (visible.variable.set && node.cuda.gpus.seen()) {
    assertions.push_back(
        {"GPUs that CUDA shows", Op::kEq, static_cast<std::int64_t>(visible.entries.size()),
         static_cast<std::int64_t>(ShownGpus(node).size()), "", "observation:gpu_ranks"});
  }
  Finding& finding = judge.Decide(kList, rank.RankSubject(), std::move(assertions));
  const std::string value = visible.variable.set
                                ? "CUDA_VISIBLE_DEVICES='" + visible.variable.value + "'"
                                : "CUDA_VISIBLE_DEVICES is not set";
  if (finding.verdict == Verdict::kFail && !visible.problem.empty()) {
    finding.reason.message = value + ": " + visible.problem;
  } else {
    finding.notes.push_back(value);
  }
}

void JudgeSame(const GpuRankView& rank, const GpuNode& node, Judge& judge) {
  if (!node.nvml.gpus.seen()) {
    judge.Unseen(kSame, rank.RankSubject(), "NVML's GPUs", node.nvml.gpus);
    return;
  }
  if (CudaUseOf(node) != CudaUse::kShows) {
    return;  // what CUDA does not show is judged by the rule that says why
  }
  std::vector<std::string> shown;
  for (const CudaGpu& gpu : ShownGpus(node)) {
    shown.push_back(gpu.uuid);
  }
  const auto permitted = PermittedGpuUuids(node);
  std::vector<Assertion> assertions = {{"uuids that CUDA shows", Op::kSubset, permitted, shown, "",
                                        "observation:gpu_ranks.gpu_node.nvml"}};
  if (const auto& expected = node.cuda_visible_devices.expected) {
    assertions.push_back({"GPUs that CUDA shows", Op::kEq, std::int64_t{*expected},
                          static_cast<std::int64_t>(shown.size()), "",
                          "observation:gpu_ranks.gpu_node"});
  }
  Finding& finding = judge.Decide(kSame, rank.RankSubject(), std::move(assertions));
  std::vector<std::string> missing;
  for (const std::string& uuid : permitted) {
    if (std::find(shown.begin(), shown.end(), uuid) == shown.end()) {
      missing.push_back(uuid);
    }
  }
  if (!missing.empty()) {
    finding.notes.push_back("permitted and not shown by CUDA: " + NameSome(missing));
  }
  const auto others = std::count_if(node.nvml.gpus.value().begin(), node.nvml.gpus.value().end(),
                                    [](const NvmlGpu& gpu) { return !gpu.uuid.seen(); });
  if (others > 0) {
    finding.notes.push_back(std::to_string(others) + " more on the node are not for this process");
  }
}

void JudgeFiles(const GpuRankView& rank, const GpuNode& node, Judge& judge) {
  if (!node.device_files.seen()) {
    judge.Unseen(kFiles, rank.RankSubject(), "/dev", node.device_files);
    return;
  }
  if (!node.nvml.gpus.seen()) {
    return;  // cuda-shows-permitted says so
  }
  const auto& gpus = node.nvml.gpus.value();
  const auto& files = node.device_files.value();
  const std::int64_t permitted =
      std::count_if(gpus.begin(), gpus.end(), [](const NvmlGpu& gpu) { return gpu.uuid.seen(); });
  const std::int64_t usable = std::count_if(
      files.begin(), files.end(), [](const GpuDeviceFile& f) { return f.number && f.usable; });
  Finding& finding = judge.Decide(kFiles, rank.RankSubject(),
                                  {{"/dev/nvidia<N> that open", Op::kEq, permitted, usable, "",
                                    "observation:gpu_ranks.gpu_node.nvml"}});
  for (const GpuDeviceFile& file : files) {
    if (!file.usable) {
      finding.notes.push_back(file.path + " does not open: " + file.error);
    }
  }
}

void JudgeAnswers(const GpuRankView& rank, const GpuNode& node, Judge& judge) {
  if (!node.nvml.gpus.seen()) {
    return;  // cuda-shows-permitted says so
  }
  std::vector<std::string> silent;
  std::string hint;
  for (const NvmlGpu& gpu : node.nvml.gpus.value()) {
    if (gpu.uuid.seen() && gpu.memory.failed() &&
        gpu.memory.error().code == ErrorCode::kUnavailable) {
      silent.push_back("GPU " + std::to_string(gpu.index) + " " + gpu.uuid.value() + ": " +
                       gpu.memory.error().message);
      hint = gpu.memory.error().hint;
    }
  }
  Finding& finding = judge.Decide(kAnswers, rank.RankSubject(),
                                  {{"GPUs that do not answer", Op::kSubset,
                                    std::vector<std::string>{}, silent, "", "constant"}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = NameSome(silent);
    finding.hint = hint.empty() ? finding.hint : hint;
  }
}

void JudgeWhole(const GpuRankView& rank, const GpuNode& node, Judge& judge) {
  const auto shown = ShownGpus(node);
  if (shown.empty()) {
    return;
  }
  const std::int64_t slices = std::count_if(
      shown.begin(), shown.end(), [](const CudaGpu& gpu) { return gpu.uuid.starts_with("MIG-"); });
  judge.Decide(kWhole, rank.RankSubject(),
               {{"MIG slices", Op::kEq, std::int64_t{0}, slices, "", "constant"}});
}

void JudgeRank(const GpuRankView& rank, Judge& judge) {
  if (JudgeWithoutGpu(rank, kGiven, "the GPUs of its pod", judge)) {
    return;
  }
  const GpuNode& node = rank.node.value();
  JudgeGiven(rank, node, judge);
  JudgeList(rank, node, judge);
  JudgeSame(rank, node, judge);
  JudgeFiles(rank, node, judge);
  JudgeAnswers(rank, node, judge);
  JudgeWhole(rank, node, judge);
}

/// By what the ranks worked on: that is what a training process would take.
void JudgeOwn(const RankRun& run, const std::vector<GpuRankView>& ranks, Judge& judge) {
  const Subject subject{"run", "all ranks"};
  if (ranks.size() < 2) {
    judge.NotApplicable(kOwn, subject, "one rank has nobody to share with");
    return;
  }
  std::map<std::string, std::vector<int>> by_gpu;
  std::vector<std::string> wrong;
  const GpuRankView* unseen = nullptr;
  for (const GpuRankView& rank : ranks) {
    const GpuCompute* compute = rank.compute.get();
    if (compute == nullptr) {
      unseen = unseen == nullptr ? &rank : unseen;
      continue;
    }
    for (const GpuWork& work : compute->gpus) {
      if (!work.uuid.empty()) {
        by_gpu[work.uuid].push_back(rank.rank);
      }
    }
    if (compute->failure.code != 0 && compute->visible > 0) {
      wrong.push_back(rank.name + ": " + compute->failure.text);
    }
  }
  for (const auto& [uuid, sharing] : by_gpu) {
    if (sharing.size() > 1) {
      wrong.push_back(RankNames(run, sharing) + " share " + uuid);
    }
  }
  if (wrong.empty() && (unseen != nullptr || by_gpu.empty())) {
    if (unseen != nullptr) {
      judge.Unseen(kOwn, subject, "the GPU of " + unseen->name, unseen->compute);
    } else {
      judge.Unknown(kOwn, subject,
                    {"prerequisite-failed", "no rank worked on a GPU", std::string(kGiven)});
    }
    return;
  }
  Finding& finding =
      judge.Decide(kOwn, subject,
                   {{"ranks without a GPU of their own", Op::kSubset, std::vector<std::string>{},
                     wrong, "", "observation:gpu_ranks.gpu_compute"}});
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = NameSome(wrong);
  }
}

std::vector<Finding> JudgeGpuVisible(const Observations& observations, const Policy& policy) {
  Judge judge(kGpuVisible, policy);
  if (JudgeWithoutGpuRanks(observations, policy, kGiven, "the GPUs of the ranks", judge)) {
    return judge.Take();
  }
  const auto ranks = GpuRanksOf(observations, policy);
  for (const GpuRankView& rank : ranks) {
    JudgeRank(rank, judge);
  }
  const RankRun& run = observations.gpu_ranks.value();
  JudgeOwn(run, ranks, judge);
  JudgeGpuTypes(observations, policy, ranks, judge);
  std::vector<Finding> findings = judge.Take();
  NotePlantedFaults(run, findings);
  return findings;
}

}  // namespace

constinit const Check kGpuVisible{
    "gpu-visible",
    Stage::kGpu,
    false,
    "each rank is shown the GPUs that it was given, and all ranks the same kind",
    "per rank: device files, NVML, CUDA and CUDA_VISIBLE_DEVICES, joined by uuid; GPU models of "
    "all "
    "ranks, the policy's and the instance type's",
    kRules,
    JudgeGpuVisible,
};

}  // namespace dlc

#include "checks/gpu_limits.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "checks/wording.h"

namespace dlc {
namespace {

/// What is measured of a GPU, and what the policy demands of it.
struct SpeedQuestion {
  const char* metric;
  const char* unit;
  double scale;  ///< to the unit that people read
  const char* scaled;
  const char* source;
  double limit;
};

std::vector<SpeedQuestion> SpeedQuestions(const GpuPolicy& policy) {
  const double host = policy.min_host_copy_bytes_per_second;
  const char* host_source = "policy:gpu.minHostCopyBytesPerSecond";
  return {{"copy", "bytes/s", 1e9, "GB/s", "policy:gpu.minCopyBytesPerSecond",
           policy.min_copy_bytes_per_second},
          {"host-to-device", "bytes/s", 1e9, "GB/s", host_source, host},
          {"device-to-host", "bytes/s", 1e9, "GB/s", host_source, host},
          {"product", "operations/s", 1e12, "TFLOP/s", "policy:gpu.minProductOperationsPerSecond",
           policy.min_product_operations_per_second}};
}

/// Means; by SpeedQuestion::metric. What did not run is not in it.
std::map<std::string, double> SpeedsOf(const GpuWork& work) {
  std::map<std::string, double> speeds;
  for (const GpuTransfer& transfer : work.transfers) {
    speeds[transfer.operation] = transfer.bytes_per_second;
  }
  if (const GpuProduct* product = work.product.get()) {
    speeds["product"] = product->operations_per_second;
  }
  return speeds;
}

/// One GPU that was put to work.
struct WorkedGpu {
  const GpuRankView* rank = nullptr;
  const GpuWork* work = nullptr;
  std::map<std::string, double> speeds;
  std::string other_use;
};

std::string SpeedsText(const WorkedGpu& gpu, const std::vector<SpeedQuestion>& questions) {
  std::string text;
  for (const SpeedQuestion& question : questions) {
    const auto it = gpu.speeds.find(question.metric);
    if (it != gpu.speeds.end()) {
      text += (text.empty() ? "" : ", ") + std::string(question.metric) + " " +
              Fixed(it->second / question.scale, 1) + " " + question.scaled;
    }
  }
  return text;
}

void JudgeSpeedOf(const WorkedGpu& gpu, const std::vector<SpeedQuestion>& questions, Judge& judge) {
  const Subject subject = GpuSubject(*gpu.rank, gpu.work->uuid);
  const std::string measured = SpeedsText(gpu, questions);
  std::vector<Assertion> assertions;
  std::string missing;
  for (const SpeedQuestion& question : questions) {
    const auto it = gpu.speeds.find(question.metric);
    if (question.limit > 0 && it != gpu.speeds.end()) {
      assertions.push_back(
          {question.metric, Op::kGe, question.limit, it->second, question.unit, question.source});
    } else if (question.limit > 0) {
      missing = question.metric;
    }
  }
  if (assertions.empty() && missing.empty()) {
    judge.NotApplicable(kSpeedRule, subject,
                        gpu.other_use.empty() ? "the policy demands no speed; measured " + measured
                                              : "another process uses the GPU (" + gpu.other_use +
                                                    "): its speed would say nothing of the GPU");
    return;
  }
  if (!gpu.other_use.empty()) {
    judge.Unknown(kSpeedRule, subject,
                  {"prerequisite-failed",
                   "another process uses the GPU (" + gpu.other_use +
                       "): its speed would say nothing of the GPU",
                   "gpu-compute/unoccupied"});
    return;
  }
  const bool missed = !std::all_of(assertions.begin(), assertions.end(), Holds);
  if (!missing.empty() && !missed) {
    judge.Unknown(kSpeedRule, subject,
                  {"prerequisite-failed", "the experiment '" + missing + "' did not run",
                   "gpu-compute/computes"});
    return;
  }
  judge.Decide(kSpeedRule, subject, std::move(assertions)).notes.push_back("measured " + measured);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// The slowest GPU of one metric, as a share of the median.
struct SlowestGpu {
  const WorkedGpu* gpu = nullptr;
  double share = 1;
};

SlowestGpu Slowest(const std::vector<const WorkedGpu*>& gpus, const std::string& metric) {
  std::vector<double> values;
  for (const WorkedGpu* gpu : gpus) {
    const auto it = gpu->speeds.find(metric);
    if (it != gpu->speeds.end()) {
      values.push_back(it->second);
    }
  }
  SlowestGpu slowest;
  if (values.size() < 2) {
    return slowest;
  }
  const double median = Median(values);
  for (const WorkedGpu* gpu : gpus) {
    const auto it = gpu->speeds.find(metric);
    if (it != gpu->speeds.end() && median > 0 &&
        (slowest.gpu == nullptr || it->second / median < slowest.share)) {
      slowest = {gpu, it->second / median};
    }
  }
  return slowest;
}

/// GPUs of one model against one another.
void JudgeModelAlike(const std::string& model, const std::vector<const WorkedGpu*>& gpus,
                     const GpuPolicy& policy, const std::vector<SpeedQuestion>& questions,
                     Judge& judge) {
  const Subject subject{"run", Count(gpus.size(), "GPU") + " " + model};
  if (gpus.size() < 2 || policy.min_share_of_median <= 0) {
    judge.NotApplicable(kAlikeRule, subject,
                        gpus.size() < 2 ? "there is no other that nobody else uses"
                                        : "the policy does not compare them");
    return;
  }
  std::vector<Assertion> assertions;
  for (const SpeedQuestion& question : questions) {
    const SlowestGpu slowest = Slowest(gpus, question.metric);
    if (slowest.gpu != nullptr) {
      const std::string name = GpuSubject(*slowest.gpu->rank, slowest.gpu->work->uuid).name;
      assertions.push_back({std::string(question.metric) + " of " + name, Op::kGe,
                            policy.min_share_of_median, slowest.share, "of the median",
                            "policy:gpu.minShareOfMedian"});
    }
  }
  if (assertions.empty()) {
    judge.Unknown(kAlikeRule, subject,
                  {"prerequisite-failed", "no two of them ran an experiment to its end",
                   "gpu-compute/computes"});
    return;
  }
  judge.Decide(kAlikeRule, subject, std::move(assertions));
}

}  // namespace

std::string OtherUseOf(const GpuNode& node, const GpuWork& work, const GpuPolicy& policy) {
  const NvmlGpu* gpu = FindNvmlGpu(node, work.uuid);
  if (gpu == nullptr) {
    return "";
  }
  const GpuMigDevice* slice = FindMigDevice(*gpu, work.uuid);
  if (slice == nullptr && gpu->processes.seen() && !gpu->processes.value().empty()) {
    const std::size_t count = gpu->processes.value().size();
    return std::to_string(count) + (count == 1 ? " process" : " processes") + " before ours";
  }
  const auto& memory = slice == nullptr ? gpu->memory : slice->memory;
  if (memory.seen() && memory.value().total_bytes > 0) {
    const double share = static_cast<double>(memory.value().used_bytes) /
                         static_cast<double>(memory.value().total_bytes);
    if (share > policy.max_used_memory_share) {
      return Fixed(share * 100, 1) + " % of its memory was in use before ours";
    }
  }
  return "";
}

void JudgeGpuSpeed(const std::vector<GpuRankView>& ranks, const GpuPolicy& policy, Judge& judge) {
  const std::vector<SpeedQuestion> questions = SpeedQuestions(policy);
  std::vector<WorkedGpu> worked;
  for (const GpuRankView& rank : ranks) {
    if (!rank.compute.seen()) {
      continue;
    }
    for (const GpuWork& work : rank.compute.value().gpus) {
      worked.push_back({&rank, &work, SpeedsOf(work),
                        rank.node.seen() ? OtherUseOf(rank.node.value(), work, policy) : ""});
    }
  }
  std::map<std::string, std::vector<const WorkedGpu*>> by_model;
  for (const WorkedGpu& gpu : worked) {
    JudgeSpeedOf(gpu, questions, judge);
    if (gpu.other_use.empty() && !gpu.work->name.empty()) {
      by_model[gpu.work->name].push_back(&gpu);
    }
  }
  for (const auto& [model, gpus] : by_model) {
    JudgeModelAlike(model, gpus, policy, questions, judge);
  }
}

}  // namespace dlc

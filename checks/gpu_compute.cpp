#include <algorithm>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/gpu_health.h"
#include "checks/gpu_limits.h"
#include "checks/gpu_ranks.h"
#include "checks/wording.h"

namespace dlc {

extern const Check kGpuCompute;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kComputes = "gpu-compute/computes";
constexpr std::string_view kProven = "gpu-compute/comparisons-proven";
constexpr std::string_view kRightMemory = "gpu-compute/right-memory";
constexpr std::string_view kRightTransfers = "gpu-compute/right-transfers";
constexpr std::string_view kRightProduct = "gpu-compute/right-product";

constexpr std::string_view kSecondsOnly =
    "what an hour of load brings out, nor memory outside the tested share: this takes seconds";

constexpr Rule kRules[] = {
    {kComputes, Severity::kRequired, false, "every GPU of the ranks does all experiments",
     "memory patterns, transfers and matrix products ran to their end without an error of CUDA",
     kSecondsOnly, "see what the code named means; then look for Xid errors in the node's log"},
    {kProven, Severity::kRequired, false, "each comparison found a planted bit",
     "in a small run of each experiment one flipped bit was found, alone and there", kSecondsOnly,
     "do not trust this GPU's results: either its memory is bad or dlc-probe has a bug"},
    {kRightMemory, Severity::kRequired, false, "memory gives back what was written",
     "every word of the tested share, in four patterns, was read back and compared", kSecondsOnly,
     "drain the node: run a longer memory test, and look at ECC and row remapping"},
    {kRightTransfers, Severity::kRequired, false, "transfers carry what was sent",
     "every word that arrived on the GPU, from and at the host was compared", kSecondsOnly,
     "drain the node: look for PCIe errors (AER) and Xid errors in its log"},
    {kRightProduct, Severity::kRequired, false, "matrix products are exact",
     "every element of every product by the tensor cores equals the integer result", kSecondsOnly,
     "drain the node: a GPU that computes wrong spoils a whole training run without a word"},
    {kHealthRule, Severity::kRequired, false, "no memory error waits to be dealt with",
     "no uncorrected ECC error since the driver was loaded, no pending or failed row remapping, no "
     "pending page retirement",
     "that earlier errors left no trace elsewhere",
     "drain the node and reset the GPU (or reboot); replace it if a remapping failed"},
    {kUnoccupiedRule, Severity::kRequired, false, "nobody else uses the GPU",
     "NVML listed no process on it before ours, and little memory was in use",
     "that no other container computes on it: NVML may show nothing of another's processes",
     "find who holds it: `nvidia-smi` on the node; a pod without a limit may see all GPUs"},
    {kSlowdownRule, Severity::kWarn, false, "the GPU is not slowed down under load",
     "no thermal or power-brake slowdown was sampled during the products", kSecondsOnly,
     "look at the node's cooling and power"},
    {kPcieRule, Severity::kWarn, false, "the PCIe link is as wide and fast as it can be",
     "lanes and generation during the copies equal the GPU's and slot's most",
     "the bandwidth (speed tells it)",
     "some instance types wire fewer lanes than the GPU has; else drain the node"},
    {kSpeedRule, Severity::kRequired, false, "GPUs reach the speeds of the policy",
     "mean over the repetitions of the copy kernel, of pinned copies and of a plain product kernel",
     "the GPU's best: our product kernel reaches a part of what cuBLAS does",
     "compare with the others of its model; look at clocks, slowdowns and the PCIe link"},
    {kAlikeRule, Severity::kWarn, false, "GPUs of one model are about as fast",
     "the slowest of each metric is at least the policy's share of the median", kSecondsOnly,
     "look at the GPU named: the slowest sets the pace of all"},
};

constexpr std::size_t kSelfTests = 5;
constexpr std::size_t kPatterns = 4;
constexpr std::size_t kTransfers = 6;

/// Experiments that have no result; empty when all ran.
std::vector<std::string> NotRun(const GpuWork& work) {
  std::vector<std::string> missing;
  if (work.memory.size() < kPatterns) {
    missing.emplace_back("memory patterns");
  }
  if (work.transfers.size() < kTransfers) {
    missing.emplace_back("transfers");
  }
  if (!work.product.seen()) {
    missing.emplace_back("matrix products");
  }
  return missing;
}

void JudgeComputes(const GpuRankView& rank, const GpuWork& work, Judge& judge) {
  const auto missing = NotRun(work);
  const char* source = "observation:gpu_ranks.gpu_compute";
  Finding& finding = judge.Decide(
      kComputes, GpuSubject(rank, work.uuid),
      {{"code of CUDA", Op::kEq, std::int64_t{0}, std::int64_t{work.failure.code}, "", source},
       {"experiments without a result", Op::kSubset, std::vector<std::string>{}, missing, "",
        source}});
  if (finding.verdict == Verdict::kFail && work.failure.code != 0) {
    finding.reason.message = FailureText(work.failure);
    finding.hint = work.failure.meaning.empty() ? finding.hint : work.failure.meaning;
  }
  finding.notes.push_back(work.name + ", " + Fixed(work.seconds, 1) + " GPU-seconds");
}

/// Of an experiment that was never begun nothing is said here: `computes` has failed then.
void JudgeProven(const GpuRankView& rank, const GpuWork& work, Judge& judge) {
  std::vector<std::string> blind;
  for (const GpuSelfTest& test : work.self_tests) {
    if (!test.caught) {
      blind.push_back(test.experiment);
    }
  }
  const Subject subject = GpuSubject(rank, work.uuid);
  if (!blind.empty()) {
    judge.Unknown(
        kProven, subject,
        {"internal-error",
         "the comparison did not find its planted bit, alone, in: " + NameSome(blind), ""});
  } else if (work.failure.code == 0 || work.self_tests.size() >= kSelfTests) {
    judge.Decide(kProven, subject,
                 {{"comparisons that found their planted bit", Op::kGe,
                   static_cast<std::int64_t>(kSelfTests),
                   static_cast<std::int64_t>(work.self_tests.size()), "", "constant"}});
  }
}

bool IsProven(const GpuWork& work, std::string_view experiment) {
  return std::any_of(work.self_tests.begin(), work.self_tests.end(), [&](const GpuSelfTest& test) {
    return test.experiment == experiment && test.caught;
  });
}

/// What one kind of experiment came to on one GPU.
struct Compared {
  std::string_view rule;
  bool complete = false;  ///< all of it ran, by a comparison that was proven
  std::int64_t wrong = 0;
  std::int64_t looked_at = 0;
  const char* metric = "";
  std::string text;  ///< of what was wrong
};

/// A wrong word is wrong, however early the work ended; right ones are only all if it ended well.
void JudgeCompared(const GpuRankView& rank, const GpuWork& work, const Compared& compared,
                   Judge& judge) {
  const Subject subject = GpuSubject(rank, work.uuid);
  if (compared.wrong == 0 && !compared.complete) {
    const bool ended = work.failure.code != 0;
    judge.Unknown(compared.rule, subject,
                  {"prerequisite-failed",
                   ended ? "the work ended early: " + FailureText(work.failure)
                         : "not all of it ran by a proven comparison",
                   std::string(ended ? kComputes : kProven)});
    return;
  }
  const char* source = "observation:gpu_ranks.gpu_compute";
  Finding& finding = judge.Decide(
      compared.rule, subject,
      {{compared.metric, Op::kEq, std::int64_t{0}, compared.wrong, "", source},
       {"bytes or elements compared", Op::kGe, std::int64_t{1}, compared.looked_at, "", source}});
  if (finding.verdict == Verdict::kFail && compared.wrong > 0) {
    finding.reason.message = compared.text;
  }
}

Compared MemoryOf(const GpuWork& work) {
  Compared all{kRightMemory,
               work.memory.size() >= kPatterns && IsProven(work, "memory"),
               0,
               0,
               "wrong words of memory",
               ""};
  for (const GpuMemoryPass& pass : work.memory) {
    all.looked_at += pass.bytes;
    all.wrong += pass.wrong_words;
    if (pass.wrong_words > 0 && all.text.empty()) {
      all.text = "pattern " + pass.pattern + ": " + std::to_string(pass.wrong_words) +
                 " wrong words of 8 bytes, the first at offset " +
                 std::to_string(pass.first_wrong_offset) + ": expected " + pass.expected +
                 ", read again " + pass.reread + "; flipped bits " + pass.flipped_bits;
    }
  }
  return all;
}

Compared TransfersOf(const GpuWork& work) {
  bool proven = true;
  for (const char* experiment : {"transfer", "host-to-device", "device-to-host"}) {
    proven = proven && IsProven(work, experiment);
  }
  Compared all{kRightTransfers,
               work.transfers.size() >= kTransfers && proven,
               0,
               0,
               "wrong words in transfers",
               ""};
  for (const GpuTransfer& transfer : work.transfers) {
    all.looked_at += transfer.bytes;
    all.wrong += transfer.wrong_words;
    if (transfer.wrong_words > 0) {
      all.text += (all.text.empty() ? "" : "; ") + transfer.operation + ": " +
                  std::to_string(transfer.wrong_words) + " wrong words of 8 bytes";
    }
  }
  return all;
}

Compared ProductOf(const GpuWork& work) {
  Compared all{kRightProduct,
               work.product.seen() && IsProven(work, "product"),
               0,
               0,
               "wrong elements of products",
               ""};
  if (const GpuProduct* product = work.product.get()) {
    all.looked_at = product->checked_elements;
    all.wrong = product->wrong_elements + product->host_wrong_elements;
    if (product->wrong_elements > 0) {
      all.text = std::to_string(product->wrong_elements) + " wrong elements in " +
                 std::to_string(product->products) + " " + product->type + " products of " +
                 std::to_string(product->size) + " x " + std::to_string(product->size) +
                 ", the first at row " + std::to_string(product->wrong_row) + ", column " +
                 std::to_string(product->wrong_column) + ": expected " +
                 Fixed(product->expected, 0) + ", found at the end " + Fixed(product->found, 0);
    } else if (product->host_wrong_elements > 0) {
      all.text = std::to_string(product->host_wrong_elements) +
                 " elements of the GPU's integer reference differ from the CPU's";
    }
  }
  return all;
}

void JudgeWork(const GpuRankView& rank, const GpuWork& work, const Policy& policy, Judge& judge) {
  JudgeComputes(rank, work, judge);
  JudgeProven(rank, work, judge);
  for (const Compared& compared : {MemoryOf(work), TransfersOf(work), ProductOf(work)}) {
    JudgeCompared(rank, work, compared, judge);
  }
  JudgeGpuHealth(rank, work, policy.gpu, judge);
}

/// CUDA listed no GPU to the rank's experiment.
void JudgeNoneListed(const GpuRankView& rank, const GpuCompute& compute, Judge& judge) {
  const CudaFailure& failure = compute.failure;
  const CudaUse use = rank.node.seen() ? CudaUseOf(rank.node.value()) : CudaUse::kBroken;
  const Subject subject = rank.RankSubject();
  if (rank.allotted == 0 && use == CudaUse::kNone) {
    judge.NotApplicable(kComputes, subject, "its pod asks for no GPU and is shown none");
  } else if (failure.code == 0) {
    judge.Unknown(kComputes, subject, {"not-looked-at", "no GPU was put to work", ""});
  } else if (failure.code < 0) {
    // Ours, not CUDA's: built without CUDA, or more ranks than GPUs.
    const bool shared = compute.visible > 0;
    judge.Unknown(
        kComputes, subject,
        {shared ? "prerequisite-failed" : "unsupported",
         "dlc-probe put no GPU to work: " + failure.text, shared ? "gpu-visible/own-gpu" : ""});
  } else if (use == CudaUse::kNone) {
    judge.Unknown(kComputes, subject,
                  {"prerequisite-failed", "this process is shown no GPU: " + FailureText(failure),
                   "gpu-visible/gpu-given"});
  } else {
    Finding& finding =
        judge.Decide(kComputes, subject,
                     {{"code of CUDA", Op::kEq, std::int64_t{0}, std::int64_t{failure.code}, "",
                       "observation:gpu_ranks.gpu_compute"}});
    if (finding.verdict == Verdict::kFail) {
      finding.reason.message = FailureText(failure);
      finding.hint = failure.meaning.empty() ? finding.hint : failure.meaning;
    }
  }
}

std::vector<Finding> JudgeGpuCompute(const Observations& observations, const Policy& policy) {
  Judge judge(kGpuCompute, policy);
  if (JudgeWithoutGpuRanks(observations, policy, kComputes, "GPUs at work", judge)) {
    return judge.Take();
  }
  const auto ranks = GpuRanksOf(observations, policy);
  for (const GpuRankView& rank : ranks) {
    if (!rank.compute.seen()) {
      judge.Unseen(kComputes, rank.RankSubject(), "its GPUs at work", rank.compute);
    } else if (rank.compute.value().gpus.empty()) {
      JudgeNoneListed(rank, rank.compute.value(), judge);
    } else {
      for (const GpuWork& work : rank.compute.value().gpus) {
        JudgeWork(rank, work, policy, judge);
      }
    }
  }
  JudgeGpuSpeed(ranks, policy.gpu, judge);
  std::vector<Finding> findings = judge.Take();
  NotePlantedFaults(observations.gpu_ranks.value(), findings);
  return findings;
}

}  // namespace

constinit const Check kGpuCompute{
    "gpu-compute",
    Stage::kGpu,
    false,
    "each GPU computes right, within seconds",
    "memory patterns, transfers and exact matrix products, every word and element compared by "
    "comparisons that found a planted bit; ECC, row remapping, other users, slowdowns, PCIe and "
    "speeds",
    kRules,
    JudgeGpuCompute,
};

}  // namespace dlc

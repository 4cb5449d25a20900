#include "checks/gpu_health.h"

#include <algorithm>
#include <string>
#include <utility>

#include "checks/gpu_limits.h"
#include "checks/wording.h"

namespace dlc {
namespace {

/// A GPU has no such thing: nothing to judge, and nothing missed.
template <class T>
bool HasNone(const Observed<T>& observed) {
  return observed.failed() && observed.error().code == ErrorCode::kUnsupported;
}

/// The entry after the work if there is one: the work may have brought errors to light.
const NvmlGpu* LatestEntry(const GpuRankView& rank, const std::string& uuid) {
  const NvmlGpu* entry = rank.after.seen() ? FindNvmlGpu(rank.after.value(), uuid) : nullptr;
  return entry != nullptr || !rank.node.seen() ? entry : FindNvmlGpu(rank.node.value(), uuid);
}

/// Why NVML tells nothing of the GPU.
void NoEntry(std::string_view rule, const GpuRankView& rank, const Subject& subject, Judge& judge) {
  if (!rank.node.seen()) {
    judge.Unseen(rule, subject, "NVML's view", rank.node);
  } else if (!rank.node.value().nvml.gpus.seen()) {
    judge.Unseen(rule, subject, "NVML's view", rank.node.value().nvml.gpus);
  } else {
    judge.Unknown(rule, subject, {"not-found", "NVML lists no GPU of this uuid", ""});
  }
}

const char* const kHealthSource = "observation:gpu_ranks.gpu_node.nvml";

void AddEcc(const Observed<GpuEcc>& ecc, std::vector<Assertion>& assertions,
            std::vector<std::string>& notes) {
  if (!ecc.seen()) {
    return;
  }
  if (!ecc.value().enabled) {
    notes.emplace_back("ECC is off: memory errors are not counted");
    return;
  }
  assertions.push_back({"uncorrected ECC errors since the driver was loaded", Op::kEq,
                        std::int64_t{0}, ecc.value().volatile_uncorrected, "", kHealthSource});
  if (ecc.value().aggregate_uncorrected > 0) {
    notes.push_back(std::to_string(ecc.value().aggregate_uncorrected) +
                    " uncorrected ECC errors over the board's life");
  }
}

void AddRows(const NvmlGpu& gpu, std::vector<Assertion>& assertions,
             std::vector<std::string>& notes) {
  if (const GpuRemappedRows* rows = gpu.remapped_rows.get()) {
    assertions.push_back(
        {"a row remapping waits for a reset", Op::kEq, false, rows->pending, "", kHealthSource});
    assertions.push_back(
        {"a row remapping failed", Op::kEq, false, rows->failed, "", kHealthSource});
    if (rows->uncorrectable > 0) {
      notes.push_back(std::to_string(rows->uncorrectable) +
                      " rows remapped after uncorrected errors");
    }
  }
  if (const GpuRetiredPages* pages = gpu.retired_pages.get()) {
    assertions.push_back(
        {"a page retirement waits for a reset", Op::kEq, false, pages->pending, "", kHealthSource});
  }
}

/// The first of the three that failed for another reason than that the GPU has none of it.
const Error* UnreadHealth(const NvmlGpu& gpu) {
  if (gpu.ecc.failed() && !HasNone(gpu.ecc)) {
    return &gpu.ecc.error();
  }
  if (gpu.remapped_rows.failed() && !HasNone(gpu.remapped_rows)) {
    return &gpu.remapped_rows.error();
  }
  return gpu.retired_pages.failed() && !HasNone(gpu.retired_pages) ? &gpu.retired_pages.error()
                                                                   : nullptr;
}

void JudgeHealth(const GpuRankView& rank, const Subject& subject, const NvmlGpu& gpu,
                 Judge& judge) {
  std::vector<Assertion> assertions;
  std::vector<std::string> notes;
  AddEcc(gpu.ecc, assertions, notes);
  AddRows(gpu, assertions, notes);
  bool broken = false;
  for (const Assertion& assertion : assertions) {
    broken = broken || !Holds(assertion);
  }
  if (const Error* unread = UnreadHealth(gpu); unread != nullptr && !broken) {
    judge.Unseen(kHealthRule, subject, "its error counters", Observed<GpuEcc>(*unread));
    return;
  }
  if (assertions.empty()) {
    judge.NotApplicable(kHealthRule, subject, "this GPU counts no memory errors");
    return;
  }
  Finding& finding = judge.Decide(kHealthRule, subject, std::move(assertions));
  finding.notes = std::move(notes);
  if (!rank.after.seen()) {
    finding.notes.emplace_back("as read before the work");
  }
}

void JudgeUnoccupied(const GpuRankView& rank, const Subject& subject, const GpuWork& work,
                     const GpuPolicy& policy, Judge& judge) {
  const NvmlGpu* gpu = rank.node.seen() ? FindNvmlGpu(rank.node.value(), work.uuid) : nullptr;
  if (gpu == nullptr) {
    NoEntry(kUnoccupiedRule, rank, subject, judge);
    return;
  }
  const GpuMigDevice* slice = FindMigDevice(*gpu, work.uuid);
  Observed<GpuMemory> memory = slice == nullptr ? gpu->memory : slice->memory;
  if (memory.seen() && memory.value().total_bytes <= 0) {
    memory = Error{ErrorCode::kUnavailable, "NVML gave a size of 0", ""};
  }
  std::vector<Assertion> assertions;
  if (memory.seen()) {
    assertions.push_back({"share of memory in use before the run", Op::kLe,
                          policy.max_used_memory_share,
                          static_cast<double>(memory.value().used_bytes) /
                              static_cast<double>(memory.value().total_bytes),
                          "", "policy:gpu.maxUsedMemoryShare"});
  }
  if (slice == nullptr && gpu->processes.seen()) {
    assertions.push_back({"processes that compute on it", Op::kEq, std::int64_t{0},
                          static_cast<std::int64_t>(gpu->processes.value().size()), "",
                          "constant"});
  }
  if (std::all_of(assertions.begin(), assertions.end(), Holds)) {
    if (!memory.seen()) {
      judge.Unseen(kUnoccupiedRule, subject, "its memory in use", memory);
      return;
    }
    if (slice == nullptr && !gpu->processes.seen()) {
      judge.Unseen(kUnoccupiedRule, subject, "the processes on it", gpu->processes);
      return;
    }
  }
  Finding& finding = judge.Decide(kUnoccupiedRule, subject, std::move(assertions));
  if (finding.verdict == Verdict::kPass && slice != nullptr) {
    // NVML lists the processes of the GPU, not of the slice.
    finding.establishes = {"little memory of the slice was in use"};
  }
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message =
        "somebody else uses this GPU: " + OtherUseOf(rank.node.value(), work, policy) +
        "; no speed of it is judged";
  }
  if (gpu->utilization_percent.seen()) {
    finding.notes.push_back("NVML's utilization before the run: " +
                            std::to_string(gpu->utilization_percent.value()) + " %");
  }
}

struct SlowdownBit {
  std::int64_t bit;
  const char* name;
};

/// nvml.h, nvmlClocksEventReason*. Idle, application clocks and the software power cap are usual.
constexpr SlowdownBit kSlowdowns[] = {{0x8, "hardware slowdown"},
                                      {0x20, "software thermal slowdown"},
                                      {0x40, "hardware thermal slowdown"},
                                      {0x80, "hardware power brake"}};

/// NVML or the GPU cannot tell: nothing is claimed. Errors of other kinds are unknown.
template <class T>
void NotTold(std::string_view rule, const Subject& subject, const char* what,
             const Observed<T>& observed, Judge& judge) {
  if (HasNone(observed)) {
    judge.NotApplicable(rule, subject, std::string("this GPU does not tell ") + what);
  } else {
    judge.Unseen(rule, subject, what, observed);
  }
}

void JudgeSlowdown(const Subject& subject, const GpuWork& work, Judge& judge) {
  if (!work.during_products.seen()) {
    judge.Unseen(kSlowdownRule, subject, "its state under load", work.during_products);
    return;
  }
  const GpuState& state = work.during_products.value();
  if (!state.clocks_event_reasons.seen()) {
    NotTold(kSlowdownRule, subject, "why its clocks are low", state.clocks_event_reasons, judge);
    return;
  }
  std::vector<std::string> reasons;
  for (const SlowdownBit& slowdown : kSlowdowns) {
    if ((state.clocks_event_reasons.value() & slowdown.bit) != 0) {
      reasons.emplace_back(slowdown.name);
    }
  }
  Finding& finding = judge.Decide(kSlowdownRule, subject,
                                  {{"slowdowns during the products", Op::kSubset,
                                    std::vector<std::string>{}, reasons, "", "constant"}});
  if (state.temperature_celsius.seen() && state.power_watts.seen()) {
    finding.notes.push_back("up to " + std::to_string(state.temperature_celsius.value()) +
                            " degrees Celsius and " + Fixed(state.power_watts.value(), 0) + " W");
  }
}

void JudgePcie(const Subject& subject, const NvmlGpu* gpu, const GpuWork& work, Judge& judge) {
  if (!work.during_copies.seen()) {
    judge.Unseen(kPcieRule, subject, "its link under load", work.during_copies);
    return;
  }
  if (gpu == nullptr) {
    return;  // unoccupied says so
  }
  const GpuState& state = work.during_copies.value();
  for (const auto* observed : {&state.pcie_width, &state.pcie_generation, &gpu->max_pcie_width,
                               &gpu->max_pcie_generation}) {
    if (!observed->seen()) {
      NotTold(kPcieRule, subject, "its PCIe link", *observed, judge);
      return;
    }
  }
  judge.Decide(kPcieRule, subject,
               {{"PCIe lanes during the copies", Op::kEq, std::int64_t{gpu->max_pcie_width.value()},
                 std::int64_t{state.pcie_width.value()}, "", kHealthSource},
                {"PCIe generation during the copies", Op::kEq,
                 std::int64_t{gpu->max_pcie_generation.value()},
                 std::int64_t{state.pcie_generation.value()}, "", kHealthSource}});
}

}  // namespace

void JudgeGpuHealth(const GpuRankView& rank, const GpuWork& work, const GpuPolicy& policy,
                    Judge& judge) {
  const Subject subject = GpuSubject(rank, work.uuid);
  JudgeUnoccupied(rank, subject, work, policy, judge);
  const NvmlGpu* gpu = LatestEntry(rank, work.uuid);
  if (gpu == nullptr) {
    NoEntry(kHealthRule, rank, subject, judge);
  } else {
    JudgeHealth(rank, subject, *gpu, judge);
  }
  if (work.failure.code == 0) {
    JudgeSlowdown(subject, work, judge);
    JudgePcie(subject, gpu, work, judge);
  }
}

}  // namespace dlc

#pragma once

#include <cstdint>
#include <string>

#include "probes/node/fsdp/train_and_compare.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// What all ranks together know of their memory before they take it.
struct TrainingMemoryAsked {
  std::int64_t needed_bytes = 0;  ///< of this rank's device, by the formulas
  std::int64_t free_bytes = 0;
  int sharers = 1;  ///< ranks that take from the same memory, this one with them
  /// "rank 0 needs ..": the first rank that has too little; the same on all ranks. Empty: it fits.
  std::string too_little;
};
Result<TrainingMemoryAsked> AskForTrainingMemory(const TrainingRanks& ranks,
                                                 const TrainingOptions& options, Deadline deadline);

/// An error where any rank has one, before a collective waits for it.
Result<void> AgreeOnErrors(Exchange& exchange, const Result<void>& mine, Deadline deadline);

}  // namespace dlc

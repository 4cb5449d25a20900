#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/training/synthetic_model.h"
#include "kernels/training/training_backend.h"

namespace dlc {

/// Damage that a rank does to its own part, to see it found.
enum class TrainingFault : std::uint8_t {
  kNone,
  kWrongAverage,       ///< this rank's shard of the gradients is the sum, not the mean
  kSkippedShard,       ///< this rank's optimizer leaves out the last step
  kPaddingLeak,        ///< what fills the gradients' shards is not 0
  kStaleGather,        ///< this rank keeps what was in the buffer before a gather of unit 0
  kDroppedMicroBatch,  ///< of the last micro-batch of each step this rank gives zeros
  kFlippedBit,         ///< in the gradient of unit 0 that this rank gives in the first step
};

inline constexpr std::array<std::pair<std::string_view, TrainingFault>, 6> kTrainingFaults = {{
    {"wrong-average", TrainingFault::kWrongAverage},
    {"skipped-shard", TrainingFault::kSkippedShard},
    {"padding-leak", TrainingFault::kPaddingLeak},
    {"stale-gather", TrainingFault::kStaleGather},
    {"dropped-micro-batch", TrainingFault::kDroppedMicroBatch},
    {"flip-bit", TrainingFault::kFlippedBit},
}};

struct TrainingOptions {
  TrainingShape shape;
  int micro_batches = 1;  ///< of each rank and step
  int steps = 1;
  std::uint64_t seed = 1;
  AdamWOptions adam;
  double clip_norm = 1;  ///< of all gradients together; 0: they are not clipped
  /// No forward and backward: gradients are whole numbers that follow from where they stand, so
  /// that sums are exact whatever their order. Nor are they clipped, as the norm is not exact.
  bool exact = false;
  TrainingFault fault = TrainingFault::kNone;
};

// Streams of random words, all of one seed. Parameters are numbered as in Qwen2Parameters.

inline std::uint64_t WeightKey(const TrainingOptions& options, std::size_t parameter) {
  return SyntheticKey(options.seed, parameter);
}

/// One micro-batch of one rank in one step (from 0), among `ranks` of them.
inline std::uint64_t MicroBatch(const TrainingOptions& options, int step, int micro_batch, int rank,
                                int ranks) {
  return (static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(options.micro_batches) +
          static_cast<std::uint64_t>(micro_batch)) *
             static_cast<std::uint64_t>(ranks) +
         static_cast<std::uint64_t>(rank);
}

inline std::uint64_t TokenKey(const TrainingOptions& options, std::uint64_t micro_batch) {
  return SyntheticKey(options.seed, (std::uint64_t{1} << 40) + micro_batch);
}

/// Of the whole numbers in exact mode.
inline std::uint64_t GradientKey(const TrainingOptions& options, std::uint64_t micro_batch,
                                 std::size_t parameter) {
  return SyntheticKey(SyntheticKey(options.seed, (std::uint64_t{1} << 41) + micro_batch),
                      parameter);
}

/// Of AddHash, the same in every run.
inline std::uint64_t HashKey(std::size_t parameter) {
  return SyntheticKey(0x9a5b, parameter);
}

/// A sum of `ranks` integers divided by their number comes out the same however it is computed:
/// NCCL multiplies by 1 / n beforehand, others divide once at the end.
inline bool MeanIsExact(int ranks) {
  return (ranks & (ranks - 1)) == 0;
}

inline std::vector<std::int32_t> MicroBatchTokens(const TrainingOptions& options,
                                                  std::uint64_t micro_batch) {
  return SyntheticTokens(options.shape, TokenKey(options, micro_batch));
}

}  // namespace dlc

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "probes/node/checkpoint/read_checkpoint.h"
#include "probes/node/checkpoint/write_checkpoint.h"

namespace dlc {

/// A small model whose values tell their tensor, row, column and step.
struct SavedModel {
  std::vector<CheckpointTensor> tensors;  ///< whole

  /// `scale` multiplies the columns.
  static SavedModel Small(std::int64_t scale = 1);
  /// The part of `rank` of `ranks`: rows as evenly as they go, the first ranks with one more.
  std::vector<CheckpointTensor> PartOf(int rank, int ranks) const;
  static float Value(std::size_t tensor, std::int64_t element, std::int64_t step);
  /// Of rows [first_row, first_row + rows) of tensor `tensor`.
  std::vector<float> Values(std::size_t tensor, std::int64_t first_row, std::int64_t rows,
                            std::int64_t step) const;
};

CheckpointWriteOptions SmallBlocks(const CheckpointStrategy& strategy = {});
CheckpointReadOptions SmallReads(bool cold = false);
Deadline Plenty();

CheckpointResult<WrittenCheckpointFile> SaveRank(const SavedModel& model,
                                                 const std::string& directory,
                                                 const CheckpointIdentity& identity, int rank,
                                                 const CheckpointWriteOptions& options);
/// All ranks and the manifest.
CheckpointResult<Checkpoint> SaveAll(const SavedModel& model, const std::string& root,
                                     const CheckpointIdentity& identity,
                                     const CheckpointWriteOptions& options);

/// Empty, or what of the whole checkpoint is not as it was saved: every file streamed and verified,
/// every tensor read by rows.
std::string DifferenceOf(const SavedModel& model, const Checkpoint& checkpoint);
/// Empty, or what differs for `ranks` ranks that read their own rows.
std::string DifferenceForRanks(const SavedModel& model, const Checkpoint& checkpoint, int ranks,
                               const CheckpointReadOptions& options);

}  // namespace dlc

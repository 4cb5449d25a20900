#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "probes/observations/fabric.h"
#include "probes/observations/result.h"

namespace dlc {

/// An element of a parameter that was not what its place says.
struct FsdpWrongElement {
  /// "layout": it lies where the layout's definition does not put it; "all-gather",
  /// "reduce-scatter": another value came.
  std::string where;
  int owner = 0;          ///< rank of the run that has it in its shard
  std::string parameter;  ///< empty: it is of none, and not what fills the shard
  std::int64_t row = 0;   ///< of filling: its offset in the shard
  std::int64_t column = 0;
  std::int64_t expected = 0;
  std::int64_t found = 0;

  bool operator==(const FsdpWrongElement&) const = default;
};

/// Damage that was done to what had arrived right, to see that the comparison finds it.
struct FsdpControl {
  std::string name;      ///< "swapped-shards", "stale-shard", "flipped-bit", "dropped-rank"
  bool planted = false;  ///< not where there was nothing to damage: one rank has no shards to swap
  bool caught = false;   ///< wrong elements were found, the first where the damage was

  bool operator==(const FsdpControl&) const = default;
};

/// One model cut by one layout: shards gathered, gradients reduced and scattered.
struct FsdpLayoutProof {
  std::string model;
  std::string layout;
  int shard_ranks = 0;  ///< that hold one copy together
  int copies = 0;       ///< more than 1 of "hsdp" only
  std::string type;     ///< "int32": a value for each place, and sums that wrap
  int units = 0;        ///< of the model
  int moved_units = 0;
  int whole_units = 0;                 ///< of those; of the others what lies around the cuts
  std::int64_t model_elements = 0;     ///< of all parameters
  std::int64_t moved_elements = 0;     ///< of those, distinct ones
  std::int64_t filling_elements = 0;   ///< moved beside them
  std::int64_t compared_elements = 0;  ///< on this rank; gathered ones, and its own sums
  std::int64_t wrong_elements = 0;     ///< of those
  std::optional<FsdpWrongElement> first_wrong;
  int all_gathers = 0;
  int reduce_scatters = 0;
  int all_reduces = 0;
  std::int64_t sent_bytes = 0;      ///< payload of this rank's messages in those
  std::int64_t expected_bytes = 0;  ///< of all ranks' together, by the formulas
  /// What a training step of the whole model sends, per rank (the mean over ranks): parameters in
  /// bfloat16, gradients in bfloat16 and in float32.
  std::int64_t step_bytes_bfloat16 = 0;
  std::int64_t step_bytes_float32 = 0;
  std::vector<FsdpControl> controls;
  double seconds = 0;

  bool operator==(const FsdpLayoutProof&) const = default;
};

/// `fsdp-layout` on one rank. `stopped_by` ended it early; the proofs before it stand.
struct FsdpLayoutExperiment {
  LoadedLibrary library;
  FabricRank place;
  std::vector<FsdpLayoutProof> proofs;
  std::optional<Error> stopped_by;

  bool operator==(const FsdpLayoutExperiment&) const = default;
};

}  // namespace dlc

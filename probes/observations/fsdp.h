#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "probes/observations/fabric.h"
#include "probes/observations/observed.h"
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

/// What this rank saw of one step of training. Seconds that are no communication that computation
/// waited for, and not the optimizer's, are computation.
struct FsdpTrainingStep {
  double loss = 0;  ///< mean over this rank's micro-batches; 0 without forward and backward
  double gradient_norm = 0;  ///< of the mean over ranks, before it is clipped
  bool finite = false;       ///< both; what is not is written as 0
  double seconds = 0;
  double exposed_seconds = 0;
  double optimizer_seconds = 0;
  std::int64_t sent_bytes = 0;  ///< payload of this rank's messages; -1 where nobody counts it

  bool operator==(const FsdpTrainingStep&) const = default;
};

/// Something that this rank holds against what it must be.
struct FsdpComparison {
  /// Against the unsharded model: "losses", "gradient-norms", "parameters", "first-moments",
  /// "second-moments"; without: "padding", "gathered".
  std::string what;
  std::string worst;  ///< the parameter, or the step, with the largest error; empty without one
  std::int64_t elements = 0;
  std::int64_t different = 0;  ///< of those, bit for bit
  std::int64_t not_finite = 0;
  /// The largest of: for losses and norms |found - expected| / |expected|; for each parameter the
  /// root mean square of the difference, held against, for moments, that of what was expected (of
  /// this parameter, or of the whole shard where it is larger), and for parameters against steps *
  /// rate, which is as far as AdamW goes. Where the bound is 0: `different`.
  double error = 0;
  double bound = 0;

  bool operator==(const FsdpComparison&) const = default;
};

/// The least time of a step that communication alone takes, with nothing to hide it behind.
struct FsdpPrediction {
  std::string model;
  std::int64_t bytes_per_rank = 0;  ///< parameters in bfloat16, gradients in the run's type
  double seconds = 0;               ///< at the bandwidths that were measured

  bool operator==(const FsdpPrediction&) const = default;
};

/// A model trained over all ranks of the run.
struct FsdpTrainingRun {
  std::string name;  ///< "exact": gradients are whole numbers, nothing is rounded; "training"
  std::string model;
  std::string compute;    ///< type of gathered parameters and activations
  std::string gradients;  ///< type of what is reduced
  int ranks = 0;
  std::int64_t rows = 0;  ///< of a micro-batch
  std::int64_t sequence = 0;
  int micro_batches = 0;  ///< of each rank and step
  std::int64_t parameters = 0;
  std::int64_t padding = 0;         ///< elements that fill all ranks' shards
  std::int64_t needed_bytes = 0;    ///< of this rank's device, by the formulas; the unsharded model
                                    ///< not among them
  std::int64_t taken_bytes = 0;     ///< of those in fact
  std::int64_t free_bytes = 0;      ///< before
  std::string not_looked_at;        ///< why it was not tried; nothing below is there then
  std::int64_t expected_bytes = 0;  ///< sent by all ranks in one step, by the formulas
  std::vector<FsdpTrainingStep> steps;
  std::vector<FsdpComparison> own;                  ///< "padding", "gathered"
  Observed<std::vector<FsdpComparison>> reference;  ///< against the unsharded model
  double reference_seconds = 0;
  std::string explanation;  ///< of a difference: what gives the same bits
  std::string hash;         ///< of parameters and moments of all ranks, however they are cut
  std::vector<FsdpControl> controls;

  bool operator==(const FsdpTrainingRun&) const = default;
};

/// `fsdp-training` on one rank. `stopped_by` ended it early; the runs before it stand.
struct FsdpTrainingExperiment {
  std::string backend;    ///< "cpu", "cuda"
  std::string device;     ///< the GPU's name
  std::string transport;  ///< "libfabric tcp;ofi_rxm", "NCCL 2.28.9"; empty with one rank
  std::vector<FsdpTrainingRun> runs;
  double gather_bytes_per_second = 0;  ///< by each rank, of the largest unit; 0: not measured
  double reduce_bytes_per_second = 0;
  std::vector<FsdpPrediction> predictions;
  std::optional<Error> stopped_by;

  bool operator==(const FsdpTrainingExperiment&) const = default;
};

}  // namespace dlc

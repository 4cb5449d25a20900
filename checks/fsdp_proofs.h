#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checks/rank_results.h"
#include "probes/observations/fsdp.h"

namespace dlc {

/// One model cut by one layout, as each rank of the run saw it.
struct FsdpProofRow {
  std::string model;
  std::string layout;
  /// By rank; nullptr: that rank has no such proof.
  std::vector<const FsdpLayoutProof*> by_rank;
  /// Why the first of those has none; absent: every rank has one.
  std::optional<Observed<FsdpLayoutExperiment>> unseen;

  bool Seen() const { return !unseen; }
  /// Of rank 0, or of the first that has one; nullptr: no rank has.
  const FsdpLayoutProof* Any() const;
  std::int64_t Wrong() const;
  /// The fewest elements that a rank compared; 0 where one has no proof.
  std::int64_t Compared() const;
  /// Of all ranks' messages.
  std::int64_t SentBytes() const;
};

/// The proofs of one model by one layout. `results` outlives the row.
FsdpProofRow FsdpProofRowOf(const std::vector<RankResult<FsdpLayoutExperiment>>& results,
                            const std::string& model, const std::string& layout);

/// "2 elements of qwen2-tiny arrived wrong at ranks 0 and 2; the first: all-gather, ...". Empty
/// when none did.
std::string FsdpWrongText(const RankRun& run, const FsdpProofRow& row);
/// "qwen2.5-1.5b: 46,797,824 elements of 2 of 29 units (1 whole) over 4 ranks".
std::string FsdpMovedText(const FsdpProofRow& row);

}  // namespace dlc

#include "checks/fsdp_proofs.h"

#include <algorithm>

namespace dlc {
namespace {

const FsdpLayoutProof* ProofOf(const FsdpLayoutExperiment& seen, const std::string& model,
                               const std::string& layout) {
  const auto it = std::find_if(seen.proofs.begin(), seen.proofs.end(), [&](const auto& proof) {
    return proof.model == model && proof.layout == layout;
  });
  return it == seen.proofs.end() ? nullptr : &*it;
}

/// Why a rank that did its part has no proof.
Observed<FsdpLayoutExperiment> WhyNone(const FsdpLayoutExperiment& seen) {
  if (seen.stopped_by) {
    return *seen.stopped_by;
  }
  return NotLookedAt{"the ranks were not asked for it", ""};
}

/// "model.layers.0.self_attn.q_proj.weight[30, 0]".
std::string PlaceText(const FsdpWrongElement& wrong) {
  if (wrong.parameter.empty()) {
    return "what fills the shard, at " + std::to_string(wrong.row);
  }
  return wrong.parameter + "[" + std::to_string(wrong.row) + ", " + std::to_string(wrong.column) +
         "]";
}

std::string FirstWrongText(const RankRun& run, const FsdpWrongElement& wrong) {
  const std::string owner = RankNames(run, {wrong.owner});
  if (wrong.where == "layout") {
    return PlaceText(wrong) + " lies in the shard of " + owner + ", where the layout has it not";
  }
  return PlaceText(wrong) + " of " + owner + ", " + wrong.where + ": expected " +
         std::to_string(wrong.expected) + ", found " + std::to_string(wrong.found);
}

}  // namespace

const FsdpLayoutProof* FsdpProofRow::Any() const {
  const auto it = std::find_if(by_rank.begin(), by_rank.end(),
                               [](const FsdpLayoutProof* proof) { return proof != nullptr; });
  return it == by_rank.end() ? nullptr : *it;
}

std::int64_t FsdpProofRow::Wrong() const {
  std::int64_t wrong = 0;
  for (const FsdpLayoutProof* proof : by_rank) {
    wrong += proof == nullptr ? 0 : proof->wrong_elements;
  }
  return wrong;
}

std::int64_t FsdpProofRow::Compared() const {
  std::int64_t fewest = by_rank.empty() || !Seen() ? 0 : by_rank.front()->compared_elements;
  for (const FsdpLayoutProof* proof : by_rank) {
    fewest = proof == nullptr ? 0 : std::min(fewest, proof->compared_elements);
  }
  return fewest;
}

std::int64_t FsdpProofRow::SentBytes() const {
  std::int64_t sent = 0;
  for (const FsdpLayoutProof* proof : by_rank) {
    sent += proof == nullptr ? 0 : proof->sent_bytes;
  }
  return sent;
}

FsdpProofRow FsdpProofRowOf(const std::vector<RankResult<FsdpLayoutExperiment>>& results,
                            const std::string& model, const std::string& layout) {
  FsdpProofRow row{model, layout, {}, {}};
  for (const auto& result : results) {
    const FsdpLayoutExperiment* seen = result.seen.get();
    const FsdpLayoutProof* proof = seen == nullptr ? nullptr : ProofOf(*seen, model, layout);
    row.by_rank.push_back(proof);
    if (proof == nullptr && !row.unseen) {
      row.unseen = seen == nullptr ? result.seen : WhyNone(*seen);
    }
  }
  return row;
}

std::string FsdpWrongText(const RankRun& run, const FsdpProofRow& row) {
  std::vector<int> at;
  const FsdpWrongElement* first = nullptr;
  for (std::size_t rank = 0; rank < row.by_rank.size(); ++rank) {
    const FsdpLayoutProof* proof = row.by_rank[rank];
    if (proof != nullptr && proof->wrong_elements > 0) {
      at.push_back(static_cast<int>(rank));
      first = first == nullptr && proof->first_wrong ? &*proof->first_wrong : first;
    }
  }
  if (at.empty()) {
    return "";
  }
  return std::to_string(row.Wrong()) + " wrong elements of " + row.model + " at " +
         RankNames(run, at) +
         (first == nullptr ? "" : "; the first: " + FirstWrongText(run, *first));
}

std::string FsdpMovedText(const FsdpProofRow& row) {
  const FsdpLayoutProof* proof = row.Any();
  if (proof == nullptr) {
    return row.model + ": nothing";
  }
  std::string text = row.model + ": " + std::to_string(proof->moved_elements) + " elements, ";
  if (proof->whole_units == proof->units) {
    text += "all there are, over ";
  } else {
    text += "of " + std::to_string(proof->moved_units) + " of " + std::to_string(proof->units) +
            " units (" + std::to_string(proof->whole_units) +
            " whole, else around the cuts), over ";
  }
  text += std::to_string(proof->shard_ranks) + (proof->shard_ranks == 1 ? " rank" : " ranks");
  return proof->copies == 1 ? text : text + " in " + std::to_string(proof->copies) + " copies";
}

}  // namespace dlc

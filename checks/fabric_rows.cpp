#include "checks/fabric_rows.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "checks/wording.h"

namespace dlc {
namespace {

using Results = std::vector<RankResult<FabricExperiment>>;

/// Whose own doing it was that a rank told nothing, best first: 0 the whole rank is lost, 1 its
/// process died or had to be ended, 2 it says what it waited for in vain.
int Guilt(const RankResult<FabricExperiment>& result) {
  if (result.end.how.empty()) {
    return 0;
  }
  return result.end.how == "finished" || result.end.how == "not-started" ? 2 : 1;
}

/// The rank's name in front, unless the text begins with a rank.
Error WithName(const RankResult<FabricExperiment>& result, const Error& error) {
  const bool named = error.message.starts_with("rank ");
  return {error.code, (named ? "" : result.name + ": ") + error.message, error.hint};
}

std::optional<Observed<FabricExperiment>> WhyNoMore(const Results& results) {
  const RankResult<FabricExperiment>* guilty = nullptr;
  for (const auto& result : results) {
    if (!result.seen.seen() && (guilty == nullptr || Guilt(result) < Guilt(*guilty))) {
      guilty = &result;
    }
  }
  if (guilty != nullptr) {
    return guilty->seen.failed()
               ? Observed<FabricExperiment>(WithName(*guilty, guilty->seen.error()))
               : guilty->seen;
  }
  for (const auto& result : results) {
    const auto& stopped = result.seen.value().measured.stopped_by;
    if (stopped) {
      return Observed<FabricExperiment>(WithName(result, *stopped));
    }
  }
  return std::nullopt;
}

std::tuple<int, int, std::int64_t> PairKey(const PairMeasurement& pair) {
  return {pair.rank_a, pair.rank_b, pair.size_bytes};
}

std::vector<int> List(const std::set<int>& ranks) {
  return {ranks.begin(), ranks.end()};
}

}  // namespace

FabricRows FabricRowsOf(const RankRun& run,
                        std::vector<ExperimentResult<FabricExperiment>> RankObservations::*kind) {
  return FabricRowsOf(ResultsOf(run, kind));
}

FabricRows FabricRowsOf(const std::vector<RankResult<FabricExperiment>>& results) {
  FabricRows rows;
  rows.unseen = WhyNoMore(results);
  for (const auto& result : results) {
    const FabricExperiment* seen = result.seen.get();
    if (seen == nullptr) {
      continue;
    }
    rows.libraries[result.rank] = seen->library;
    for (const FabricRank& place : seen->measured.ranks) {
      if (place.rank == result.rank) {
        rows.places[result.rank] = place;
      }
    }
    const auto& pairs = seen->measured.pairs;
    rows.pairs.insert(rows.pairs.end(), pairs.begin(), pairs.end());
    // All ranks have the same rows, but for one that was stopped earlier.
    if (seen->measured.collectives.size() > rows.collectives.size()) {
      rows.collectives = seen->measured.collectives;
    }
  }
  const auto before = [](const PairMeasurement& a, const PairMeasurement& b) {
    return PairKey(a) < PairKey(b);
  };
  const auto same = [](const PairMeasurement& a, const PairMeasurement& b) {
    return PairKey(a) == PairKey(b);
  };
  std::stable_sort(rows.pairs.begin(), rows.pairs.end(), before);
  rows.pairs.erase(std::unique(rows.pairs.begin(), rows.pairs.end(), same), rows.pairs.end());
  return rows;
}

std::int64_t CountPairs(const FabricRows& rows) {
  std::set<std::pair<int, int>> pairs;
  for (const PairMeasurement& pair : rows.pairs) {
    pairs.insert({pair.rank_a, pair.rank_b});
  }
  return static_cast<std::int64_t>(pairs.size());
}

std::pair<std::int64_t, std::int64_t> CheckedElements(
    const std::vector<CollectiveMeasurement>& rows) {
  std::int64_t wrong = 0;
  std::int64_t checked = 0;
  for (const CollectiveMeasurement& row : rows) {
    wrong = std::accumulate(row.wrong.begin(), row.wrong.end(), wrong);
    checked += row.checked_elements;
  }
  return {wrong, checked};
}

std::set<int> RanksThatWait(const FabricRows& rows) {
  std::map<std::string_view, std::int64_t> ranks_on;
  for (const auto& [rank, place] : rows.places) {
    ++ranks_on[place.boot_id];
  }
  ranks_on[""] = 0;  // which machine is not known
  std::set<int> waiting;
  for (const auto& [rank, place] : rows.places) {
    if (ranks_on.at(place.boot_id) > place.usable_cpus) {
      waiting.insert(rank);
    }
  }
  return waiting;
}

std::string ProvidersText(const RankRun& run, const FabricRows& rows) {
  std::map<std::string, std::vector<int>> ranks_by_text;
  for (const auto& [rank, place] : rows.places) {
    const FabricProvider& provider = place.provider;
    ranks_by_text[provider.name + " on " + provider.domain + " (provider " + provider.version +
                  ", libfabric " + rows.libraries.at(rank).version + ")"]
        .push_back(rank);
  }
  std::string text;
  for (const auto& [provider, ranks] : ranks_by_text) {
    text += (text.empty() ? "" : "; ") +
            (ranks_by_text.size() == 1 ? "" : RankNames(run, ranks) + ": ") + provider;
  }
  return text;
}

std::string WrongPairsText(const RankRun& run, const FabricRows& rows) {
  std::map<int, std::set<int>> receivers_of;
  std::set<int> receivers;
  std::int64_t wrong = 0;
  for (const PairMeasurement& pair : rows.pairs) {
    for (const auto& [from, to, count] : {std::tuple{pair.rank_a, pair.rank_b, pair.wrong_at_b},
                                          std::tuple{pair.rank_b, pair.rank_a, pair.wrong_at_a}}) {
      if (count > 0) {
        receivers_of[from].insert(to);
        receivers.insert(to);
        wrong += count;
      }
    }
  }
  if (wrong == 0) {
    return "";
  }
  // Many senders and one receiver: then it is the receiver that they have in common.
  if (receivers_of.size() > 1 && receivers.size() == 1) {
    std::vector<int> senders;
    senders.reserve(receivers_of.size());
    for (const auto& [sender, to] : receivers_of) {
      senders.push_back(sender);
    }
    return RankNames(run, List(receivers)) + " received wrong what " + RankNames(run, senders) +
           " sent (" + Count(static_cast<std::size_t>(wrong), "element") + ")";
  }
  std::string text;
  for (const auto& [sender, to] : receivers_of) {
    text += (text.empty() ? "what " : "; what ") + RankNames(run, {sender}) +
            " sent arrived wrong at " + RankNames(run, List(to));
  }
  return text + " (" + Count(static_cast<std::size_t>(wrong), "element") + ")";
}

std::string WrongCollectivesText(const RankRun& run, const FabricRows& rows) {
  std::set<int> from;
  std::set<int> at;
  std::set<std::string> names;
  std::int64_t wrong = 0;
  for (const CollectiveMeasurement& row : rows.collectives) {
    for (std::size_t rank = 0; rank < row.wrong.size(); ++rank) {
      if (row.wrong[rank] > 0) {
        at.insert(static_cast<int>(rank));
        names.insert(row.collective);
        wrong += row.wrong[rank];
      }
    }
    for (std::size_t rank = 0; rank < row.wrong_from.size(); ++rank) {
      if (row.wrong_from[rank] > 0) {
        from.insert(static_cast<int>(rank));
      }
    }
  }
  if (wrong == 0) {
    return "";
  }
  std::string collectives;
  for (const std::string& name : names) {
    collectives += (collectives.empty() ? "" : ", ") + name;
  }
  // Where elements are reduced nobody can tell whose was wrong; where they are only moved one can.
  const std::string whose = from.empty() ? "elements" : "elements of " + RankNames(run, List(from));
  return whose + " arrived wrong at " + RankNames(run, List(at)) + " (" +
         Count(static_cast<std::size_t>(wrong), "element") + "; " + collectives + ")";
}

}  // namespace dlc

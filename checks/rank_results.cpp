#include "checks/rank_results.h"

namespace dlc {

std::string RankName(const RankReport& report) {
  const RankObservations* seen = report.seen.get();
  return "rank " + std::to_string(report.rank) +
         (seen == nullptr || seen->facts.host.empty() ? "" : " on " + seen->facts.host);
}

std::string RankNames(const RankRun& run, const std::vector<int>& ranks) {
  if (ranks.size() == 1) {
    const auto it = std::find_if(run.ranks.begin(), run.ranks.end(),
                                 [&](const RankReport& r) { return r.rank == ranks[0]; });
    return it == run.ranks.end() ? "rank " + std::to_string(ranks[0]) : RankName(*it);
  }
  constexpr std::size_t kNamed = 8;
  std::string text = "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == kNamed && ranks.size() > kNamed + 1) {
      return text + " and " + std::to_string(ranks.size() - i) + " more";
    }
    const bool last = i + 1 == ranks.size();
    text += (i == 0 ? "" : last ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

void NotePlantedFaults(const RankRun& run, std::vector<Finding>& findings) {
  for (const RankReport& report : run.ranks) {
    const RankObservations* seen = report.seen.get();
    if (seen == nullptr || seen->planted_faults.empty()) {
      continue;
    }
    std::string note = "faults were planted in this run:";
    for (const PlantedFault& fault : seen->planted_faults) {
      note += " " + fault.kind + " in rank " + std::to_string(fault.rank);
    }
    for (Finding& finding : findings) {
      finding.notes.push_back(note);
    }
    return;
  }
}

}  // namespace dlc

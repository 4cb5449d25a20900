#include "checks/rank_results.h"

#include "probes/observations/rank_list.h"

namespace dlc {

std::string RankName(const RankReport& report) {
  const RankObservations* seen = report.seen.get();
  return "rank " + std::to_string(report.rank) +
         (seen == nullptr || seen->facts.host.empty() ? "" : " on " + seen->facts.host);
}

std::string RankNames(const RankRun& run, const std::vector<int>& ranks) {
  const auto named = std::find_if(run.ranks.begin(), run.ranks.end(), [&](const RankReport& r) {
    return ranks.size() == 1 && r.rank == ranks[0];
  });
  return named == run.ranks.end() ? RankList(ranks) : RankName(*named);
}

std::string GroupsText(const RankRun& run, const std::map<std::string, std::vector<int>>& groups) {
  std::vector<std::pair<std::string, std::vector<int>>> sorted(groups.begin(), groups.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::string text;
  for (const auto& [what, ranks] : sorted) {
    text += (text.empty() ? "" : "; ") + RankNames(run, ranks) + ": " + what;
  }
  return text;
}

bool JudgeWithoutRanks(const Observations& observations, const Observed<RankRun>& ranks,
                       std::string_view rule, std::string_view what, std::string_view if_not_asked,
                       Judge& judge) {
  const Subject subject{"run", "ranks"};
  if (ranks.seen()) {
    if (!ranks.value().ranks.empty()) {
      return false;
    }
    judge.Unknown(rule, subject, {"not-looked-at", "the run had no ranks", ""});
    return true;
  }
  const bool not_asked =
      ranks.not_looked_at() && ranks.why_not().blocked_by.empty() && !observations.run.interrupted;
  // Directories that the user named stand in for the ranks of the stage.
  const bool named =
      observations.checkpoint_views.seen() && &ranks == &observations.checkpoint_ranks;
  if (not_asked && named) {
    judge.NotApplicable(rule, subject,
                        "no ranks ran: the directories of --from-checkpoint are judged");
  } else if (not_asked && !if_not_asked.empty()) {
    judge.NotApplicable(
        rule, subject, "no ranks ran (" + ranks.why_not().reason + ")" + std::string(if_not_asked));
  } else {
    judge.Unseen(rule, subject, what, ranks);
  }
  return true;
}

std::vector<PlantedFault> PlantedFaultsOf(const RankRun& run) {
  std::vector<PlantedFault> faults = run.planted_faults;
  for (const RankReport& report : run.ranks) {
    if (const RankObservations* seen = report.seen.get()) {
      for (const PlantedFault& fault : seen->planted_faults) {
        if (std::find(faults.begin(), faults.end(), fault) == faults.end()) {
          faults.push_back(fault);
        }
      }
    }
  }
  return faults;
}

void NotePlantedFaults(const RankRun& run, std::vector<Finding>& findings) {
  const std::vector<PlantedFault> faults = PlantedFaultsOf(run);
  if (faults.empty()) {
    return;
  }
  std::string note = "faults were planted in this run:";
  for (const PlantedFault& fault : faults) {
    note += " " + fault.kind + " in rank " + std::to_string(fault.rank);
  }
  for (Finding& finding : findings) {
    finding.notes.push_back(note);
  }
}

}  // namespace dlc

#include "probes/control/launcher/rank_output.h"

#include <algorithm>
#include <cstring>

#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

constexpr std::size_t kErrTailBytes = 2048;

}  // namespace

void RankOutput::TakeOut(const std::string& line, const std::function<void(RankEvent)>& on_event) {
  if (line.starts_with("{\"apiVersion\"")) {
    document_ = ParseRankRun(line);
    return;
  }
  auto event = ParseRankEvent(line);
  if (!event || event->rank != rank_) {
    document_ = Error{ErrorCode::kInternal,
                      "rank " + std::to_string(rank_) + " wrote what is no event of dlc-probe: '" +
                          line.substr(0, 80) + "'",
                      "use dlc-check and dlc-probe of the same release"};
    return;
  }
  if (event->event == "progress") {
    last_progress_ = event->text;
  }
  on_event(std::move(event).value());
}

void RankOutput::TakeErr(std::string line, const std::function<void(RankEvent)>& on_event) {
  err_tail_ += line + "\n";
  if (err_tail_.size() > kErrTailBytes) {
    err_tail_.erase(0, err_tail_.size() - kErrTailBytes);
  }
  on_event({"log", rank_, "", std::move(line)});
}

Result<RankRun> RankOutput::Document(const std::string& end, const std::string& rest) const {
  if (document_) {
    return *document_;
  }
  std::string said = err_tail_ + rest;
  std::replace(said.begin(), said.end(), '\n', ' ');
  while (said.ends_with(' ')) {
    said.pop_back();
  }
  std::string what = "rank " + std::to_string(rank_) + " " + end;
  what += last_progress_.empty() ? "" : "; last progress: " + last_progress_;
  what += said.empty() ? "" : "; it said: " + said;
  return Error{ErrorCode::kUnavailable, what, ""};
}

std::string KilledText(int signal) {
  const char* name = sigabbrev_np(signal);
  return "was killed by " +
         (name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal));
}

void JoinDocuments(std::vector<std::pair<int, Result<RankRun>>>& documents, RankRun& run) {
  run.ranks.resize(static_cast<std::size_t>(run.size));
  for (int rank = 0; rank < run.size; ++rank) {
    run.ranks[static_cast<std::size_t>(rank)] = {
        rank,
        Error{ErrorCode::kUnavailable, "rank " + std::to_string(rank) + " gave no document", ""}};
  }
  for (auto& [giver, document] : documents) {
    if (!document) {
      run.ranks[static_cast<std::size_t>(giver)].seen = document.error();
      continue;
    }
    for (RankReport& report : document->ranks) {
      // A rank's own word counts most; of the others, what somebody saw more than what nobody did.
      const bool fits = report.rank >= 0 && report.rank < run.size;
      if (fits &&
          (report.rank == giver || !run.ranks[static_cast<std::size_t>(report.rank)].seen.seen())) {
        run.ranks[static_cast<std::size_t>(report.rank)] = std::move(report);
      }
    }
  }
}

}  // namespace dlc

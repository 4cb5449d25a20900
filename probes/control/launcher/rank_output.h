#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "probes/observations/ranks.h"
#include "probes/observations/result.h"

namespace dlc {

/// What one rank's dlc-probe writes, line by line, wherever it runs.
class RankOutput {
 public:
  explicit RankOutput(int rank) : rank_(rank) {}

  /// Of stdout: an event, or the document, which is kept.
  void TakeOut(const std::string& line, const std::function<void(RankEvent)>& on_event);
  /// Of stderr: told as "log", and its end kept for the case that no document comes.
  void TakeErr(std::string line, const std::function<void(RankEvent)>& on_event);
  /// In the document's place.
  void Fail(Error error) { document_ = std::move(error); }

  /// Or what became of the rank: `end` ("was killed by SIGKILL"), its last progress, and what it
  /// said; `rest` is the last of that, and no whole line.
  Result<RankRun> Document(const std::string& end, const std::string& rest = "") const;

 private:
  int rank_;
  std::string err_tail_;
  std::string last_progress_;
  std::optional<Result<RankRun>> document_;
};

/// "was killed by SIGKILL"
std::string KilledText(int signal);

/// The run of `run.size` ranks out of the documents that they gave, each after the rank that gave
/// it; they are moved from. What else `run` holds stays.
void JoinDocuments(std::vector<std::pair<int, Result<RankRun>>>& documents, RankRun& run);

}  // namespace dlc

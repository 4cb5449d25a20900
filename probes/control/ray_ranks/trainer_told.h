#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "probes/control/launcher/launcher.h"
#include "probes/observations/framework.h"
#include "probes/observations/nccl_log.h"

namespace dlc {

/// What dlc_check_trainer.py is given, as JSON. Its fault texts, too, are in its words.
std::string TrainerOrder(const TrainerWork& work, int workers, const std::string& strategy,
                         std::int64_t wait_seconds, const std::string& run_id);

/// What it tells, message by message, and what each rank's experiment is by that. Nothing is taken
/// for a success but a worker's own result.
class TrainerTold {
 public:
  TrainerTold(const TrainerWork& work, int workers);

  /// `text`: a message of the driver with event "training", JSON. What of it is worth telling a
  /// person, or an empty text.
  std::string Take(std::string_view text);
  /// The driver has started it.
  bool begun() const { return begun_; }
  /// It has ended, and what it made is removed or in left().
  bool closed() const { return closed_; }
  /// Each with the reason.
  const std::vector<std::string>& left() const { return left_; }

  /// By rank. `why_no_more`: for a run whose end was not told.
  std::vector<FrameworkExperiment> Experiments(const std::string& why_no_more) const;
  /// Of its processes together, in a step's words.
  ExperimentEnd EndOf(int rank) const;

 private:
  struct Worker {
    std::string host;
    double seconds = 0;  ///< since its train loop began
    std::string last_progress;
    std::optional<std::string> result;
    std::optional<std::string> words;  ///< of an exception
    std::vector<std::string> lines;
    std::optional<std::string> nccl_log;
  };
  struct Run {
    std::string name;
    std::vector<Worker> workers;
    /// "finished", "raised", "lost", "missing", "timed-out", "not-placed", "stopped", "died",
    /// "failed", "keeper-died"; empty: not told.
    std::string how;
    std::string words;
    std::vector<std::string> lines;
    std::vector<int> lost;  ///< workers that Ray lost; empty where it does not say which
    int code = 0;           ///< of "died" and "keeper-died", as of Python's subprocess
  };

  void BeginRun(std::string name);
  void TakeOfWorker(const std::string& what, Worker& worker, std::string_view text);
  void TakeEnd(std::string how, std::string_view text);
  FrameworkProcess ProcessOf(const Run& run, std::size_t rank,
                             const std::string& why_no_more) const;
  static std::string NamedIn(const Run& run, std::size_t rank);
  void Explain(const Run& run, std::size_t rank, const std::string& why_no_more,
               FrameworkProcess& process) const;
  static void ExplainLost(const Run& run, std::size_t rank, FrameworkProcess& process);
  void ExplainCut(const Run& run, const std::string& why_no_more, FrameworkProcess& process) const;

  const TrainerWork work_;
  int workers_;
  bool begun_ = false;
  bool closed_ = false;
  std::vector<Run> runs_;
  std::vector<std::string> left_;
};

}  // namespace dlc

#include "probes/control/ray_ranks/ray_launcher.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "probes/control/launcher/process_launcher.h"
#include "probes/control/process/run_process.h"
#include "probes/control/ray_ranks/probe_package.h"
#include "probes/control/ray_ranks/resource_holders.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;
using Json = nlohmann::ordered_json;

constexpr milliseconds kLook{50};
constexpr milliseconds kStopped{20'000};  ///< Ray kills a driver that does not end after 3 s
constexpr int kRenewalsInLease = 4;
constexpr int kQuietShare = 4;  ///< of the time that a poll took
constexpr std::size_t kIdDigits = 8;
constexpr std::size_t kOthersChars = 1500;

std::string ExitText(int code) {
  constexpr int kSignalBase = 128;
  if (code < 0 || code > kSignalBase) {
    return KilledText(code < 0 ? -code : code - kSignalBase);
  }
  return "ended with code " + std::to_string(code) + " and no document";
}

std::string TextOf(const Json& message, const char* key) {
  const auto it = message.find(key);
  return it != message.end() && it->is_string() ? it->get<std::string>() : "";
}

/// " (free: 0 of 2 GPU, 3 of 4 CPU)", of all nodes together.
std::string FreeText(const Json& message) {
  const Json all = message.value("resources", Json::object());
  const auto whole = [](const Json& number) {
    return std::to_string(number.is_number() ? static_cast<long long>(number.get<double>()) : -1);
  };
  std::string text;
  for (const char* name : {"GPU", "CPU"}) {
    const auto pair = all.is_object() ? all.find(name) : all.end();
    if (pair != all.end() && pair->is_array() && pair->size() == 2) {
      text +=
          (text.empty() ? "" : ", ") + whole((*pair)[0]) + " of " + whole((*pair)[1]) + " " + name;
    }
  }
  return text.empty() ? text : " (free: " + text + ")";
}

int NumberOf(const Json& message, const char* key) {
  const auto it = message.find(key);
  return it != message.end() && it->is_number_integer() ? it->get<int>() : -1;
}

}  // namespace

RayLauncher::RayLauncher(RayLauncherOptions options)
    : options_(std::move(options)),
      jobs_(options_.client),
      renew_at_(Deadline::After(milliseconds(0))),
      lost_at_(Deadline::After(options_.lease)),
      poll_at_(Deadline::After(milliseconds(0))) {}

Result<void> RayLauncher::Upload(Deadline deadline) {
  const auto probe = FindProbe(options_.probe);
  if (!probe) {
    return probe.error();
  }
  const auto package = MakeProbePackage(*probe);
  if (!package) {
    return package.error();
  }
  probe_digest_ = package->probe_digest.hex;
  package_ = package->name;
  const auto there = jobs_.HasPackage(package_, deadline);
  if (!there) {
    return there.error();
  }
  return *there ? Result<void>() : jobs_.PutPackage(package_, package->bytes, deadline);
}

/// A changed order is the sign of life that the driver waits for.
Result<void> RayLauncher::PutOrder(Deadline deadline) {
  const Json trainer =
      request_.trainer
          ? Json::parse(TrainerOrder(*request_.trainer, request_.ranks, options_.strategy,
                                     options_.wait.count(), request_.plan.run_id))
          : Json();
  const Json order{{"plan", RankPlanToJson(request_.plan)},
                   {"ranks", request_.ranks},
                   {"gpusPerRank", options_.gpus_per_rank},
                   {"strategy", options_.strategy},
                   {"waitSeconds", options_.wait.count()},
                   {"leaseSeconds", options_.lease.count()},
                   {"probeSha256", probe_digest_},
                   {"trainer", trainer},
                   {"stop", stop_},
                   {"renewal", ++renewal_}};
  auto put = jobs_.PutPackage(order_, order.dump(), deadline);
  if (put) {
    renew_at_ = Deadline::After(milliseconds(options_.lease) / kRenewalsInLease);
  }
  return put;
}

Result<void> RayLauncher::Start(const LaunchRequest& request, Deadline deadline) {
  request_ = request;
  request_.plan.gather = false;  // every rank's output comes here
  for (int rank = 0; rank < request_.ranks; ++rank) {
    ranks_.emplace_back(rank);
  }
  if (request_.trainer) {
    trainer_.emplace(*request_.trainer, request_.ranks);
  }
  if (auto uploaded = Upload(deadline); !uploaded) {
    return uploaded;
  }
  const std::string id =
      "dlc-check-" + request_.plan.run_id + "-" + MakeRunSecret().substr(0, kIdDigits);
  order_ = id + "-order.zip";
  if (auto put = PutOrder(deadline); !put) {
    return put;
  }
  RayJobRequest job;
  job.submission_id = id;
  job.package = package_;
  job.run_id = request_.plan.run_id;
  job.entrypoint = "exec python -B dlc_check_driver.py gcs://" + order_ + " " + id;
  submission_id_ = id;  // from here on there may be one, whatever the answer
  auto submitted = jobs_.Submit(job, deadline);
  lost_at_ = Deadline::After(options_.lease);
  return submitted;
}

void RayLauncher::Tell(std::string text) {
  events_.push_back({"launcher", -1, "", std::move(text)});
}

std::string RayLauncher::Named() const {
  return std::to_string(request_.ranks) + (request_.ranks == 1 ? " place" : " places") +
         (options_.gpus_per_rank > 0 ? " with a GPU each" : " for ranks") +
         (options_.strategy == "STRICT_SPREAD" ? ", each on a node of its own" : "");
}

void RayLauncher::TakeOfRank(const std::string& event, Rank& rank, const std::string& text,
                             int code) {
  const auto on_event = [this](RankEvent told) { events_.push_back(std::move(told)); };
  if (event == "out") {
    rank.output.TakeOut(text, on_event);
  } else if (event == "err") {
    rank.output.TakeErr(text, on_event);
  } else if (event == "exit") {
    rank.ended = true;
    rank.end = ExitText(code);
  } else if (event == "lost") {
    rank.ended = true;
    rank.end = "was lost: " + OneLine(text, kOthersChars);
  }
}

void RayLauncher::Take(const std::string& line, Deadline deadline) {
  const Json message = Json::parse(line, nullptr, false);
  if (!message.is_object()) {
    broken_ = Error{ErrorCode::kInternal, "the job's driver wrote what is no message", ""};
    return;
  }
  const std::string event = TextOf(message, "event");
  const std::string resource = options_.gpus_per_rank > 0 ? "GPU" : "CPU";
  if (event == "training") {
    if (std::string text = trainer_ ? trainer_->Take(line) : ""; !text.empty()) {
      Tell(std::move(text));
    }
    return;
  }
  if (const int rank = NumberOf(message, "rank"); rank >= 0 && rank < request_.ranks) {
    return TakeOfRank(event, ranks_[static_cast<std::size_t>(rank)],
                      TextOf(message, event == "lost" ? "text" : "line"),
                      NumberOf(message, "code"));
  }
  if (event == "started") {
    started_ = true;
    for (Rank& rank : ranks_) {
      rank.end = "did not tell how it ended";
    }
    Tell("the ranks run on " + std::to_string(NumberOf(message, "nodes")) + " nodes of Ray");
  } else if (event == "stopping") {
    stop_told_ = TextOf(message, "why");
    Tell("the job on Ray stops (" + stop_told_ + ")");
  } else if (event == "waiting") {
    Tell("waiting for " + Named() + FreeText(message) + "; " + resource + "s are held by " +
         WhoHolds(jobs_.Client(), resource, submission_id_,
                  deadline.Within(milliseconds(options_.lease) / kRenewalsInLease)));
  } else if (event == "not-placed" && TextOf(message, "why") == "busy") {
    why_no_ranks_ = NotLookedAt{
        "no " + Named() + " became free within " + std::to_string(options_.wait.count()) +
            " seconds" + FreeText(message) + "; " + resource + "s are held by " +
            WhoHolds(jobs_.Client(), resource, submission_id_,
                     deadline.Within(milliseconds(options_.lease) / kRenewalsInLease)),
        ""};
  } else if (event == "not-placed") {
    broken_ = Error{ErrorCode::kInterrupted, "the job was stopped before its ranks ran", ""};
  } else if (event == "failed") {
    broken_ = Error{
        ErrorCode::kUnavailable,
        (started_ ? "the driver of the job on Ray failed: " : "Ray could not start the ranks: ") +
            OneLine(TextOf(message, "text"), kOthersChars),
        ""};
  }
}

Result<void> RayLauncher::ReadLog(const std::optional<RayJobState>& state, Deadline deadline) {
  const auto log = jobs_.Log(submission_id_, deadline);
  if (!log) {
    return log.error();
  }
  lost_at_ = Deadline::After(options_.lease);
  job_ended_ = !state || state->Ended();
  const auto lines = frames_.Read(*log);
  if (!lines) {
    broken_ = lines.error();
    return {};
  }
  for (const std::string& line : *lines) {
    Take(line, deadline);
  }
  if (job_ended_ && !frames_.closed()) {
    const std::string said = OneLine(frames_.others(), kOthersChars);
    broken_ =
        Error{ErrorCode::kUnavailable,
              "Ray's job " + submission_id_ +
                  (state ? " ended as " + state->status +
                               (state->message.empty() ? "" : " (" + state->message + ")")
                         : " is gone") +
                  " before its driver had told all" + (said.empty() ? "" : "; it said: " + said),
              ""};
  }
  return {};
}

Result<void> RayLauncher::Poll(Deadline deadline) {
  const auto began = Deadline::Clock::now();
  // First the state, then the log: all that a job wrote is there once it has ended.
  const auto state = jobs_.State(submission_id_, deadline);
  Result<void> done = state ? ReadLog(*state, deadline) : Result<void>(state.error());
  const auto took =
      std::chrono::duration_cast<milliseconds>(Deadline::Clock::now() - began) * kQuietShare;
  poll_at_ = Deadline::After(std::max(options_.poll, took));
  return done;
}

Result<std::optional<RankEvent>> RayLauncher::NextEvent(Deadline deadline) {
  while (events_.empty()) {
    if (broken_) {
      return *broken_;
    }
    if (frames_.closed() || why_no_ranks_) {
      return std::optional<RankEvent>();
    }
    if (request_.interrupted != nullptr && request_.interrupted->load()) {
      return Error{ErrorCode::kInterrupted, "interrupted while ranks were running", ""};
    }
    if (deadline.Passed()) {
      return Error{ErrorCode::kTimedOut, "the ranks did not end in time", ""};
    }
    if (renew_at_.Passed()) {
      static_cast<void>(PutOrder(deadline));  // a dashboard that is lost is noticed below
    }
    if (!poll_at_.Passed()) {
      std::this_thread::sleep_for(std::min(kLook, poll_at_.Remaining()));
      continue;
    }
    if (const auto polled = Poll(deadline); !polled && lost_at_.Passed()) {
      broken_ =
          Error{ErrorCode::kUnavailable,
                "Ray's dashboard did not answer for " + std::to_string(options_.lease.count()) +
                    " seconds: " + polled.error().message,
                ""};
    }
  }
  RankEvent event = std::move(events_.front());
  events_.pop_front();
  return std::optional<RankEvent>(std::move(event));
}

RankRun RayLauncher::Collect() {
  RankRun run;
  run.size = request_.ranks;
  run.launcher = name();
  run.planted_faults = request_.plan.faults;
  std::vector<std::pair<int, Result<RankRun>>> documents;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& one = ranks_[rank];
    documents.emplace_back(static_cast<int>(rank),
                           one.output.Document(one.end + (broken_ ? ": " + broken_->message : "")));
  }
  JoinDocuments(documents, run);
  if (trainer_) {
    AddTraining(run);
  }
  return run;
}

void RayLauncher::AddTraining(RankRun& run) const {
  const std::vector<FrameworkExperiment> experiments = trainer_->Experiments(
      broken_              ? broken_->message
      : stop_told_.empty() ? ""
                           : "the job on Ray was stopped (" + stop_told_ + ")");
  for (RankReport& report : run.ranks) {
    if (report.seen.seen() && report.rank >= 0 && report.rank < request_.ranks) {
      RankObservations seen = report.seen.value();
      seen.fsdp_framework.push_back({request_.trainer->step, trainer_->EndOf(report.rank),
                                     experiments[static_cast<std::size_t>(report.rank)]});
      report.seen = std::move(seen);
    }
  }
}

/// The driver has more patience with ranks that clean up than Ray has with a driver.
void RayLauncher::Cancel(Deadline deadline) {
  stop_ = true;
  renew_at_ = Deadline::After(milliseconds(0));
  // Whatever fails here: the deadline ends it, and CleanUp looks what came of it.
  while (!frames_.closed() && !job_ended_ && !deadline.Passed()) {
    if (renew_at_.Passed()) {
      static_cast<void>(PutOrder(deadline));
    }
    if (poll_at_.Passed()) {
      static_cast<void>(Poll(deadline));
    }
    std::this_thread::sleep_for(kLook);
  }
}

bool RayLauncher::WaitUntilEnded(Deadline deadline) {
  while (!job_ended_) {
    const auto state = jobs_.State(submission_id_, deadline);
    job_ended_ = state && (!*state || (*state)->Ended());
    if (job_ended_ || deadline.Passed()) {
      break;
    }
    std::this_thread::sleep_for(std::min(options_.poll / 4, deadline.Remaining()));
  }
  return job_ended_;
}

/// Ray looks at a job each second, and writes one down as failed whose supervisor has ended and
/// that is not in its list any more: a job is gone when it stays away for longer than that takes.
Result<void> RayLauncher::DeleteForGood(Deadline deadline) {
  Deadline gone_at = Deadline::After(options_.stays_away);
  Result<void> failed;
  while (!gone_at.Passed()) {
    const auto state = jobs_.State(submission_id_, deadline);
    failed = !state   ? Result<void>(state.error())
             : *state ? jobs_.Delete(submission_id_, deadline)
                      : Result<void>();
    if (!state || *state) {
      gone_at = Deadline::After(options_.stays_away);
    }
    if (deadline.Passed()) {
      return failed ? Error{ErrorCode::kTimedOut, "it comes back", ""} : failed.error();
    }
    std::this_thread::sleep_for(options_.poll / 4);
  }
  return failed;
}

std::vector<std::string> RayLauncher::CleanUp(Deadline deadline) {
  std::vector<std::string> left;
  if (submission_id_.empty()) {
    return left;
  }
  // A driver that told all ends when it hears that it was heard.
  if (frames_.closed() && !std::exchange(stop_, true)) {
    static_cast<void>(PutOrder(Deadline::After(kStopped)));
  }
  const bool ended = frames_.closed() && WaitUntilEnded(deadline.Within(kStopped / 2));
  if (!ended) {
    static_cast<void>(jobs_.Stop(submission_id_, deadline));  // what came of it is seen next
    WaitUntilEnded(Deadline::After(kStopped));
  }
  const auto removed = DeleteForGood(Deadline::After(kStopped));
  if (!removed) {
    left.push_back("Ray's job " + submission_id_ + " is still there (" + removed.error().message +
                   "): ray job stop " + submission_id_ + "; ray job delete " + submission_id_);
  }
  const bool died_hard =
      started_ && std::any_of(ranks_.begin(), ranks_.end(),
                              [](const Rank& rank) { return !rank.output.Document(rank.end); });
  if (died_hard) {
    for (const std::string& directory : request_.run_directories) {
      left.push_back(directory +
                     " may still be there on the nodes, for a rank died: dlc-check cleanup -c "
                     "CONFIG --run-id " +
                     request_.plan.run_id + " --yes");
    }
  }
  if (trainer_) {
    left.insert(left.end(), trainer_->left().begin(), trainer_->left().end());
    if (trainer_->begun() && !trainer_->closed()) {
      left.push_back(request_.trainer->directory +
                     " may still be there, for Ray Train was not seen to end: dlc-check cleanup -c "
                     "CONFIG --run-id " +
                     request_.plan.run_id + " --yes");
    }
  }
  submission_id_.clear();
  return left;
}

}  // namespace dlc

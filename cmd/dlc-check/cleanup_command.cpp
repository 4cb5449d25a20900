#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "checks/rank_results.h"
#include "cmd/dlc-check/command.h"
#include "cmd/dlc-check/config.h"
#include "cmd/dlc-check/plan.h"
#include "cmd/dlc-check/rank_launcher.h"
#include "cmd/dlc-check/rank_setup.h"
#include "cmd/dlc-check/rank_stage.h"
#include "cmd/dlc-check/signals.h"
#include "probes/documents/node.h"
#include "probes/observations/why_unseen.h"

namespace dlc {
namespace {

/// Nothing of ours leaves a file unchanged that long while it runs, unless a step hangs.
constexpr int kQuietMinutes = 60;
constexpr std::size_t kRunIdDigits = 16;

struct CleanupTarget {
  RankSetup setup;
  RayDashboard ray;
  std::string path;
};

Result<CleanupTarget> ReadTarget(const std::string& config_file) {
  auto config = ReadConfig(config_file);
  if (!config) {
    return config.error();
  }
  const bool on_ray = config->target.type.text == "ray";
  const bool here = config->target.type.text == "local" || config->target.type.text == "env";
  if (!here && !on_ray) {
    return Error{
        ErrorCode::kInvalidInput, config_file + ": no target to look from",
        "target: {type: local, ranks: N} and {type: env} look from this host, type ray from "
        "the nodes"};
  }
  if (config->checkpoint_path.empty()) {
    return Error{ErrorCode::kInvalidInput, config_file + ": there is no checkpoint.path",
                 "what runs leave, they leave there"};
  }
  CleanupTarget target;
  target.setup.run_id = NewRunId();
  target.setup.ranks = std::max(config->target.ranks, 1);
  target.setup.timeout = config->target.timeout;
  target.path = config->checkpoint_path.path;
  if (on_ray) {
    target.setup.ray = RayRanksOf(config->target);
    auto ray = PlanRayDashboard("", &*config, {}, true);
    if (!ray) {
      return std::move(ray).error();
    }
    target.ray = std::move(*ray);
    if (!target.ray.address) {
      return NoDashboard(*config);
    }
  }
  return target;
}

/// Of what several ranks say of one run, the state that asks most of the user.
int Concern(const std::string& state) {
  const char* const order[] = {"removed", "there", "recent", "other-owner", "failed"};
  const auto* const it = std::find(std::begin(order), std::end(order), state);
  return static_cast<int>(it - std::begin(order));
}

std::string StateText(const LeftoverRun& run) {
  if (run.state == "removed") {
    return "removed";
  }
  if (run.state == "recent") {
    return "kept: changed within the last " + std::to_string(kQuietMinutes) +
           " minutes, so it may still run; --run-id " + run.run_id + " removes it nevertheless";
  }
  if (run.state == "other-owner") {
    return "kept: it belongs to uid " + std::to_string(run.uid);
  }
  return run.state == "failed" ? "not removed: " + run.detail : "there; --yes removes it";
}

/// `cleanup`: what runs that died left in the checkpoint path.
class CleanupCommand : public Command {
 public:
  void Register(CLI::App& parent, CommandContext& context, Command** chosen) override {
    CLI::App* app = parent.add_subcommand(
        "cleanup", "list, and with --yes remove, what runs that died left in the checkpoint path");
    app->add_option("-c,--config", config_, "whose target looks at its checkpoint.path")
        ->type_name("CONFIG")
        ->required();
    app->add_option("--run-id", run_id_,
                    "only this run's directory (.dlc-check-ID), also if it was changed lately")
        ->type_name("ID");
    app->add_flag("--yes", yes_, "remove; without it they are listed");
    AddOutputOptions(*app, context, {"text", "json"});
    app->footer(
        "Removes directories named .dlc-check-<run id> that belong to this user, follows no link, "
        "and keeps what was\nchanged within the last " +
        std::to_string(kQuietMinutes) +
        " minutes unless --run-id names it.\n\n"
        "Example: dlc-check cleanup -c examples/local/ranks.yaml --yes\n\n"
        "Exit codes:\n"
        "  0    nothing is there any more\n"
        "  2    usage or config error\n"
        "  3    a rank could not look\n"
        "  6    something is still there\n"
        "  130  interrupted (143: terminated)\n");
    app->callback([this, chosen] { *chosen = this; });
  }

  ExitCode Run(CommandContext& context) override {
    if (!run_id_.empty() && (run_id_.size() != kRunIdDigits ||
                             run_id_.find_first_not_of("0123456789abcdef") != std::string::npos)) {
      return context.Fail({ErrorCode::kInvalidInput, "--run-id '" + run_id_ + "' is no run's id",
                           "16 hex digits, as in .dlc-check-0123456789abcdef"});
    }
    const auto target = ReadTarget(config_);
    if (!target) {
      return context.Fail(target.error());
    }
    Progress progress(context.err, {false, context.quiet, context.verbose});
    const std::optional<LiveCluster> no_api_server;
    const ClusterFacts nothing_known;
    RankLaunchers launchers(target->setup, target->ray, no_api_server, nothing_known);
    auto launcher = launchers.Make(progress);
    if (!launcher.seen()) {
      return context.Fail(launcher.failed()
                              ? launcher.error()
                              : Error{ErrorCode::kPermissionDenied, launcher.why_not().reason, ""});
    }
    const RankStageResult result =
        RunRanks(LeftoverWork(target->setup, {target->path, yes_, run_id_, kQuietMinutes * 60}),
                 target->setup, *launcher.value(), Interrupted(), progress);
    progress.Done();
    return Tell(context, result, target->path);
  }

 private:
  ExitCode Tell(CommandContext& context, const RankStageResult& result,
                const std::string& path) const;
  static void Print(CommandContext& context, const std::map<std::string, LeftoverRun>& runs,
                    const std::string& path);

  std::string config_;
  std::string run_id_;
  bool yes_ = false;
};

ExitCode CleanupCommand::Tell(CommandContext& context, const RankStageResult& result,
                              const std::string& path) const {
  std::map<std::string, LeftoverRun> runs;
  Error blind;
  if (!result.run.seen()) {
    blind = result.run.failed() ? result.run.error()
                                : Error{ErrorCode::kUnavailable, "no rank looked", ""};
  } else {
    for (const auto& rank : ResultsOf(result.run.value(), &RankObservations::leftover_runs)) {
      if (!rank.seen.seen()) {
        blind = {ErrorCode::kUnavailable, rank.name + " could not look: " + WhyUnseen(rank.seen),
                 ""};
        continue;
      }
      for (const LeftoverRun& run : rank.seen.value().runs) {
        const auto [it, first] = runs.emplace(run.run_id, run);
        if (!first && Concern(run.state) > Concern(it->second.state)) {
          it->second = run;
        }
      }
    }
  }
  Print(context, runs, path);
  if (ReceivedSignal() != 0) {
    return ExitCodeOf(RunEnd{Outcome::kIncomplete, ReceivedSignal(), true, false});
  }
  if (!blind.message.empty()) {
    context.Fail(blind);
    return ExitCode::kIncomplete;
  }
  const bool left = std::any_of(runs.begin(), runs.end(),
                                [](const auto& run) { return run.second.state != "removed"; });
  return left || !result.leftovers.empty() ? ExitCode::kLeftovers : ExitCode::kOk;
}

void CleanupCommand::Print(CommandContext& context, const std::map<std::string, LeftoverRun>& runs,
                           const std::string& path) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [id, run] : runs) {
    list.push_back({{"runId", id},
                    {"files", run.files},
                    {"bytes", run.bytes},
                    {"counted", run.counted},
                    {"quietSeconds", run.quiet_seconds},
                    {"uid", run.uid},
                    {"state", run.state},
                    {"detail", run.detail}});
    if (context.format != "json") {
      context.out << path << "/.dlc-check-" << id << ": " << (run.counted ? "" : "more than ")
                  << run.files << " files, " << run.bytes << " bytes: " << StateText(run) << "\n";
    }
  }
  if (context.format == "json") {
    context.out << nlohmann::ordered_json{{"path", path}, {"runs", list}}.dump(
                       2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
                << "\n";
  } else if (runs.empty()) {
    context.out << "nothing of another run was seen in " << path << "\n";
  }
}

}  // namespace

std::vector<std::unique_ptr<Command>> MakeCleanupCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<CleanupCommand>());
  return commands;
}

}  // namespace dlc

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cmd/dlc-check/command.h"
#include "cmd/dlc-check/environment.h"
#include "cmd/dlc-check/observe.h"
#include "cmd/dlc-check/plan.h"
#include "cmd/dlc-check/run_files.h"
#include "cmd/dlc-check/signals.h"
#include "probes/observations/json.h"
#include "reports/render.h"

namespace dlc {
namespace {

constexpr int kMostWorkers = 100'000;

void AddInputOptions(CLI::App& app, RunOptions& options) {
  app.add_option("-c,--config", options.config_file, "where and what to look at (kind: Config)")
      ->type_name("CONFIG");
  app.add_option("--image", options.image,
                 "image reference, instead of the config's; oci:DIR[:tag] reads a layout on disk")
      ->type_name("REF");
  app.add_option("-f,--filename", options.files,
                 "RayCluster manifest or saved 'kubectl get -o json|yaml' output; repeatable")
      ->type_name("FILE");
  app.add_option("--kubeconfig", options.cluster.kubeconfig,
                 "of the live cluster; else KUBECONFIG, ~/.kube/config, this pod's service account")
      ->type_name("FILE");
  app.add_option("--context", options.cluster.context, "of the kubeconfig; else its current one")
      ->type_name("NAME");
  app.add_option("-n,--namespace", options.cluster.name_space,
                 "of the RayCluster; else the context's")
      ->type_name("NAMESPACE");
  app.add_option("--ray-cluster", options.cluster.ray_cluster,
                 "name of the RayCluster, where the namespace has several")
      ->type_name("NAME");
  app.add_option(
         "--ray-address", options.ray_address,
         "Ray's dashboard, http://HOST:8265; else the config's ray.address, else RAY_ADDRESS")
      ->type_name("URL");
}

void AddJudgeOptions(CLI::App& app, RunOptions& options) {
  app.add_option("--policy", options.policy_file,
                 "what is good enough (kind: Policy); else the config's, else built in")
      ->type_name("POLICY");
  app.add_option("--sign-key", options.sign.key,
                 "private key (PEM) to sign the evidence with: FILE or env:NAME")
      ->type_name("KEY");
  app.add_option("--sign-cmd", options.sign.command,
                 "command that signs the SHA-256 digest it gets on stdin (KMS)")
      ->type_name("CMD");
  app.add_option("--sign-pub", options.sign.public_key, "public key of --sign-cmd")
      ->type_name("PUB");
  app.add_flag("--no-sign", options.sign.none,
               "leave the evidence unsigned, and say so everywhere");
}

void AddImportOptions(CLI::App& app, RunOptions& options) {
  app.add_option("--from-nccl-log", options.imports.logs,
                 "judge logs of a run that already happened (NCCL_DEBUG=INFO, one file a rank)")
      ->type_name("DIR");
  app.add_option("--from-nccl-tests", options.imports.tests,
                 "judge the output of nccl-tests, text or JSON (-J)")
      ->type_name("FILE");
}

void AddCheckpointOptions(CLI::App& app, RunOptions& options) {
  app.add_option("--from-checkpoint", options.checkpoints.directories,
                 "judge an existing checkpoint of DCP, Ray Train, DeepSpeed or dlc-check, without "
                 "unpickling; repeatable, one directory for each pod's view of it")
      ->type_name("DIR");
  app.add_option("--workers", options.workers,
                 "ranks that saved it, instead of the config's workload.workers")
      ->check(CLI::Range(1, kMostWorkers))
      ->type_name("N");
}

void AddOutOption(CLI::App& app, RunOptions& options) {
  app.add_option("--out", options.out_dir,
                 "directory for the files of the run (default ./dlc-check-<run id>)")
      ->type_name("DIR");
}

Progress MakeProgress(const CommandContext& context) {
  const char* term = EnvironmentVariable("TERM");
  const bool live = context.err_is_terminal && term != nullptr && std::string(term) != "dumb";
  return Progress(context.err, {live, context.quiet, context.verbose});
}

/// Errors are the user's to mend.
Result<Plan> PlanAndObserve(const RunOptions& options, const CommandContext& context,
                            Progress& progress) {
  auto plan = MakePlan(options, context.argv);
  if (!plan) {
    return plan;
  }
  for (const std::string& warning : plan->warnings) {
    progress.Warn(warning);
  }
  if (plan->ranks.takes_part_only()) {
    plan->took_part = TakePart(*plan, progress);
    return plan;
  }
  if (auto observed = Observe(*plan, progress); !observed) {
    return std::move(observed).error();
  }
  return plan;
}

void TellLeftovers(const CommandContext& context, const std::vector<std::string>& leftovers) {
  for (const std::string& leftover : leftovers) {
    context.err << "dlc-check: left behind: " << leftover << "\n";
  }
}

/// Of a rank whose evidence rank 0 writes. Its verdict is not this one's: who starts ranks, as
/// torchrun, ends all of them when one fails, and rank 0 has still to write.
ExitCode EndOfPart(const CommandContext& context, const Plan& plan) {
  TellLeftovers(context, plan.leftovers);
  if (!context.quiet) {
    context.err << "dlc-check: rank " << plan.ranks.env->rank << " of " << plan.ranks.env->ranks
                << (*plan.took_part ? " took part" : " could not take part")
                << "; rank 0 writes the evidence\n";
  }
  return ExitCodeOf(RunEnd{*plan.took_part ? Outcome::kPassed : Outcome::kIncomplete,
                           ReceivedSignal(), true, !plan.leftovers.empty()});
}

struct WrittenFiles {
  Result<void> as_asked;
  bool unsigned_instead = false;
};

/// A signer that fails must not cost what was observed: the statement can still be signed by hand.
/// One that an interruption ended leaves a report that says so.
WrittenFiles WriteFiles(const Plan& plan, Report& report) {
  const auto& digests = plan.policy.image.digests;
  WrittenFiles written{WriteRunFiles(plan.out_dir, report, digests, plan.signer.get())};
  if (written.as_asked || !plan.signer) {
    return written;
  }
  if (written.as_asked.error().code == ErrorCode::kInterrupted) {
    report.observations.run.interrupted = true;
    report = MakeReport(std::move(report.observations), plan.policy, plan.policy_source);
  }
  written.unsigned_instead = WriteRunFiles(plan.out_dir, report, digests, nullptr).has_value();
  return written;
}

/// `cluster` and the five stage commands.
class RunCommand : public Command {
 public:
  RunCommand(std::string name, std::string description, std::vector<Stage> stages)
      : name_(std::move(name)), description_(std::move(description)) {
    options_.stages = std::move(stages);
  }

  void Register(CLI::App& parent, CommandContext& context, Command** chosen) override {
    CLI::App* app = parent.add_subcommand(name_, description_);
    AddInputOptions(*app, options_);
    AddJudgeOptions(*app, options_);
    if (options_.stages.empty()) {
      app->add_option("--only", options_.only, "only these stages: image,gpu,nccl,fsdp,checkpoint")
          ->delimiter(',')
          ->type_name("STAGE");
    }
    if (name_ == "nccl") {
      AddImportOptions(*app, options_);
    }
    if (name_ == "checkpoint") {
      AddCheckpointOptions(*app, options_);
    }
    AddOutOption(*app, options_);
    std::vector<std::string> formats;
    for (const Renderer& renderer : AllRenderers()) {
      formats.emplace_back(renderer.format);
    }
    AddOutputOptions(*app, context, formats);
    app->footer("Example: dlc-check " + name_ +
                " -c examples/local/dlc-check.yaml --policy examples/local/policy.yaml\n\n" +
                std::string(kRunExitCodesHelp));
    app->callback([this, chosen] { *chosen = this; });
  }

  ExitCode Run(CommandContext& context) override {
    Progress progress = MakeProgress(context);
    auto plan = PlanAndObserve(options_, context, progress);
    if (!plan) {
      return context.Fail(plan.error());
    }
    if (plan->took_part) {
      return EndOfPart(context, *plan);
    }
    if (ReceivedSignal() != 0) {
      ExpectSignalAgain();
    }
    Report report = MakeReport(std::move(plan->observations), plan->policy, plan->policy_source);
    const WrittenFiles written = WriteFiles(*plan, report);
    const Result<void>& signed_files = written.as_asked;
    progress.Done();
    context.out << FindRenderer(context.format)->render(report, {context.Color(), context.verbose});
    if (!signed_files) {
      context.Fail(signed_files.error());
    }
    if ((signed_files || written.unsigned_instead) && !context.quiet) {
      context.err << "dlc-check: "
                  << (written.unsigned_instead ? "unsigned evidence in " : "evidence in ")
                  << plan->out_dir << "\n";
    }
    TellLeftovers(context, plan->leftovers);
    const RunEnd end{report.outcome, ReceivedSignal(), signed_files.has_value(),
                     !plan->leftovers.empty()};
    return ExitCodeOf(end);
  }

 private:
  std::string name_;
  std::string description_;
  RunOptions options_;
};

/// Looks and does not judge.
class SnapshotCommand : public Command {
 public:
  void Register(CLI::App& parent, CommandContext& context, Command** chosen) override {
    CLI::App* app = parent.add_subcommand(
        "snapshot", "look, do not judge: observations only, for 'judge' later");
    AddInputOptions(*app, options_);
    AddOutOption(*app, options_);
    AddOutputOptions(*app, context, {"text", "json"});
    app->footer("Example: dlc-check snapshot -c examples/local/dlc-check.yaml --out snapshot\n\n" +
                std::string(kPlainExitCodesHelp) +
                "  5    the file could not be written\n"
                "  6    otherwise 0, but something this run created is still there\n"
                "  130  interrupted (143: terminated); partial observations written\n");
    app->callback([this, chosen] { *chosen = this; });
    options_.sign.none = true;
  }

  ExitCode Run(CommandContext& context) override {
    Progress progress = MakeProgress(context);
    auto plan = PlanAndObserve(options_, context, progress);
    if (!plan) {
      return context.Fail(plan.error());
    }
    if (plan->took_part) {
      return EndOfPart(context, *plan);
    }
    const auto path = WriteObservations(plan->out_dir, plan->observations);
    progress.Done();
    if (path) {
      context.out << *path << "\n";
    } else {
      context.Fail(path.error());
    }
    TellLeftovers(context, plan->leftovers);
    // No verdict was asked for.
    return ExitCodeOf(
        RunEnd{Outcome::kPassed, ReceivedSignal(), path.has_value(), !plan->leftovers.empty()});
  }

 private:
  RunOptions options_;
};

}  // namespace

std::vector<std::unique_ptr<Command>> MakeRunCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  const auto add = [&](const char* name, const char* description, std::vector<Stage> stages) {
    commands.push_back(std::make_unique<RunCommand>(name, description, std::move(stages)));
  };
  add("cluster", "run the checks of all stages, in order", {});
  add("image", "which artefact really runs: digest, release, Ray version, packages added by jobs",
      {Stage::kImage});
  add("gpu", "per pod: GPUs allotted, visible, usable, advertised", {Stage::kGpu});
  add("nccl", "what carries NCCL's bytes between nodes, are results right, and how fast",
      {Stage::kNccl});
  add("fsdp",
      "do the ranks cut, gather, reduce and train a sharded model to the bit, and the image's "
      "framework too",
      {Stage::kFsdp});
  add("checkpoint",
      "is the shared path shared, durable and fast; what does an existing checkpoint hold",
      {Stage::kCheckpoint});
  commands.push_back(std::make_unique<SnapshotCommand>());
  return commands;
}

}  // namespace dlc

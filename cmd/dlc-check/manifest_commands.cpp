#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <iterator>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "cmd/dlc-check/command.h"
#include "cmd/dlc-check/manifest_text.h"
#include "probes/control/ray/ray_secret.h"

namespace dlc {
namespace {

constexpr std::size_t kLongestName = 63;

/// RFC 1123, as Kubernetes wants the names of namespaces and of most objects. Nothing else may get
/// into the YAML.
bool LooksLikeName(const std::string& text) {
  const auto fits = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !text.empty() && text.size() <= kLongestName && text.front() != '-' &&
         text.back() != '-' && std::all_of(text.begin(), text.end(), fits);
}

/// Stages that a pod without ranks, and without a look into the pods, can pass.
constexpr Stage kJobStages[] = {Stage::kGpu, Stage::kNccl};

bool TakesRanks(Stage stage) {
  return stage == Stage::kFsdp || stage == Stage::kCheckpoint;
}

/// Of the Job: one that can never pass gates nothing.
Result<void> CheckJobStages(const std::vector<Stage>& stages) {
  const auto it = std::find_if(stages.begin(), stages.end(), TakesRanks);
  if (it == stages.end()) {
    return {};
  }
  return Error{ErrorCode::kInvalidInput,
               "--only: the Job has no ranks, and without them stage '" +
                   std::string(StageName(*it)) + "' can only be INCOMPLETE",
               "choose among image, gpu and nccl"};
}

Result<std::vector<Stage>> StagesOf(const std::vector<std::string>& names, bool job) {
  std::set<Stage> stages;
  for (const std::string& name : names) {
    auto stage = ParseStage(name);
    if (!stage) {
      return Error{ErrorCode::kInvalidInput, "--only: " + stage.error().message,
                   stage.error().hint};
    }
    stages.insert(*stage);
  }
  if (names.empty() && job) {
    stages.insert(std::begin(kJobStages), std::end(kJobStages));
  }
  for (int i = 0; names.empty() && !job && i < kStageCount; ++i) {
    stages.insert(static_cast<Stage>(i));
  }
  return std::vector<Stage>(stages.begin(), stages.end());
}

/// What both kinds of manifest take.
void AddManifestOptions(CLI::App& app, ManifestOptions& options, std::vector<std::string>& only,
                        const std::string& stages) {
  app.add_option("-n,--namespace", options.name_space,
                 "of the RayCluster (default " + options.name_space + ")")
      ->type_name("NAMESPACE");
  app.add_option("--name", options.name, "of what is made (default " + options.name + ")")
      ->type_name("NAME");
  app.add_option("--only", only, "for these stages: " + stages)->delimiter(',')->type_name("STAGE");
}

Result<void> Complete(ManifestOptions& options, const std::vector<std::string>& only, bool job) {
  for (const auto& [flag, text] : {std::pair{"--namespace", &options.name_space},
                                   {"--name", &options.name},
                                   {"--evidence-claim", &options.volume_claim}}) {
    if (!LooksLikeName(*text)) {
      return Error{ErrorCode::kInvalidInput,
                   std::string(flag) + " '" + *text + "' is no name of a Kubernetes object",
                   "lower case letters, digits and '-', at most 63"};
    }
  }
  const auto odd = [](unsigned char c) { return c <= ' ' || c == '"' || c == '\'' || c == '#'; };
  if (options.image.empty() || std::any_of(options.image.begin(), options.image.end(), odd)) {
    return Error{ErrorCode::kInvalidInput, "--image '" + options.image + "' is no image reference",
                 ""};
  }
  auto stages = StagesOf(only, job);
  if (!stages) {
    return std::move(stages).error();
  }
  if (auto fit = job ? CheckJobStages(*stages) : Result<void>(); !fit) {
    return fit;
  }
  options.stages = std::move(*stages);
  return {};
}

/// `manifest rbac` and `manifest job`.
class ManifestCommand : public Command {
 public:
  void Register(CLI::App& parent, CommandContext&, Command** chosen) override {
    CLI::App* manifest = parent.add_subcommand(
        "manifest", "YAML to apply: the rights that a run needs, and a Job for CI");
    manifest->require_subcommand(1);
    CLI::App* rbac = manifest->add_subcommand(
        "rbac", "a ServiceAccount, Role and ClusterRole with the least rights for the stages");
    AddManifestOptions(*rbac, options_, only_,
                       "image,gpu,nccl,fsdp,checkpoint (default all of them)");
    rbac->add_option("--ray-cluster", ray_cluster_,
                     "also the right to get this RayCluster's one Secret with Ray's token (KubeRay "
                     "1.5.1, authOptions.mode token), for runs without RAY_AUTH_TOKEN")
        ->type_name("NAME");
    rbac->add_flag("--ranks", options_.ranks,
                   "also the rights to start ranks (target ray) through the API server's service "
                   "proxy; they let who has them run code in the Ray cluster");
    rbac->footer("Example: dlc-check manifest rbac --namespace ray-train | kubectl apply -f -\n\n" +
                 std::string(kPlainExitCodesHelp));
    rbac->callback([this, chosen] {
      print_ = RbacManifest;
      *chosen = this;
    });
    CLI::App* job = manifest->add_subcommand(
        "job", "a Job that runs dlc-check in the cluster, and fails unless the run passed");
    AddManifestOptions(
        *job, options_, only_,
        "image,gpu,nccl (default gpu,nccl: of image, the rules on what runs inside "
        "the pods cannot be looked at from the Job, and need 'severity: warn' in the "
        "policy; fsdp and checkpoint need ranks)");
    job->add_option("--image", options_.image,
                    "of dlc-check itself; examples/kubernetes/Containerfile builds one")
        ->type_name("REF");
    job->add_option(
           "--evidence-claim", options_.volume_claim,
           "PersistentVolumeClaim that gets the evidence (default " + options_.volume_claim + ")")
        ->type_name("NAME");
    job->footer(
        "Example: dlc-check manifest job --image registry.example/dlc-check:0.1.0 | kubectl "
        "apply -f -\n\n" +
        std::string(kPlainExitCodesHelp));
    job->callback([this, chosen] {
      job_ = true;
      print_ = JobManifest;
      *chosen = this;
    });
  }

  ExitCode Run(CommandContext& context) override {
    if (auto done = Complete(options_, only_, job_); !done) {
      return context.Fail(done.error());
    }
    if (!ray_cluster_.empty()) {
      if (!LooksLikeName(ray_cluster_)) {
        return context.Fail({ErrorCode::kInvalidInput,
                             "--ray-cluster '" + ray_cluster_ + "' is no name of a RayCluster",
                             "lower case letters, digits and '-', at most 63"});
      }
      options_.token_secret = RayTokenSecretName(ray_cluster_, "");
    }
    context.out << print_(options_);
    return ExitCode::kOk;
  }

 private:
  ManifestOptions options_;
  std::vector<std::string> only_;
  bool job_ = false;
  std::string ray_cluster_;
  std::string (*print_)(const ManifestOptions&) = nullptr;
};

}  // namespace

std::vector<std::unique_ptr<Command>> MakeManifestCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(std::make_unique<ManifestCommand>());
  return commands;
}

}  // namespace dlc

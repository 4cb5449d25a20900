#include "cmd/dlc-check/plan.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <set>
#include <utility>

#include "checks/policy_yaml.h"
#include "cmd/dlc-check/command_signer.h"
#include "cmd/dlc-check/environment.h"
#include "cmd/dlc-check/file_facts.h"
#include "cmd/dlc-check/passphrase.h"
#include "cmd/dlc-check/rank_setup.h"
#include "cmd/dlc-check/run_files.h"
#include "cmd/dlc-check/signals.h"
#include "cmd/dlc-check/version.h"
#include "probes/control/sha256/sha256.h"
#include "probes/documents/node.h"
#include "probes/input/read_file.h"
#include "probes/observations/digest.h"

namespace dlc {
namespace {

Result<std::vector<Stage>> ChooseStages(const RunOptions& options, const Policy& policy) {
  if (!options.stages.empty()) {
    return options.stages;
  }
  std::set<Stage> chosen(policy.stages.begin(), policy.stages.end());
  if (!options.only.empty()) {
    chosen.clear();
    for (const std::string& name : options.only) {
      auto stage = ParseStage(name);
      if (!stage) {
        return Error{ErrorCode::kInvalidInput, "--only: " + stage.error().message,
                     stage.error().hint};
      }
      chosen.insert(*stage);
    }
  }
  if (chosen.empty()) {
    for (int i = 0; i < kStageCount; ++i) {
      chosen.insert(static_cast<Stage>(i));
    }
  }
  return std::vector<Stage>(chosen.begin(), chosen.end());
}

/// What the Ray containers of the manifests, or else the pods, ask for.
std::set<std::string> ImagesOfCluster(const ClusterFacts& cluster) {
  std::set<std::string> images;
  const auto add = [&](const PodSpec& pod) {
    if (!pod.containers.empty()) {
      images.insert(pod.containers.front().image);
    }
  };
  if (const auto* clusters = cluster.ray_clusters.get()) {
    for (const RayCluster& one : *clusters) {
      add(one.head.pod);
      for (const RayGroup& group : one.workers) {
        add(group.pod);
      }
    }
  } else if (const auto* pods = cluster.pods.get()) {
    for (const Pod& pod : *pods) {
      add(pod.spec);
    }
  }
  return images;
}

Result<void> TakeImage(const std::string& text, const std::string& where, Plan& plan) {
  auto reference = ImageReference::Parse(text);
  if (!reference) {
    return Error{ErrorCode::kInvalidInput, where + reference.error().message,
                 reference.error().hint};
  }
  plan.image = std::move(reference).value();
  return {};
}

Result<void> ChooseImage(const RunOptions& options, const Config* config, Plan& plan) {
  if (!options.image.empty()) {
    return TakeImage(options.image, "--image: ", plan);
  }
  if (config != nullptr && !config->image.reference.empty()) {
    return TakeImage(
        config->image.reference.text,
        fmt::format("{}: line {}: image.reference: ", config->file, config->image.reference.line),
        plan);
  }
  return plan.live ? Result<void>() : ChooseImageOfCluster(plan);
}

/// Whether an API server is asked, and which.
Result<void> ChooseCluster(const RunOptions& options, const Config* config, Plan& plan) {
  const bool files = !options.files.empty() || (config != nullptr && !config->Manifests().empty());
  if (files && !options.cluster.empty()) {
    return Error{ErrorCode::kInvalidInput,
                 "--kubeconfig, --context, --namespace and --ray-cluster name a live cluster, and "
                 "files are given",
                 "drop the files or the flags; cluster.name in the config chooses among manifests"};
  }
  const bool configured = config != nullptr && config->cluster.NamesOne();
  const bool nothing_else = config == nullptr && options.image.empty() && options.imports.empty() &&
                            options.checkpoints.empty();
  if (files || (options.cluster.empty() && !configured && !nothing_else)) {
    return {};
  }
  auto live = PlanLiveCluster(options.cluster, config);
  if (!live && live.error().code == ErrorCode::kNotFound && !options.ray_address.empty() &&
      options.cluster.empty() && !configured) {
    plan.warnings.push_back("no API server is asked: " + live.error().message);
    return {};  // there is a dashboard to ask
  }
  if (!live) {
    return std::move(live).error();
  }
  plan.live = std::move(*live);
  plan.warnings.insert(plan.warnings.end(), plan.live->access.warnings.begin(),
                       plan.live->access.warnings.end());
  plan.observations.run.mode = "live";
  return {};
}

void FillRegistry(const Config* config, Plan& plan) {
  if (const char* directory = EnvironmentVariable("DOCKER_CONFIG");
      directory != nullptr && *directory != '\0') {
    plan.registry.docker_config_dir = directory;
  } else if (const char* home = EnvironmentVariable("HOME"); home != nullptr && *home != '\0') {
    plan.registry.docker_config_dir = std::string(home) + "/.docker";
  }
  plan.registry.interrupted = &Interrupted();
  if (config == nullptr) {
    return;
  }
  plan.registry.ca_file = config->image.registry.ca.path;
  plan.registry.plain_http = config->image.registry.plain_http;
  if (config->image.registry.timeout) {
    plan.registry_timeout = *config->image.registry.timeout;
    plan.registry.timeout =
        std::min<std::chrono::milliseconds>(plan.registry.timeout, plan.registry_timeout);
  }
}

Result<void> CheckTarget(const Config& config) {
  const ConfigText& type = config.target.type;
  if (type.text == "replay") {
    return DocumentError(config.file, type.line, "target 'replay' needs no run",
                         "use 'dlc-check judge OBSERVATIONS --policy POLICY'");
  }
  return {};
}

Result<void> MakeSigner(const SignOptions& sign, Plan& plan) {
  const bool with_command = !sign.command.empty() || !sign.public_key.empty();
  if (sign.none && (with_command || !sign.key.empty())) {
    return Error{ErrorCode::kInvalidInput, "--no-sign contradicts the other signing flags",
                 "drop one of them"};
  }
  if (with_command) {
    if (sign.command.empty() || sign.public_key.empty() || !sign.key.empty()) {
      return Error{ErrorCode::kInvalidInput,
                   "--sign-cmd and --sign-pub go together, without --sign-key", ""};
    }
    auto key = LoadPublicKey(sign.public_key);
    if (!key) {
      return key.error();
    }
    auto signer = MakeCommandSigner(
        {sign.command, std::move(key).value(), timeouts::kSignCommand, &Interrupted()});
    if (!signer) {
      return signer.error();
    }
    plan.signer = std::move(signer).value();
    return {};
  }
  if (!sign.key.empty()) {
    auto loaded = LoadSigningKey(sign.key, AskPassphraseOnTerminal);
    if (!loaded) {
      return Error{ErrorCode::kInvalidInput, loaded.error().message, loaded.error().hint};
    }
    plan.signer = std::move(loaded->signer);
    if (!loaded->warning.empty()) {
      plan.warnings.push_back(loaded->warning);
    }
    return {};
  }
  if (!sign.none) {
    plan.warnings.emplace_back(
        "the evidence will be unsigned; --sign-key KEY signs it, --no-sign silences this");
  }
  return {};
}

/// Nothing of an earlier run is overwritten; better to hear it now than after the run.
Result<void> CheckOutDir(const std::string& directory) {
  std::error_code status;
  const auto kind = std::filesystem::status(directory, status).type();
  if (kind == std::filesystem::file_type::not_found) {
    return {};
  }
  if (kind != std::filesystem::file_type::directory) {
    return Error{ErrorCode::kInvalidInput, "--out '" + directory + "' is not a directory", ""};
  }
  for (const char* name : kRunFileNames) {
    if (std::filesystem::exists(std::filesystem::path(directory) / name, status)) {
      return Error{ErrorCode::kInvalidInput,
                   "--out '" + directory + "' already holds " + name + " of another run",
                   "choose another directory; without --out a new one is made"};
    }
  }
  return {};
}

/// What somebody else's run left is judged instead of what ranks would see.
Result<void> ReadImports(const RunOptions& options, Plan& plan) {
  if (options.imports.empty() && options.checkpoints.empty()) {
    return {};
  }
  plan.ranks.ranks = 0;
  plan.ranks.why_no_ranks = "what an earlier run left is judged";
  return options.imports.empty() ? ReadCheckpointImports(options.checkpoints, plan.observations)
                                 : ReadNcclImports(options.imports, plan.observations);
}

void FillRun(const std::vector<std::string>& argv, Plan& plan) {
  RunFacts& run = plan.observations.run;
  run.id = NewRunId();
  run.mode = "files";
  run.started_at = TimestampNow();
  run.tool_version = kVersion;
  run.tool_commit = kCommit;
  run.invocation = argv;
  if (auto digest = Sha256OfFile("/proc/self/exe"); digest) {
    run.tool_digest = *digest;
  } else {
    plan.warnings.push_back("the tool's own digest is not recorded: " + digest.error().message);
  }
}

/// That of the ranks, which all of them have.
void TakeRunId(const RunOptions& options, Plan& plan) {
  plan.observations.run.id = plan.ranks.run_id;
  plan.out_dir = options.out_dir.empty() ? "dlc-check-" + plan.ranks.run_id : options.out_dir;
}

}  // namespace

Result<void> ChooseImageOfCluster(Plan& plan) {
  const std::set<std::string> images = ImagesOfCluster(plan.observations.cluster);
  if (images.size() == 1) {
    return TakeImage(*images.begin(),
                     plan.live ? "the cluster's image: " : "the manifests' image: ", plan);
  }
  const char* who = plan.live ? "the cluster's Ray containers" : "the manifests";
  plan.observations.served_image =
      NotLookedAt{images.empty() ? fmt::format("no image reference given, and {} show none", who)
                                 : fmt::format("no image reference given, and {} show {}: {}", who,
                                               images.size(), fmt::join(images, ", ")),
                  ""};
  return {};
}

std::string NewRunId() {
  std::array<unsigned char, 8> bytes{};
  // Eight bytes never block nor come short once the kernel's pool is ready, which it is long before
  // a shell.
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    const auto ticks = std::chrono::steady_clock::now().time_since_epoch().count();
    return fmt::format("{:016x}", static_cast<std::uint64_t>(ticks));
  }
  return HexText(bytes);
}

std::string TimestampNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

Result<Policy> ReadPolicySource(const PolicySource& source) {
  return ParsePolicy(source.text, source.name);
}

Result<PolicySource> ChoosePolicySource(const std::string& policy_file, const Config* config) {
  if (!policy_file.empty()) {
    const DocumentLimits limits;
    auto bytes = ReadFileBytes(policy_file, limits.max_bytes);
    if (!bytes) {
      return bytes.error();
    }
    return PolicySource{"file", policy_file, std::move(bytes).value()};
  }
  if (config != nullptr && config->policy) {
    return PolicySource{"inline", config->file, config->bytes};
  }
  return PolicySource{"built-in", "built-in policy", std::string(kDefaultPolicyText)};
}

Result<Plan> MakePlan(const RunOptions& options, const std::vector<std::string>& argv) {
  std::optional<Config> config;
  if (!options.config_file.empty()) {
    auto read = ReadConfig(options.config_file);
    if (!read) {
      return read.error();
    }
    config = std::move(read).value();
    if (auto target = CheckTarget(*config); !target) {
      return target.error();
    }
  }
  const Config* given = config ? &*config : nullptr;

  Plan plan;
  auto source = ChoosePolicySource(options.policy_file, given);
  if (!source) {
    return source.error();
  }
  plan.policy_source = std::move(source).value();
  auto policy = ReadPolicySource(plan.policy_source);
  if (!policy) {
    return policy.error();
  }
  plan.policy = std::move(policy).value();
  auto stages = ChooseStages(options, plan.policy);
  if (!stages) {
    return stages.error();
  }

  FillRun(argv, plan);
  plan.observations.run.stages = std::move(stages).value();
  if (auto cluster = ChooseCluster(options, given, plan); !cluster) {
    return cluster.error();
  }
  FileFacts facts(plan.observations, plan.warnings);
  facts.AddPolicy(plan.policy_source);
  if (auto read = facts.Read(given, options.files); !read) {
    return read.error();
  }
  if (options.workers > 0) {
    plan.observations.run.workload.workers = options.workers;
  }
  auto ray = PlanRayDashboard(options.ray_address, given, plan.observations.run.stages,
                              given != nullptr && given->target.type.text == "ray");
  if (!ray) {
    return ray.error();
  }
  plan.ray = std::move(ray).value();
  auto ranks = MakeRankSetup(given, plan.policy, plan.observations.run, facts.WorkloadModel());
  if (!ranks) {
    return ranks.error();
  }
  plan.ranks = std::move(ranks).value();
  TakeRunId(options, plan);
  if (plan.ranks.takes_part_only()) {
    return plan;
  }
  if (plan.ranks.ray && !plan.ray.address && !plan.live) {
    return NoDashboard(*given);
  }
  if (auto read = ReadImports(options, plan); !read) {
    return read.error();
  }
  if (auto image = ChooseImage(options, given, plan); !image) {
    return image.error();
  }
  if (auto out = CheckOutDir(plan.out_dir); !out) {
    return out.error();
  }
  if (auto signer = MakeSigner(options.sign, plan); !signer) {
    return signer.error();
  }
  FillRegistry(given, plan);
  return plan;
}

}  // namespace dlc

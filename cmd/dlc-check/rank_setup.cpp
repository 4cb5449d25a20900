#include "cmd/dlc-check/rank_setup.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checks/transport_demand.h"
#include "cmd/dlc-check/model_config.h"
#include "probes/documents/node.h"

namespace dlc {
namespace {

/// "meet, fabric-node, ..." of the stages that the run does.
std::string StepNames(const std::vector<StageWork>& works) {
  std::vector<std::string> names;
  for (const StageWork& work : works) {
    for (const PlanStep& step : work.steps) {
      if (std::find(names.begin(), names.end(), step.name) == names.end()) {
        names.push_back(step.name);
      }
    }
    if (work.trainer) {
      names.push_back(work.trainer->step);
    }
  }
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

Result<void> CheckPlantedFaults(const Config& config, const RankSetup& setup,
                                const std::vector<Stage>& stages) {
  std::vector<StageWork> works;
  works.reserve(stages.size());
  for (const Stage stage : stages) {
    works.push_back(WorkOf(stage, setup));
  }
  for (const FaultConfig& planted : config.target.planted_faults) {
    const std::string& step = planted.fault.step;
    const bool there = std::any_of(works.begin(), works.end(), [&](const StageWork& work) {
      return step.empty() ? !work.steps.empty() : HasStep(work, step);
    });
    if (!there) {
      const std::string names = StepNames(works);
      return DocumentError(config.file, planted.line,
                           step.empty()
                               ? "no selected stage starts ranks to plant a fault in"
                               : "no selected stage has a step '" + step + "' to plant a fault in",
                           names.empty() ? "the gpu, nccl, fsdp and checkpoint stages start ranks"
                                         : "the steps are " + names);
    }
    const bool of_trainer = std::any_of(works.begin(), works.end(), [&](const StageWork& work) {
      return work.trainer && work.trainer->step == step;
    });
    if (of_trainer && !IsTrainerFault(planted.fault.kind)) {
      return DocumentError(config.file, planted.line,
                           "'" + planted.fault.kind + "' cannot be planted in '" + step +
                               "' with fsdp.framework.launcher: ray-train",
                           "wrong-seed, lost-moments, exit, crash, kill and sleep can");
    }
  }
  return {};
}

void AddPolicySizes(const FabricPolicy& fabric, RankSetup& setup) {
  if (fabric.min_pair_bandwidth) {
    setup.pair_sizes.push_back(fabric.min_pair_bandwidth->size_bytes);
  }
  if (fabric.max_pair_latency) {
    setup.pair_sizes.push_back(fabric.max_pair_latency->size_bytes);
  }
  for (const BusBandwidthLimit& limit : fabric.min_bus_bandwidth) {
    setup.collective_sizes.push_back(limit.size_bytes);
  }
}

/// 8 bytes to 64 MiB: where latency counts, and where the line is full.
constexpr std::int64_t kNcclSizes[] = {8, std::int64_t{64} << 10, std::int64_t{1} << 20,
                                       std::int64_t{16} << 20, std::int64_t{64} << 20};

void AddNccl(const Policy& policy, RankSetup& setup) {
  const NcclPolicy& nccl = policy.nccl;
  setup.nccl =
      nccl.measure == "required" || (nccl.measure == "with-ranks" && policy.gpu.devices != "no");
  setup.nccl_types = nccl.types;
  setup.nccl_collectives = nccl.collectives;
  std::set<std::int64_t> sizes(nccl.sizes_bytes.begin(), nccl.sizes_bytes.end());
  if (sizes.empty()) {
    sizes.insert(std::begin(kNcclSizes), std::end(kNcclSizes));
  }
  for (const NcclBandwidthLimit& limit : nccl.min_bus_bandwidth) {
    sizes.insert(limit.size_bytes);
  }
  setup.nccl_sizes.assign(sizes.begin(), sizes.end());
  setup.nccl_over_efa = DemandsEfa(policy);
  setup.nccl_over_tcp = nccl.tcp_control;
}

/// TorchTrainer is Ray's: it needs a Ray, and its workers are processes of Ray's own python.
Result<void> CheckFrameworkLauncher(const Config& config, const FsdpPolicy& fsdp,
                                    const std::vector<Stage>& stages) {
  const bool asked = fsdp.framework.launcher == "ray-train" && fsdp.framework.engine != "none" &&
                     fsdp.measure != "no" &&
                     std::find(stages.begin(), stages.end(), Stage::kFsdp) != stages.end();
  if (!asked) {
    return {};
  }
  const TargetConfig& target = config.target;
  if (target.type.text != "ray" && !target.type.empty()) {
    return DocumentError(config.file, target.type.line,
                         "the policy has Ray Train start the framework "
                         "(fsdp.framework.launcher: ray-train), and target " +
                             target.type.text + " has no Ray",
                         "target: {type: ray, ranks: N}, or launcher: rank");
  }
  if (!config.framework.python.empty()) {
    return Error{ErrorCode::kInvalidInput,
                 config.file + ": framework.python names " + config.framework.python +
                     ", and workers of Ray Train (fsdp.framework.launcher: ray-train) run in "
                     "Ray's own python",
                 "leave framework.python out"};
  }
  return {};
}

Result<EnvRank> EnvRankOfTarget(const Config& config) {
  auto env = EnvRankOf();
  if (!env) {
    Error error = env.error();
    error.message = config.file + ": target env: " + error.message;
    return error;
  }
  if (config.target.ranks != 0 && config.target.ranks != env->ranks) {
    return DocumentError(config.file, config.target.type.line,
                         "target.ranks is " + std::to_string(config.target.ranks) +
                             ", and WORLD_SIZE is " + std::to_string(env->ranks),
                         "leave ranks out: who starts the ranks says how many");
  }
  for (const FaultConfig& planted : config.target.planted_faults) {
    if (planted.fault.rank >= env->ranks) {
      return DocumentError(config.file, planted.line,
                           "there is no rank " + std::to_string(planted.fault.rank) +
                               " to plant a fault in: WORLD_SIZE is " + std::to_string(env->ranks),
                           "ranks count from 0");
    }
  }
  return env;
}

/// `known`: the config names the workload's config.json.
Result<void> CheckWorkloadModel(const Config& config, const Policy& policy, bool known) {
  for (const auto& [key, asked] : {std::pair("fsdp.training", &policy.fsdp.training.model),
                                   std::pair("checkpoint", &policy.checkpoint.model)}) {
    if (*asked == kWorkloadModel && !known) {
      return Error{ErrorCode::kInvalidInput,
                   config.file + ": the policy trains the workload's model (" + key +
                       ".model: workload), and there is none",
                   "name its config.json: workload: {modelConfig: config.json}"};
    }
  }
  return {};
}

}  // namespace

RayRanksSetup RayRanksOf(const TargetConfig& target) {
  const RayTargetConfig& ray = target.ray;
  return {ray.gpus_per_rank, ray.placement == "pack" ? "PACK" : "STRICT_SPREAD", ray.wait,
          ray.lease};
}

Result<RankSetup> MakeRankSetup(const Config* config, const Policy& policy, const RunFacts& run,
                                const std::optional<FsdpModel>& model) {
  RankSetup setup;
  setup.workload_model = model;
  setup.run_id = run.id;
  setup.storage = policy.storage;
  setup.checkpoint = policy.checkpoint;
  setup.gpus = policy.gpu.devices != "no";
  AddPolicySizes(policy.fabric, setup);
  AddNccl(policy, setup);
  setup.fsdp = policy.fsdp;
  if (config == nullptr) {
    return setup;
  }
  if (const auto good = CheckFrameworkLauncher(*config, policy.fsdp, run.stages); !good) {
    return good.error();
  }
  const TargetConfig& target = config->target;
  if (target.type.text == "ray") {
    setup.ray = RayRanksOf(target);
  }
  if (target.type.text == "env") {
    auto env = EnvRankOfTarget(*config);
    if (!env) {
      return env.error();
    }
    setup.env = std::move(*env);
    setup.run_id = setup.env->run_id;
  }
  if (target.type.text == "local" || setup.ray || setup.env) {
    if (const auto good = CheckWorkloadModel(*config, policy, model.has_value()); !good) {
      return good.error();
    }
    setup.ranks = setup.env ? setup.env->ranks : std::max(target.ranks, 1);
    setup.checkpoint_path = config->checkpoint_path.path;
    setup.inspect_path = config->checkpoint_inspect.path;
    setup.gpu_seconds = config->gpu.seconds;
    setup.gpu_memory_share = config->gpu.memory_share;
    setup.nccl_library = config->nccl.library.path;
    setup.nccl_host_id_per_rank = config->nccl.host_id_per_rank;
    setup.nccl_log_directory = config->nccl.log_directory.path;
    setup.framework_python = config->framework.python;
    setup.timeout = target.timeout;
    for (const FaultConfig& planted : target.planted_faults) {
      setup.faults.push_back(planted.fault);
    }
  }
  if (const auto good = CheckPlantedFaults(*config, setup, run.stages); !good) {
    return good.error();
  }
  return setup;
}

}  // namespace dlc

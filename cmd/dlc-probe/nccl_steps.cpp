#include "cmd/dlc-probe/nccl_steps.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cmd/dlc-probe/fabric_parameters.h"
#include "probes/node/nccl/efa_counters.h"
#include "probes/node/nccl/measure_nccl.h"
#include "probes/node/nccl/nccl_api.h"
#include "probes/node/nccl/nccl_group.h"
#include "probes/node/nccl/nccl_ras.h"
#include "probes/node/nccl/nccl_settings.h"
#include "probes/node/nccl/nccl_surroundings.h"
#include "probes/node/nccl/rank_gpu.h"
#include "probes/node/net_dev.h"
#include "probes/observations/nccl_log.h"
#include "probes/observations/plan.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

NcclOptions OptionsOf(const NcclCollectivesParameters& parameters, const StepContext& context) {
  NcclOptions options;
  for (const std::string& name : parameters.collectives) {
    options.collectives.push_back(*ParseCollective(name));  // the plan's check has looked at it
  }
  options.sizes_bytes.assign(parameters.sizes_bytes.begin(), parameters.sizes_bytes.end());
  options.type = parameters.type == "bfloat16" ? DataType::kBfloat16 : DataType::kFloat32;
  options.warm_up = parameters.warm_up;
  options.iterations = parameters.iterations;
  const bool flips = context.fault != nullptr && context.fault->kind == "flip-bit";
  options.planted_bit_flip_on_rank = flips ? context.me.rank : -1;
  options.on_collective = [&context](const std::string& collective) {
    context.progress.Say("measuring " + collective);
  };
  return options;
}

constexpr std::chrono::milliseconds kMostToEnd{5'000};
constexpr std::chrono::milliseconds kMostForRas{2'500};
constexpr std::chrono::milliseconds kForWordOfLost{500};

/// Leaves time to abort and to tell what was seen.
Deadline WorkingTime(Deadline whole) {
  const auto left = whole.Remaining();
  return whole.Within(left - std::min(kMostToEnd, left / 5));
}

/// One rank's side of the experiment; `seen` is filled as far as it gets.
class NcclSide {
 public:
  NcclSide(const StepContext& context, const NcclCollectivesParameters& parameters,
           NcclExperiment& seen)
      : context_(context),
        parameters_(parameters),
        seen_(seen),
        deadline_(WorkingTime(context.deadline)) {}

  Result<void> Run() {
    auto ours = OwnSettings();
    if (!ours) {
      return ours.error();
    }
    const auto files = NcclConfigurationFiles();
    const auto jobs = NcclSettings(environ, files);
    auto capture = NcclLogCapture::Start();
    if (!capture) {
      return capture.error();
    }
    SetNcclSettings(*ours);
    const auto logs = capture->Settings();
    ours->insert(ours->end(), logs.begin(), logs.end());
    seen_.settings = NcclSettings(environ, files);
    NameOurSettings(*ours, seen_.settings);
    seen_.replaced_settings = ReplacedSettings(jobs, *ours);
    auto ran = WithLog();
    auto log = capture->Read();
    seen_.log = std::move(log.log);
    seen_.log_digest = log.digest;
    KeepLog(*capture);
    seen_.mapped_libraries = MappedNcclLibraries();
    return ran;
  }

 private:
  void KeepLog(const NcclLogCapture& capture) {
    if (parameters_.log_directory.empty()) {
      seen_.log_file = NotLookedAt{"it was not asked for", ""};
      return;
    }
    const std::string path = parameters_.log_directory + "/" + context_.plan.run_id + "-" +
                             context_.step.name + "-rank" + std::to_string(context_.me.rank) +
                             ".log";
    if (const auto kept = capture.Keep(path); !kept) {
      context_.progress.Say(kept.error().message);
      seen_.log_file = kept.error();
      return;
    }
    seen_.log_file = path;
  }

  Result<std::vector<NcclSetting>> OwnSettings() const {
    auto settings = ParseNcclSettings(parameters_.settings);
    if (settings && parameters_.host_id_per_rank) {
      settings->push_back(NcclHostIdOf(context_.me.rank));
    }
    return settings;
  }

  Result<void> WithLog() {
    seen_.reached.phase = "load";
    const Result<void> opened = OpenLibraries();
    NcclIntroduction mine;
    if (!opened) {
      mine.error = opened.error();
    }
    mine.Name(seen_.library);
    mine.settings = SharedNcclSettings(seen_.settings);
    mine.place = NcclPlace(context_.me.host, context_.me.node);
    seen_.reached.phase = opened ? "introduce" : "load";
    auto ranks = IntroduceForNccl(mine, *context_.exchange, deadline_);
    if (!opened || !ranks) {
      return opened ? ranks.error() : opened.error();
    }
    seen_.interfaces_before = ReadNetDev();
    seen_.efa_counters_before = ReadEfaCounters();
    auto ran = Measure(*ranks);
    seen_.interfaces_after = ReadNetDev();
    std::this_thread::sleep_for(
        std::min(EfaCountersSettle(seen_.efa_counters_before), context_.deadline.Remaining() / 2));
    seen_.efa_counters_after = ReadEfaCounters();
    return ran;
  }

  /// `stopped_by` or the error says what ended it.
  Result<void> Measure(const std::vector<FabricRank>& ranks) {
    seen_.reached.phase = "init";
    context_.progress.Say("making a communicator of NCCL " + seen_.library.library.version);
    auto group = NcclGroup::Open(api_, *gpu_, *context_.exchange, deadline_, context_.deadline,
                                 [this] { AskRas(); });
    if (!group) {
      return WithLostRank(group.error());
    }
    context_.progress.Say("measuring");
    seen_.measured = MeasureNccl(**group, *gpu_, *context_.exchange, ranks,
                                 OptionsOf(parameters_, context_), deadline_, seen_.reached);
    std::erase_if(seen_.measured.ranks,
                  [&](const FabricRank& other) { return other.rank != context_.me.rank; });
    if (seen_.measured.stopped_by) {
      if (seen_.measured.stopped_by->code == ErrorCode::kTimedOut) {
        AskRas();
      }
      seen_.measured.stopped_by = WithLostRank(*seen_.measured.stopped_by);
    }
    return {};
  }

  /// While the communicator is there: NCCL's RAS goes with it.
  void AskRas() {
    context_.progress.Say("asking NCCL's RAS about the other ranks");
    const auto patience = std::min(kMostForRas, context_.deadline.Remaining() / 2);
    seen_.ras = AskNcclRas(api_->version_code, seen_.settings, context_.deadline.Within(patience));
  }

  /// NCCL says that something was lost, and not who; and to the others it says nothing of an error
  /// that is ours alone.
  Error WithLostRank(Error error) {
    const Deadline deadline = context_.deadline.Within(kForWordOfLost);
    const auto found = context_.exchange->LookForLost(deadline);
    if (found && error.code != ErrorCode::kTimedOut) {
      context_.exchange->TellStopped(error.message, context_.deadline.Within(kForWordOfLost));
    }
    if (!found && error.message.find(found.error().message) == std::string::npos) {
      error.message += "; " + found.error().message;
    }
    return error;
  }

  Result<void> OpenLibraries() {
    context_.progress.Say("loading NCCL");
    auto api = NcclApi::Load(parameters_.library);
    if (!api) {
      return api.error();
    }
    api_ = std::move(api).value();
    seen_.library = api_->Describe();
    auto gpu = RankGpu::Open(context_.me.local_rank);
    if (!gpu) {
      return gpu.error();
    }
    gpu_ = std::move(gpu).value();
    seen_.gpu_name = gpu_->Name();
    seen_.gpu_pci_address = gpu_->PciAddress();
    return {};
  }

  const StepContext& context_;
  const NcclCollectivesParameters& parameters_;
  NcclExperiment& seen_;
  Deadline deadline_;
  std::shared_ptr<const NcclApi> api_;
  std::unique_ptr<RankGpu> gpu_;
};

}  // namespace

Result<std::string> RunNcclCollectives(const StepContext& context) {
  const auto parameters = ParseFacts<NcclCollectivesParameters>(context.step.parameters);
  if (!parameters) {
    return parameters.error();
  }
  NcclExperiment seen;
  if (const auto ran = NcclSide(context, *parameters, seen).Run(); !ran) {
    if (seen.library.library.path.empty()) {
      return ran.error();  // nothing was seen that the error does not say
    }
    // Which NCCL it was, and what it logged up to here, may say why.
    seen.measured.stopped_by = ran.error();
  }
  return FactsToJson(seen);
}

Result<void> CheckNcclCollectivesParameters(const std::string& parameters) {
  const auto p = ParseFacts<NcclCollectivesParameters>(parameters);
  if (!p) {
    return p.error();
  }
  if (!p->type.empty() && p->type != "float32" && p->type != "bfloat16") {
    return Error{ErrorCode::kInvalidInput, "$.type: there is no type '" + p->type + "'",
                 "float32, bfloat16"};
  }
  if (const auto settings = ParseNcclSettings(p->settings); !settings) {
    return settings.error();
  }
  const FabricCollectivesParameters same{"", p->collectives, p->sizes_bytes, p->warm_up,
                                         p->iterations};
  return CheckFabricCollectivesParameters(FactsToJson(same));
}

}  // namespace dlc

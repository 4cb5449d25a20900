#include "cmd/dlc-probe/fabric_steps.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "probes/node/fabric/fabric_communicator.h"
#include "probes/node/fabric/measure_collectives.h"
#include "probes/node/fabric/measure_pairs.h"
#include "probes/node/fabric/node_facts.h"
#include "probes/node/net_dev.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

/// The rank itself, and the pairs that it is one of.
void KeepOwn(int rank, FabricMeasurements& measured) {
  std::erase_if(measured.ranks, [&](const FabricRank& other) { return other.rank != rank; });
  std::erase_if(measured.pairs, [&](const PairMeasurement& pair) {
    return pair.rank_a != rank && pair.rank_b != rank;
  });
}

/// `measure` with an open communicator; all around it that the two kinds have in common.
template <class Measure>
Result<std::string> RunFabricExperiment(const StepContext& context, const std::string& provider,
                                        Measure measure) {
  FabricExperiment seen;
  seen.interfaces_before = ReadNetDev();
  context.progress.Say("opening the fabric");
  auto communicator =
      FabricCommunicator::Open(ChooseFabric(provider), *context.exchange, context.deadline);
  if (!communicator) {
    return std::move(communicator).error();
  }
  seen.library = (*communicator)->Transport().Library();
  context.progress.Say("measuring");
  seen.measured = measure(**communicator);
  if (!seen.measured.stopped_by) {
    // A closed endpoint takes no more part in deliveries to slower ranks. A rank that is lost now
    // costs nothing that was measured.
    if (const auto met = context.exchange->Barrier(context.deadline); !met) {
      context.progress.Say(met.error().message);
    }
  }
  seen.interfaces_after = ReadNetDev();
  KeepOwn(context.me.rank, seen.measured);
  return FactsToJson(seen);
}

int FlippingRank(const StepContext& context) {
  return context.fault != nullptr && context.fault->kind == "flip-bit" ? context.me.rank : -1;
}

std::vector<std::size_t> Sizes(const std::vector<std::int64_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace

Result<std::string> RunFabricNode(const StepContext& /*context*/) {
  return FactsToJson(ObserveFabric({}));
}

Result<std::string> RunFabricPairs(const StepContext& context) {
  const auto parameters = ParseFacts<FabricPairsParameters>(context.step.parameters);
  if (!parameters) {
    return parameters.error();
  }
  PairOptions options;
  options.sizes_bytes = Sizes(parameters->sizes_bytes);
  options.warm_up = parameters->warm_up;
  options.latency_iterations = parameters->iterations;
  options.bandwidth_messages = parameters->messages;
  options.window = parameters->window;
  options.planted_bit_flip_on_rank = FlippingRank(context);
  return RunFabricExperiment(context, parameters->provider, [&](FabricCommunicator& communicator) {
    return MeasurePairs(communicator.Transport(), options, context.deadline);
  });
}

Result<std::string> RunFabricCollectives(const StepContext& context) {
  const auto parameters = ParseFacts<FabricCollectivesParameters>(context.step.parameters);
  if (!parameters) {
    return parameters.error();
  }
  CollectiveOptions options;
  options.collectives.clear();
  for (const std::string& name : parameters->collectives) {
    options.collectives.push_back(*ParseCollective(name));  // the plan's check has looked at it
  }
  options.sizes_bytes = Sizes(parameters->sizes_bytes);
  options.warm_up = parameters->warm_up;
  options.iterations = parameters->iterations;
  options.planted_bit_flip_on_rank = FlippingRank(context);
  return RunFabricExperiment(context, parameters->provider, [&](FabricCommunicator& communicator) {
    return MeasureCollectives(communicator, communicator.Transport().Ranks(), options,
                              context.deadline);
  });
}

}  // namespace dlc

#include "probes/observations/ranks_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "probes/observations/json_fields.h"
#include "probes/observations/ranks_fields.h"
#include "probes/observations/strict_json.h"

namespace dlc {
namespace wire {

/// The step's parameters stay JSON in the plan and text in the struct: each kind reads its own.
struct WireStep {
  std::string name;
  std::string kind;
  int deadline_ms = 0;
};
struct WirePlan {
  std::string run_id;
  int join_deadline_ms = 0;
  bool gather = false;
  std::vector<PlantedFault> faults;
};

// clang-format off
template <> struct FieldsOf<WireStep> { static constexpr Field kFields[] = {
    F<&WireStep::name>("name"), F<&WireStep::kind>("kind"),
    F<&WireStep::deadline_ms>("deadlineMs")}; };
template <> struct FieldsOf<WirePlan> { static constexpr Field kFields[] = {
    F<&WirePlan::run_id>("runId"), F<&WirePlan::join_deadline_ms>("joinDeadlineMs"),
    F<&WirePlan::gather>("gather"), F<&WirePlan::faults>("faults")}; };
// clang-format on

}  // namespace wire

namespace {

using wire::Json;

constexpr JsonLimits kLimits{64U << 20U, 32};

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string WithVersion(std::string_view version, const Json& body) {
  Json document = Json::object();
  document.push_back({"apiVersion", version});
  for (const auto& [key, value] : body.items()) {
    document.push_back({key, value});
  }
  return Dump(document);
}

/// The document without its apiVersion, which must be `version`.
Result<Json> ParseVersioned(std::string_view json, std::string_view version) {
  auto document = ParseStrictJson(json, kLimits);
  if (!document) {
    return std::move(document).error();
  }
  const auto it = document->is_object() ? document->find("apiVersion") : document->end();
  if (it == document->end() || *it != version) {
    return Error{ErrorCode::kInvalidInput, "apiVersion is not " + std::string(version),
                 "use dlc-check and dlc-probe of the same release"};
  }
  document->erase("apiVersion");
  return document;
}

template <class T>
Result<T> FromJson(Json& json) {
  T value;
  wire::ReadState state;
  wire::Read(json, value, state);
  if (state.failed) {
    return state.error;
  }
  return value;
}

Error Invalid(const std::string& message) {
  return {ErrorCode::kInvalidInput, message, ""};
}

Result<PlanStep> ReadStep(Json& json, std::size_t index) {
  const std::string where = "$.steps[" + std::to_string(index) + "]: ";
  std::string parameters = "{}";
  if (json.is_object()) {
    if (const auto it = json.find("parameters"); it != json.end()) {
      parameters = Dump(*it);
      json.erase("parameters");
    }
  }
  auto step = FromJson<wire::WireStep>(json);
  if (!step) {
    return Invalid(where + step.error().message);
  }
  if (step->name.empty() || step->kind.empty() || step->deadline_ms <= 0) {
    return Invalid(where + "a step needs a name, a kind and a positive deadlineMs");
  }
  return PlanStep{step->name, step->kind, step->deadline_ms, std::move(parameters)};
}

Result<void> CheckPlan(const RankPlan& plan) {
  const bool hex = plan.run_id.size() == 16 &&
                   plan.run_id.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hex) {
    return Invalid("$.runId: expected 16 hex digits");
  }
  if (plan.join_deadline_ms <= 0) {
    return Invalid("$.joinDeadlineMs: expected a positive number");
  }
  if (plan.steps.empty()) {
    return Invalid("$.steps: no step: there is nothing to do");
  }
  std::set<std::string> names;
  for (const PlanStep& step : plan.steps) {
    if (!names.insert(step.name).second) {
      return Invalid("$.steps: two steps are named '" + step.name + "'");
    }
  }
  for (const PlantedFault& fault : plan.faults) {
    if (!fault.step.empty() && names.find(fault.step) == names.end()) {
      return Invalid("$.faults: no step is named '" + fault.step + "'");
    }
  }
  return {};
}

}  // namespace

std::string RankRunToJson(const RankRun& run) {
  return WithVersion(kRankObservationsApiVersion, wire::Write(run));
}

Result<RankRun> ParseRankRun(std::string_view json) {
  auto document = ParseVersioned(json, kRankObservationsApiVersion);
  return document ? FromJson<RankRun>(*document) : Result<RankRun>(std::move(document).error());
}

std::string RankPlanToJson(const RankPlan& plan) {
  Json body =
      wire::Write(wire::WirePlan{plan.run_id, plan.join_deadline_ms, plan.gather, plan.faults});
  Json steps = Json::array();
  for (const PlanStep& step : plan.steps) {
    Json one = wire::Write(wire::WireStep{step.name, step.kind, step.deadline_ms});
    one["parameters"] = Json::parse(step.parameters, nullptr, false);
    steps.push_back(std::move(one));
  }
  body["steps"] = std::move(steps);
  return WithVersion(kRankPlanApiVersion, body);
}

Result<RankPlan> ParseRankPlan(std::string_view json) {
  auto document = ParseVersioned(json, kRankPlanApiVersion);
  if (!document) {
    return std::move(document).error();
  }
  RankPlan plan;
  if (const auto steps = document->find("steps"); steps != document->end()) {
    if (!steps->is_array()) {
      return Invalid("$.steps: expected a list");
    }
    for (std::size_t i = 0; i < steps->size(); ++i) {
      auto step = ReadStep((*steps)[i], i);
      if (!step) {
        return step.error();
      }
      plan.steps.push_back(std::move(step).value());
    }
    document->erase("steps");
  }
  auto rest = FromJson<wire::WirePlan>(*document);
  if (!rest) {
    return rest.error();
  }
  plan.run_id = std::move(rest->run_id);
  plan.join_deadline_ms = rest->join_deadline_ms;
  plan.gather = rest->gather;
  plan.faults = std::move(rest->faults);
  if (const auto good = CheckPlan(plan); !good) {
    return good.error();
  }
  return plan;
}

std::string RankEventToJson(const RankEvent& event) {
  return FactsToJson(event);
}

Result<RankEvent> ParseRankEvent(std::string_view json) {
  return ParseFacts<RankEvent>(json);
}

template <class T>
std::string FactsToJson(const T& facts) {
  return Dump(wire::Write(facts));
}

template <class T>
Result<T> ParseFacts(std::string_view json) {
  auto document = ParseStrictJson(json, kLimits);
  return document ? FromJson<T>(*document) : Result<T>(std::move(document).error());
}

// One pair per result and per parameters of a kind of step.
template std::string FactsToJson(const RankEvent&);
template std::string FactsToJson(const RankObservations&);
template Result<RankObservations> ParseFacts(std::string_view);
template std::string FactsToJson(const Meeting&);
template Result<Meeting> ParseFacts(std::string_view);
template std::string FactsToJson(const GpuNode&);
template Result<GpuNode> ParseFacts(std::string_view);
template std::string FactsToJson(const GpuCompute&);
template Result<GpuCompute> ParseFacts(std::string_view);
template std::string FactsToJson(const GpuComputeParameters&);
template Result<GpuComputeParameters> ParseFacts(std::string_view);
template std::string FactsToJson(const NodeFabric&);
template Result<NodeFabric> ParseFacts(std::string_view);
template std::string FactsToJson(const FabricExperiment&);
template Result<FabricExperiment> ParseFacts(std::string_view);
template std::string FactsToJson(const FabricPairsParameters&);
template Result<FabricPairsParameters> ParseFacts(std::string_view);
template std::string FactsToJson(const FabricCollectivesParameters&);
template Result<FabricCollectivesParameters> ParseFacts(std::string_view);
template std::string FactsToJson(const NcclExperiment&);
template Result<NcclExperiment> ParseFacts(std::string_view);
template std::string FactsToJson(const NcclCollectivesParameters&);
template Result<NcclCollectivesParameters> ParseFacts(std::string_view);
template std::string FactsToJson(const FsdpLayoutExperiment&);
template Result<FsdpLayoutExperiment> ParseFacts(std::string_view);
template std::string FactsToJson(const FsdpTrainingExperiment&);
template Result<FsdpTrainingExperiment> ParseFacts(std::string_view);
template std::string FactsToJson(const FrameworkExperiment&);
template Result<FrameworkExperiment> ParseFacts(std::string_view);
template std::string FactsToJson(const FrameworkJob&);
template Result<FrameworkRun> ParseFacts(std::string_view);
template std::string FactsToJson(const FsdpFrameworkParameters&);
template Result<FsdpFrameworkParameters> ParseFacts(std::string_view);
template std::string FactsToJson(const FsdpTrainingParameters&);
template Result<FsdpTrainingParameters> ParseFacts(std::string_view);
template std::string FactsToJson(const FsdpLayoutParameters&);
template Result<FsdpLayoutParameters> ParseFacts(std::string_view);
template std::string FactsToJson(const StorageShared&);
template Result<StorageShared> ParseFacts(std::string_view);
template std::string FactsToJson(const StorageSpeed&);
template Result<StorageSpeed> ParseFacts(std::string_view);
template std::string FactsToJson(const CheckpointSave&);
template Result<CheckpointSave> ParseFacts(std::string_view);
template std::string FactsToJson(const CheckpointLoad&);
template Result<CheckpointLoad> ParseFacts(std::string_view);
template std::string FactsToJson(const CheckpointTrainingParameters&);
template Result<CheckpointTrainingParameters> ParseFacts(std::string_view);
template std::string FactsToJson(const CheckpointTree&);
template Result<CheckpointTree> ParseFacts(std::string_view);
template std::string FactsToJson(const LeftoverRuns&);
template Result<LeftoverRuns> ParseFacts(std::string_view);
template std::string FactsToJson(const LeftoverRunsParameters&);
template Result<LeftoverRunsParameters> ParseFacts(std::string_view);
template std::string FactsToJson(const StorageSharedParameters&);
template Result<StorageSharedParameters> ParseFacts(std::string_view);
template std::string FactsToJson(const StorageSpeedParameters&);
template Result<StorageSpeedParameters> ParseFacts(std::string_view);
template std::string FactsToJson(const CheckpointTreeParameters&);
template Result<CheckpointTreeParameters> ParseFacts(std::string_view);

}  // namespace dlc

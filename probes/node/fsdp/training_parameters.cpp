#include "probes/node/fsdp/training_parameters.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace dlc {
namespace {

Error NotToTrain(std::string message, std::string hint = "") {
  return {ErrorCode::kInvalidInput, std::move(message), std::move(hint)};
}

constexpr const char* kPresetNames = "qwen2-tiny, qwen2.5-0.5b, qwen2.5-1.5b";
constexpr std::int64_t kLargestSize = std::int64_t{1} << 24;
constexpr std::int64_t kMostLayers = 1024;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;
constexpr int kMostSteps = 1000;

Result<void> CheckModel(const char* where, const FsdpModel& model) {
  const std::string key = std::string("$.") + where;
  if (model.hidden == 0) {
    return Qwen2Preset(model.name)
               ? Result<void>()
               : Result<void>(NotToTrain(key + ".name: there is no model '" + model.name + "'",
                                         kPresetNames));
  }
  const std::array<std::pair<const char*, std::int64_t>, 6> sizes = {
      {{"hidden", model.hidden},
       {"heads", model.heads},
       {"kvHeads", model.kv_heads},
       {"headSize", model.head_size},
       {"intermediate", model.intermediate},
       {"vocabulary", model.vocabulary}}};
  for (const auto& [name, size] : sizes) {
    if (size < 1 || size > kLargestSize) {
      return NotToTrain(key + "." + name + ": must be from 1 to " + std::to_string(kLargestSize) +
                        ", not " + std::to_string(size));
    }
  }
  if (model.layers < 1 || model.layers > kMostLayers) {
    return NotToTrain(key + ".layers: must be from 1 to " + std::to_string(kMostLayers));
  }
  if (model.heads % model.kv_heads != 0 || model.head_size % 2 != 0) {
    return NotToTrain(key + ": kvHeads must divide heads, and headSize be even");
  }
  if (!(model.rope_theta > 0) || !(model.rms_epsilon > 0)) {
    return NotToTrain(key + ": ropeTheta and rmsEpsilon must be greater than 0");
  }
  return {};
}

Result<void> CheckWord(const char* name, const std::string& word,
                       std::initializer_list<const char*> allowed) {
  std::string list;
  for (const char* one : allowed) {
    if (word == one) {
      return {};
    }
    list += (list.empty() ? "" : ", ") + std::string(*one == '\0' ? "nothing" : one);
  }
  return NotToTrain(std::string("$.") + name + ": there is no '" + word + "'", list);
}

Result<void> CheckAmount(const FsdpTrainingParameters& parameters) {
  if (parameters.rows < 1 || parameters.sequence < 1 || parameters.rows > kMostTokens ||
      parameters.sequence > kMostTokens / parameters.rows) {
    return NotToTrain("$.rows and $.sequence: must be at least 1, and their product at most " +
                      std::to_string(kMostTokens));
  }
  if (parameters.micro_batches < 1 || parameters.micro_batches > kMostSteps ||
      parameters.steps < 1 || parameters.steps > kMostSteps) {
    return NotToTrain("$.microBatches and $.steps: must be from 1 to " +
                      std::to_string(kMostSteps));
  }
  return {};
}

DataType TypeNamed(const std::string& name, DataType otherwise) {
  return name.empty() ? otherwise : name == "bfloat16" ? DataType::kBfloat16 : DataType::kFloat32;
}

}  // namespace

Result<void> CheckFsdpTraining(const FsdpTrainingParameters& parameters) {
  for (const Result<void>& one :
       {CheckModel("model", parameters.model), CheckAmount(parameters),
        CheckWord("backend", parameters.backend, {"", "cpu", "cuda"}),
        CheckWord("compute", parameters.compute, {"", "float32", "bfloat16"}),
        CheckWord("gradients", parameters.gradients, {"", "float32", "bfloat16"}),
        CheckWord("reference", parameters.reference, {"auto", "no"})}) {
    if (!one) {
      return one;
    }
  }
  if (!parameters.predict_model.name.empty()) {
    if (auto good = CheckModel("predictModel", parameters.predict_model); !good) {
      return good;
    }
  }
  for (const std::string& name : parameters.predict) {
    if (!Qwen2Preset(name)) {
      return NotToTrain("$.predict: there is no model '" + name + "'", kPresetNames);
    }
  }
  return {};
}

Qwen2Shape ShapeOf(const FsdpModel& model) {
  if (model.hidden == 0) {
    return *Qwen2Preset(model.name);
  }
  return {model.hidden,      model.layers,        model.heads,      model.kv_heads,
          model.head_size,   model.intermediate,  model.vocabulary, model.rope_theta,
          model.rms_epsilon, model.tied_embedding};
}

TrainingOptions TrainingOptionsOf(const FsdpTrainingParameters& parameters, DataType compute) {
  TrainingOptions options;
  options.shape.model = ShapeOf(parameters.model);
  options.shape.rows = parameters.rows;
  options.shape.sequence = parameters.sequence;
  options.shape.compute = TypeNamed(parameters.compute, compute);
  options.shape.gradients = TypeNamed(parameters.gradients, DataType::kFloat32);
  options.micro_batches = parameters.micro_batches;
  options.steps = parameters.steps;
  options.seed = static_cast<std::uint64_t>(parameters.seed);
  return options;
}

}  // namespace dlc

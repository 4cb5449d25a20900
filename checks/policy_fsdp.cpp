#include "checks/policy_fsdp.h"

#include "checks/policy_words.h"
#include "probes/documents/strict_map.h"

namespace dlc {
namespace {

constexpr int kMostRows = 65536;
constexpr int kLongestSequence = 131072;
constexpr int kMostRepeats = 1000;

const std::vector<std::string>& PresetNames() {
  static const std::vector<std::string> names = {"qwen2-tiny", "qwen2.5-0.5b", "qwen2.5-1.5b"};
  return names;
}

std::vector<std::string> TrainedNames() {
  std::vector<std::string> names = PresetNames();
  names.emplace_back("workload");
  return names;
}

Result<void> ReadTraining(const std::string& file, const DocNode& node, const std::string& where,
                          FsdpTrainingPolicy& training) {
  StrictMap map(file, node, where);
  map.Choice("measure", training.measure, {"with-ranks", "no"});
  map.Choice("model", training.model, TrainedNames());
  map.Choice("backend", training.backend, {"cpu", "cuda"});
  map.Int("rows", training.rows, 1, kMostRows);
  map.Int("sequence", training.sequence, 1, kLongestSequence);
  map.Int("microBatches", training.micro_batches, 1, kMostRepeats);
  map.Int("steps", training.steps, 1, kMostRepeats);
  ReadPolicyWords(map, "predict", PresetNames(), training.predict);
  return map.Finish();
}

Result<void> ReadFramework(const std::string& file, const DocNode& node, const std::string& where,
                           FsdpFrameworkPolicy& framework) {
  constexpr double kLargestDifference = 1;
  constexpr double kMostStepsPerSecond = 1e6;
  StrictMap map(file, node, where);
  map.Choice("engine", framework.engine, {"none", "torch", "deepspeed"});
  if (framework.engine == "deepspeed") {
    framework.strategy = "zero3";
    map.Choice("strategy", framework.strategy, {"zero3"});
  } else {
    map.Choice("strategy", framework.strategy, {"fsdp2", "fsdp1"});
  }
  map.Choice("launcher", framework.launcher, {"rank", "ray-train"});
  double difference = -1;
  map.Double("maxLossDifference", difference, 0, kLargestDifference);
  if (difference >= 0) {
    framework.max_loss_difference = difference;
  }
  map.Double("minStepsPerSecond", framework.min_steps_per_second, 0, kMostStepsPerSecond);
  return map.Finish();
}

}  // namespace

Result<void> ReadFsdpPolicy(const std::string& file, const DocNode& node, const std::string& where,
                            FsdpPolicy& fsdp) {
  const FsdpPolicy all;  // of its layouts the default holds all that there are
  StrictMap map(file, node, where);
  map.Choice("measure", fsdp.measure, {"required", "with-ranks", "no"});
  ReadPolicyWords(map, "layouts", all.layouts, fsdp.layouts);
  ReadPolicyWords(map, "models", PresetNames(), fsdp.models);
  map.Bool("everyUnit", fsdp.every_unit);
  map.Each("training", [&](const DocNode& training) {
    return ReadTraining(file, training, where + ".training", fsdp.training);
  });
  map.Each("framework", [&](const DocNode& framework) {
    auto read = ReadFramework(file, framework, where + ".framework", fsdp.framework);
    if (read && fsdp.framework.engine != "none" && fsdp.training.measure == "no") {
      return Result<void>(Error{ErrorCode::kInvalidInput,
                                "cannot be compared with a native engine that does not train "
                                "(fsdp.training.measure: no)",
                                "leave training.measure out, or set engine: none"});
    }
    return read;
  });
  return map.Finish();
}

Result<void> ReadCheckpointPolicy(const std::string& file, const DocNode& node,
                                  const std::string& where, CheckpointPolicy& checkpoint) {
  constexpr int kMostCheckpointSteps = 100;
  StrictMap map(file, node, where);
  map.Choice("measure", checkpoint.measure, {"with-ranks", "no"});
  map.Choice("model", checkpoint.model, TrainedNames());
  map.Choice("backend", checkpoint.backend, {"cpu", "cuda"});
  map.Int("steps", checkpoint.steps, 1, kMostCheckpointSteps);
  return map.Finish();
}

}  // namespace dlc

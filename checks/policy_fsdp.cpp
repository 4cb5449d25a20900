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

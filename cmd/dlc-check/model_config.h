#pragma once

#include <string>
#include <string_view>

#include "probes/observations/plan.h"
#include "probes/observations/result.h"

namespace dlc {

/// What a model of `workload.modelConfig` is called in plans, observations and the policy
/// (fsdp.training.model).
inline constexpr std::string_view kWorkloadModel = "workload";

/// A config.json of a Qwen2ForCausalLM (transformers, configuration_qwen2.py): of transformers 4,
/// with rope_theta, and of 5, with rope_parameters. What would make it another computation than
/// ours (another architecture, scaled positions, a sliding window, another activation) is
/// kInvalidInput, as is a size that is missing where transformers has a default: a guess is no
/// model of the user's. Keys that change no computation are passed over.
Result<FsdpModel> ParseModelConfig(std::string_view bytes, const std::string& file);

}  // namespace dlc

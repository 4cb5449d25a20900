#include "probes/node/fsdp/training_options.h"

namespace dlc {

std::vector<std::int32_t> MicroBatchTokens(const TrainingOptions& options,
                                           std::uint64_t micro_batch) {
  const TrainingShape& shape = options.shape;
  const std::uint64_t key = TokenKey(options, micro_batch);
  std::vector<std::int32_t> tokens;
  tokens.reserve(static_cast<std::size_t>(shape.rows * (shape.sequence + 1)));
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (std::int64_t position = 0; position <= shape.sequence; ++position) {
      tokens.push_back(SyntheticToken(key, static_cast<std::uint64_t>(row),
                                      static_cast<std::uint64_t>(position),
                                      static_cast<std::uint64_t>(shape.model.vocabulary)));
    }
  }
  return tokens;
}

float InitialMean(const ModelParameter& parameter) {
  return parameter.name.find("norm.weight") == std::string::npos ? 0.0F : 1.0F;
}

}  // namespace dlc

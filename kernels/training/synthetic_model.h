#pragma once

#include <cstdint>
#include <vector>

#include "kernels/training/synthetic.h"
#include "kernels/training/training_backend.h"

namespace dlc {

/// Around which a parameter's weights start: 1 for the norms', else 0.
inline float InitialMean(const ModelParameter& parameter) {
  return parameter.name.ends_with("norm.weight") ? 1.0F : 0.0F;
}

/// Of a micro-batch, as TrainingBackend::Embed takes them: rows * (sequence + 1), by
/// SyntheticToken.
inline std::vector<std::int32_t> SyntheticTokens(const TrainingShape& shape, std::uint64_t key) {
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

}  // namespace dlc

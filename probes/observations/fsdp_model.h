#pragma once

#include <cstdint>
#include <string>

namespace dlc {

/// A Qwen2 decoder by the names of its config.json: a preset's name alone, or all of its sizes.
struct FsdpModel {
  /// "qwen2-tiny", "qwen2.5-0.5b", "qwen2.5-1.5b"; with sizes: what it is called.
  std::string name;
  std::int64_t hidden = 0;  ///< 0: the preset of that name
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  std::int64_t intermediate = 0;
  std::int64_t vocabulary = 0;
  double rope_theta = 0;
  double rms_epsilon = 0;
  bool tied_embedding = false;

  bool operator==(const FsdpModel&) const = default;
};

}  // namespace dlc

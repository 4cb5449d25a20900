#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlc {

/// The sizes of a Qwen2 decoder, by the names of config.json on Hugging Face (Qwen2Config).
struct Qwen2Shape {
  std::int64_t hidden = 0;        ///< hidden_size
  std::int64_t layers = 0;        ///< num_hidden_layers
  std::int64_t heads = 0;         ///< num_attention_heads
  std::int64_t kv_heads = 0;      ///< num_key_value_heads; divides heads
  std::int64_t head_size = 0;     ///< head_dim, else hidden_size / num_attention_heads; even
  std::int64_t intermediate = 0;  ///< intermediate_size
  std::int64_t vocabulary = 0;    ///< vocab_size
  double rope_theta = 0;
  double rms_epsilon = 0;      ///< rms_norm_eps
  bool tied_embedding = true;  ///< tie_word_embeddings: the head's weight is the embedding's

  bool operator==(const Qwen2Shape&) const = default;
};

/// "qwen2-tiny", "qwen2.5-0.5b", "qwen2.5-1.5b"; nullopt for any other name.
std::optional<Qwen2Shape> Qwen2Preset(std::string_view name);

/// One tensor of the model, stored by rows.
struct ModelParameter {
  std::string name;                 ///< "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;  ///< one or two sizes; of a linear layer {out, in}
  int unit = 0;                     ///< layer n is unit n; the rest is the last unit, the root
  std::int64_t unit_offset = 0;     ///< of its first element in the unit's own buffer

  std::int64_t Rows() const { return shape.front(); }
  std::int64_t RowElements() const { return shape.size() == 2 ? shape[1] : 1; }
  std::int64_t Elements() const { return Rows() * RowElements(); }
};

/// Offsets in a unit's buffer are rounded up to so many elements, for the GPU's wide loads. None of
/// Qwen2.5's sizes needs any filling.
inline constexpr std::int64_t kUnitAlignment = 8;

/// All tensors. Of a layer, in this order: q_proj.weight, q_proj.bias, k_proj.weight, k_proj.bias,
/// v_proj.weight, v_proj.bias, o_proj.weight, gate_proj.weight, up_proj.weight, down_proj.weight,
/// input_layernorm.weight, post_attention_layernorm.weight, as torch's named_parameters() has them.
/// Of the root: embed_tokens.weight, norm.weight, and lm_head.weight where it is not tied.
std::vector<ModelParameter> Qwen2Parameters(const Qwen2Shape& shape);

/// Where parameters start in their unit, in elements; those of layer 0 stand for every layer's.
struct Qwen2Places {
  std::int64_t query = 0, query_bias = 0;
  std::int64_t key = 0, key_bias = 0;
  std::int64_t value = 0, value_bias = 0;
  std::int64_t output = 0;
  std::int64_t gate = 0, up = 0, down = 0;
  std::int64_t input_norm = 0, middle_norm = 0;
  std::int64_t embedding = 0, end_norm = 0;  ///< of the root
  std::int64_t head = 0;                     ///< the embedding's where it is tied
};
Qwen2Places Qwen2PlacesOf(const Qwen2Shape& shape);

/// Elements of a unit's buffer, the filling with them.
std::int64_t UnitElements(const std::vector<ModelParameter>& parameters, int unit);

/// Without filling.
std::int64_t ParameterCount(const Qwen2Shape& shape);

}  // namespace dlc

#include "kernels/training/qwen2_shape.h"

namespace dlc {
namespace {

class ParameterList {
 public:
  void Start(int unit, std::string prefix) {
    unit_ = unit;
    prefix_ = std::move(prefix);
    next_ = 0;
  }
  void Add(const char* name, std::vector<std::int64_t> shape) {
    ModelParameter parameter{prefix_ + name, std::move(shape), unit_, next_};
    next_ += (parameter.Elements() + kUnitAlignment - 1) / kUnitAlignment * kUnitAlignment;
    list_.push_back(std::move(parameter));
  }
  std::vector<ModelParameter> Take() { return std::move(list_); }

 private:
  std::vector<ModelParameter> list_;
  int unit_ = 0;
  std::string prefix_;
  std::int64_t next_ = 0;
};

}  // namespace

std::optional<Qwen2Shape> Qwen2Preset(std::string_view name) {
  // Sizes that no power of two divides: padding, tails and odd worlds are met even here.
  if (name == "qwen2-tiny") {
    return Qwen2Shape{60, 3, 6, 2, 10, 148, 509, 10000, 1e-6, true};
  }
  // https://huggingface.co/Qwen/Qwen2.5-0.5B/blob/main/config.json, and of 1.5B.
  if (name == "qwen2.5-0.5b") {
    return Qwen2Shape{896, 24, 14, 2, 64, 4864, 151936, 1e6, 1e-6, true};
  }
  if (name == "qwen2.5-1.5b") {
    return Qwen2Shape{1536, 28, 12, 2, 128, 8960, 151936, 1e6, 1e-6, true};
  }
  return std::nullopt;
}

std::vector<ModelParameter> Qwen2Parameters(const Qwen2Shape& shape) {
  const std::int64_t q = shape.heads * shape.head_size;
  const std::int64_t kv = shape.kv_heads * shape.head_size;
  ParameterList list;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    list.Start(static_cast<int>(layer), "model.layers." + std::to_string(layer) + ".");
    list.Add("self_attn.q_proj.weight", {q, shape.hidden});
    list.Add("self_attn.q_proj.bias", {q});
    list.Add("self_attn.k_proj.weight", {kv, shape.hidden});
    list.Add("self_attn.k_proj.bias", {kv});
    list.Add("self_attn.v_proj.weight", {kv, shape.hidden});
    list.Add("self_attn.v_proj.bias", {kv});
    list.Add("self_attn.o_proj.weight", {shape.hidden, q});
    list.Add("mlp.gate_proj.weight", {shape.intermediate, shape.hidden});
    list.Add("mlp.up_proj.weight", {shape.intermediate, shape.hidden});
    list.Add("mlp.down_proj.weight", {shape.hidden, shape.intermediate});
    list.Add("input_layernorm.weight", {shape.hidden});
    list.Add("post_attention_layernorm.weight", {shape.hidden});
  }
  list.Start(static_cast<int>(shape.layers), "");
  list.Add("model.embed_tokens.weight", {shape.vocabulary, shape.hidden});
  list.Add("model.norm.weight", {shape.hidden});
  if (!shape.tied_embedding) {
    list.Add("lm_head.weight", {shape.vocabulary, shape.hidden});
  }
  return list.Take();
}

Qwen2Places Qwen2PlacesOf(const Qwen2Shape& shape) {
  Qwen2Places places;
  std::int64_t* const in_order[] = {&places.query,    &places.query_bias, &places.key,
                                    &places.key_bias, &places.value,      &places.value_bias,
                                    &places.output,   &places.gate,       &places.up,
                                    &places.down,     &places.input_norm, &places.middle_norm};
  std::size_t next = 0;
  for (const ModelParameter& parameter : Qwen2Parameters(shape)) {
    if (parameter.unit == shape.layers) {
      const bool is_head = parameter.name == "lm_head.weight";
      const bool is_norm = parameter.name == "model.norm.weight";
      (is_head   ? places.head
       : is_norm ? places.end_norm
                 : places.embedding) = parameter.unit_offset;
    } else if (parameter.unit == 0) {
      *in_order[next++] = parameter.unit_offset;
    }
  }
  return places;
}

std::int64_t UnitElements(const std::vector<ModelParameter>& parameters, int unit) {
  std::int64_t end = 0;
  for (const ModelParameter& parameter : parameters) {
    if (parameter.unit == unit) {
      end = parameter.unit_offset + parameter.Elements();
    }
  }
  return (end + kUnitAlignment - 1) / kUnitAlignment * kUnitAlignment;
}

std::int64_t ParameterCount(const Qwen2Shape& shape) {
  std::int64_t count = 0;
  for (const ModelParameter& parameter : Qwen2Parameters(shape)) {
    count += parameter.Elements();
  }
  return count;
}

}  // namespace dlc

#include "kernels/training/cpu_decoder.h"

#include <algorithm>
#include <cstring>

#include "kernels/training/cpu_elementwise.h"

namespace dlc {

bool CpuDecoder::IsUsable(const TrainingShape& shape) {
  const Qwen2Shape& model = shape.model;
  const auto is_float = [](DataType type) {
    return type == DataType::kFloat32 || type == DataType::kBfloat16;
  };
  return model.hidden > 0 && model.layers >= 0 && model.kv_heads > 0 && model.heads > 0 &&
         model.heads % model.kv_heads == 0 && model.head_size > 0 && model.head_size % 2 == 0 &&
         model.intermediate > 0 && model.vocabulary > 0 && shape.rows > 0 && shape.sequence > 0 &&
         is_float(shape.compute) && is_float(shape.gradients);
}

std::uint64_t CpuDecoder::Bytes(const TrainingShape& shape) {
  const std::int64_t floats = CpuDecoder(shape, nullptr).LayOut(nullptr);
  const std::int64_t tables = shape.Tokens() * 4 + shape.sequence * shape.model.head_size;
  return static_cast<std::uint64_t>(floats + tables) * sizeof(float);
}

CpuDecoder::CpuDecoder(const TrainingShape& shape, float* memory)
    : shape_(shape),
      query_size_(shape.model.heads * shape.model.head_size),
      key_size_(shape.model.kv_heads * shape.model.head_size),
      places_(Qwen2PlacesOf(shape.model)) {
  for (ModelParameter& parameter : Qwen2Parameters(shape.model)) {
    if (parameter.unit == 0 && shape.model.layers > 0) {
      layer_parameters_.push_back(std::move(parameter));
    }
  }
  layer_elements_ = UnitElements(layer_parameters_, 0);
  if (memory != nullptr) {
    LayOut(memory);
    rope_ = RopeTableFor(shape.model, shape.sequence);
    exponent_sums_.resize(static_cast<std::size_t>(shape.Tokens()));
  }
}

float* CpuDecoder::Stream(std::int64_t layer) const {
  return layer < shape_.model.layers ? layers_[static_cast<std::size_t>(layer)].input : stream_end_;
}

const float* CpuDecoder::Widened(const void* from, std::int64_t at, std::int64_t count,
                                 float* scratch) const {
  const auto* start = static_cast<const std::byte*>(from) +
                      static_cast<std::size_t>(at) * ElementBytes(shape_.compute);
  if (shape_.compute == DataType::kFloat32) {
    return reinterpret_cast<const float*>(start);
  }
  CpuWiden(start, shape_.compute, count, scratch);
  return scratch;
}

void CpuDecoder::Round(float* values, std::int64_t size) const {
  CpuRound(shape_.compute, values, size * shape_.Tokens());
}

void CpuDecoder::ForwardLayer(int layer, const void* unit) {
  const CpuLayerActivations& at = layers_[static_cast<std::size_t>(layer)];
  const float* weights = Widened(unit, 0, layer_elements_, unit_scratch_);
  ForwardAttention(at, weights);
  ForwardMlp(at, weights, Stream(layer + 1));
}

void CpuDecoder::Normalize(const float* values, const float* inverse, const float* weight) {
  CpuNormalize(Rows(shape_.model.hidden), values, inverse, weight, normed_);
  Round(normed_, shape_.model.hidden);
}

void CpuDecoder::Linear(std::int64_t size, const float* values, const float* weight,
                        const float* bias, std::int64_t outputs, float* out) const {
  CpuLinear(Rows(size), values, weight, bias, outputs, out);
  Round(out, outputs);
}

void CpuDecoder::ForwardAttention(const CpuLayerActivations& at, const float* weights) {
  const std::int64_t hidden = shape_.model.hidden;
  CpuInverseRms(Rows(hidden), at.input, static_cast<float>(shape_.model.rms_epsilon),
                at.input_inverse);
  Normalize(at.input, at.input_inverse, weights + places_.input_norm);
  Linear(hidden, normed_, weights + places_.query, weights + places_.query_bias, query_size_,
         at.query);
  Linear(hidden, normed_, weights + places_.key, weights + places_.key_bias, key_size_, at.key);
  Linear(hidden, normed_, weights + places_.value, weights + places_.value_bias, key_size_,
         at.value);
  CpuRotate(shape_, rope_, 1, shape_.model.heads, at.query);
  CpuRotate(shape_, rope_, 1, shape_.model.kv_heads, at.key);
  Round(at.query, query_size_);
  Round(at.key, key_size_);
  CpuAttend(shape_, {at.query, at.key, at.value, at.attended, at.log_sums}, attention_scratch_);
  Round(at.attended, query_size_);
  Linear(query_size_, at.attended, weights + places_.output, nullptr, hidden, at.middle);
  AddStream(at.input, at.middle);
}

void CpuDecoder::ForwardMlp(const CpuLayerActivations& at, const float* weights, float* out) {
  const std::int64_t hidden = shape_.model.hidden;
  const std::int64_t wide = shape_.model.intermediate;
  CpuInverseRms(Rows(hidden), at.middle, static_cast<float>(shape_.model.rms_epsilon),
                at.middle_inverse);
  Normalize(at.middle, at.middle_inverse, weights + places_.middle_norm);
  Linear(hidden, normed_, weights + places_.gate, nullptr, wide, at.gate);
  Linear(hidden, normed_, weights + places_.up, nullptr, wide, at.up);
  CpuSwiGlu(shape_.Tokens() * wide, at.gate, at.up, product_);
  Round(product_, wide);
  Linear(wide, product_, weights + places_.down, nullptr, hidden, out);
  AddStream(at.middle, out);
}

void CpuDecoder::AddStream(const float* values, float* into) const {
  const std::int64_t count = shape_.Tokens() * shape_.model.hidden;
  for (std::int64_t i = 0; i < count; ++i) {
    into[i] += values[i];
  }
  Round(into, shape_.model.hidden);
}

void CpuDecoder::BackwardLayer(int layer, const void* unit, void* unit_gradient) {
  const CpuLayerActivations& at = layers_[static_cast<std::size_t>(layer)];
  const float* weights = Widened(unit, 0, layer_elements_, unit_scratch_);
  float* gradients = shape_.gradients == DataType::kFloat32 ? static_cast<float*>(unit_gradient)
                                                            : unit_gradient_scratch_;
  BackwardMlp(at, weights, gradients);
  BackwardAttention(at, weights, gradients);
  BackwardProjections(at, weights, gradients);
  if (shape_.gradients == DataType::kFloat32) {
    return;
  }
  for (const ModelParameter& parameter : layer_parameters_) {
    CpuNarrow(gradients + parameter.unit_offset, parameter.Elements(),
              static_cast<std::byte*>(unit_gradient) +
                  static_cast<std::size_t>(parameter.unit_offset) * ElementBytes(shape_.gradients),
              shape_.gradients);
  }
}

void CpuDecoder::BackwardMlp(const CpuLayerActivations& at, const float* weights,
                             float* gradients) {
  const std::int64_t hidden = shape_.model.hidden;
  const std::int64_t wide = shape_.model.intermediate;
  const std::int64_t count = shape_.Tokens() * wide;
  CpuSwiGlu(count, at.gate, at.up, product_);
  Round(product_, wide);
  CpuLinearWeight(Rows(wide), product_, stream_gradient_, hidden, gradients + places_.down,
                  nullptr);
  CpuLinearInput(Rows(wide), stream_gradient_, weights + places_.down, hidden, product_gradient_,
                 false);
  Round(product_gradient_, wide);
  CpuSwiGluBackward(count, at.gate, at.up, product_gradient_, gate_gradient_, up_gradient_);
  Round(gate_gradient_, wide);
  Round(up_gradient_, wide);
  Normalize(at.middle, at.middle_inverse, weights + places_.middle_norm);
  CpuLinearWeight(Rows(hidden), normed_, gate_gradient_, wide, gradients + places_.gate, nullptr);
  CpuLinearWeight(Rows(hidden), normed_, up_gradient_, wide, gradients + places_.up, nullptr);
  CpuLinearInput(Rows(hidden), gate_gradient_, weights + places_.gate, wide, normed_gradient_,
                 false);
  CpuLinearInput(Rows(hidden), up_gradient_, weights + places_.up, wide, normed_gradient_, true);
  NormalizeBackward(at.middle, at.middle_inverse, weights + places_.middle_norm,
                    gradients + places_.middle_norm);
}

void CpuDecoder::NormalizeBackward(const float* values, const float* inverse, const float* weight,
                                   float* weight_gradient) {
  Round(normed_gradient_, shape_.model.hidden);
  CpuNormalizeBackward(Rows(shape_.model.hidden), values, inverse, weight, normed_gradient_,
                       stream_gradient_, weight_gradient);
  Round(stream_gradient_, shape_.model.hidden);
}

void CpuDecoder::BackwardAttention(const CpuLayerActivations& at, const float* weights,
                                   float* gradients) {
  CpuLinearWeight(Rows(query_size_), at.attended, stream_gradient_, shape_.model.hidden,
                  gradients + places_.output, nullptr);
  CpuLinearInput(Rows(query_size_), stream_gradient_, weights + places_.output, shape_.model.hidden,
                 attended_gradient_, false);
  Round(attended_gradient_, query_size_);
  CpuAttentionBackward tensors;
  tensors.forward = {at.query, at.key, at.value, at.attended, at.log_sums};
  tensors.attended_gradient = attended_gradient_;
  tensors.query_gradient = query_gradient_;
  tensors.key_gradient = key_gradient_;
  tensors.value_gradient = value_gradient_;
  CpuAttendBackward(shape_, tensors, attention_scratch_);
  CpuRotate(shape_, rope_, -1, shape_.model.heads, query_gradient_);
  CpuRotate(shape_, rope_, -1, shape_.model.kv_heads, key_gradient_);
  Round(query_gradient_, query_size_);
  Round(key_gradient_, key_size_);
  Round(value_gradient_, key_size_);
}

void CpuDecoder::BackwardProjections(const CpuLayerActivations& at, const float* weights,
                                     float* gradients) {
  const CpuRows rows = Rows(shape_.model.hidden);
  Normalize(at.input, at.input_inverse, weights + places_.input_norm);
  CpuLinearWeight(rows, normed_, query_gradient_, query_size_, gradients + places_.query,
                  gradients + places_.query_bias);
  CpuLinearWeight(rows, normed_, key_gradient_, key_size_, gradients + places_.key,
                  gradients + places_.key_bias);
  CpuLinearWeight(rows, normed_, value_gradient_, key_size_, gradients + places_.value,
                  gradients + places_.value_bias);
  CpuLinearInput(rows, query_gradient_, weights + places_.query, query_size_, normed_gradient_,
                 false);
  CpuLinearInput(rows, key_gradient_, weights + places_.key, key_size_, normed_gradient_, true);
  CpuLinearInput(rows, value_gradient_, weights + places_.value, key_size_, normed_gradient_, true);
  NormalizeBackward(at.input, at.input_inverse, weights + places_.input_norm,
                    gradients + places_.input_norm);
}

}  // namespace dlc

#include "kernels/training/cuda_decoder.cuh"

// A layer, forward and backward. The kernels are launched one after the other into one queue.
namespace dlc {

CudaProduct CudaDecoder::Linear(std::int64_t size, const void* values, const void* weight,
                                std::int64_t outputs, void* out) const {
  CudaProduct product = Product(tokens_, outputs, size, out, shape_.compute);
  product.left = {values, size, false};
  product.right = {weight, size, true};
  return product;
}

CudaProduct CudaDecoder::LinearInput(std::int64_t size, const void* out_gradient,
                                     const void* weight, std::int64_t outputs,
                                     void* gradient) const {
  CudaProduct product = Product(tokens_, size, outputs, gradient, shape_.compute);
  product.left = {out_gradient, outputs, false};
  product.right = {weight, size, false};
  return product;
}

CudaProduct CudaDecoder::LinearWeight(std::int64_t size, const void* values,
                                      const void* out_gradient, std::int64_t outputs,
                                      void* gradient) const {
  CudaProduct product = Product(outputs, size, tokens_, gradient, shape_.gradients);
  product.left = {out_gradient, outputs, true};
  product.right = {values, size, false};
  return product;
}

CudaProduct CudaDecoder::Product(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                 void* out, DataType out_type) const {
  CudaProduct product;
  product.rows = rows;
  product.columns = columns;
  product.depth = depth;
  product.in = shape_.compute;
  product.out = out;
  product.out_step = columns;
  product.out_type = out_type;
  return product;
}

std::byte* CudaDecoder::Stream(int layer) const {
  const auto at = static_cast<std::size_t>(layer);
  return at < layers_.size() ? layers_[at].input : end_;
}

CudaAttention CudaDecoder::AttentionOf(const CudaLayerActivations& at) const {
  const CudaUnit heads(at.heads, shape_.compute);
  CudaAttention work;
  work.type = shape_.compute;
  work.flash_bytes = flash_bytes_;
  work.rows = static_cast<int>(shape_.rows);
  work.sequence = heads_.sequence;
  work.heads = heads_.heads;
  work.kv_heads = heads_.kv_heads;
  work.size = heads_.size;
  work.query = heads[0];
  work.key = heads[query_size_];
  work.value = heads[(query_size_ + width_) / 2];
  work.step = width_;
  work.attended = at.attended;
  work.log_sums = at.log_sums;
  work.attended_gradient = attended_gradient_;
  work.dots = dots_;
  work.query_gradient = heads_gradient_;
  work.gradient_step = width_;
  work.key_parts = key_parts_;
  work.value_parts = value_parts_;
  return work;
}

// In a unit the biases lie between the weights of query, key and value. A copy without them costs
// less than three products, two of which are too small to fill the device.
void CudaDecoder::PackHeads(CudaQueue queue, const CudaUnit& unit) {
  const auto bytes = static_cast<std::int64_t>(ElementBytes(shape_.compute));
  const std::int64_t hidden = shape_.model.hidden;
  const std::int64_t key_size = (width_ - query_size_) / 2;
  CudaSegments segments;
  const auto add = [&](std::int64_t from, std::byte* to, std::int64_t first, std::int64_t count,
                       std::int64_t size) {
    segments.segments[segments.used++] = {unit[from], to + first * size * bytes,
                                          count * size * bytes};
  };
  add(places_.query, packed_, 0, query_size_, hidden);
  add(places_.key, packed_, query_size_, key_size, hidden);
  add(places_.value, packed_, query_size_ + key_size, key_size, hidden);
  add(places_.query_bias, packed_bias_, 0, query_size_, 1);
  add(places_.key_bias, packed_bias_, query_size_, key_size, 1);
  add(places_.value_bias, packed_bias_, query_size_ + key_size, key_size, 1);
  CudaCopySegments(queue, segments);
}

void CudaDecoder::UnpackHeads(CudaQueue queue, const CudaUnitGradient& gradient) {
  const auto bytes = static_cast<std::int64_t>(ElementBytes(shape_.gradients));
  const std::int64_t hidden = shape_.model.hidden;
  const std::int64_t key_size = (width_ - query_size_) / 2;
  CudaSegments segments;
  const auto add = [&](std::int64_t to, std::int64_t first, std::int64_t count) {
    segments.segments[segments.used++] = {packed_gradient_ + first * hidden * bytes, gradient[to],
                                          count * hidden * bytes};
  };
  add(places_.query, 0, query_size_);
  add(places_.key, query_size_, key_size);
  add(places_.value, query_size_ + key_size, key_size);
  CudaCopySegments(queue, segments);
}

void CudaDecoder::ForwardLayer(CudaQueue queue, int layer, const void* unit_at) {
  const CudaUnit unit(unit_at, shape_.compute);
  const CudaLayerActivations& at = layers_[static_cast<std::size_t>(layer)];
  const std::int64_t hidden = shape_.model.hidden;
  const std::int64_t wide = shape_.model.intermediate;
  const auto size = static_cast<int>(hidden);
  const auto epsilon = static_cast<float>(shape_.model.rms_epsilon);

  CudaNormalize(queue, shape_.compute, tokens_, size, at.input, unit[places_.input_norm], epsilon,
                at.input_normed, at.input_inverse);
  PackHeads(queue, unit);
  CudaProduct heads = Linear(hidden, at.input_normed, packed_, width_, at.heads);
  heads.bias = packed_bias_;
  products_.Multiply(queue, heads);
  CudaRotate(queue, shape_.compute, heads_, at.heads);
  CudaAttend(queue, AttentionOf(at));
  CudaProduct output = Linear(query_size_, at.attended, unit[places_.output], hidden, at.middle);
  output.add = at.input;
  products_.Multiply(queue, output);

  CudaNormalize(queue, shape_.compute, tokens_, size, at.middle, unit[places_.middle_norm], epsilon,
                at.middle_normed, at.middle_inverse);
  CudaProduct gate = Linear(hidden, at.middle_normed, unit[places_.gate], wide, at.both);
  gate.out_step = 2 * wide;
  if (places_.up == places_.gate + wide * hidden) {
    gate.columns = 2 * wide;
    products_.Multiply(queue, gate);
  } else {
    products_.Multiply(queue, gate);
    gate.right.data = unit[places_.up];
    gate.out = at.both + wide * static_cast<std::int64_t>(ElementBytes(shape_.compute));
    products_.Multiply(queue, gate);
  }
  CudaSwiGlu(queue, shape_.compute, tokens_, static_cast<int>(wide), at.both, product_);
  CudaProduct down = Linear(wide, product_, unit[places_.down], hidden, Stream(layer + 1));
  down.add = at.middle;
  products_.Multiply(queue, down);
}

void CudaDecoder::BackwardMlp(CudaQueue queue, const CudaLayerActivations& at, const CudaUnit& unit,
                              const CudaUnitGradient& gradient) {
  const std::int64_t hidden = shape_.model.hidden;
  const std::int64_t wide = shape_.model.intermediate;
  products_.Multiply(queue,
                     LinearInput(wide, stream_gradient_, unit[places_.down], hidden, product_));
  CudaSwiGluBackward(queue, shape_.compute, tokens_, static_cast<int>(wide), at.both, product_);
  products_.Multiply(
      queue, LinearWeight(wide, product_, stream_gradient_, hidden, gradient[places_.down]));
  CudaProduct weight =
      LinearWeight(hidden, at.middle_normed, at.both, wide, gradient[places_.gate]);
  CudaProduct input = LinearInput(hidden, at.both, unit[places_.gate], wide, normed_gradient_);
  weight.left.step = 2 * wide;
  input.left.step = 2 * wide;
  if (places_.up == places_.gate + wide * hidden) {
    weight.rows = 2 * wide;
    input.depth = 2 * wide;
    products_.Multiply(queue, weight);
    products_.Multiply(queue, input);
    return;
  }
  products_.Multiply(queue, weight);
  products_.Multiply(queue, input);
  const std::byte* up = at.both + wide * static_cast<std::int64_t>(ElementBytes(shape_.compute));
  weight.left.data = up;
  weight.out = gradient[places_.up];
  products_.Multiply(queue, weight);
  input.left.data = up;
  input.right.data = unit[places_.up];
  input.add = normed_gradient_;
  products_.Multiply(queue, input);
}

void CudaDecoder::BackwardAttention(CudaQueue queue, const CudaLayerActivations& at,
                                    const CudaUnit& unit, const CudaUnitGradient& gradient) {
  const std::int64_t hidden = shape_.model.hidden;
  products_.Multiply(queue, LinearWeight(query_size_, at.attended, stream_gradient_, hidden,
                                         gradient[places_.output]));
  products_.Multiply(queue, LinearInput(query_size_, stream_gradient_, unit[places_.output], hidden,
                                        attended_gradient_));
  CudaAttendBackward(queue, AttentionOf(at));
  CudaRotateBackward(queue, shape_.compute, heads_, heads_gradient_, key_parts_, value_parts_,
                     bias_parts_);
  PackHeads(queue, unit);
  products_.Multiply(
      queue, LinearWeight(hidden, at.input_normed, heads_gradient_, width_, packed_gradient_));
  UnpackHeads(queue, gradient);
  products_.Multiply(queue,
                     LinearInput(hidden, heads_gradient_, packed_, width_, normed_gradient_));
}

/// What was summed in parts: gradients of the norms' weights and of the biases.
void CudaDecoder::FinishLayer(CudaQueue queue, const CudaUnitGradient& gradient) {
  const int hidden = static_cast<int>(shape_.model.hidden);
  const int norms = CudaNormParts(tokens_);
  const int parts = CudaRotateParts(heads_);
  const auto query = static_cast<int>(query_size_);
  const auto width = static_cast<int>(width_);
  const int key = (width - query) / 2;
  CudaColumnSums sums;
  sums.sums[0] = {input_norm_parts_, norms, hidden, hidden, gradient[places_.input_norm]};
  sums.sums[1] = {middle_norm_parts_, norms, hidden, hidden, gradient[places_.middle_norm]};
  sums.sums[2] = {bias_parts_, parts, width, query, gradient[places_.query_bias]};
  sums.sums[3] = {bias_parts_ + query, parts, width, key, gradient[places_.key_bias]};
  sums.sums[4] = {bias_parts_ + query + key, parts, width, key, gradient[places_.value_bias]};
  sums.used = 5;
  CudaAddColumns(queue, shape_.gradients, sums);
}

void CudaDecoder::BackwardLayer(CudaQueue queue, int layer, const void* unit_at,
                                void* unit_gradient) {
  const CudaUnit unit(unit_at, shape_.compute);
  const CudaUnitGradient gradient(unit_gradient, shape_.gradients);
  const CudaLayerActivations& at = layers_[static_cast<std::size_t>(layer)];
  const auto hidden = static_cast<int>(shape_.model.hidden);
  CudaNormGradient norm;
  norm.out_gradient = normed_gradient_;
  norm.gradient = stream_gradient_;
  norm.add = true;

  BackwardMlp(queue, at, unit, gradient);
  norm.values = at.middle;
  norm.inverse = at.middle_inverse;
  norm.weight = unit[places_.middle_norm];
  norm.parts = middle_norm_parts_;
  CudaNormalizeBackward(queue, shape_.compute, tokens_, hidden, norm);

  BackwardAttention(queue, at, unit, gradient);
  norm.values = at.input;
  norm.inverse = at.input_inverse;
  norm.weight = unit[places_.input_norm];
  norm.parts = input_norm_parts_;
  CudaNormalizeBackward(queue, shape_.compute, tokens_, hidden, norm);
  FinishLayer(queue, gradient);
}

}  // namespace dlc

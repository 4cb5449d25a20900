#include <algorithm>
#include <cstring>

#include "kernels/training/cuda_decoder.cuh"

// What works on the root unit: embedding, final norm, head and loss.
namespace dlc {

bool CudaDecoder::Embed(CudaQueue queue, const void* root, const std::int32_t* tokens) {
  const Qwen2Shape& model = shape_.model;
  const std::int64_t step = shape_.sequence + 1;
  const auto known = [&](std::int32_t token) { return token >= 0 && token < model.vocabulary; };
  if (!std::all_of(tokens, tokens + shape_.rows * step, known)) {
    return false;
  }
  // The last copy out of the staged tokens: of an earlier micro-batch.
  if (!queue.calls.Ok(cudaEventSynchronize(copied_), "cudaEventSynchronize of tokens")) {
    return true;
  }
  std::int32_t* const inputs = staged_;
  std::int32_t* const targets = inputs + tokens_;
  std::int32_t* const words = targets + tokens_;
  std::int32_t* const order = words + tokens_;
  std::int32_t* const starts = order + tokens_;
  for (std::int64_t row = 0; row < shape_.rows; ++row) {
    std::copy_n(tokens + row * step, shape_.sequence, inputs + row * shape_.sequence);
    std::copy_n(tokens + row * step + 1, shape_.sequence, targets + row * shape_.sequence);
  }
  // For the backward: by word, and of each word in the order of tokens.
  std::vector<std::uint64_t> sorted(static_cast<std::size_t>(tokens_));
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    sorted[i] = static_cast<std::uint64_t>(inputs[i]) << 32 | i;
  }
  std::sort(sorted.begin(), sorted.end());
  words_count_ = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const auto word = static_cast<std::int32_t>(sorted[i] >> 32);
    order[i] = static_cast<std::int32_t>(sorted[i] & 0xffffffffU);
    if (words_count_ == 0 || words[words_count_ - 1] != word) {
      words[words_count_] = word;
      starts[words_count_++] = static_cast<std::int32_t>(i);
    }
  }
  starts[words_count_] = static_cast<std::int32_t>(tokens_);
  if (queue.calls.Ok(cudaMemcpyAsync(inputs_, staged_,
                                     static_cast<std::size_t>(5 * tokens_ + 1) * sizeof *staged_,
                                     cudaMemcpyHostToDevice, queue.stream),
                     "cudaMemcpyAsync of tokens") &&
      queue.calls.Ok(cudaEventRecord(copied_, queue.stream), "cudaEventRecord")) {
    CudaEmbedRows(queue, shape_.compute, tokens_, static_cast<int>(model.hidden),
                  CudaUnit(root, shape_.compute)[places_.embedding], inputs_, Stream(0));
  }
  return true;
}

void CudaDecoder::LossOfChunk(CudaQueue queue, std::int64_t first, const void* head,
                              void* head_gradient) {
  const std::int64_t hidden = shape_.model.hidden;
  const std::int64_t rows = std::min(chunk_, tokens_ - first);
  const std::int64_t at = first * hidden * static_cast<std::int64_t>(ElementBytes(shape_.compute));
  CudaProduct product =
      Linear(hidden, end_normed_ + at, head, shape_.model.vocabulary, logits_);
  product.rows = rows;
  product.out_step = logits_step_;
  products_.Multiply(queue, product);

  CudaLogits logits;
  logits.values = logits_;
  logits.rows = rows;
  logits.step = logits_step_;
  logits.vocabulary = static_cast<int>(shape_.model.vocabulary);
  logits.targets = targets_ + first;
  logits.losses = losses_ + first;
  logits.share = 1.0F / static_cast<float>(tokens_);
  CudaCrossEntropy(queue, shape_.compute, logits);

  product = LinearInput(hidden, logits_, head, shape_.model.vocabulary, normed_gradient_ + at);
  product.rows = rows;
  product.left.step = logits_step_;
  products_.Multiply(queue, product);

  product =
      LinearWeight(hidden, end_normed_ + at, logits_, shape_.model.vocabulary, head_gradient);
  product.depth = rows;
  product.left.step = logits_step_;
  product.add = first > 0 ? head_gradient : nullptr;
  products_.Multiply(queue, product);
}

void CudaDecoder::Loss(CudaQueue queue, const void* root, void* root_gradient, float* loss) {
  const CudaUnit unit(root, shape_.compute);
  const CudaUnitGradient gradient(root_gradient, shape_.gradients);
  const auto hidden = static_cast<int>(shape_.model.hidden);
  CudaNormalize(queue, shape_.compute, tokens_, hidden, end_, unit[places_.end_norm],
                static_cast<float>(shape_.model.rms_epsilon), end_normed_, end_inverse_);
  if (!shape_.model.tied_embedding) {
    const std::size_t bytes =
        static_cast<std::size_t>(shape_.model.vocabulary) * static_cast<std::size_t>(hidden) *
        ElementBytes(shape_.gradients);
    queue.calls.Ok(cudaMemsetAsync(gradient[places_.embedding], 0, bytes, queue.stream),
                   "cudaMemsetAsync of the embedding's gradient");
  }
  for (std::int64_t first = 0; first < tokens_; first += chunk_) {
    LossOfChunk(queue, first, unit[places_.head], gradient[places_.head]);
  }
  CudaMean(queue, losses_, tokens_, loss);

  CudaNormGradient norm;
  norm.values = end_;
  norm.inverse = end_inverse_;
  norm.weight = unit[places_.end_norm];
  norm.out_gradient = normed_gradient_;
  norm.gradient = stream_gradient_;
  norm.parts = input_norm_parts_;
  CudaNormalizeBackward(queue, shape_.compute, tokens_, hidden, norm);
  CudaColumnSums sums;
  sums.sums[0] = {input_norm_parts_, CudaNormParts(tokens_), hidden, hidden,
                  gradient[places_.end_norm]};
  sums.used = 1;
  CudaAddColumns(queue, shape_.gradients, sums);
}

void CudaDecoder::BackwardEmbed(CudaQueue queue, void* root_gradient) {
  CudaEmbedGradient work;
  work.gradient = stream_gradient_;
  work.words = words_;
  work.starts = starts_;
  work.order = order_;
  work.count = words_count_;
  work.table_gradient = CudaUnitGradient(root_gradient, shape_.gradients)[places_.embedding];
  work.table_type = shape_.gradients;
  CudaEmbedBackward(queue, shape_.compute, static_cast<int>(shape_.model.hidden), work);
}

}  // namespace dlc

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/training/cpu_decoder.h"
#include "kernels/training/cpu_elementwise.h"
#include "kernels/training/cpu_matrix.h"

// What works on the root unit: embedding, final norm, head and loss; and where the buffers lie.
namespace dlc {
namespace {

constexpr std::int64_t kTokensOfTile = 128;
constexpr std::int64_t kWordsOfTile = 512;

std::byte* ElementAt(void* start, std::int64_t element, DataType type) {
  return static_cast<std::byte*>(start) + static_cast<std::size_t>(element) * ElementBytes(type);
}

/// Hands out parts of one piece of memory; without one, counts.
class CpuArena {
 public:
  explicit CpuArena(float* memory) : memory_(memory) {}
  void Take(std::int64_t floats, float*& to) {
    to = memory_ != nullptr ? memory_ + used_ : nullptr;
    used_ += (floats + 15) / 16 * 16;
  }
  std::int64_t Used() const { return used_; }

 private:
  float* memory_;
  std::int64_t used_ = 0;
};

}  // namespace

std::int64_t CpuDecoder::LayOut(float* memory) {
  CpuArena arena(memory);
  const Qwen2Shape& model = shape_.model;
  const std::int64_t tokens = shape_.Tokens();
  layers_.resize(static_cast<std::size_t>(model.layers));
  for (CpuLayerActivations& layer : layers_) {
    for (float** to : {&layer.input, &layer.middle}) {
      arena.Take(tokens * model.hidden, *to);
    }
    for (float** to : {&layer.input_inverse, &layer.middle_inverse}) {
      arena.Take(tokens, *to);
    }
    for (float** to : {&layer.query, &layer.attended}) {
      arena.Take(tokens * query_size_, *to);
    }
    for (float** to : {&layer.key, &layer.value}) {
      arena.Take(tokens * key_size_, *to);
    }
    for (float** to : {&layer.gate, &layer.up}) {
      arena.Take(tokens * model.intermediate, *to);
    }
    arena.Take(tokens * model.heads, layer.log_sums);
  }
  for (float** to : {&stream_end_, &stream_gradient_, &normed_, &normed_gradient_}) {
    arena.Take(tokens * model.hidden, *to);
  }
  for (float** to : {&attended_gradient_, &query_gradient_}) {
    arena.Take(tokens * query_size_, *to);
  }
  for (float** to : {&key_gradient_, &value_gradient_}) {
    arena.Take(tokens * key_size_, *to);
  }
  for (float** to : {&product_, &product_gradient_, &gate_gradient_, &up_gradient_}) {
    arena.Take(tokens * model.intermediate, *to);
  }
  for (float** to : {&end_inverse_, &largest_logits_, &target_logits_, &log_sums_}) {
    arena.Take(tokens, *to);
  }
  arena.Take(CpuAttentionScratch(shape_), attention_scratch_);
  arena.Take(kTokensOfTile * kWordsOfTile, logits_);
  if (shape_.compute != DataType::kFloat32) {
    arena.Take(layer_elements_, unit_scratch_);
    arena.Take(kWordsOfTile * model.hidden, head_scratch_);
    arena.Take(model.hidden, norm_scratch_);
  }
  if (shape_.gradients != DataType::kFloat32) {
    arena.Take(layer_elements_, unit_gradient_scratch_);
    arena.Take(kWordsOfTile * model.hidden, head_gradient_scratch_);
  }
  arena.Take(model.hidden, row_scratch_);
  arena.Take(model.hidden, sum_scratch_);
  return arena.Used();
}

bool CpuDecoder::Embed(const void* root, const std::int32_t* tokens) {
  const Qwen2Shape& model = shape_.model;
  const std::int64_t step = shape_.sequence + 1;
  const auto known = [&](std::int32_t token) { return token >= 0 && token < model.vocabulary; };
  if (!std::all_of(tokens, tokens + shape_.rows * step, known)) {
    return false;
  }
  inputs_.clear();
  targets_.clear();
  float* stream = Stream(0);
  for (std::int64_t row = 0; row < shape_.rows; ++row) {
    for (std::int64_t position = 0; position < shape_.sequence; ++position) {
      const std::int32_t token = tokens[row * step + position];
      inputs_.push_back(token);
      targets_.push_back(tokens[row * step + position + 1]);
      const float* vector =
          Widened(root, places_.embedding + token * model.hidden, model.hidden, row_scratch_);
      stream = std::copy_n(vector, model.hidden, stream);
    }
  }
  return true;
}

const float* CpuDecoder::HeadRows(const void* root, const CpuHeadTile& tile) const {
  return Widened(root, places_.head + tile.first_word * shape_.model.hidden,
                 tile.words * shape_.model.hidden, head_scratch_);
}

void CpuDecoder::Logits(const CpuHeadTile& tile, const float* head) const {
  const std::int64_t hidden = shape_.model.hidden;
  CpuLinear({tile.tokens, hidden}, normed_ + tile.first_token * hidden, head, nullptr, tile.words,
            logits_);
  CpuRound(shape_.compute, logits_, tile.tokens * tile.words);
}

void CpuDecoder::SumExponents(const CpuHeadTile& tile) {
  for (std::int64_t i = 0; i < tile.tokens; ++i) {
    const auto token = static_cast<std::size_t>(tile.first_token + i);
    const float* logits = logits_ + i * tile.words;
    const float largest = *std::max_element(logits, logits + tile.words);
    const float was = largest_logits_[token];
    const float now = std::max(was, largest);
    double sum = 0;
    for (std::int64_t word = 0; word < tile.words; ++word) {
      sum += static_cast<double>(std::exp(logits[word] - now));
    }
    exponent_sums_[token] = tile.first_word == 0
                                ? sum
                                : exponent_sums_[token] * std::exp(static_cast<double>(was) -
                                                                   static_cast<double>(now)) +
                                      sum;
    largest_logits_[token] = now;
    const std::int64_t target = targets_[token] - tile.first_word;
    if (target >= 0 && target < tile.words) {
      target_logits_[token] = logits[target];
    }
  }
}

void CpuDecoder::LogitGradients(const CpuHeadTile& tile) const {
  const float share = 1.0F / static_cast<float>(shape_.Tokens());
  for (std::int64_t i = 0; i < tile.tokens; ++i) {
    const auto token = static_cast<std::size_t>(tile.first_token + i);
    float* logits = logits_ + i * tile.words;
    for (std::int64_t word = 0; word < tile.words; ++word) {
      const float probability = std::exp(logits[word] - log_sums_[token]);
      const float hit = targets_[token] == tile.first_word + word ? 1.0F : 0.0F;
      logits[word] = (probability - hit) * share;
    }
  }
  CpuRound(shape_.compute, logits_, tile.tokens * tile.words);
}

float CpuDecoder::MeanLoss() {
  double sum = 0;
  for (std::size_t token = 0; token < targets_.size(); ++token) {
    const double log_sum =
        static_cast<double>(largest_logits_[token]) + std::log(exponent_sums_[token]);
    log_sums_[token] = static_cast<float>(log_sum);
    sum += log_sum - static_cast<double>(target_logits_[token]);
  }
  return static_cast<float>(sum / static_cast<double>(targets_.size()));
}

/// Words outside, tokens inside: a tile's rows of the head are read once.
template <class Body>
void CpuDecoder::ForEachHeadTile(const void* root, Body body) {
  CpuHeadTile tile;
  for (; tile.first_word < shape_.model.vocabulary; tile.first_word += kWordsOfTile) {
    tile.words = std::min(kWordsOfTile, shape_.model.vocabulary - tile.first_word);
    const float* head = HeadRows(root, tile);
    for (tile.first_token = 0; tile.first_token < shape_.Tokens();
         tile.first_token += kTokensOfTile) {
      tile.tokens = std::min(kTokensOfTile, shape_.Tokens() - tile.first_token);
      Logits(tile, head);
      body(tile, head);
    }
  }
}

void CpuDecoder::Loss(const void* root, void* root_gradient, float* loss) {
  const std::int64_t hidden = shape_.model.hidden;
  const float* norm = Widened(root, places_.end_norm, hidden, norm_scratch_);
  CpuInverseRms(Rows(hidden), stream_end_, static_cast<float>(shape_.model.rms_epsilon),
                end_inverse_);
  Normalize(stream_end_, end_inverse_, norm);
  std::fill_n(largest_logits_, shape_.Tokens(), -INFINITY);
  ForEachHeadTile(root, [&](const CpuHeadTile& tile, const float*) { SumExponents(tile); });
  *loss = MeanLoss();

  if (places_.head != places_.embedding) {
    std::memset(ElementAt(root_gradient, places_.embedding, shape_.gradients), 0,
                static_cast<std::size_t>(shape_.model.vocabulary * hidden) *
                    ElementBytes(shape_.gradients));
  }
  BackwardHead(root, root_gradient);
  std::fill_n(stream_gradient_, shape_.Tokens() * hidden, 0.0F);
  NormalizeBackward(stream_end_, end_inverse_, norm, row_scratch_);
  CpuNarrow(row_scratch_, hidden, ElementAt(root_gradient, places_.end_norm, shape_.gradients),
            shape_.gradients);
}

void CpuDecoder::BackwardHead(const void* root, void* root_gradient) {
  const std::int64_t hidden = shape_.model.hidden;
  ForEachHeadTile(root, [&](const CpuHeadTile& tile, const float* head) {
    LogitGradients(tile);
    const std::int64_t at = tile.first_token * hidden;
    CpuLinearInput({tile.tokens, hidden}, logits_, head, tile.words, normed_gradient_ + at,
                   tile.first_word > 0);
    std::byte* place =
        ElementAt(root_gradient, places_.head + tile.first_word * hidden, shape_.gradients);
    const bool in_place = shape_.gradients == DataType::kFloat32;
    float* gradients = in_place ? reinterpret_cast<float*>(place) : head_gradient_scratch_;
    CpuMultiply(tile.words, hidden, tile.tokens, {logits_, 1, tile.words},
                {normed_ + at, hidden, 1}, {gradients, hidden, tile.first_token > 0});
    if (!in_place && tile.first_token + tile.tokens == shape_.Tokens()) {
      CpuNarrow(gradients, tile.words * hidden, place, shape_.gradients);
    }
  });
}

void CpuDecoder::BackwardEmbed(void* root_gradient) {
  const std::int64_t hidden = shape_.model.hidden;
  std::vector<std::size_t> order(inputs_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return inputs_[a] < inputs_[b]; });
  // All tokens of a word are summed first: one rounding of the gradient for each word.
  for (std::size_t next = 0; next < order.size();) {
    const std::int32_t word = inputs_[order[next]];
    std::fill_n(row_scratch_, hidden, 0.0F);
    for (; next < order.size() && inputs_[order[next]] == word; ++next) {
      const float* gradient = stream_gradient_ + static_cast<std::int64_t>(order[next]) * hidden;
      for (std::int64_t i = 0; i < hidden; ++i) {
        row_scratch_[i] += gradient[i];
      }
    }
    std::byte* place =
        ElementAt(root_gradient, places_.embedding + word * hidden, shape_.gradients);
    CpuWiden(place, shape_.gradients, hidden, sum_scratch_);
    for (std::int64_t i = 0; i < hidden; ++i) {
      sum_scratch_[i] += row_scratch_[i];
    }
    CpuNarrow(sum_scratch_, hidden, place, shape_.gradients);
  }
}

}  // namespace dlc

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/training/cpu_attention.h"
#include "kernels/training/cpu_layers.h"
#include "kernels/training/training_backend.h"
#include "kernels/training/training_math.h"

namespace dlc {

/// What a layer's forward leaves for its backward. All else is computed again.
struct CpuLayerActivations {
  float* input = nullptr;          ///< tokens x hidden
  float* input_inverse = nullptr;  ///< of the norm: tokens
  float* query = nullptr;          ///< turned; tokens x heads * head_size
  float* key = nullptr;            ///< turned; tokens x kv_heads * head_size
  float* value = nullptr;
  float* attended = nullptr;
  float* log_sums = nullptr;  ///< tokens x heads
  float* middle = nullptr;    ///< input + attention's part
  float* middle_inverse = nullptr;
  float* gate = nullptr;  ///< tokens x intermediate
  float* up = nullptr;
};

/// A part of the logits: of all of them there is never more than this at a time.
struct CpuHeadTile {
  std::int64_t first_token = 0, tokens = 0;
  std::int64_t first_word = 0, words = 0;
};

/// The model's part of TrainingBackend. Every value is a float here, whatever the shape's types.
class CpuDecoder {
 public:
  /// heads without kv_heads, an odd head_size, no tokens: nothing can be trained.
  static bool IsUsable(const TrainingShape& shape);
  /// Of `memory` below, and of the tables that are not in it.
  static std::uint64_t Bytes(const TrainingShape& shape);
  /// `memory` outlives this.
  CpuDecoder(const TrainingShape& shape, float* memory);

  /// False: a token is not in the vocabulary.
  bool Embed(const void* root, const std::int32_t* tokens);
  void ForwardLayer(int layer, const void* unit);
  void Loss(const void* root, void* root_gradient, float* loss);
  void BackwardLayer(int layer, const void* unit, void* unit_gradient);
  void BackwardEmbed(void* root_gradient);

 private:
  /// Gives every buffer its place behind `memory`; returns the floats that takes. Without memory:
  /// only counts.
  std::int64_t LayOut(float* memory);
  /// The stream of hidden vectors that goes into a layer; into the final norm for `layers`.
  float* Stream(std::int64_t layer) const;
  const float* Widened(const void* from, std::int64_t at, std::int64_t count, float* scratch) const;
  /// To `compute`, where a tensor would be held.
  void Round(float* values, std::int64_t size) const;
  CpuRows Rows(std::int64_t size) const { return {shape_.Tokens(), size}; }

  void ForwardAttention(const CpuLayerActivations& at, const float* weights);
  void ForwardMlp(const CpuLayerActivations& at, const float* weights, float* out);
  void BackwardMlp(const CpuLayerActivations& at, const float* weights, float* gradients);
  void BackwardAttention(const CpuLayerActivations& at, const float* weights, float* gradients);
  void BackwardProjections(const CpuLayerActivations& at, const float* weights, float* gradients);

  /// Into normed_, rounded.
  void Normalize(const float* values, const float* inverse, const float* weight);
  /// From normed_gradient_; adds to stream_gradient_; both rounded.
  void NormalizeBackward(const float* values, const float* inverse, const float* weight,
                         float* weight_gradient);
  void Linear(std::int64_t size, const float* values, const float* weight, const float* bias,
              std::int64_t outputs, float* out) const;
  void AddStream(const float* values, float* into) const;

  template <class Body>
  void ForEachHeadTile(const void* root, Body body);
  const float* HeadRows(const void* root, const CpuHeadTile& tile) const;
  void Logits(const CpuHeadTile& tile, const float* head) const;
  void SumExponents(const CpuHeadTile& tile);
  /// Of SumExponents' results; leaves log_sums_.
  float MeanLoss();
  /// logits_ become their gradients.
  void LogitGradients(const CpuHeadTile& tile) const;
  void BackwardHead(const void* root, void* root_gradient);

  TrainingShape shape_;
  std::int64_t query_size_;
  std::int64_t key_size_;
  Qwen2Places places_;
  std::int64_t layer_elements_;
  std::vector<ModelParameter> layer_parameters_;  ///< of layer 0: all are alike
  RopeTable rope_;
  std::vector<std::int32_t> inputs_;   ///< of each token, what the model is given
  std::vector<std::int32_t> targets_;  ///< and what it is to foretell

  std::vector<CpuLayerActivations> layers_;
  float* stream_end_ = nullptr;
  float* end_inverse_ = nullptr;
  float* stream_gradient_ = nullptr;
  float* normed_ = nullptr;  ///< tokens x hidden
  float* normed_gradient_ = nullptr;
  float* attended_gradient_ = nullptr;
  float* query_gradient_ = nullptr;
  float* key_gradient_ = nullptr;
  float* value_gradient_ = nullptr;
  float* product_ = nullptr;  ///< tokens x intermediate
  float* product_gradient_ = nullptr;
  float* gate_gradient_ = nullptr;
  float* up_gradient_ = nullptr;
  float* attention_scratch_ = nullptr;
  float* unit_scratch_ = nullptr;           ///< a layer's parameters as float32
  float* unit_gradient_scratch_ = nullptr;  ///< and its gradients
  float* row_scratch_ = nullptr;            ///< hidden
  float* sum_scratch_ = nullptr;            ///< hidden
  float* norm_scratch_ = nullptr;
  float* logits_ = nullptr;                 ///< a tile, by tokens
  float* head_scratch_ = nullptr;           ///< a tile's rows of the head
  float* head_gradient_scratch_ = nullptr;  ///< and their gradients
  float* largest_logits_ = nullptr;         ///< tokens
  float* target_logits_ = nullptr;          ///< tokens
  float* log_sums_ = nullptr;               ///< tokens
  std::vector<double> exponent_sums_;       ///< tokens; of exp(logit - largest)
};

}  // namespace dlc

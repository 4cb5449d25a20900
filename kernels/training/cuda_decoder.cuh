#pragma once

#include <cstddef>
#include <vector>

#include "kernels/training/cuda_products.cuh"
#include "kernels/training/cuda_training.cuh"

namespace dlc {

/// What a layer's forward leaves for its backward. Of type `compute` but for the floats.
struct CudaLayerActivations {
  std::byte* input = nullptr;  ///< tokens x hidden
  float* input_inverse = nullptr;
  std::byte* input_normed = nullptr;
  std::byte* heads = nullptr;  ///< query, key and value, turned: tokens x width
  std::byte* attended = nullptr;
  float* log_sums = nullptr;
  std::byte* middle = nullptr;  ///< input + attention's part
  float* middle_inverse = nullptr;
  std::byte* middle_normed = nullptr;
  std::byte* both = nullptr;  ///< gate and up: tokens x 2 intermediate; its gradient in the end
};

/// A place in a unit's buffer.
class CudaUnit {
 public:
  CudaUnit(const void* unit, DataType type)
      : at_(static_cast<const std::byte*>(unit)),
        bytes_(static_cast<std::int64_t>(ElementBytes(type))) {}
  const std::byte* operator[](std::int64_t element) const { return at_ + element * bytes_; }

 private:
  const std::byte* at_;
  std::int64_t bytes_;
};
class CudaUnitGradient {
 public:
  CudaUnitGradient(void* unit, DataType type)
      : at_(static_cast<std::byte*>(unit)), bytes_(static_cast<std::int64_t>(ElementBytes(type))) {}
  std::byte* operator[](std::int64_t element) const { return at_ + element * bytes_; }

 private:
  std::byte* at_;
  std::int64_t bytes_;
};

/// The model's part of TrainingBackend; turns are its caller's to keep.
class CudaDecoder {
 public:
  /// Why this shape cannot be trained here; "" where it can.
  static std::string Refusal(const TrainingShape& shape);
  /// Of device memory, of ours.
  static std::uint64_t Bytes(const TrainingShape& shape);

  CudaDecoder(const TrainingShape& shape, int flash_bytes, CudaProducts& products);
  ~CudaDecoder();
  CudaDecoder(const CudaDecoder&) = delete;
  CudaDecoder& operator=(const CudaDecoder&) = delete;

  void Prepare(CudaQueue queue);
  /// False: a token is not in the vocabulary.
  bool Embed(CudaQueue queue, const void* root, const std::int32_t* tokens);
  void ForwardLayer(CudaQueue queue, int layer, const void* unit);
  void Loss(CudaQueue queue, const void* root, void* root_gradient, float* loss);
  void BackwardLayer(CudaQueue queue, int layer, const void* unit, void* unit_gradient);
  void BackwardEmbed(CudaQueue queue, void* root_gradient);

 private:
  /// Gives every buffer its place behind `memory`; returns the bytes that takes.
  std::uint64_t LayOut(std::byte* memory);
  void LayOutLayers(class CudaArena& arena);
  void LayOutShared(class CudaArena& arena);
  std::byte* Stream(int layer) const;
  CudaAttention AttentionOf(const CudaLayerActivations& at) const;
  void PackHeads(CudaQueue queue, const CudaUnit& unit);
  void UnpackHeads(CudaQueue queue, const CudaUnitGradient& gradient);
  void BackwardMlp(CudaQueue queue, const CudaLayerActivations& at, const CudaUnit& unit,
                   const CudaUnitGradient& gradient);
  void BackwardAttention(CudaQueue queue, const CudaLayerActivations& at, const CudaUnit& unit,
                         const CudaUnitGradient& gradient);
  void FinishLayer(CudaQueue queue, const CudaUnitGradient& gradient);
  void LossOfChunk(CudaQueue queue, std::int64_t first, const void* head, void* head_gradient);

  /// out (tokens x outputs) = values (tokens x size) * weight^T.
  CudaProduct Linear(std::int64_t size, const void* values, const void* weight,
                     std::int64_t outputs, void* out) const;
  /// gradient (tokens x size) = out_gradient (tokens x outputs) * weight.
  CudaProduct LinearInput(std::int64_t size, const void* out_gradient, const void* weight,
                          std::int64_t outputs, void* gradient) const;
  /// gradient (outputs x size) = out_gradient^T * values.
  CudaProduct LinearWeight(std::int64_t size, const void* values, const void* out_gradient,
                           std::int64_t outputs, void* gradient) const;
  CudaProduct Product(std::int64_t rows, std::int64_t columns, std::int64_t depth, void* out,
                      DataType out_type) const;

  TrainingShape shape_;
  int flash_bytes_;
  CudaProducts& products_;
  std::int64_t tokens_;
  std::int64_t query_size_;
  std::int64_t width_;  ///< of query, key and value
  std::int64_t logits_step_;
  std::int64_t chunk_;  ///< tokens whose logits are held at a time
  Qwen2Places places_;
  CudaHeads heads_;

  std::byte* memory_ = nullptr;
  std::int32_t* staged_ = nullptr;  ///< host memory, as the device's from inputs_ on
  cudaEvent_t copied_ = nullptr;
  int words_count_ = 0;

  std::vector<CudaLayerActivations> layers_;
  std::byte* end_ = nullptr;
  float* end_inverse_ = nullptr;
  std::byte* end_normed_ = nullptr;
  std::byte* stream_gradient_ = nullptr;
  std::byte* normed_gradient_ = nullptr;
  std::byte* product_ = nullptr;  ///< of gate and up; in the backward first its gradient
  std::byte* heads_gradient_ = nullptr;
  std::byte* attended_gradient_ = nullptr;
  std::byte* key_parts_ = nullptr;
  std::byte* value_parts_ = nullptr;
  float* dots_ = nullptr;
  std::byte* packed_ = nullptr;  ///< weights of query, key and value, one after the other
  std::byte* packed_bias_ = nullptr;
  std::byte* packed_gradient_ = nullptr;
  float* input_norm_parts_ = nullptr;
  float* middle_norm_parts_ = nullptr;
  float* bias_parts_ = nullptr;
  std::byte* logits_ = nullptr;
  float* losses_ = nullptr;
  float* cosine_ = nullptr;
  float* sine_ = nullptr;
  std::int32_t* inputs_ = nullptr;  ///< these five one after the other
  std::int32_t* targets_ = nullptr;
  std::int32_t* words_ = nullptr;
  std::int32_t* order_ = nullptr;
  std::int32_t* starts_ = nullptr;  ///< one more than tokens
  std::byte* workspace_ = nullptr;
};

}  // namespace dlc

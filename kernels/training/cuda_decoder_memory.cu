#include <algorithm>
#include <string>

#include "kernels/training/cuda_decoder.cuh"
#include "kernels/training/training_math.h"

// Where everything lies, and what is the same in all steps.
namespace dlc {
namespace {

constexpr std::int64_t kLogitsBytes = std::int64_t{640} << 20;  // held at a time, about

std::int64_t ChunkTokens(const TrainingShape& shape, std::int64_t logits_step) {
  const std::int64_t tokens = shape.Tokens();
  const std::int64_t row = logits_step * static_cast<std::int64_t>(ElementBytes(shape.compute));
  const std::int64_t most = std::max<std::int64_t>(kLogitsBytes / row / 128 * 128, 128);
  const std::int64_t chunks = (tokens + most - 1) / most;
  return std::min(tokens, ((tokens + chunks - 1) / chunks + 127) / 128 * 128);
}

}  // namespace

/// Hands out parts of one piece of memory; without one, counts.
class CudaArena {
 public:
  explicit CudaArena(std::byte* memory) : memory_(memory) {}
  template <class T>
  void Take(std::int64_t count, T*& to, std::int64_t bytes = sizeof(T)) {
    to = memory_ != nullptr ? reinterpret_cast<T*>(memory_ + used_) : nullptr;
    used_ += (static_cast<std::uint64_t>(count * bytes) + 255) / 256 * 256;
  }
  std::uint64_t Used() const { return used_; }

 private:
  std::byte* memory_;
  std::uint64_t used_ = 0;
};

std::string CudaDecoder::Refusal(const TrainingShape& shape) {
  const Qwen2Shape& model = shape.model;
  const auto is_float = [](DataType type) {
    return type == DataType::kFloat32 || type == DataType::kBfloat16;
  };
  if (model.hidden <= 0 || model.layers < 0 || model.kv_heads <= 0 || model.heads <= 0 ||
      model.heads % model.kv_heads != 0 || model.head_size <= 0 || model.head_size % 2 != 0 ||
      model.intermediate <= 0 || model.vocabulary <= 0 || shape.rows <= 0 || shape.sequence <= 0 ||
      !is_float(shape.compute) || !is_float(shape.gradients)) {
    return "sizes that fit no model";
  }
  constexpr std::int64_t kMostHidden = 12288;  // a row of floats in 48 KiB of shared memory
  if (model.hidden > kMostHidden || model.head_size > kCudaMostHeadSize) {
    return "hidden size over 12288 or head size over 256";
  }
  constexpr std::int64_t kMostIndex = std::int64_t{1} << 31;  // what kernels count in int
  if (shape.Tokens() * model.heads >= kMostIndex || model.vocabulary >= kMostIndex ||
      model.intermediate >= kMostIndex / 2 || shape.rows > 65535 || model.heads > 32767) {
    return "more tokens than can be counted";
  }
  return "";
}

std::uint64_t CudaDecoder::Bytes(const TrainingShape& shape) {
  CudaProducts none;
  return CudaDecoder(shape, 0, none).LayOut(nullptr);
}

CudaDecoder::CudaDecoder(const TrainingShape& shape, int flash_bytes, CudaProducts& products)
    : shape_(shape),
      flash_bytes_(flash_bytes),
      products_(products),
      tokens_(shape.Tokens()),
      query_size_(shape.model.heads * shape.model.head_size),
      width_(query_size_ + 2 * shape.model.kv_heads * shape.model.head_size),
      logits_step_((shape.model.vocabulary + 7) / 8 * 8),
      chunk_(ChunkTokens(shape, logits_step_)),
      places_(Qwen2PlacesOf(shape.model)) {
  heads_.tokens = tokens_;
  heads_.sequence = static_cast<int>(shape.sequence);
  heads_.heads = static_cast<int>(shape.model.heads);
  heads_.kv_heads = static_cast<int>(shape.model.kv_heads);
  heads_.size = static_cast<int>(shape.model.head_size);
}

CudaDecoder::~CudaDecoder() {
  if (memory_ != nullptr) {
    cudaFree(memory_);
  }
  if (staged_ != nullptr) {
    cudaFreeHost(staged_);
  }
  if (copied_ != nullptr) {
    cudaEventDestroy(copied_);
  }
}

void CudaDecoder::LayOutLayers(CudaArena& arena) {
  const auto bytes = static_cast<std::int64_t>(ElementBytes(shape_.compute));
  const std::int64_t hidden = tokens_ * shape_.model.hidden;
  layers_.resize(static_cast<std::size_t>(shape_.model.layers));
  for (CudaLayerActivations& layer : layers_) {
    for (std::byte** to :
         {&layer.input, &layer.input_normed, &layer.middle, &layer.middle_normed}) {
      arena.Take(hidden, *to, bytes);
    }
    arena.Take(tokens_, layer.input_inverse);
    arena.Take(tokens_, layer.middle_inverse);
    arena.Take(tokens_ * width_, layer.heads, bytes);
    arena.Take(tokens_ * query_size_, layer.attended, bytes);
    arena.Take(tokens_ * shape_.model.heads, layer.log_sums);
    arena.Take(tokens_ * 2 * shape_.model.intermediate, layer.both, bytes);
  }
}

void CudaDecoder::LayOutShared(CudaArena& arena) {
  const auto bytes = static_cast<std::int64_t>(ElementBytes(shape_.compute));
  const std::int64_t hidden = shape_.model.hidden;
  for (std::byte** to : {&end_, &end_normed_, &stream_gradient_, &normed_gradient_}) {
    arena.Take(tokens_ * hidden, *to, bytes);
  }
  for (std::byte** to : {&attended_gradient_, &key_parts_, &value_parts_}) {
    arena.Take(tokens_ * query_size_, *to, bytes);
  }
  arena.Take(tokens_ * width_, heads_gradient_, bytes);
  arena.Take(tokens_ * shape_.model.intermediate, product_, bytes);
  arena.Take(width_ * hidden, packed_, bytes);
  arena.Take(width_, packed_bias_, bytes);
  arena.Take(width_ * hidden, packed_gradient_,
             static_cast<std::int64_t>(ElementBytes(shape_.gradients)));
  arena.Take(CudaNormParts(tokens_) * hidden, input_norm_parts_);
  arena.Take(CudaNormParts(tokens_) * hidden, middle_norm_parts_);
  arena.Take(CudaRotateParts(heads_) * width_, bias_parts_);
  arena.Take(tokens_ * shape_.model.heads, dots_);
  arena.Take(tokens_, end_inverse_);
  arena.Take(tokens_, losses_);
  arena.Take(chunk_ * logits_step_, logits_, bytes);
  arena.Take(shape_.sequence * shape_.model.head_size / 2, cosine_);
  arena.Take(shape_.sequence * shape_.model.head_size / 2, sine_);
  arena.Take(5 * tokens_ + 1, inputs_);
  arena.Take(static_cast<std::int64_t>(CudaProducts::kWorkspaceBytes), workspace_);
}

std::uint64_t CudaDecoder::LayOut(std::byte* memory) {
  CudaArena arena(memory);
  LayOutLayers(arena);
  LayOutShared(arena);
  if (memory != nullptr) {
    targets_ = inputs_ + tokens_;
    words_ = targets_ + tokens_;
    order_ = words_ + tokens_;
    starts_ = order_ + tokens_;
  }
  return arena.Used();
}

void CudaDecoder::Prepare(CudaQueue queue) {
  const std::uint64_t bytes = LayOut(nullptr);
  void* memory = nullptr;
  const std::string call = "cudaMalloc of " + std::to_string(bytes) + " bytes for activations";
  if (!queue.calls.Ok(cudaMalloc(&memory, bytes), call.c_str())) {
    return;
  }
  memory_ = static_cast<std::byte*>(memory);
  LayOut(memory_);
  const RopeTable table = RopeTableFor(shape_.model, shape_.sequence);
  const std::size_t table_bytes = table.cosine.size() * sizeof(float);
  void* staged = nullptr;
  const std::size_t staged_bytes = static_cast<std::size_t>(5 * tokens_ + 1) * sizeof(std::int32_t);
  if (queue.calls.Ok(cudaMemset(memory_, 0, bytes), "cudaMemset of activations") &&
      queue.calls.Ok(cudaMemcpy(cosine_, table.cosine.data(), table_bytes, cudaMemcpyHostToDevice),
                     "cudaMemcpy of cosines") &&
      queue.calls.Ok(cudaMemcpy(sine_, table.sine.data(), table_bytes, cudaMemcpyHostToDevice),
                     "cudaMemcpy of sines") &&
      queue.calls.Ok(cudaMallocHost(&staged, staged_bytes), "cudaMallocHost for tokens") &&
      queue.calls.Ok(cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming),
                     "cudaEventCreate") &&
      queue.calls.Ok(cudaDeviceSynchronize(), "cudaDeviceSynchronize")) {
    staged_ = static_cast<std::int32_t*>(staged);
    heads_.cosine = cosine_;
    heads_.sine = sine_;
    products_.SetWorkspace(workspace_);
  }
}

}  // namespace dlc

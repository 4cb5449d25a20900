#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/training/cuda_backend.h"
#include "kernels/training/cuda_decoder.cuh"
#include "kernels/training/cuda_shards.cuh"

namespace dlc {

inline DeviceStatus InvalidCudaValue(std::string call) {
  return {1, "cudaErrorInvalidValue", "invalid argument", std::move(call)};
}

class CudaTrainingBackend final : public TrainingBackend {
 public:
  explicit CudaTrainingBackend(int device) : device_(device) {}
  CudaTrainingBackend(const CudaTrainingBackend&) = delete;
  CudaTrainingBackend& operator=(const CudaTrainingBackend&) = delete;
  ~CudaTrainingBackend() override;

  DeviceStatus Open(const CudaTrainingOptions& options);

  DeviceStatus Allocate(std::uint64_t bytes, void** memory) override;
  void Free(void* memory) override;
  DeviceStatus FreeMemory(std::uint64_t& free_bytes, std::uint64_t& total_bytes) override;
  DeviceStatus Upload(void* to, const void* from, std::uint64_t bytes) override;
  DeviceStatus Download(void* to, const void* from, std::uint64_t bytes) override;

  void* Stream(TrainingQueue queue) override { return StreamOf(queue); }
  int Mark(TrainingQueue queue) override;
  DeviceStatus WaitFor(TrainingQueue queue, int mark) override;
  DeviceStatus IsDone(int mark, bool& done) override;
  DeviceStatus SecondsBetween(int from, int to, double& seconds) override;
  void ForgetMarks() override { marks_ = 0; }
  DeviceStatus Wait() override;

  DeviceStatus PreparePieces(const std::vector<Piece>& pieces, int& handle) override;
  DeviceStatus Move(int pieces, const void* from, DataType from_type, void* to, DataType to_type,
                    TrainingQueue queue) override;
  DeviceStatus Accumulate(float* into, const void* from, DataType from_type, float factor, bool add,
                          std::int64_t count) override {
    return Put(
        [&](CudaQueue queue) { CudaAccumulate(queue, into, from, from_type, factor, add, count); });
  }
  DeviceStatus AddSquares(const float* values, std::int64_t count, double* sum) override {
    return Put([&](CudaQueue queue) {
      CudaAddSquares(queue, values, count, static_cast<double*>(scratch_), sum);
    });
  }
  DeviceStatus ClipScale(const double* sum, double largest, float* scale) override {
    return Put([&](CudaQueue queue) { CudaClipScale(queue, sum, largest, scale); });
  }
  DeviceStatus AdamW(const AdamWOptions& options, std::int64_t step, const float* gradient,
                     const float* scale, float* parameter, float* m, float* v, void* copy,
                     DataType copy_type, std::int64_t count) override {
    return Put([&](CudaQueue queue) {
      CudaAdamW(queue,
                {AdamWScalarsFor(options, step), gradient, scale, parameter, m, v, copy, count},
                copy_type);
    });
  }

  DeviceStatus FillNormal(float* to, std::uint64_t key, std::int64_t first, std::int64_t count,
                          float mean, float spread) override {
    return Put(
        [&](CudaQueue queue) { CudaFillNormal(queue, to, key, first, count, mean, spread); });
  }
  DeviceStatus FillIntegers(void* to, DataType type, std::uint64_t key, std::int64_t first,
                            std::int64_t count) override {
    return Put([&](CudaQueue queue) { CudaFillIntegers(queue, to, type, key, first, count); });
  }
  DeviceStatus AddHash(const float* values, std::uint64_t key, std::int64_t first,
                       std::int64_t count, std::uint64_t* hash) override;
  DeviceStatus Compare(const float* found, const float* expected, std::int64_t count,
                       FloatComparison& comparison) override;

  std::uint64_t ActivationBytes(const TrainingShape& shape) const override {
    return CudaDecoder::Refusal(shape).empty() ? CudaDecoder::Bytes(shape) : 0;
  }
  DeviceStatus PrepareModel(const TrainingShape& shape) override;
  DeviceStatus Embed(const void* root, const std::int32_t* tokens) override;
  DeviceStatus ForwardLayer(int layer, const void* unit) override {
    return Turn(layer, layer >= 0 && layer < layers_, "ForwardLayer",
                [&](CudaQueue queue) { decoder_->ForwardLayer(queue, layer, unit); });
  }
  DeviceStatus Loss(const void* root, void* root_gradient, float* loss) override {
    return Turn(layers_, true, "Loss",
                [&](CudaQueue queue) { decoder_->Loss(queue, root, root_gradient, loss); });
  }
  DeviceStatus BackwardLayer(int layer, const void* unit, void* unit_gradient) override {
    return Turn(
        2 * layers_ - layer, layer >= 0 && layer < layers_, "BackwardLayer",
        [&](CudaQueue queue) { decoder_->BackwardLayer(queue, layer, unit, unit_gradient); });
  }
  DeviceStatus BackwardEmbed(void* root_gradient) override {
    return Turn(2 * layers_ + 1, true, "BackwardEmbed",
                [&](CudaQueue queue) { decoder_->BackwardEmbed(queue, root_gradient); });
  }

 private:
  struct Pieces {
    CudaMoveChunk* chunks = nullptr;
    std::size_t count = 0;
  };

  cudaStream_t StreamOf(TrainingQueue queue) const {
    return queue == TrainingQueue::kCompute ? compute_ : communication_;
  }
  /// Makes the device the calling thread's, and tells what a call that has no status met.
  bool Begin(CudaCalls& calls) {
    if (!pending_.Good()) {
      calls.Fail(std::exchange(pending_, {}));
    }
    return calls.Ok(cudaSetDevice(device_), "cudaSetDevice");
  }
  bool IsMark(int mark) const { return mark >= 0 && mark < marks_; }
  template <class Work>
  DeviceStatus Put(Work work, TrainingQueue queue = TrainingQueue::kCompute) {
    CudaCalls calls;
    if (Begin(calls)) {
      work(CudaQueue{calls, StreamOf(queue)});
    }
    return calls.Take();
  }
  /// A call out of its turn would read what an earlier micro-batch left behind.
  template <class Work>
  DeviceStatus Turn(int turn, bool possible, const char* name, Work work) {
    const bool right = decoder_ != nullptr && possible && turn_ == turn;
    turn_ = kNoTurn;
    if (!right) {
      return InvalidCudaValue(name);
    }
    DeviceStatus status = Put(work);
    if (status.Good()) {
      turn_ = turn + 1;
    }
    return status;
  }

  static constexpr int kNoTurn = -1;
  int device_;
  cudaStream_t compute_ = nullptr;
  cudaStream_t communication_ = nullptr;
  void* scratch_ = nullptr;  ///< of reductions
  DeviceStatus pending_;
  std::vector<cudaEvent_t> events_;  ///< kept for later marks
  int marks_ = 0;
  std::vector<Pieces> pieces_;
  int flash_bytes_ = 0;  ///< CudaAttention::flash_bytes
  CudaProducts products_;
  std::unique_ptr<CudaDecoder> decoder_;
  int layers_ = 0;
  /// As the CPU twin's: layer n forward, layers_ for the loss, layers_ + 1 + n for the backward of
  /// layer layers_ - 1 - n, and the embedding's at the end.
  int turn_ = kNoTurn;
};

}  // namespace dlc

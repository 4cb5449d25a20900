#include "kernels/training/cuda_backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/training/cuda_decoder.cuh"
#include "kernels/training/cuda_shards.cuh"

namespace dlc {
namespace {

DeviceStatus InvalidCudaValue(std::string call) {
  return {1, "cudaErrorInvalidValue", "invalid argument", std::move(call)};
}

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class CudaTrainingBackend final : public TrainingBackend {
 public:
  explicit CudaTrainingBackend(int device) : device_(device) {}
  CudaTrainingBackend(const CudaTrainingBackend&) = delete;
  CudaTrainingBackend& operator=(const CudaTrainingBackend&) = delete;
  ~CudaTrainingBackend() override;

  DeviceStatus Open(const std::string& cublas_path);

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
    return Put([&](CudaQueue queue) {
      CudaAccumulate(queue, into, from, from_type, factor, add, count);
    });
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
    return Turn(layer, layer >= 0 && layer < layers_, "ForwardLayer", [&](CudaQueue queue) {
      decoder_->ForwardLayer(queue, layer, unit);
    });
  }
  DeviceStatus Loss(const void* root, void* root_gradient, float* loss) override {
    return Turn(layers_, true, "Loss", [&](CudaQueue queue) {
      decoder_->Loss(queue, root, root_gradient, loss);
    });
  }
  DeviceStatus BackwardLayer(int layer, const void* unit, void* unit_gradient) override {
    return Turn(2 * layers_ - layer, layer >= 0 && layer < layers_, "BackwardLayer",
                [&](CudaQueue queue) {
                  decoder_->BackwardLayer(queue, layer, unit, unit_gradient);
                });
  }
  DeviceStatus BackwardEmbed(void* root_gradient) override {
    return Turn(2 * layers_ + 1, true, "BackwardEmbed", [&](CudaQueue queue) {
      decoder_->BackwardEmbed(queue, root_gradient);
    });
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
  bool tensor_cores_ = false;
  CudaProducts products_;
  std::unique_ptr<CudaDecoder> decoder_;
  int layers_ = 0;
  /// As the CPU twin's: layer n forward, layers_ for the loss, layers_ + 1 + n for the backward of
  /// layer layers_ - 1 - n, and the embedding's at the end.
  int turn_ = kNoTurn;
};

CudaTrainingBackend::~CudaTrainingBackend() {
  cudaSetDevice(device_);
  for (const cudaStream_t stream : {compute_, communication_}) {
    if (stream != nullptr) {
      cudaStreamSynchronize(stream);
    }
  }
  decoder_.reset();
  for (const cudaEvent_t event : events_) {
    cudaEventDestroy(event);
  }
  for (const Pieces& pieces : pieces_) {
    cudaFree(pieces.chunks);
  }
  cudaFree(scratch_);
  for (const cudaStream_t stream : {compute_, communication_}) {
    if (stream != nullptr) {
      cudaStreamDestroy(stream);
    }
  }
}

DeviceStatus CudaTrainingBackend::Open(const std::string& cublas_path) {
  CudaCalls calls;
  int major = 0;
  if (!calls.Ok(cudaSetDevice(device_), "cudaSetDevice") ||
      !calls.Ok(cudaFree(nullptr), "cudaFree(nullptr)") ||
      !calls.Ok(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_),
                "cudaDeviceGetAttribute") ||
      !calls.Ok(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking), "cudaStreamCreate") ||
      !calls.Ok(cudaStreamCreateWithFlags(&communication_, cudaStreamNonBlocking),
                "cudaStreamCreate") ||
      !calls.Ok(cudaMalloc(&scratch_, kCudaReduceBlocks * sizeof(FloatComparison)),
                "cudaMalloc for reductions")) {
    return calls.Take();
  }
  tensor_cores_ = major >= 8;
  CublasLt library;
  std::string reasons;
  const auto candidates = CublasLtCandidates(cublas_path, FromEnvironment("PATH"),
                                             FromEnvironment("VIRTUAL_ENV"),
                                             FromEnvironment("PYTHONPATH"));
  if (!LoadCublasLt(candidates, library, reasons)) {
    return {-1, "no libcublasLt", reasons, "loading of libcublasLt"};
  }
  return products_.Open(std::move(library));
}

DeviceStatus CudaTrainingBackend::Allocate(std::uint64_t bytes, void** memory) {
  *memory = nullptr;
  const std::uint64_t size = std::max<std::uint64_t>(bytes, 256);
  return Put([&](CudaQueue queue) {
    const std::string call = "cudaMalloc of " + std::to_string(bytes) + " bytes";
    if (!queue.calls.Ok(cudaMalloc(memory, size), call.c_str())) {
      *memory = nullptr;
      return;
    }
    // Waits: the other queue may write there next.
    if (!queue.calls.Ok(cudaMemsetAsync(*memory, 0, size, queue.stream), "cudaMemsetAsync") ||
        !queue.calls.Ok(cudaStreamSynchronize(queue.stream), "cudaStreamSynchronize")) {
      cudaFree(*memory);
      *memory = nullptr;
    }
  });
}

void CudaTrainingBackend::Free(void* memory) {
  CudaCalls calls;
  if (memory != nullptr && Begin(calls)) {
    calls.Ok(cudaFree(memory), "cudaFree");
  }
  if (!calls.Good()) {
    pending_ = calls.Take();
  }
}

DeviceStatus CudaTrainingBackend::FreeMemory(std::uint64_t& free_bytes,
                                             std::uint64_t& total_bytes) {
  return Put([&](CudaQueue queue) {
    std::size_t available = 0;
    std::size_t total = 0;
    queue.calls.Ok(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    free_bytes = available;
    total_bytes = total;
  });
}

DeviceStatus CudaTrainingBackend::Upload(void* to, const void* from, std::uint64_t bytes) {
  return Put([&](CudaQueue queue) {
    if (queue.calls.Ok(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue.stream),
                       "cudaMemcpyAsync to the device")) {
      queue.calls.Ok(cudaStreamSynchronize(queue.stream), "cudaStreamSynchronize");
    }
  });
}

DeviceStatus CudaTrainingBackend::Download(void* to, const void* from, std::uint64_t bytes) {
  return Put([&](CudaQueue queue) {
    if (queue.calls.Ok(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue.stream),
                       "cudaMemcpyAsync from the device")) {
      queue.calls.Ok(cudaStreamSynchronize(queue.stream), "cudaStreamSynchronize");
    }
  });
}

int CudaTrainingBackend::Mark(TrainingQueue queue) {
  CudaCalls calls;
  if (!Begin(calls)) {
    pending_ = calls.Take();
    return -1;
  }
  if (static_cast<std::size_t>(marks_) == events_.size()) {
    cudaEvent_t event = nullptr;
    if (!calls.Ok(cudaEventCreate(&event), "cudaEventCreate")) {
      pending_ = calls.Take();
      return -1;
    }
    events_.push_back(event);
  }
  if (!calls.Ok(cudaEventRecord(events_[static_cast<std::size_t>(marks_)], StreamOf(queue)),
                "cudaEventRecord")) {
    pending_ = calls.Take();
    return -1;
  }
  return marks_++;
}

DeviceStatus CudaTrainingBackend::WaitFor(TrainingQueue queue, int mark) {
  return Put(
      [&](CudaQueue own) {
        if (IsMark(mark)) {
          own.calls.Ok(cudaStreamWaitEvent(own.stream, events_[static_cast<std::size_t>(mark)], 0),
                       "cudaStreamWaitEvent");
        } else {
          own.calls.Fail(InvalidCudaValue("mark " + std::to_string(mark)));
        }
      },
      queue);
}

DeviceStatus CudaTrainingBackend::IsDone(int mark, bool& done) {
  done = false;
  return Put([&](CudaQueue queue) {
    if (!IsMark(mark)) {
      queue.calls.Fail(InvalidCudaValue("mark " + std::to_string(mark)));
      return;
    }
    const cudaError_t code = cudaEventQuery(events_[static_cast<std::size_t>(mark)]);
    if (code == cudaErrorNotReady) {
      cudaGetLastError();  // no error: it must not be blamed on the next launch
      return;
    }
    done = queue.calls.Ok(code, "cudaEventQuery");
  });
}

DeviceStatus CudaTrainingBackend::SecondsBetween(int from, int to, double& seconds) {
  seconds = 0;
  return Put([&](CudaQueue queue) {
    if (!IsMark(from) || !IsMark(to)) {
      queue.calls.Fail(InvalidCudaValue("marks " + std::to_string(from) + " and " +
                                        std::to_string(to)));
      return;
    }
    float milliseconds = 0;
    queue.calls.Ok(cudaEventElapsedTime(&milliseconds, events_[static_cast<std::size_t>(from)],
                                        events_[static_cast<std::size_t>(to)]),
                   "cudaEventElapsedTime");
    seconds = static_cast<double>(milliseconds) / 1e3;
  });
}

DeviceStatus CudaTrainingBackend::Wait() {
  return Put([&](CudaQueue queue) {
    queue.calls.Ok(cudaStreamSynchronize(compute_), "cudaStreamSynchronize of computation");
    queue.calls.Ok(cudaStreamSynchronize(communication_),
                   "cudaStreamSynchronize of communication");
  });
}

DeviceStatus CudaTrainingBackend::PreparePieces(const std::vector<Piece>& pieces, int& handle) {
  return Put([&](CudaQueue queue) {
    const std::vector<CudaMoveChunk> chunks = CudaMoveChunks(pieces);
    const std::size_t bytes = chunks.size() * sizeof(CudaMoveChunk);
    Pieces prepared;
    prepared.count = chunks.size();
    void* memory = nullptr;
    if (bytes > 0) {
      if (!queue.calls.Ok(cudaMalloc(&memory, bytes), "cudaMalloc for pieces")) {
        return;
      }
      if (!queue.calls.Ok(cudaMemcpyAsync(memory, chunks.data(), bytes, cudaMemcpyHostToDevice,
                                          queue.stream),
                          "cudaMemcpyAsync of pieces") ||
          !queue.calls.Ok(cudaStreamSynchronize(queue.stream), "cudaStreamSynchronize")) {
        cudaFree(memory);
        return;
      }
    }
    prepared.chunks = static_cast<CudaMoveChunk*>(memory);
    handle = static_cast<int>(pieces_.size());
    pieces_.push_back(prepared);
  });
}

DeviceStatus CudaTrainingBackend::Move(int pieces, const void* from, DataType from_type, void* to,
                                       DataType to_type, TrainingQueue queue) {
  if (pieces < 0 || static_cast<std::size_t>(pieces) >= pieces_.size()) {
    return InvalidCudaValue("Move of pieces " + std::to_string(pieces));
  }
  const Pieces& prepared = pieces_[static_cast<std::size_t>(pieces)];
  return Put(
      [&](CudaQueue own) {
        CudaMove(own, prepared.chunks, prepared.count, from, from_type, to, to_type);
      },
      queue);
}

DeviceStatus CudaTrainingBackend::AddHash(const float* values, std::uint64_t key,
                                          std::int64_t first, std::int64_t count,
                                          std::uint64_t* hash) {
  return Put([&](CudaQueue queue) {
    unsigned long long sum = 0;
    if (!queue.calls.Ok(cudaMemsetAsync(scratch_, 0, sizeof sum, queue.stream),
                        "cudaMemsetAsync")) {
      return;
    }
    CudaAddHash(queue, values, key, first, count, static_cast<unsigned long long*>(scratch_));
    if (queue.calls.Ok(cudaMemcpyAsync(&sum, scratch_, sizeof sum, cudaMemcpyDeviceToHost,
                                       queue.stream),
                       "cudaMemcpyAsync of a hash") &&
        queue.calls.Ok(cudaStreamSynchronize(queue.stream), "cudaStreamSynchronize")) {
      *hash += sum;
    }
  });
}

DeviceStatus CudaTrainingBackend::Compare(const float* found, const float* expected,
                                          std::int64_t count, FloatComparison& comparison) {
  return Put([&](CudaQueue queue) {
    std::vector<FloatComparison> parts(kCudaReduceBlocks);
    CudaCompare(queue, found, expected, count, static_cast<FloatComparison*>(scratch_));
    if (!queue.calls.Ok(cudaMemcpyAsync(parts.data(), scratch_,
                                        parts.size() * sizeof(FloatComparison),
                                        cudaMemcpyDeviceToHost, queue.stream),
                        "cudaMemcpyAsync of a comparison") ||
        !queue.calls.Ok(cudaStreamSynchronize(queue.stream), "cudaStreamSynchronize")) {
      return;
    }
    comparison.elements += count;
    for (const FloatComparison& part : parts) {
      comparison.different += part.different;
      comparison.not_finite += part.not_finite;
      comparison.largest_difference =
          std::max(comparison.largest_difference, part.largest_difference);
      comparison.largest_expected = std::max(comparison.largest_expected, part.largest_expected);
      comparison.sum_squared_difference += part.sum_squared_difference;
      comparison.sum_squared_expected += part.sum_squared_expected;
    }
  });
}

DeviceStatus CudaTrainingBackend::PrepareModel(const TrainingShape& shape) {
  const std::string refusal =
      decoder_ != nullptr ? "a model is prepared already" : CudaDecoder::Refusal(shape);
  if (!refusal.empty()) {
    return {1, "cudaErrorInvalidValue", refusal, "PrepareModel"};
  }
  auto decoder = std::make_unique<CudaDecoder>(shape, tensor_cores_, products_);
  DeviceStatus status = Put([&](CudaQueue queue) { decoder->Prepare(queue); });
  if (status.Good()) {
    decoder_ = std::move(decoder);
    layers_ = static_cast<int>(shape.model.layers);
  }
  return status;
}

DeviceStatus CudaTrainingBackend::Embed(const void* root, const std::int32_t* tokens) {
  turn_ = kNoTurn;
  if (decoder_ == nullptr) {
    return InvalidCudaValue("Embed");
  }
  DeviceStatus status = Put([&](CudaQueue queue) {
    if (!decoder_->Embed(queue, root, tokens)) {
      queue.calls.Fail(InvalidCudaValue("Embed"));
    }
  });
  turn_ = status.Good() ? 0 : kNoTurn;
  return status;
}

}  // namespace

std::unique_ptr<TrainingBackend> OpenCudaTrainingBackend(int device, DeviceStatus& status,
                                                         const std::string& cublas_path) {
  auto backend = std::make_unique<CudaTrainingBackend>(device);
  status = backend->Open(cublas_path);
  if (!status.Good()) {
    return nullptr;
  }
  return backend;
}

}  // namespace dlc

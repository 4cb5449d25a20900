#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "kernels/training/cuda_backend.h"
#include "kernels/training/cuda_backend_class.cuh"

namespace dlc {
namespace {

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

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

DeviceStatus CudaTrainingBackend::Open(const CudaTrainingOptions& options) {
  CudaCalls calls;
  int major = 0;
  int shared = 0;
  if (!calls.Ok(cudaSetDevice(device_), "cudaSetDevice") ||
      !calls.Ok(cudaFree(nullptr), "cudaFree(nullptr)") ||
      !calls.Ok(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_),
                "cudaDeviceGetAttribute") ||
      !calls.Ok(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device_),
                "cudaDeviceGetAttribute") ||
      !calls.Ok(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking), "cudaStreamCreate") ||
      !calls.Ok(cudaStreamCreateWithFlags(&communication_, cudaStreamNonBlocking),
                "cudaStreamCreate") ||
      !calls.Ok(cudaMalloc(&scratch_, kCudaReduceBlocks * sizeof(FloatComparison)),
                "cudaMalloc for reductions")) {
    return calls.Take();
  }
  // bfloat16 in the tensor cores, and copies that do not wait, came with 8.0.
  flash_bytes_ = major >= 8 ? std::min(shared, options.most_shared_bytes) : 0;
  CublasLt library;
  std::string reasons;
  const auto candidates =
      CublasLtCandidates(options.cublas_path, FromEnvironment("PATH"),
                         FromEnvironment("VIRTUAL_ENV"), FromEnvironment("PYTHONPATH"));
  if (!LoadCublasLt(candidates, library, reasons)) {
    return {-1, "no libcublasLt", reasons, "loading of libcublasLt"};
  }
  return products_.Open(std::move(library));
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
      if (!queue.calls.Ok(
              cudaMemcpyAsync(memory, chunks.data(), bytes, cudaMemcpyHostToDevice, queue.stream),
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
    if (queue.calls.Ok(
            cudaMemcpyAsync(&sum, scratch_, sizeof sum, cudaMemcpyDeviceToHost, queue.stream),
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
    if (!queue.calls.Ok(
            cudaMemcpyAsync(parts.data(), scratch_, parts.size() * sizeof(FloatComparison),
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
  auto decoder = std::make_unique<CudaDecoder>(shape, flash_bytes_, products_);
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

std::unique_ptr<TrainingBackend> OpenCudaTrainingBackend(int device, DeviceStatus& status,
                                                         const CudaTrainingOptions& options) {
  auto backend = std::make_unique<CudaTrainingBackend>(device);
  status = backend->Open(options);
  if (!status.Good()) {
    return nullptr;
  }
  return backend;
}

}  // namespace dlc

#include "kernels/training/cpu_backend.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kernels/training/cpu_decoder.h"
#include "kernels/training/cpu_elementwise.h"
#include "kernels/training/cpu_memory.h"

namespace dlc {
namespace {

constexpr std::size_t kCpuAlignment = 256;

DeviceStatus InvalidCpuValue(std::string call) {
  return {1, "cudaErrorInvalidValue", "invalid argument", std::move(call)};
}

DeviceStatus TakeCpuMemory(std::uint64_t bytes, void** memory) {
  *memory = nullptr;
  const CpuMemory machine = ReadCpuMemory();
  const bool known = machine.total_bytes > 0;
  const bool too_much = bytes > SIZE_MAX - kCpuAlignment ||
                        (known && (machine.available_bytes < kCpuMemoryReserve ||
                                   bytes > machine.available_bytes - kCpuMemoryReserve));
  if (!too_much) {
    const std::size_t size =
        std::max<std::size_t>(1, (bytes + kCpuAlignment - 1) / kCpuAlignment) * kCpuAlignment;
    *memory = std::aligned_alloc(kCpuAlignment, size);
    if (*memory != nullptr) {
      // Written, so that it is taken now and the next look at what is left sees that.
      std::memset(*memory, 0, size);
      return {};
    }
  }
  std::string call = "allocation of " + std::to_string(bytes) + " bytes";
  if (known) {
    call += " of " + std::to_string(machine.available_bytes);
  }
  return {2, "cudaErrorMemoryAllocation", "out of memory", std::move(call)};
}

class CpuTrainingBackend final : public TrainingBackend {
 public:
  CpuTrainingBackend() = default;
  CpuTrainingBackend(const CpuTrainingBackend&) = delete;
  CpuTrainingBackend& operator=(const CpuTrainingBackend&) = delete;
  ~CpuTrainingBackend() override { std::free(activations_); }

  DeviceStatus Allocate(std::uint64_t bytes, void** memory) override {
    return TakeCpuMemory(bytes, memory);
  }
  void Free(void* memory) override { std::free(memory); }
  DeviceStatus FreeMemory(std::uint64_t& free_bytes, std::uint64_t& total_bytes) override {
    const CpuMemory machine = ReadCpuMemory();
    free_bytes = machine.available_bytes;
    total_bytes = machine.total_bytes;
    if (machine.total_bytes == 0) {
      return {801, "cudaErrorNotSupported", "operation not supported", "reading /proc/meminfo"};
    }
    return {};
  }
  DeviceStatus Upload(void* to, const void* from, std::uint64_t bytes) override {
    std::memcpy(to, from, bytes);
    return {};
  }
  DeviceStatus Download(void* to, const void* from, std::uint64_t bytes) override {
    std::memcpy(to, from, bytes);
    return {};
  }

  void* Stream(TrainingQueue) override { return nullptr; }
  int Mark(TrainingQueue) override {
    marks_.push_back(std::chrono::steady_clock::now());
    return static_cast<int>(marks_.size()) - 1;
  }
  DeviceStatus WaitFor(TrainingQueue, int mark) override { return CheckMark(mark); }
  DeviceStatus IsDone(int mark, bool& done) override {
    done = true;
    return CheckMark(mark);
  }
  DeviceStatus SecondsBetween(int from, int to, double& seconds) override {
    for (const int mark : {from, to}) {
      if (DeviceStatus status = CheckMark(mark); !status.Good()) {
        return status;
      }
    }
    seconds = std::chrono::duration<double>(marks_[static_cast<std::size_t>(to)] -
                                            marks_[static_cast<std::size_t>(from)])
                  .count();
    return {};
  }
  void ForgetMarks() override { marks_.clear(); }
  DeviceStatus Wait() override { return {}; }

  DeviceStatus PreparePieces(const std::vector<Piece>& pieces, int& handle) override {
    handle = static_cast<int>(pieces_.size());
    pieces_.push_back(pieces);
    return {};
  }
  DeviceStatus Move(int pieces, const void* from, DataType from_type, void* to, DataType to_type,
                    TrainingQueue) override {
    if (pieces < 0 || static_cast<std::size_t>(pieces) >= pieces_.size()) {
      return InvalidCpuValue("Move of pieces " + std::to_string(pieces));
    }
    CpuMove(pieces_[static_cast<std::size_t>(pieces)], from, from_type, to, to_type);
    return {};
  }
  DeviceStatus Accumulate(float* into, const void* from, DataType from_type, float factor, bool add,
                          std::int64_t count) override {
    CpuAccumulate(into, from, from_type, factor, add, count);
    return {};
  }
  DeviceStatus AddSquares(const float* values, std::int64_t count, double* sum) override {
    *sum += CpuSumOfSquares(values, count);
    return {};
  }
  DeviceStatus ClipScale(const double* sum, double largest, float* scale) override {
    *scale = CpuClipScale(*sum, largest);
    return {};
  }
  DeviceStatus AdamW(const AdamWOptions& options, std::int64_t step, const float* gradient,
                     const float* scale, float* parameter, float* m, float* v, void* copy,
                     DataType copy_type, std::int64_t count) override {
    CpuAdamW(AdamWScalarsFor(options, step), gradient, *scale, parameter, m, v, count);
    if (copy != nullptr) {
      CpuNarrow(parameter, count, copy, copy_type);
    }
    return {};
  }

  DeviceStatus FillNormal(float* to, std::uint64_t key, std::int64_t first, std::int64_t count,
                          float mean, float spread) override {
    CpuFillNormal(to, key, first, count, mean, spread);
    return {};
  }
  DeviceStatus FillIntegers(void* to, DataType type, std::uint64_t key, std::int64_t first,
                            std::int64_t count) override {
    CpuFillIntegers(to, type, key, first, count);
    return {};
  }
  DeviceStatus AddHash(const float* values, std::uint64_t key, std::int64_t first,
                       std::int64_t count, std::uint64_t* hash) override {
    *hash += CpuHash(values, key, first, count);
    return {};
  }
  DeviceStatus Compare(const float* found, const float* expected, std::int64_t count,
                       FloatComparison& comparison) override {
    CpuCompareFloats(found, expected, count, comparison);
    return {};
  }

  std::uint64_t ActivationBytes(const TrainingShape& shape) const override {
    return CpuDecoder::IsUsable(shape) ? CpuDecoder::Bytes(shape) : 0;
  }
  DeviceStatus PrepareModel(const TrainingShape& shape) override;
  DeviceStatus Embed(const void* root, const std::int32_t* tokens) override;
  DeviceStatus ForwardLayer(int layer, const void* unit) override;
  DeviceStatus Loss(const void* root, void* root_gradient, float* loss) override;
  DeviceStatus BackwardLayer(int layer, const void* unit, void* unit_gradient) override;
  DeviceStatus BackwardEmbed(void* root_gradient) override;

 private:
  DeviceStatus CheckMark(int mark) const {
    const bool known = mark >= 0 && static_cast<std::size_t>(mark) < marks_.size();
    return known ? DeviceStatus{} : InvalidCpuValue("mark " + std::to_string(mark));
  }
  /// A call out of its turn would read what an earlier micro-batch left behind.
  bool TakeTurn(int turn, int next) {
    const bool right = decoder_ != nullptr && turn_ == turn;
    turn_ = right ? next : kNoTurn;
    return right;
  }

  static constexpr int kNoTurn = -1;
  std::vector<std::chrono::steady_clock::time_point> marks_;
  std::vector<std::vector<Piece>> pieces_;
  void* activations_ = nullptr;
  std::unique_ptr<CpuDecoder> decoder_;
  int layers_ = 0;
  /// What comes next: layer n forward, layers_ for the loss, layers_ + 1 + n for the backward of
  /// layer layers_ - 1 - n, and the embedding's at the end.
  int turn_ = kNoTurn;
};

DeviceStatus CpuTrainingBackend::PrepareModel(const TrainingShape& shape) {
  if (decoder_ != nullptr || !CpuDecoder::IsUsable(shape)) {
    return InvalidCpuValue("PrepareModel");
  }
  DeviceStatus status = TakeCpuMemory(CpuDecoder::Bytes(shape), &activations_);
  if (status.Good()) {
    decoder_ = std::make_unique<CpuDecoder>(shape, static_cast<float*>(activations_));
    layers_ = static_cast<int>(shape.model.layers);
  }
  return status;
}

DeviceStatus CpuTrainingBackend::Embed(const void* root, const std::int32_t* tokens) {
  turn_ = kNoTurn;
  if (decoder_ == nullptr || !decoder_->Embed(root, tokens)) {
    return InvalidCpuValue("Embed");
  }
  turn_ = 0;
  return {};
}

DeviceStatus CpuTrainingBackend::ForwardLayer(int layer, const void* unit) {
  if (layer < 0 || layer >= layers_ || !TakeTurn(layer, layer + 1)) {
    return InvalidCpuValue("ForwardLayer " + std::to_string(layer));
  }
  decoder_->ForwardLayer(layer, unit);
  return {};
}

DeviceStatus CpuTrainingBackend::Loss(const void* root, void* root_gradient, float* loss) {
  if (!TakeTurn(layers_, layers_ + 1)) {
    return InvalidCpuValue("Loss");
  }
  decoder_->Loss(root, root_gradient, loss);
  return {};
}

DeviceStatus CpuTrainingBackend::BackwardLayer(int layer, const void* unit, void* unit_gradient) {
  const int turn = 2 * layers_ - layer;
  if (layer < 0 || layer >= layers_ || !TakeTurn(turn, turn + 1)) {
    return InvalidCpuValue("BackwardLayer " + std::to_string(layer));
  }
  decoder_->BackwardLayer(layer, unit, unit_gradient);
  return {};
}

DeviceStatus CpuTrainingBackend::BackwardEmbed(void* root_gradient) {
  if (!TakeTurn(2 * layers_ + 1, kNoTurn)) {
    return InvalidCpuValue("BackwardEmbed");
  }
  decoder_->BackwardEmbed(root_gradient);
  return {};
}

}  // namespace

std::unique_ptr<TrainingBackend> OpenCpuTrainingBackend() {
  return std::make_unique<CpuTrainingBackend>();
}

}  // namespace dlc

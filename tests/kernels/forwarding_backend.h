#pragma once

#include <memory>
#include <utility>

#include "kernels/training/training_backend.h"

namespace dlc {

/// Another backend, whose calls a test may override to spoil them.
class ForwardingBackend : public TrainingBackend {
 public:
  explicit ForwardingBackend(std::unique_ptr<TrainingBackend> inner) : inner_(std::move(inner)) {}

  DeviceStatus Allocate(std::uint64_t bytes, void** memory) override {
    return inner_->Allocate(bytes, memory);
  }
  void Free(void* memory) override { inner_->Free(memory); }
  DeviceStatus FreeMemory(std::uint64_t& free_bytes, std::uint64_t& total_bytes) override {
    return inner_->FreeMemory(free_bytes, total_bytes);
  }
  DeviceStatus Upload(void* to, const void* from, std::uint64_t bytes) override {
    return inner_->Upload(to, from, bytes);
  }
  DeviceStatus Download(void* to, const void* from, std::uint64_t bytes) override {
    return inner_->Download(to, from, bytes);
  }
  void* Stream(TrainingQueue queue) override { return inner_->Stream(queue); }
  int Mark(TrainingQueue queue) override { return inner_->Mark(queue); }
  DeviceStatus WaitFor(TrainingQueue queue, int mark) override {
    return inner_->WaitFor(queue, mark);
  }
  DeviceStatus IsDone(int mark, bool& done) override { return inner_->IsDone(mark, done); }
  DeviceStatus SecondsBetween(int from, int to, double& seconds) override {
    return inner_->SecondsBetween(from, to, seconds);
  }
  void ForgetMarks() override { inner_->ForgetMarks(); }
  DeviceStatus Wait() override { return inner_->Wait(); }
  DeviceStatus PreparePieces(const std::vector<Piece>& pieces, int& handle) override {
    return inner_->PreparePieces(pieces, handle);
  }
  DeviceStatus Move(int pieces, const void* from, DataType from_type, void* to, DataType to_type,
                    TrainingQueue queue) override {
    return inner_->Move(pieces, from, from_type, to, to_type, queue);
  }
  DeviceStatus Accumulate(float* into, const void* from, DataType from_type, float factor, bool add,
                          std::int64_t count) override {
    return inner_->Accumulate(into, from, from_type, factor, add, count);
  }
  DeviceStatus AddSquares(const float* values, std::int64_t count, double* sum) override {
    return inner_->AddSquares(values, count, sum);
  }
  DeviceStatus ClipScale(const double* sum, double largest, float* scale) override {
    return inner_->ClipScale(sum, largest, scale);
  }
  DeviceStatus AdamW(const AdamWOptions& options, std::int64_t step, const float* gradient,
                     const float* scale, float* parameter, float* m, float* v, void* copy,
                     DataType copy_type, std::int64_t count) override {
    return inner_->AdamW(options, step, gradient, scale, parameter, m, v, copy, copy_type, count);
  }
  DeviceStatus FillNormal(float* to, std::uint64_t key, std::int64_t first, std::int64_t count,
                          float mean, float spread) override {
    return inner_->FillNormal(to, key, first, count, mean, spread);
  }
  DeviceStatus FillIntegers(void* to, DataType type, std::uint64_t key, std::int64_t first,
                            std::int64_t count) override {
    return inner_->FillIntegers(to, type, key, first, count);
  }
  DeviceStatus AddHash(const float* values, std::uint64_t key, std::int64_t first,
                       std::int64_t count, std::uint64_t* hash) override {
    return inner_->AddHash(values, key, first, count, hash);
  }
  DeviceStatus Compare(const float* found, const float* expected, std::int64_t count,
                       FloatComparison& comparison) override {
    return inner_->Compare(found, expected, count, comparison);
  }
  std::uint64_t ActivationBytes(const TrainingShape& shape) const override {
    return inner_->ActivationBytes(shape);
  }
  DeviceStatus PrepareModel(const TrainingShape& shape) override {
    return inner_->PrepareModel(shape);
  }
  DeviceStatus Embed(const void* root, const std::int32_t* tokens) override {
    return inner_->Embed(root, tokens);
  }
  DeviceStatus ForwardLayer(int layer, const void* unit) override {
    return inner_->ForwardLayer(layer, unit);
  }
  DeviceStatus Loss(const void* root, void* root_gradient, float* loss) override {
    return inner_->Loss(root, root_gradient, loss);
  }
  DeviceStatus BackwardLayer(int layer, const void* unit, void* unit_gradient) override {
    return inner_->BackwardLayer(layer, unit, unit_gradient);
  }
  DeviceStatus BackwardEmbed(void* root_gradient) override {
    return inner_->BackwardEmbed(root_gradient);
  }

 private:
  std::unique_ptr<TrainingBackend> inner_;
};

}  // namespace dlc

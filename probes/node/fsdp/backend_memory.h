#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/training/training_backend.h"
#include "probes/observations/result.h"

namespace dlc {

/// What a TrainingBackend says, as an error. Too little memory is kUnavailable.
Result<void> TrainingResult(const DeviceStatus& status);

/// Memory of a backend, given back at the end. The backend outlives it.
class TrainingMemory {
 public:
  TrainingMemory() = default;
  TrainingMemory(TrainingMemory&& other) noexcept { Swap(other); }
  TrainingMemory& operator=(TrainingMemory&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~TrainingMemory() {
    if (at_ != nullptr) {
      backend_->Free(at_);
    }
  }

  /// Zeroed; `taken` grows by its bytes. Nothing is taken for 0 elements.
  Result<void> Take(TrainingBackend& backend, std::int64_t elements, DataType type,
                    std::int64_t& taken);

  std::byte* At(std::int64_t element) const {
    return static_cast<std::byte*>(at_) + static_cast<std::size_t>(element) * ElementBytes(type_);
  }
  /// Of kFloat32.
  float* Floats(std::int64_t element = 0) const { return static_cast<float*>(at_) + element; }
  DataType Type() const { return type_; }
  bool Taken() const { return at_ != nullptr; }

 private:
  void Swap(TrainingMemory& other) {
    std::swap(backend_, other.backend_);
    std::swap(at_, other.at_);
    std::swap(type_, other.type_);
  }

  TrainingBackend* backend_ = nullptr;
  void* at_ = nullptr;
  DataType type_ = DataType::kFloat32;
};

}  // namespace dlc

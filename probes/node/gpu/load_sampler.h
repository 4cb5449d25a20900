#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "probes/node/gpu/nvml.h"
#include "probes/observations/gpu.h"

namespace dlc {

/// Looks at one GPU through NVML while it works.
class LoadSampler {
 public:
  /// By the uuid that CUDA gives. Where NVML cannot find it, samples are errors that say why.
  explicit LoadSampler(const std::string& cuda_uuid);

  /// To be called while the device is busy, however often: looks a few times a second.
  std::function<void()> Watch();
  /// What Watch saw; the next Watch starts anew.
  Observed<GpuState> Take();

 private:
  void Sample();

  std::optional<Nvml> nvml_;
  nvml::Device device_ = nullptr;
  Error why_not_;
  std::optional<GpuState> state_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace dlc

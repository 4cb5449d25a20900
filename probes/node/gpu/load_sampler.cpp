#include "probes/node/gpu/load_sampler.h"

#include <algorithm>
#include <utility>

#include "probes/node/gpu/nvml_gpu.h"

namespace dlc {
namespace {

constexpr std::chrono::milliseconds kBetweenSamples{200};

/// Keeps what was seen: a later error does not take a value away.
template <class T, class Join>
void Merge(Observed<T>& into, const Observed<T>& now, Join join) {
  if (into.seen() && now.seen()) {
    into = join(into.value(), now.value());
  } else if (!into.seen()) {
    into = now;
  }
}

template <class T>
T Larger(T a, T b) {
  return std::max(a, b);
}

template <class T>
T Smaller(T a, T b) {
  return std::min(a, b);
}

void MergeState(GpuState& into, const GpuState& now) {
  Merge(into.pcie_generation, now.pcie_generation, Larger<int>);
  Merge(into.pcie_width, now.pcie_width, Larger<int>);
  Merge(into.clocks_event_reasons, now.clocks_event_reasons,
        [](std::int64_t a, std::int64_t b) { return a | b; });
  Merge(into.temperature_celsius, now.temperature_celsius, Larger<int>);
  Merge(into.power_watts, now.power_watts, Larger<double>);
  Merge(into.sm_clock_hz, now.sm_clock_hz, Smaller<std::int64_t>);
  Merge(into.memory_clock_hz, now.memory_clock_hz, Smaller<std::int64_t>);
}

}  // namespace

LoadSampler::LoadSampler(const std::string& cuda_uuid) {
  auto nvml = Nvml::Open();
  if (!nvml) {
    why_not_ = nvml.error();
    return;
  }
  int code = 0;
  if (const auto ready = nvml->Initialize(code); !ready) {
    why_not_ = ready.error();
    return;
  }
  auto found = FindNvmlDevice(*nvml, cuda_uuid);
  if (!found && cuda_uuid.compare(0, 4, "GPU-") == 0) {
    // CUDA does not tell a slice's uuid from a whole GPU's.
    if (auto slice = FindNvmlDevice(*nvml, "MIG-" + cuda_uuid.substr(4)); slice) {
      found = slice;
    }
  }
  if (!found) {
    why_not_ = found.error();
    return;
  }
  device_ = *found;
  nvml_ = std::move(nvml).value();
}

std::function<void()> LoadSampler::Watch() {
  return [this] { Sample(); };
}

void LoadSampler::Sample() {
  const auto now = std::chrono::steady_clock::now();
  if (!nvml_ || now < next_) {
    return;
  }
  const GpuState state = ReadGpuState(*nvml_, device_);
  if (state_) {
    MergeState(*state_, state);
  } else {
    state_ = state;
  }
  next_ = now + kBetweenSamples;
}

Observed<GpuState> LoadSampler::Take() {
  next_ = {};
  if (!nvml_) {
    return why_not_;
  }
  if (!state_) {
    return NotLookedAt{"nothing ran", ""};
  }
  Observed<GpuState> taken(*std::exchange(state_, std::nullopt));
  return taken;
}

}  // namespace dlc

#include "kernels/cuda_support.cuh"

namespace dlc {
namespace {

/// Page-locked memory of the host: pageable memory is staged, and measures the staging.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  ~PinnedBuffer() { cudaFreeHost(at_); }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  bool Allocate(CudaCalls& calls, std::uint64_t bytes) {
    const std::string call = "cudaMallocHost of " + std::to_string(bytes) + " bytes";
    return calls.Ok(cudaMallocHost(&at_, bytes), call.c_str());
  }
  std::uint64_t* Words() const { return static_cast<std::uint64_t*>(at_); }

 private:
  void* at_ = nullptr;
};

constexpr MemoryPattern kPattern = MemoryPattern::kRandom;

std::uint64_t CountWrongOnHost(const std::uint64_t* words, std::uint64_t count,
                               std::uint64_t seed) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    wrong += words[i] != PatternWord(kPattern, seed, i) ? 1 : 0;
  }
  return wrong;
}

bool Compare(CudaCalls& calls, const PinnedBuffer& host, const CudaBuffer& device,
             const DeviceWork& work, HostCopy& out) {
  const std::uint64_t words = out.bytes / 8;
  if (out.to_device) {
    return (!work.plant_flip || FlipBit(calls, device.As<void>(), words / 3, 17)) &&
           CountWrongWords(calls, device.As<std::uint64_t>(), words, kPattern, work.seed,
                           out.wrong_words);
  }
  if (work.plant_flip) {
    host.Words()[words / 3] ^= std::uint64_t{1} << 17;
  }
  out.wrong_words = CountWrongOnHost(host.Words(), words, work.seed);
  return true;
}

}  // namespace

DeviceStatus CudaCopyHost(bool to_device, std::uint64_t bytes, const DeviceWork& work,
                          HostCopy& out) {
  CudaCalls calls;
  PinnedBuffer host;
  CudaBuffer device;
  out.to_device = to_device;
  out.bytes = bytes / 16 * 16;
  const std::uint64_t words = out.bytes / 8;
  if (!host.Allocate(calls, out.bytes) || !device.Allocate(calls, out.bytes)) {
    return calls.Take();
  }
  // The end that is copied to starts with other words, so that a copy that did nothing is seen.
  const std::uint64_t stale = ~work.seed;
  for (std::uint64_t i = 0; i < words; ++i) {
    host.Words()[i] = PatternWord(kPattern, to_device ? work.seed : stale, i);
  }
  if (!FillWords(calls, device.As<std::uint64_t>(), words, kPattern,
                 to_device ? stale : work.seed)) {
    return calls.Take();
  }
  const auto launch = [&] {
    return to_device ? calls.Ok(cudaMemcpyAsync(device.As<void>(), host.Words(), out.bytes,
                                                cudaMemcpyHostToDevice),
                                "cudaMemcpyAsync, host to device")
                     : calls.Ok(cudaMemcpyAsync(host.Words(), device.As<void>(), out.bytes,
                                                cudaMemcpyDeviceToHost),
                                "cudaMemcpyAsync, device to host");
  };
  if (TimeBatches(calls, work, launch, out.timing)) {
    Compare(calls, host, device, work, out);
  }
  return calls.Take();
}

}  // namespace dlc

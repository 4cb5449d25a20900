#include "probes/node/gpu/gpu_compute.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/cuda_device.h"
#include "probes/node/gpu/cuda_meaning.h"
#include "probes/node/gpu/load_sampler.h"

namespace dlc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kDefaultSeconds = 10;
constexpr double kDefaultShare = 0.25;
constexpr double kMostShare = 0.9;
constexpr std::uint64_t kMiB = 1U << 20U;
constexpr std::uint64_t kTransferBytes = 1024 * kMiB;  ///< of each of the two buffers
constexpr std::uint64_t kHostCopyBytes = 64 * kMiB;    ///< filled and compared by the CPU
constexpr int kProductSize = 4096;
constexpr std::uint64_t kSelfTestBytes = kMiB;
constexpr int kSelfTestSize = 256;
// Of the budget; the patterns, allocations and comparisons take the rest.
constexpr double kPerTransfer = 0.05;
constexpr double kPerHostCopy = 0.1;
constexpr double kForProducts = 0.3;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string HexWord(std::uint64_t word) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(word));
  return text;
}

CudaFailure FailureOf(const DeviceStatus& status) {
  return {status.code, status.name, status.call, status.text, CudaMeaning(status.code)};
}

GpuMemoryPass PassOf(const MemoryCheck& check) {
  GpuMemoryPass pass;
  pass.pattern = MemoryPatternName(check.pattern);
  pass.bytes = static_cast<std::int64_t>(check.bytes);
  pass.wrong_words = static_cast<std::int64_t>(check.wrong_words);
  pass.write_seconds = check.write_seconds;
  pass.read_seconds = check.read_seconds;
  if (check.wrong_words > 0) {
    pass.first_wrong_offset = static_cast<std::int64_t>(check.first_wrong * 8);
    pass.expected = HexWord(check.expected);
    pass.reread = HexWord(check.reread);
    pass.flipped_bits = HexWord(check.flipped_bits);
  }
  return pass;
}

double Rate(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

GpuTransfer TransferOf(std::string operation, std::uint64_t bytes, const DeviceTiming& timing,
                       std::uint64_t wrong_words) {
  const auto amount = static_cast<double>(bytes);
  return {std::move(operation),
          static_cast<std::int64_t>(bytes),
          timing.iterations,
          Rate(amount, timing.seconds),
          Rate(amount, timing.best_seconds),
          static_cast<std::int64_t>(wrong_words)};
}

GpuProduct ProductOf(const MatrixProduct& product) {
  const double n = product.size;
  const double operations = 2 * n * n * n;
  return {product.size,
          product.type,
          product.timing.iterations,
          Rate(operations, product.timing.seconds),
          Rate(operations, product.timing.best_seconds),
          product.checked_elements,
          product.wrong_elements,
          product.wrong_row,
          product.wrong_column,
          product.expected,
          product.found,
          product.host_checked_elements,
          product.host_wrong_elements};
}

/// The experiments on one device, in order. A failure ends them.
class GpuExperiments {
 public:
  GpuExperiments(ComputeDevice& device, const GpuCompute& settings, GpuWork& to,
                 const std::function<void(std::string_view)>& say)
      : device_(device), settings_(settings), to_(to), say_(say) {}

  void Run() {
    if (!Describe()) {
      return;
    }
    LoadSampler sampler(to_.uuid);
    sampler_ = &sampler;
    if (Memory() && Transfers() && HostCopies()) {
      Product();
    }
  }

 private:
  bool Noted(const DeviceStatus& status) {
    if (!status.Good()) {
      to_.failure = FailureOf(status);
    }
    return status.Good();
  }
  void Say(const std::string& what) const { say_("GPU " + to_.uuid + ": " + what); }
  DeviceWork Work(const char* experiment, double share) const {
    DeviceWork work;
    work.seed = 1 + static_cast<std::uint64_t>(to_.ordinal);
    work.seconds = settings_.budget_seconds * share;
    work.plant_flip = settings_.planted == experiment;
    return work;
  }
  static DeviceWork Planted() {
    DeviceWork work;
    work.plant_flip = true;
    return work;
  }

  bool Describe();
  bool Memory();
  bool Transfers();
  bool HostCopies();
  bool Product();

  ComputeDevice& device_;
  const GpuCompute& settings_;
  GpuWork& to_;
  const std::function<void(std::string_view)>& say_;
  LoadSampler* sampler_ = nullptr;
};

bool GpuExperiments::Describe() {
  DeviceFacts facts;
  if (!Noted(device_.Describe(facts))) {
    return false;
  }
  to_.uuid = facts.uuid;
  to_.name = facts.name;
  to_.pci_address = facts.pci_address;
  to_.compute_capability = std::to_string(facts.major) + "." + std::to_string(facts.minor);
  to_.total_bytes = static_cast<std::int64_t>(facts.total_bytes);
  to_.free_bytes = static_cast<std::int64_t>(facts.free_bytes);
  to_.cache_bytes = static_cast<std::int64_t>(facts.cache_bytes);
  return true;
}

bool GpuExperiments::Memory() {
  Say("memory patterns");
  std::vector<MemoryCheck> checks;
  if (!Noted(device_.CheckMemory(kSelfTestBytes, Planted(), checks))) {
    return false;
  }
  const bool caught = !checks.empty() &&
                      std::all_of(checks.begin(), checks.end(),
                                  [](const MemoryCheck& check) { return check.wrong_words == 1; });
  to_.self_tests.push_back({"memory", caught});
  checks.clear();
  const auto bytes =
      static_cast<std::uint64_t>(static_cast<double>(to_.free_bytes) * settings_.memory_share);
  const DeviceStatus status =
      device_.CheckMemory(std::max(bytes, kSelfTestBytes), Work("memory", 0), checks);
  for (const MemoryCheck& check : checks) {
    to_.memory.push_back(PassOf(check));
  }
  return Noted(status);
}

bool GpuExperiments::Transfers() {
  Say("memory bandwidth");
  MemorySpeed planted;
  if (!Noted(device_.MeasureMemory(MemoryOperation::kCopy, kSelfTestBytes, Planted(), planted))) {
    return false;
  }
  to_.self_tests.push_back({"transfer", planted.wrong_words == 1});
  const auto share =
      static_cast<std::uint64_t>(static_cast<double>(to_.free_bytes) * settings_.memory_share / 2);
  const std::uint64_t bytes = std::max(std::min(kTransferBytes, share), kSelfTestBytes);
  for (const MemoryOperation operation : kMemoryOperations) {
    MemorySpeed speed;
    if (!Noted(device_.MeasureMemory(operation, bytes, Work("transfer", kPerTransfer), speed))) {
      return false;
    }
    to_.transfers.push_back(TransferOf(std::string(MemoryOperationName(operation)),
                                       speed.moved_bytes, speed.timing, speed.wrong_words));
  }
  return true;
}

bool GpuExperiments::HostCopies() {
  for (const bool to_device : {true, false}) {
    const std::string name = to_device ? "host-to-device" : "device-to-host";
    Say(name);
    HostCopy planted;
    if (!Noted(device_.CopyHost(to_device, kSelfTestBytes, Planted(), planted))) {
      return false;
    }
    to_.self_tests.push_back({name, planted.wrong_words == 1});
    DeviceWork work = Work("host-copy", kPerHostCopy);
    work.under_load = sampler_->Watch();
    const auto share = static_cast<std::uint64_t>(to_.free_bytes / 4);
    const std::uint64_t bytes = std::max(std::min(kHostCopyBytes, share), kSelfTestBytes);
    HostCopy copy;
    if (!Noted(device_.CopyHost(to_device, bytes, work, copy))) {
      return false;
    }
    to_.transfers.push_back(TransferOf(name, copy.bytes, copy.timing, copy.wrong_words));
  }
  to_.during_copies = sampler_->Take();
  return true;
}

bool GpuExperiments::Product() {
  Say("matrix products");
  MatrixProduct planted;
  if (!Noted(device_.Multiply(kSelfTestSize, Planted(), planted))) {
    return false;
  }
  to_.self_tests.push_back({"product", planted.wrong_elements == 1});
  DeviceWork work = Work("product", kForProducts);
  work.under_load = sampler_->Watch();
  // The twin is a thousand times slower than any GPU, and has no memory of its own to tell of.
  const int size = to_.total_bytes == 0 ? kSelfTestSize : kProductSize;
  MatrixProduct product;
  if (!Noted(device_.Multiply(size, work, product))) {
    return false;
  }
  to_.product = ProductOf(product);
  to_.during_products = sampler_->Take();
  return true;
}

}  // namespace

Result<void> CheckGpuComputeParameters(const GpuComputeParameters& parameters) {
  const auto invalid = [](const std::string& message) {
    return Error{ErrorCode::kInvalidInput, message, ""};
  };
  if (!(parameters.seconds >= 0 && parameters.seconds <= 600)) {
    return invalid("$.seconds: must be from 0 to 600");
  }
  if (!(parameters.memory_share >= 0 && parameters.memory_share <= kMostShare)) {
    return invalid("$.memoryShare: must be from 0 to 0.9");
  }
  for (const char* known : {"", "memory", "transfer", "host-copy", "product"}) {
    if (parameters.plant == known) {
      return {};
    }
  }
  return invalid("$.plant: there is no experiment '" + parameters.plant +
                 "'; memory, transfer, host-copy, product");
}

Result<std::vector<int>> OwnGpus(int visible, int ranks, int local_rank) {
  if (ranks == 1) {
    std::vector<int> all(static_cast<std::size_t>(visible));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  if (visible == 1) {
    return std::vector<int>{0};
  }
  if (local_rank < visible) {
    return std::vector<int>{local_rank};
  }
  return Error{ErrorCode::kUnavailable,
               "local rank " + std::to_string(local_rank) +
                   " has no GPU of its own: this process "
                   "is shown " +
                   std::to_string(visible),
               "start as many ranks on a host as it has GPUs"};
}

ComputeSource CudaSource() {
  return {CountCudaDevices, OpenCudaDevice};
}

GpuCompute ObserveGpuCompute(const GpuComputeParameters& parameters, int ranks, int local_rank,
                             const ComputeSource& source,
                             const std::function<void(std::string_view)>& say) {
  GpuCompute seen;
  seen.budget_seconds = parameters.seconds > 0 ? parameters.seconds : kDefaultSeconds;
  seen.memory_share = parameters.memory_share > 0 ? parameters.memory_share : kDefaultShare;
  seen.planted = parameters.plant;
  say("counting GPUs");
  if (const DeviceStatus counted = source.count(seen.visible); !counted.Good()) {
    seen.failure = FailureOf(counted);
    return seen;
  }
  const auto own = OwnGpus(seen.visible, ranks, local_rank);
  if (!own) {
    seen.failure = {-1, "no GPU for this rank", "choosing a GPU", own.error().message,
                    own.error().hint};
    return seen;
  }
  for (const int ordinal : *own) {
    say("opening CUDA device " + std::to_string(ordinal));
    const auto start = Clock::now();
    GpuWork& work = seen.gpus.emplace_back();
    work.ordinal = ordinal;
    DeviceStatus status;
    if (const auto device = source.open(ordinal, status); device) {
      GpuExperiments(*device, seen, work, say).Run();
    } else {
      work.failure = FailureOf(status);
    }
    work.seconds = SecondsSince(start);
    seen.gpu_seconds += work.seconds;
  }
  return seen;
}

}  // namespace dlc

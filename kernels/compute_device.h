#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/known_data.h"

namespace dlc {

/// How work on a device ended. Never an abort: a broken device is what we came to see.
struct DeviceStatus {
  int code = 0;      ///< of the CUDA runtime; 0: it worked
  std::string name;  ///< "cudaErrorECCUncorrectable"
  std::string text;  ///< CUDA's own words
  std::string call;  ///< what was being done: "cudaMalloc of 1073741824 bytes"

  bool Good() const { return code == 0; }
};

struct DeviceFacts {
  std::string name;
  std::string uuid;         ///< "GPU-...", "MIG-..."; empty for the CPU twin
  std::string pci_address;  ///< "00000000:53:00.0"
  int major = 0;            ///< compute capability
  int minor = 0;
  int multiprocessors = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t cache_bytes = 0;  ///< second level
};

/// One pattern written over the whole buffer, then read back as a whole.
struct MemoryCheck {
  MemoryPattern pattern = MemoryPattern::kAddress;
  std::uint64_t bytes = 0;
  std::uint64_t wrong_words = 0;   ///< of 8 bytes
  std::uint64_t first_wrong = 0;   ///< its index; this and what follows with wrong_words > 0 only
  std::uint64_t expected = 0;      ///< at first_wrong
  std::uint64_t reread = 0;        ///< at first_wrong, read once more: the right value was a
                                   ///< fault of reading, a wrong one is in the memory
  std::uint64_t flipped_bits = 0;  ///< all bits that differed anywhere
  double write_seconds = 0;
  double read_seconds = 0;
};

/// Repetitions of one operation.
struct DeviceTiming {
  std::int64_t iterations = 0;
  double seconds = 0;       ///< of one iteration, mean
  double best_seconds = 0;  ///< of one iteration in the fastest batch
};

enum class MemoryOperation : std::uint8_t {
  kRead,    ///< a kernel reads; bytes count once
  kWrite,   ///< a kernel writes
  kCopy,    ///< a kernel reads and writes: bytes count twice
  kMemcpy,  ///< the same by cudaMemcpyAsync
};
inline constexpr MemoryOperation kMemoryOperations[] = {
    MemoryOperation::kRead, MemoryOperation::kWrite, MemoryOperation::kCopy,
    MemoryOperation::kMemcpy};

/// "read", "write", "copy", "memcpy".
constexpr std::string_view MemoryOperationName(MemoryOperation operation) {
  switch (operation) {
    case MemoryOperation::kRead:
      return "read";
    case MemoryOperation::kWrite:
      return "write";
    case MemoryOperation::kCopy:
      return "copy";
    case MemoryOperation::kMemcpy:
      break;
  }
  return "memcpy";
}

struct MemorySpeed {
  MemoryOperation operation = MemoryOperation::kRead;
  std::uint64_t moved_bytes = 0;  ///< by one iteration: read plus written
  DeviceTiming timing;
  std::uint64_t wrong_words = 0;  ///< of the result, compared afterwards; nothing to compare: read
};

/// One direction between pinned host memory and the device.
struct HostCopy {
  bool to_device = false;
  std::uint64_t bytes = 0;
  DeviceTiming timing;
  std::uint64_t wrong_words = 0;  ///< of 8 bytes, compared where they arrived
};

/// Square matrices of small whole numbers, multiplied by the tensor cores and, for comparison, once
/// by integer arithmetic from the formula. Every product is compared, element by element.
struct MatrixProduct {
  int size = 0;
  std::string type;  ///< of the factors: "bfloat16", or "float16" before compute capability 8.0
  DeviceTiming timing;
  std::int64_t checked_elements = 0;  ///< over all products
  std::int64_t wrong_elements = 0;
  int wrong_row = 0;  ///< of the first wrong one
  int wrong_column = 0;
  double expected = 0;
  double found = 0;  ///< in the last product: right when the fault did not last
  std::int64_t host_checked_elements = 0;  ///< of the reference, computed again by the CPU
  std::int64_t host_wrong_elements = 0;

  /// 2 n^3 operations per product.
  double OperationsPerSecond() const {
    const double n = size;
    return timing.seconds > 0 ? 2 * n * n * n / timing.seconds : 0;
  }
};

/// What an experiment asks for besides its numbers.
struct DeviceWork {
  std::uint64_t seed = 1;
  double seconds = 0;  ///< repeat for about so long; at least one iteration
  /// One bit is flipped between the work and the comparison, which must find exactly that.
  bool plant_flip = false;
  /// Called while the device is busy; may be empty.
  std::function<void()> under_load;
};

/// One device, or its twin on the CPU, which does the same work with the same results and none of
/// the speed. A call that fails leaves its output as far as it got.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  virtual DeviceStatus Describe(DeviceFacts& out) = 0;
  /// All kMemoryPatterns over one buffer of `bytes` (rounded down to 16).
  virtual DeviceStatus CheckMemory(std::uint64_t bytes, const DeviceWork& work,
                                   std::vector<MemoryCheck>& out) = 0;
  /// Between two buffers of `bytes` each (rounded down to a multiple of 64 KiB).
  virtual DeviceStatus MeasureMemory(MemoryOperation operation, std::uint64_t bytes,
                                     const DeviceWork& work, MemorySpeed& out) = 0;
  virtual DeviceStatus CopyHost(bool to_device, std::uint64_t bytes, const DeviceWork& work,
                                HostCopy& out) = 0;
  /// `size` is a multiple of 128 up to kMaxMatrixSize.
  virtual DeviceStatus Multiply(int size, const DeviceWork& work, MatrixProduct& out) = 0;
};

}  // namespace dlc

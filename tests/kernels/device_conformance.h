#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "kernels/compute_device.h"

namespace dlc {

/// What every ComputeDevice must do: right work compares right, and a planted bit is found, alone
/// and where it is.
inline void CheckDeviceFindsWhatIsPlanted(ComputeDevice& device, std::uint64_t bytes, int size) {
  for (const bool planted : {false, true}) {
    CAPTURE(planted);
    DeviceWork work;
    work.seed = 11;
    work.plant_flip = planted;
    int looked = 0;
    work.under_load = [&] { ++looked; };
    const std::uint64_t wrong = planted ? 1 : 0;

    std::vector<MemoryCheck> checks;
    CHECK(device.CheckMemory(bytes, work, checks).Good());
    REQUIRE(checks.size() == std::size(kMemoryPatterns));
    for (const MemoryCheck& check : checks) {
      CAPTURE(MemoryPatternName(check.pattern));
      CHECK(check.bytes == bytes);
      CHECK(check.wrong_words == wrong);
      CHECK(check.flipped_bits == (planted ? std::uint64_t{1} << 17 : 0));
      if (planted) {
        CHECK(check.expected == PatternWord(check.pattern, work.seed, check.first_wrong));
        CHECK((check.expected ^ check.reread) == check.flipped_bits);
      }
    }
    for (const MemoryOperation operation : kMemoryOperations) {
      CAPTURE(MemoryOperationName(operation));
      MemorySpeed speed;
      CHECK(device.MeasureMemory(operation, bytes, work, speed).Good());
      const bool twice =
          operation == MemoryOperation::kCopy || operation == MemoryOperation::kMemcpy;
      CHECK(speed.moved_bytes == bytes * (twice ? 2 : 1));
      CHECK(speed.wrong_words == (operation == MemoryOperation::kRead ? 0 : wrong));
      CHECK(speed.timing.iterations > 0);
      CHECK(speed.timing.seconds >= speed.timing.best_seconds);
    }
    for (const bool to_device : {true, false}) {
      CAPTURE(to_device);
      HostCopy copy;
      CHECK(device.CopyHost(to_device, bytes, work, copy).Good());
      CHECK(copy.bytes == bytes);
      CHECK(copy.wrong_words == wrong);
    }
    MatrixProduct product;
    CHECK(device.Multiply(size, work, product).Good());
    CHECK(product.checked_elements >= std::int64_t{size} * size);
    CHECK(product.wrong_elements == static_cast<std::int64_t>(wrong));
    CHECK(product.host_checked_elements > 0);
    CHECK(product.host_wrong_elements == 0);
    if (planted) {
      CHECK(product.expected ==
            ProductElement(work.seed, size, product.wrong_row, product.wrong_column));
    }
    CHECK(looked > 0);
  }
}

}  // namespace dlc

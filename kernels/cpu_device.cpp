#include "kernels/cpu_device.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>

#include "kernels/bfloat16.h"

namespace dlc {
namespace {

using Clock = std::chrono::steady_clock;
using Words = std::vector<std::uint64_t>;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class Body>
void TimeRepeated(const DeviceWork& work, Body body, DeviceTiming& out) {
  const auto start = Clock::now();
  do {
    const auto begin = Clock::now();
    body();
    const double seconds = SecondsSince(begin);
    ++out.iterations;
    out.best_seconds = out.iterations == 1 ? seconds : std::min(out.best_seconds, seconds);
    if (work.under_load) {
      work.under_load();
    }
  } while (SecondsSince(start) < work.seconds);
  out.seconds = SecondsSince(start) / static_cast<double>(out.iterations);
}

void Fill(Words& words, MemoryPattern pattern, std::uint64_t seed) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = PatternWord(pattern, seed, i);
  }
}

std::uint64_t CountWrong(const Words& words, MemoryPattern pattern, std::uint64_t seed) {
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    wrong += words[i] != PatternWord(pattern, seed, i) ? 1 : 0;
  }
  return wrong;
}

void Flip(Words& words, const DeviceWork& work) {
  if (work.plant_flip) {
    words[words.size() / 3] ^= std::uint64_t{1} << 17;
  }
}

void Check(const Words& words, const DeviceWork& work, MemoryCheck& out) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint64_t expected = PatternWord(out.pattern, work.seed, i);
    if (words[i] == expected) {
      continue;
    }
    if (out.wrong_words++ == 0) {
      out.first_wrong = i;
      out.expected = expected;
      out.reread = words[i];
    }
    out.flipped_bits |= words[i] ^ expected;
  }
}

class CpuDevice final : public ComputeDevice {
 public:
  DeviceStatus Describe(DeviceFacts& out) override {
    out = {};
    out.name = "CPU twin";
    return {};
  }

  DeviceStatus CheckMemory(std::uint64_t bytes, const DeviceWork& work,
                           std::vector<MemoryCheck>& out) override {
    Words words(bytes / 16 * 2);
    for (const MemoryPattern pattern : kMemoryPatterns) {
      MemoryCheck check;
      check.pattern = pattern;
      check.bytes = words.size() * 8;
      auto start = Clock::now();
      Fill(words, pattern, work.seed);
      check.write_seconds = SecondsSince(start);
      Flip(words, work);
      start = Clock::now();
      Check(words, work, check);
      check.read_seconds = SecondsSince(start);
      out.push_back(check);
    }
    return {};
  }

  DeviceStatus MeasureMemory(MemoryOperation operation, std::uint64_t bytes, const DeviceWork& work,
                             MemorySpeed& out) override {
    constexpr std::uint64_t kBlock = 65'536;
    Words from(bytes / kBlock * kBlock / 8);
    Words to(from.size());
    Fill(from, MemoryPattern::kRandom, work.seed);
    const bool copies =
        operation == MemoryOperation::kCopy || operation == MemoryOperation::kMemcpy;
    out.operation = operation;
    out.moved_bytes = from.size() * 8 * (copies ? 2 : 1);
    std::uint64_t sum = 0;
    const auto body = [&] {
      if (operation == MemoryOperation::kRead) {
        for (const std::uint64_t word : from) {
          sum |= word;
        }
      } else if (copies) {
        to = from;
      } else {
        Fill(to, MemoryPattern::kAddress, work.seed);
      }
    };
    TimeRepeated(work, body, out.timing);
    if (operation != MemoryOperation::kRead) {
      Flip(to, work);
      out.wrong_words =
          CountWrong(to, copies ? MemoryPattern::kRandom : MemoryPattern::kAddress, work.seed);
    }
    return {};
  }

  DeviceStatus CopyHost(bool to_device, std::uint64_t bytes, const DeviceWork& work,
                        HostCopy& out) override {
    Words from(bytes / 16 * 2);
    Words to(from.size());
    Fill(from, MemoryPattern::kRandom, work.seed);
    out.to_device = to_device;
    out.bytes = from.size() * 8;
    TimeRepeated(
        work, [&] { to = from; }, out.timing);
    Flip(to, work);
    out.wrong_words = CountWrong(to, MemoryPattern::kRandom, work.seed);
    return {};
  }

  DeviceStatus Multiply(int size, const DeviceWork& work, MatrixProduct& out) override;
};

struct Factors {
  std::vector<std::uint16_t> left;
  std::vector<std::uint16_t> right;
};

Factors FillFactors(std::uint64_t seed, int size) {
  Factors factors;
  for (int row = 0; row < size; ++row) {
    for (int k = 0; k < size; ++k) {
      factors.left.push_back(Bfloat16FromFloat(static_cast<float>(MatrixEntry(seed, 0, row, k))));
      factors.right.push_back(Bfloat16FromFloat(static_cast<float>(MatrixEntry(seed, 1, row, k))));
    }
  }
  return factors;
}

void MultiplyFactors(const Factors& factors, int size, std::vector<float>& product) {
  const auto n = static_cast<std::size_t>(size);
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      float sum = 0;
      for (std::size_t k = 0; k < n; ++k) {
        sum += FloatFromBfloat16(factors.left[row * n + k]) *
               FloatFromBfloat16(factors.right[column * n + k]);
      }
      product[row * n + column] = sum;
    }
  }
}

void Compare(const std::vector<float>& product, std::uint64_t seed, MatrixProduct& out) {
  for (std::size_t i = 0; i < product.size(); ++i) {
    const int row = static_cast<int>(i) / out.size;
    const int column = static_cast<int>(i) % out.size;
    const int expected = ProductElement(seed, out.size, row, column);
    if (product[i] != static_cast<float>(expected) && out.wrong_elements++ == 0) {
      out.wrong_row = row;
      out.wrong_column = column;
      out.expected = expected;
      out.found = static_cast<double>(product[i]);
    }
  }
  out.checked_elements = static_cast<std::int64_t>(product.size());
}

DeviceStatus CpuDevice::Multiply(int size, const DeviceWork& work, MatrixProduct& out) {
  out.size = size;
  out.type = "bfloat16";
  const Factors factors = FillFactors(work.seed, size);
  std::vector<float> product(static_cast<std::size_t>(size) * static_cast<std::size_t>(size));
  TimeRepeated(
      work, [&] { MultiplyFactors(factors, size, product); }, out.timing);
  if (work.plant_flip) {
    product[product.size() / 3] += 1;
  }
  Compare(product, work.seed, out);
  out.host_checked_elements = out.checked_elements;
  return {};
}

}  // namespace

std::unique_ptr<ComputeDevice> OpenCpuDevice() {
  return std::make_unique<CpuDevice>();
}

}  // namespace dlc

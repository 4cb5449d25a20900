#include "kernels/pattern.h"

#include <bit>

#include "kernels/bfloat16.h"
#include "kernels/mix.h"

namespace dlc {
namespace {

/// How a type stores an integer of magnitude up to kLimit exactly.
struct Float32Codec {
  using Stored = std::uint32_t;  // bits: -0.0 is not 0.0 here
  static constexpr std::int64_t kLimit = 1 << 24;
  static Stored Encode(std::int64_t value) {
    return std::bit_cast<Stored>(static_cast<float>(value));
  }
};
struct Bfloat16Codec {
  using Stored = std::uint16_t;
  static constexpr std::int64_t kLimit = 1 << 8;
  static Stored Encode(std::int64_t value) { return Bfloat16FromFloat(static_cast<float>(value)); }
};
template <class T>
struct IntegerCodec {
  using Stored = T;
  static constexpr std::int64_t kLimit =
      sizeof(T) == 4 ? (std::int64_t{1} << 31) - 1 : std::int64_t{1} << 62;
  static Stored Encode(std::int64_t value) { return static_cast<T>(value); }
};

/// An integer in [-limit, limit].
std::int64_t Bounded(std::uint64_t hash, std::int64_t limit) {
  return static_cast<std::int64_t>(hash % (2 * static_cast<std::uint64_t>(limit) + 1)) - limit;
}

template <class Codec>
struct Moved {
  std::uint64_t key;
  Moved(std::uint64_t seed, int rank)
      : key(MixBits(seed ^ MixBits(static_cast<std::uint64_t>(rank) + 0x5eedULL))) {}
  typename Codec::Stored operator()(std::size_t index) const {
    return Codec::Encode(Bounded(MixBits(key ^ index), Codec::kLimit));
  }
};

/// A total per element, and its parts by rank. For sums the total is cut into nearly equal integer
/// parts of one sign, handed out in an order that turns with the position: every partial sum is an
/// integer no larger than the total. Averages take totals that the rank count divides. For kMax one
/// rank, chosen by position, holds the total and the others less.
template <class Codec>
struct Reduced {
  std::uint64_t key;
  ReduceOp op;
  std::int64_t ranks;
  std::int64_t limit;  // of the total, or of the average

  Reduced(ReduceOp op_in, std::uint64_t seed, int ranks_in)
      : key(MixBits(seed ^ 0x7074616c73ULL)), op(op_in), ranks(ranks_in), limit(Codec::kLimit) {
    if (op == ReduceOp::kAvg) {
      limit /= ranks;
    } else if (op == ReduceOp::kMax) {
      limit /= 2;  // room below
    }
  }
  std::int64_t Result(std::size_t index) const { return Bounded(MixBits(key ^ index), limit); }
  typename Codec::Stored operator()(std::size_t index) const {
    return Codec::Encode(Result(index));
  }

  typename Codec::Stored Share(std::size_t index, int rank) const {
    const std::uint64_t turn =
        MixBits(key ^ index ^ 0x7475726eULL) % static_cast<std::uint64_t>(ranks);
    const std::int64_t place = (rank + static_cast<std::int64_t>(turn)) % ranks;
    const std::int64_t result = Result(index);
    if (op == ReduceOp::kMax) {
      const std::int64_t below = 1 + (place * 7 + static_cast<std::int64_t>(index % 5)) % limit;
      return Codec::Encode(place == 0 ? result : result - below);
    }
    if (op == ReduceOp::kAvg) {
      // Parts differ in pairs that cancel: +d at an even place, -d at the next one.
      return Codec::Encode(result + PairedOffset(result, place));
    }
    const std::int64_t part = result / ranks;
    const std::int64_t rest = result % ranks;  // of the sign of result
    const std::int64_t extra = place < (rest < 0 ? -rest : rest) ? (rest < 0 ? -1 : 1) : 0;
    return Codec::Encode(part + extra);
  }

 private:
  /// Keeps |part| within |result|, so that no partial sum passes ranks * |result|.
  std::int64_t PairedOffset(std::int64_t result, std::int64_t place) const {
    const bool alone = place == ranks - 1 && ranks % 2 == 1;
    const std::int64_t offset = alone ? 0 : result;
    return place % 2 == 0 ? -offset : offset;
  }
};

template <class Codec, class Value>
std::uint64_t CountWrong(const Value& value, std::size_t first, std::size_t count,
                         const void* data) {
  const auto* got = static_cast<const typename Codec::Stored*>(data);
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    wrong += got[i] != value(first + i) ? 1 : 0;
  }
  return wrong;
}

/// Calls `body` with the codec of `type`.
template <class Body>
auto WithCodec(DataType type, Body body) {
  switch (type) {
    case DataType::kFloat32:
      return body(Float32Codec{});
    case DataType::kBfloat16:
      return body(Bfloat16Codec{});
    case DataType::kInt32:
      return body(IntegerCodec<std::int32_t>{});
    case DataType::kInt64:
      break;
  }
  return body(IntegerCodec<std::int64_t>{});
}

}  // namespace

void FillMoved(DataType type, std::uint64_t seed, int rank, std::size_t first, std::size_t count,
               void* out) {
  WithCodec(type, [&](auto codec) {
    using Codec = decltype(codec);
    const Moved<Codec> value(seed, rank);
    auto* to = static_cast<typename Codec::Stored*>(out);
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = value(first + i);
    }
  });
}

std::uint64_t CountWrongMoved(DataType type, std::uint64_t seed, int rank, std::size_t first,
                              std::size_t count, const void* data) {
  return WithCodec(type, [&](auto codec) {
    using Codec = decltype(codec);
    return CountWrong<Codec>(Moved<Codec>(seed, rank), first, count, data);
  });
}

bool HasExactReduction(DataType type, ReduceOp op, int ranks) {
  if (ranks < 1) {
    return false;
  }
  return op != ReduceOp::kAvg ||
         WithCodec(type, [&](auto codec) { return decltype(codec)::kLimit >= ranks; });
}

void FillShare(DataType type, ReduceOp op, std::uint64_t seed, int rank, int ranks,
               std::size_t first, std::size_t count, void* out) {
  WithCodec(type, [&](auto codec) {
    using Codec = decltype(codec);
    const Reduced<Codec> value(op, seed, ranks);
    auto* to = static_cast<typename Codec::Stored*>(out);
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = value.Share(first + i, rank);
    }
  });
}

std::uint64_t CountWrongReduced(DataType type, ReduceOp op, std::uint64_t seed, int ranks,
                                std::size_t first, std::size_t count, const void* data) {
  return WithCodec(type, [&](auto codec) {
    using Codec = decltype(codec);
    return CountWrong<Codec>(Reduced<Codec>(op, seed, ranks), first, count, data);
  });
}

}  // namespace dlc

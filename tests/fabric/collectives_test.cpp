#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/pattern.h"
#include "probes/node/fabric/fabric_communicator.h"
#include "tests/fabric/forked_ranks.h"

namespace dlc {
namespace {

Deadline Soon() {
  return Deadline::After(std::chrono::seconds(30));
}

/// Bytes that are wrong until something writes them.
std::vector<std::byte> Dirty(std::size_t bytes) {
  return std::vector<std::byte>(bytes, std::byte{0xa5});
}

/// The textbook answer, by a way that shares nothing with the code under test: int64 or double
/// sums of what every rank put in.
std::vector<std::byte> Reference(DataType type, ReduceOp op, std::uint64_t seed, int ranks,
                                 std::size_t count) {
  const std::size_t element = ElementBytes(type);
  std::vector<std::byte> result(count * element);
  std::vector<std::vector<std::byte>> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.emplace_back(count * element);
    FillShare(type, op, seed, rank, ranks, 0, count, inputs.back().data());
  }
  const auto read = [&](int rank, std::size_t i) -> long double {
    const std::byte* at = inputs[static_cast<std::size_t>(rank)].data() + i * element;
    const auto load = [at](auto value) {
      std::memcpy(&value, at, sizeof(value));
      return value;
    };
    switch (type) {
      case DataType::kFloat32:
        return load(float{});
      case DataType::kBfloat16:
        return FloatFromBfloat16(load(std::uint16_t{}));
      case DataType::kInt32:
        return load(std::int32_t{});
      case DataType::kInt64:
        break;
    }
    return load(std::int64_t{});  // exact: long double has 64 bits of significand here
  };
  for (std::size_t i = 0; i < count; ++i) {
    long double value = read(0, i);
    for (int rank = 1; rank < ranks; ++rank) {
      value = op == ReduceOp::kMax ? std::max(value, read(rank, i)) : value + read(rank, i);
    }
    if (op == ReduceOp::kAvg) {
      value /= ranks;
    }
    const auto store = [&](auto converted) {
      std::memcpy(result.data() + i * element, &converted, sizeof(converted));
    };
    switch (type) {
      case DataType::kFloat32:
        store(static_cast<float>(value));
        break;
      case DataType::kBfloat16:
        store(Bfloat16FromFloat(static_cast<float>(value)));
        break;
      case DataType::kInt32:
        store(static_cast<std::int32_t>(value));
        break;
      case DataType::kInt64:
        store(static_cast<std::int64_t>(value));
        break;
    }
  }
  return result;
}

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16, DataType::kInt32,
                               DataType::kInt64};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax};
/// 0, 1, fewer than ranks, not divisible; the large ones go through rings of several pieces.
constexpr std::size_t kCounts[] = {0, 1, 5, 1000, 4099};

std::string Place(const char* what, DataType type, ReduceOp op, std::size_t count, bool in_place) {
  return std::string(what) + " " + std::string(DataTypeName(type)) + " " +
         std::string(ReduceOpName(op)) + " count " + std::to_string(count) +
         (in_place ? " in place" : "");
}

std::string TryAllReduce(Communicator& comm, DataType type, ReduceOp op, std::size_t count,
                         bool in_place) {
  const std::size_t bytes = count * ElementBytes(type);
  std::vector<std::byte> send(bytes);
  FillShare(type, op, count, comm.rank(), comm.size(), 0, count, send.data());
  std::vector<std::byte> receive = in_place ? send : Dirty(bytes);
  auto done = comm.AllReduce(in_place ? receive.data() : send.data(), receive.data(), count, type,
                             op, Soon());
  const std::string place = Place("all-reduce", type, op, count, in_place);
  if (!done) {
    return place + ": " + done.error().message;
  }
  return receive == Reference(type, op, count, comm.size(), count) ? "" : place + ": wrong data";
}

std::string TryReduceScatter(Communicator& comm, DataType type, ReduceOp op, std::size_t count,
                             bool in_place) {
  const std::size_t element = ElementBytes(type);
  const std::size_t total = count * static_cast<std::size_t>(comm.size());
  std::vector<std::byte> send(total * element);
  FillShare(type, op, count, comm.rank(), comm.size(), 0, total, send.data());
  std::vector<std::byte> apart = Dirty(count * element);
  const std::size_t offset = static_cast<std::size_t>(comm.rank()) * count * element;
  std::byte* receive = in_place ? send.data() + offset : apart.data();
  const std::vector<std::byte> before = send;
  auto done = comm.ReduceScatter(send.data(), receive, count, type, op, Soon());
  const std::string place = Place("reduce-scatter", type, op, count, in_place);
  if (!done) {
    return place + ": " + done.error().message;
  }
  if (!in_place && send != before) {
    return place + ": the send buffer was changed";
  }
  const std::vector<std::byte> all = Reference(type, op, count, comm.size(), total);
  const bool equal =
      std::equal(receive, receive + count * element, all.begin() + static_cast<long>(offset));
  return equal ? "" : place + ": wrong data";
}

std::string TryAllGather(Communicator& comm, DataType type, std::size_t count, bool in_place) {
  const std::size_t element = ElementBytes(type);
  const auto size = static_cast<std::size_t>(comm.size());
  std::vector<std::byte> receive = Dirty(size * count * element);
  std::vector<std::byte> apart(count * element);
  const std::size_t offset = static_cast<std::size_t>(comm.rank()) * count * element;
  std::byte* send = in_place ? receive.data() + offset : apart.data();
  FillMoved(type, count, comm.rank(), 0, count, send);
  auto done = comm.AllGather(send, receive.data(), count, type, Soon());
  const std::string place = Place("all-gather", type, ReduceOp::kSum, count, in_place);
  if (!done) {
    return place + ": " + done.error().message;
  }
  std::vector<std::byte> expected(size * count * element);
  for (std::size_t rank = 0; rank < size; ++rank) {
    FillMoved(type, count, static_cast<int>(rank), 0, count,
              expected.data() + rank * count * element);
  }
  return receive == expected ? "" : place + ": wrong data";
}

std::string TryBroadcast(Communicator& comm, DataType type, std::size_t count, int root,
                         bool in_place) {
  const std::size_t bytes = count * ElementBytes(type);
  std::vector<std::byte> expected(bytes);
  FillMoved(type, count, root, 0, count, expected.data());
  const bool is_root = comm.rank() == root;
  std::vector<std::byte> send = is_root ? expected : std::vector<std::byte>();
  std::vector<std::byte> receive = is_root && in_place ? send : Dirty(bytes);
  auto done = comm.Broadcast(in_place ? receive.data() : send.data(), receive.data(), count, type,
                             root, Soon());
  const std::string place = Place("broadcast", type, ReduceOp::kSum, count, in_place);
  if (!done) {
    return place + ": " + done.error().message;
  }
  return receive == expected ? "" : place + ": wrong data";
}

std::string TryNeighbours(Communicator& comm, DataType type, std::size_t count) {
  const int to = (comm.rank() + 1) % comm.size();
  const int from = (comm.rank() + comm.size() - 1) % comm.size();
  const std::size_t bytes = count * ElementBytes(type);
  std::vector<std::byte> send(bytes);
  std::vector<std::byte> receive = Dirty(bytes);
  FillMoved(type, count, comm.rank(), 0, count, send.data());
  auto done = comm.SendReceive(send.data(), to, receive.data(), from, count, type, Soon());
  if (!done) {
    return "send and receive: " + done.error().message;
  }
  if (CountWrongMoved(type, count, from, 0, count, receive.data()) != 0) {
    return "send and receive: wrong data";
  }
  // Plain sends and receives along the line of ranks.
  receive = Dirty(bytes);
  Result<void> got;
  if (comm.rank() > 0) {
    got = comm.Receive(receive.data(), count, type, comm.rank() - 1, Soon());
  }
  if (got && comm.rank() + 1 < comm.size()) {
    got = comm.Send(send.data(), count, type, comm.rank() + 1, Soon());
  }
  if (!got) {
    return "send, receive: " + got.error().message;
  }
  return comm.rank() == 0 || CountWrongMoved(type, count, from, 0, count, receive.data()) == 0
             ? ""
             : "send, receive: wrong data";
}

std::string TryAll(Communicator& comm, std::size_t count) {
  for (const bool in_place : {false, true}) {
    for (const DataType type : kTypes) {
      for (const ReduceOp op : kOps) {
        if (std::string bad = TryAllReduce(comm, type, op, count, in_place); !bad.empty()) {
          return bad;
        }
        if (std::string bad = TryReduceScatter(comm, type, op, count, in_place); !bad.empty()) {
          return bad;
        }
      }
      if (std::string bad = TryAllGather(comm, type, count, in_place); !bad.empty()) {
        return bad;
      }
      for (const int root : {0, comm.size() - 1}) {
        if (std::string bad = TryBroadcast(comm, type, count, root, in_place); !bad.empty()) {
          return bad;
        }
      }
      if (std::string bad = TryNeighbours(comm, type, count); !bad.empty()) {
        return bad;
      }
    }
  }
  return "";
}

/// Every collective with every type, operation and count, first with small-message algorithms,
/// then with rings of tiny pieces.
std::string Everything(Exchange& exchange, const FabricOptions& options) {
  for (const bool rings : {false, true}) {
    FabricTuning tuning;
    if (rings) {
      tuning.direct_all_reduce = tuning.direct_block = tuning.tree_broadcast = 0;
      tuning.ring = RingTuning{512, 3};
    }
    auto comm = FabricCommunicator::Open(options, exchange, Soon(), tuning);
    if (!comm) {
      return comm.error().message;
    }
    for (const std::size_t count : kCounts) {
      if (std::string bad = TryAll(**comm, count); !bad.empty()) {
        return bad + (rings ? " (rings)" : " (direct)");
      }
    }
    if (auto met = (*comm)->Barrier(Soon()); !met) {
      return met.error().message;
    }
    if (auto met = exchange.Barrier(Soon()); !met) {
      return met.error().message;
    }
  }
  return "";
}

void CheckEverything(const std::string& provider) {
  for (const int size : {1, 2, 3, 4, 7}) {
    CAPTURE(size);
    FabricOptions options;
    options.provider = provider;
    const auto body = [&](Exchange& exchange) { return Everything(exchange, options); };
    CHECK(Trouble(RunRanks(size, body, std::chrono::seconds(180))) == "");
  }
}

}  // namespace

TEST_CASE("collectives over tcp;ofi_rxm give the reference result for every size and type") {
  CheckEverything("tcp;ofi_rxm");
}

TEST_CASE("collectives over net give the reference result for every size and type") {
  CheckEverything("net");
}

TEST_CASE("a float32 sum has the same bits on all ranks even where rounding depends on order") {
  const auto body = [](Exchange& exchange) -> std::string {
    for (const std::size_t ring_above : {std::size_t{0}, std::size_t{1} << 20}) {
      FabricTuning tuning;
      tuning.direct_all_reduce = ring_above;
      tuning.ring = RingTuning{1024, 4};
      auto comm = FabricCommunicator::Open({}, exchange, Soon(), tuning);
      if (!comm) {
        return comm.error().message;
      }
      std::vector<float> values(5000);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] =
            1.0F / static_cast<float>(3 + i * 7 + static_cast<std::size_t>(exchange.rank()));
      }
      auto done = (*comm)->AllReduce(values.data(), values.data(), values.size(),
                                     DataType::kFloat32, ReduceOp::kSum, Soon());
      if (!done) {
        return done.error().message;
      }
      std::string bits(values.size() * sizeof(float), '\0');
      std::memcpy(bits.data(), values.data(), bits.size());
      auto all = exchange.AllGather(bits, Soon());
      if (!all) {
        return all.error().message;
      }
      for (const std::string& other : *all) {
        if (other != bits) {
          return "ranks differ";
        }
      }
    }
    return "";
  };
  CHECK(Trouble(RunRanks(7, body)) == "");
}

}  // namespace dlc

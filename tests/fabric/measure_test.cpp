#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <string>

#include "probes/node/fabric/fabric_communicator.h"
#include "probes/node/fabric/measure_collectives.h"
#include "probes/node/fabric/measure_pairs.h"
#include "probes/node/fabric/place.h"
#include "tests/fabric/forked_ranks.h"

namespace dlc {
namespace {

Deadline Soon() {
  return Deadline::After(std::chrono::seconds(50));
}

/// Runs `measure` on all ranks and judges the result of each by `verdict` ("" is good).
template <class Measure, class Verdict>
std::string OnRanks(int size, const FabricOptions& options, Measure measure, Verdict verdict) {
  return Trouble(RunRanks(size, [&](Exchange& exchange) -> std::string {
    auto comm = FabricCommunicator::Open(options, exchange, Soon());
    if (!comm) {
      return comm.error().message;
    }
    const FabricMeasurements measured = measure(**comm);
    if (measured.stopped_by) {
      return measured.stopped_by->message;
    }
    const std::string bad = verdict(measured);
    if (auto met = exchange.Barrier(Soon()); !met) {
      return met.error().message;
    }
    return bad;
  }));
}

PairOptions QuickPairs() {
  PairOptions options;
  options.sizes_bytes = {8, 100, 200'000};
  options.warm_up = 2;
  options.latency_iterations = 5;
  options.bandwidth_messages = 9;
  options.window = 4;
  return options;
}

CollectiveOptions QuickCollectives() {
  CollectiveOptions options;
  options.collectives = {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
                         Collective::kBroadcast, Collective::kSendReceive};
  options.sizes_bytes = {8, 4096, 300'000};
  options.iterations = 2;
  return options;
}

std::int64_t Wrong(const FabricMeasurements& measured) {
  std::int64_t wrong = 0;
  for (const PairMeasurement& pair : measured.pairs) {
    wrong += pair.wrong_at_a + pair.wrong_at_b;
  }
  for (const CollectiveMeasurement& row : measured.collectives) {
    for (const std::int64_t of_rank : row.wrong) {
      wrong += of_rank;
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("pair rounds hold every pair once, and no rank twice in a round") {
  for (const int size : {0, 1, 2, 3, 4, 7, 8}) {
    CAPTURE(size);
    std::set<std::pair<int, int>> all;
    for (const auto& round : PairRounds(size)) {
      std::set<int> busy;
      for (const auto& [a, b] : round) {
        CHECK(a < b);
        CHECK(all.insert({a, b}).second);
        CHECK(busy.insert(a).second);
        CHECK(busy.insert(b).second);
      }
    }
    CHECK(all.size() == static_cast<std::size_t>(size * (size - 1) / 2));
  }
}

TEST_CASE("pairs are measured with content verified, and labelled as loopback here") {
  const auto measure = [](FabricCommunicator& comm) {
    return MeasurePairs(comm.Transport(), QuickPairs(), Soon());
  };
  const auto verdict = [](const FabricMeasurements& measured) -> std::string {
    if (measured.pairs.size() != 3 * 3 || measured.ranks.size() != 3) {
      return "pairs or ranks are missing";
    }
    for (const PairMeasurement& pair : measured.pairs) {
      if (!pair.same_machine || pair.latency_seconds <= 0 || pair.latency_min_seconds <= 0 ||
          pair.bandwidth_bytes_per_second <= 0 || pair.reverse_bandwidth_bytes_per_second <= 0) {
        return "a number is missing";
      }
      // One ping, one pong, and a window each way.
      if (pair.checked_elements != 2 * (1 + 4) * pair.size_bytes / 8) {
        return "checked " + std::to_string(pair.checked_elements);
      }
    }
    if (measured.pairs[1].size_bytes != 104) {
      return "100 bytes are not rounded up to 104";
    }
    return Wrong(measured) == 0 ? "" : "wrong data";
  };
  CHECK(OnRanks(3, {}, measure, verdict) == "");
}

TEST_CASE("a bit flipped by one rank of a pair is counted at the other") {
  const auto measure = [](FabricCommunicator& comm) {
    PairOptions options = QuickPairs();
    options.planted_bit_flip_on_rank = 1;
    return MeasurePairs(comm.Transport(), options, Soon());
  };
  const auto verdict = [](const FabricMeasurements& measured) -> std::string {
    if (measured.pairs.empty()) {
      return "no pairs";
    }
    for (const PairMeasurement& pair : measured.pairs) {
      const bool from_a = pair.rank_a == 1;
      const bool from_b = pair.rank_b == 1;
      if ((pair.wrong_at_b > 0) != from_a || (pair.wrong_at_a > 0) != from_b) {
        return "pair " + std::to_string(pair.rank_a) + "," + std::to_string(pair.rank_b) + ": " +
               std::to_string(pair.wrong_at_a) + " " + std::to_string(pair.wrong_at_b);
      }
    }
    return "";
  };
  CHECK(OnRanks(3, {}, measure, verdict) == "");
}

TEST_CASE("collective rows have both placements, nothing wrong, and nccl-tests' bandwidths") {
  const auto measure = [](FabricCommunicator& comm) {
    return MeasureCollectives(comm, comm.Transport().Ranks(), QuickCollectives(), Soon());
  };
  const auto verdict = [](const FabricMeasurements& measured) -> std::string {
    if (measured.collectives.size() != (4 * 2 + 1) * 3) {
      return "rows: " + std::to_string(measured.collectives.size());
    }
    for (const CollectiveMeasurement& row : measured.collectives) {
      if (row.wrong.size() != 3 || row.machines != 1 ||
          row.min_seconds > row.mean_seconds * 1.0001 ||
          row.mean_seconds > row.max_seconds * 1.0001 || row.min_seconds <= 0) {
        return row.collective + ": inconsistent";
      }
      if ((row.checked_elements == 0) != (row.size_bytes == 0)) {
        return row.collective + ": nothing was checked";
      }
    }
    const CollectiveMeasurement& first = measured.collectives.front();
    const double ratio =
        first.bus_bandwidth_bytes_per_second / first.algorithm_bandwidth_bytes_per_second;
    if (first.collective != "all_reduce" || ratio < 1.333 || ratio > 1.334) {
      return "the factor of all_reduce over 3 ranks is not 4/3";
    }
    return Wrong(measured) == 0 ? "" : "wrong data";
  };
  CHECK(OnRanks(3, {}, measure, verdict) == "");
}

TEST_CASE("a bit flipped by one rank makes exactly one wrong element wherever its data goes") {
  const auto measure = [](FabricCommunicator& comm) {
    CollectiveOptions options = QuickCollectives();
    options.sizes_bytes = {4096};
    options.planted_bit_flip_on_rank = 0;
    return MeasureCollectives(comm, comm.Transport().Ranks(), options, Soon());
  };
  const auto verdict = [](const FabricMeasurements& measured) -> std::string {
    if (measured.collectives.empty()) {
      return "no rows";
    }
    for (const CollectiveMeasurement& row : measured.collectives) {
      std::int64_t wrong = 0;
      for (const std::int64_t of_rank : row.wrong) {
        wrong += of_rank;
      }
      const bool to_one = row.collective == "reduce_scatter" || row.collective == "send_recv";
      if (wrong != (to_one ? 1 : 3)) {
        return row.collective + ": " + std::to_string(wrong) + " wrong";
      }
      // Only a sum does not tell whose element it was.
      const bool reduced = row.collective == "all_reduce" || row.collective == "reduce_scatter";
      const auto whose = reduced ? std::vector<std::int64_t>() : std::vector{wrong, 0L, 0L};
      if (row.wrong_from != whose) {
        return row.collective + " does not name rank 0";
      }
    }
    return "";
  };
  CHECK(OnRanks(3, {}, measure, verdict) == "");
}

TEST_CASE("under EFA's rules every message's memory is registered and every context unused") {
  FabricOptions options;
  options.provider = "net";
  options.library_path = DLC_FAKE_FABRIC_STRICT;
  const auto verdict = [](const FabricMeasurements& measured) -> std::string {
    if (measured.ranks.empty()) {
      return "no ranks";
    }
    for (const FabricRank& rank : measured.ranks) {
      if (rank.provider.mr_mode != std::vector<std::string>{"FI_MR_LOCAL"}) {
        return "the fake is not in use";
      }
    }
    return Wrong(measured) == 0 ? "" : "wrong data";
  };
  CHECK(OnRanks(
            3, options,
            [](FabricCommunicator& comm) {
              return MeasureCollectives(comm, comm.Transport().Ranks(), QuickCollectives(), Soon());
            },
            verdict) == "");
  CHECK(OnRanks(
            3, options,
            [](FabricCommunicator& comm) {
              return MeasurePairs(comm.Transport(), QuickPairs(), Soon());
            },
            verdict) == "");
}

TEST_CASE("a measurement that is cut short leaves no buffer to messages still on their way") {
  // The address sanitizer sees it: both sides have receives posted when their time is up, and go on
  // making progress while they tell each other.
  PairOptions options = QuickPairs();
  options.sizes_bytes = {1 << 20};
  options.bandwidth_messages = 1 << 30;
  options.step_limit = std::chrono::milliseconds(1500);
  const auto body = [&](Exchange& exchange) -> std::string {
    auto comm = FabricCommunicator::Open({}, exchange, Soon());
    if (!comm) {
      return comm.error().message;
    }
    const auto measured = MeasurePairs((*comm)->Transport(), options, Soon());
    return measured.stopped_by ? "" : "it came to its end";
  };
  CHECK(Trouble(RunRanks(2, body)) == "");
}

TEST_CASE("a check that cannot be exact stops the measurement instead of weakening it") {
  // bfloat16 averages end at 256 ranks: a communicator is enough that tells its size, reduces
  // nothing, and takes every rank for this one when it gathers.
  class Crowd : public Communicator {
   public:
    int rank() const override { return 0; }
    int size() const override { return 257; }
    Result<void> AllReduce(const void* /*send*/, void* /*receive*/, std::size_t /*count*/,
                           DataType /*type*/, ReduceOp /*op*/, Deadline /*deadline*/) override {
      return {};
    }
    Result<void> AllGather(const void* send, void* receive, std::size_t send_count, DataType type,
                           Deadline /*deadline*/) override {
      const std::size_t bytes = send_count * ElementBytes(type);
      for (int rank = 0; rank < size(); ++rank) {
        std::memcpy(static_cast<std::byte*>(receive) + static_cast<std::size_t>(rank) * bytes, send,
                    bytes);
      }
      return {};
    }
    Result<void> ReduceScatter(const void* /*send*/, void* /*receive*/,
                               std::size_t /*receive_count*/, DataType /*type*/, ReduceOp /*op*/,
                               Deadline /*deadline*/) override {
      return {};
    }
    Result<void> Broadcast(const void* /*send*/, void* /*receive*/, std::size_t /*count*/,
                           DataType /*type*/, int /*root*/, Deadline /*deadline*/) override {
      return {};
    }
    Result<void> Send(const void* /*send*/, std::size_t /*count*/, DataType /*type*/, int /*peer*/,
                      Deadline /*deadline*/) override {
      return {};
    }
    Result<void> Receive(void* /*receive*/, std::size_t /*count*/, DataType /*type*/, int /*peer*/,
                         Deadline /*deadline*/) override {
      return {};
    }
    Result<void> SendReceive(const void* /*send*/, int /*to*/, void* /*receive*/, int /*from*/,
                             std::size_t /*count*/, DataType /*type*/,
                             Deadline /*deadline*/) override {
      return {};
    }
    Result<void> Barrier(Deadline /*deadline*/) override { return {}; }
    void Abort() override {}
    Result<std::unique_ptr<Registration>> Register(void* /*data*/, std::size_t /*bytes*/) override {
      return std::unique_ptr<Registration>();
    }
  };
  Crowd crowd;
  CollectiveOptions options = QuickCollectives();
  options.type = DataType::kBfloat16;
  options.op = ReduceOp::kAvg;
  const FabricMeasurements measured = MeasureCollectives(crowd, {}, options, Soon());
  REQUIRE(measured.stopped_by.has_value());
  CHECK(measured.stopped_by->code == ErrorCode::kUnsupported);
  // With float32 it runs; a communicator that moves nothing is all wrong, not all right.
  options.type = DataType::kFloat32;
  options.op = ReduceOp::kSum;
  options.collectives = {Collective::kAllReduce};
  options.sizes_bytes = {4096};
  const FabricMeasurements lazy = MeasureCollectives(crowd, {}, options, Soon());
  REQUIRE_FALSE(lazy.stopped_by.has_value());
  REQUIRE(lazy.collectives.size() == 2);
  CHECK(lazy.collectives[0].machines == 0);
  for (const CollectiveMeasurement& row : lazy.collectives) {
    REQUIRE(row.wrong.size() == 257);
    CHECK(std::all_of(row.wrong.begin(), row.wrong.end(),
                      [&](std::int64_t wrong) { return wrong == row.wrong[0] && wrong > 0; }));
  }
}

TEST_CASE("oversubscription and machines are counted by boot id") {
  FabricRank rank;
  rank.boot_id = "a";
  rank.usable_cpus = 2;
  std::vector<FabricRank> ranks(2, rank);
  CHECK(CountMachines(ranks) == 1);
  CHECK_FALSE(IsOversubscribed(ranks));
  ranks.push_back(rank);
  CHECK(IsOversubscribed(ranks));
  ranks.back().boot_id = "b";
  CHECK(CountMachines(ranks) == 2);
  CHECK_FALSE(IsOversubscribed(ranks));
  ranks.emplace_back();  // tells no boot id: nothing is claimed about it
  CHECK(CountMachines(ranks) == 3);
  CHECK_FALSE(IsOversubscribed(ranks));
}

}  // namespace dlc

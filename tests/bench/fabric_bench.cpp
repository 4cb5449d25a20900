// Numbers for tests/bench/fabric_bench.py: one JSON object a line on stdout.
//   fabric_bench pairs PROVIDER SIZE ITERATIONS
//   fabric_bench collective NAME PROVIDER RANKS SIZE ITERATIONS [PIECE_BYTES GROUP]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "probes/node/fabric/fabric_communicator.h"
#include "probes/node/fabric/measure_collectives.h"
#include "probes/node/fabric/measure_pairs.h"
#include "tests/fabric/forked_ranks.h"

namespace dlc {
namespace {

Deadline Soon() {
  return Deadline::After(std::chrono::seconds(120));
}

std::string Pairs(Exchange& exchange, const FabricOptions& options, std::size_t size,
                  int iterations) {
  auto comm = FabricCommunicator::Open(options, exchange, Soon());
  if (!comm) {
    return comm.error().message;
  }
  PairOptions pairs;
  pairs.sizes_bytes = {size};
  pairs.latency_iterations = iterations;
  pairs.bandwidth_messages = iterations;
  const FabricMeasurements measured = MeasurePairs((*comm)->Transport(), pairs, Soon());
  if (measured.stopped_by) {
    return measured.stopped_by->message;
  }
  for (const PairMeasurement& pair : measured.pairs) {
    if (exchange.rank() == 0) {
      std::printf(
          "{\"size\": %lld, \"latency_seconds\": %.9f, \"latency_min_seconds\": %.9f, "
          "\"bandwidth\": %.0f, \"reverse_bandwidth\": %.0f, \"wrong\": %lld}\n",
          static_cast<long long>(pair.size_bytes), pair.latency_seconds, pair.latency_min_seconds,
          pair.bandwidth_bytes_per_second, pair.reverse_bandwidth_bytes_per_second,
          static_cast<long long>(pair.wrong_at_a + pair.wrong_at_b));
    }
  }
  std::fflush(stdout);
  auto met = exchange.Barrier(Soon());
  return met ? "" : met.error().message;
}

std::string Collectives(Exchange& exchange, const FabricOptions& options,
                        const CollectiveOptions& what, const FabricTuning& tuning) {
  auto comm = FabricCommunicator::Open(options, exchange, Soon(), tuning);
  if (!comm) {
    return comm.error().message;
  }
  const FabricMeasurements measured =
      MeasureCollectives(**comm, (*comm)->Transport().Ranks(), what, Soon());
  if (measured.stopped_by) {
    return measured.stopped_by->message;
  }
  for (const CollectiveMeasurement& row : measured.collectives) {
    std::int64_t wrong = 0;
    for (const std::int64_t of_rank : row.wrong) {
      wrong += of_rank;
    }
    if (exchange.rank() == 0) {
      std::printf(
          "{\"collective\": \"%s\", \"in_place\": %s, \"size\": %lld, \"mean_seconds\": %.9f, "
          "\"algorithm_bandwidth\": %.0f, \"bus_bandwidth\": %.0f, \"wrong\": %lld}\n",
          row.collective.c_str(), row.in_place ? "true" : "false",
          static_cast<long long>(row.size_bytes), row.mean_seconds,
          row.algorithm_bandwidth_bytes_per_second, row.bus_bandwidth_bytes_per_second,
          static_cast<long long>(wrong));
    }
  }
  std::fflush(stdout);
  auto met = exchange.Barrier(Soon());
  return met ? "" : met.error().message;
}

int Report(const std::vector<RankOutcome>& outcomes) {
  const std::string trouble = Trouble(outcomes);
  if (!trouble.empty()) {
    std::fprintf(stderr, "fabric_bench: %s\n", trouble.c_str());
    return 1;
  }
  return 0;
}

int Main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  FabricOptions options;
  if (mode == "pairs" && argc == 5) {
    options.provider = argv[2];
    const auto size = static_cast<std::size_t>(std::atoll(argv[3]));
    const int iterations = std::atoi(argv[4]);
    return Report(RunRanks(
        2, [&](Exchange& exchange) { return Pairs(exchange, options, size, iterations); }));
  }
  if (mode == "collective" && (argc == 7 || argc == 9)) {
    options.provider = argv[3];
    CollectiveOptions what;
    FabricTuning tuning;
    if (const auto one = ParseCollective(argv[2])) {
      what.collectives = {*one};
    }
    what.sizes_bytes = {static_cast<std::size_t>(std::atoll(argv[5]))};
    what.iterations = std::atoi(argv[6]);
    if (argc == 9) {
      tuning.ring = RingTuning{static_cast<std::size_t>(std::atoll(argv[7])),
                               static_cast<std::size_t>(std::atoll(argv[8]))};
    }
    return Report(RunRanks(std::atoi(argv[4]), [&](Exchange& exchange) {
      return Collectives(exchange, options, what, tuning);
    }));
  }
  std::fprintf(stderr, "usage: see the head of fabric_bench.cpp\n");
  return 2;
}

}  // namespace
}  // namespace dlc

int main(int argc, char** argv) {
  return dlc::Main(argc, argv);
}

#include "probes/node/fabric/measure_pairs.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "kernels/pattern.h"
#include "probes/node/fabric/direct.h"
#include "probes/node/fabric/pipeline.h"

namespace dlc {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One rank's share of a pair's result, as it travels to all.
struct Row {
  double latency_seconds = 0;
  double latency_min_seconds = 0;
  double forward = 0;  ///< bytes per second
  double backward = 0;
  std::int64_t checked = 0;  ///< elements, at this rank
  std::int64_t wrong = 0;
};

/// One rank's side of one pair and size.
class PairSide {
 public:
  PairSide(FabricTransport& transport, const PairOptions& options, int peer, std::size_t bytes)
      : transport_(transport),
        options_(options),
        peer_(peer),
        first_(transport.rank() < peer),
        bytes_(bytes),
        slots_(static_cast<std::size_t>(std::max(options.window, 1))),
        out_(bytes * slots_ / kElement),
        in_(out_.size(), kPoison) {
    FillMoved(DataType::kInt64, options.seed, transport.rank(), 0, out_.size(), out_.data());
  }

  Result<Row> Run() {
    for (const auto& [memory, count] :
         {std::pair{out_.data(), out_.size()}, std::pair{in_.data(), in_.size()}}) {
      if (auto used = transport_.Use(memory, count * kElement); !used) {
        return used.error();
      }
    }
    Result<void> done = PingPong();
    for (const bool forward : {true, false}) {
      done = done ? Stream(forward) : done;
    }
    if (!done) {
      return done.error();
    }
    return row_;
  }

 private:
  static constexpr std::size_t kElement = sizeof(std::int64_t);
  static constexpr std::int64_t kPoison = -0x5a5a5a5a5a5a5a5a;

  /// The last message is another slot than the others, so that it is known to have arrived.
  const std::byte* OutSlot(std::size_t slot) const {
    return reinterpret_cast<const std::byte*>(out_.data()) + slot % slots_ * bytes_;
  }
  std::byte* InSlot(std::size_t slot) {
    return reinterpret_cast<std::byte*>(in_.data()) + slot % slots_ * bytes_;
  }

  void PlantFault() {
    if (options_.planted_bit_flip_on_rank == transport_.rank()) {
      out_.back() ^= std::int64_t{1} << 17;
    }
  }

  void Check(std::size_t first_slot, std::size_t slot_count) {
    const std::size_t first = first_slot * bytes_ / kElement;
    const std::size_t count = slot_count * bytes_ / kElement;
    row_.checked += static_cast<std::int64_t>(count);
    row_.wrong += static_cast<std::int64_t>(
        CountWrongMoved(DataType::kInt64, options_.seed, peer_, first, count, in_.data() + first));
    std::fill(in_.begin(), in_.end(), kPoison);
  }

  /// The first rank serves, the second returns. Receives are posted one ball ahead.
  Result<void> PingPong() {
    const int total = options_.warm_up + options_.latency_iterations;
    auto posted = transport_.StartReceive(peer_, InSlot(total == 1 ? slots_ - 1 : 0), bytes_);
    if (!posted) {
      return std::move(posted).error();
    }
    incoming_ = *posted;
    row_.latency_min_seconds = std::numeric_limits<double>::infinity();
    auto start = Clock::now();
    auto last = start;
    for (int i = 0; i < total; ++i) {
      if (i == options_.warm_up) {
        start = last = Clock::now();
      }
      if (auto rallied = Rally(total - i); !rallied) {
        return rallied;
      }
      const auto now = Clock::now();
      if (i >= options_.warm_up) {
        row_.latency_min_seconds = std::min(row_.latency_min_seconds,
                                            std::chrono::duration<double>(now - last).count() / 2);
      }
      last = now;
    }
    row_.latency_seconds = SecondsSince(start) / (2 * std::max(options_.latency_iterations, 1));
    auto sent = AwaitOutgoing();
    Check(slots_ - 1, 1);
    return sent;
  }

  /// Once there and back; `left` balls with this one.
  Result<void> Rally(int left) {
    if (first_) {
      if (auto sent = Serve(left == 1); !sent) {
        return sent;
      }
    }
    if (auto got = transport_.WaitAndRelease(incoming_); !got) {
      return got;
    }
    if (left > 1) {
      auto posted = transport_.StartReceive(peer_, InSlot(left == 2 ? slots_ - 1 : 0), bytes_);
      if (!posted) {
        return std::move(posted).error();
      }
      incoming_ = *posted;
    }
    return first_ ? Result<void>() : Serve(left == 1);
  }

  Result<void> AwaitOutgoing() {
    FabricRequest* request = std::exchange(outgoing_, nullptr);
    return request == nullptr ? Result<void>() : transport_.WaitAndRelease(request);
  }

  /// Sends one ball, once the one before is off our hands.
  Result<void> Serve(bool last) {
    if (auto sent = AwaitOutgoing(); !sent) {
      return sent;
    }
    if (last) {
      PlantFault();
    }
    auto request = transport_.StartSend(peer_, OutSlot(last ? slots_ - 1 : 0), bytes_);
    if (!request) {
      return std::move(request).error();
    }
    outgoing_ = *request;
    return {};
  }

  /// Windowed messages one way. The receiver says when it is ready and when it has all.
  Result<void> Stream(bool forward) {
    const auto messages = static_cast<std::size_t>(std::max(options_.bandwidth_messages, 1));
    const bool sending = forward == first_;
    PipelinePlan plan;
    plan.to = plan.from = peer_;
    plan.window = slots_;
    if (!sending) {
      plan.receives = messages;
      plan.receive = [this](std::size_t i) -> PipelinePlan::Target { return {InSlot(i), bytes_}; };
      if (auto ready = Signal(); !ready) {
        return ready;
      }
      auto got = RunPipeline(transport_, plan);
      if (got) {
        got = Signal();
      }
      Check(0, std::min(slots_, messages));
      return got;
    }
    plan.sends = messages;
    plan.send = [this](std::size_t i) -> PipelinePlan::Source { return {OutSlot(i), bytes_}; };
    if (auto ready = AwaitSignal(); !ready) {
      return ready;
    }
    const auto start = Clock::now();
    auto sent = RunPipeline(transport_, plan);
    if (sent) {
      sent = AwaitSignal();
    }
    const double seconds = SecondsSince(start);
    (forward ? row_.forward : row_.backward) = static_cast<double>(messages * bytes_) / seconds;
    return sent;
  }

  Result<void> Signal() {
    auto request = transport_.StartSend(peer_, nullptr, 0);
    return request ? transport_.WaitAndRelease(*request) : Result<void>(request.error());
  }
  Result<void> AwaitSignal() {
    auto request = transport_.StartReceive(peer_, nullptr, 0);
    return request ? transport_.WaitAndRelease(*request) : Result<void>(request.error());
  }

  FabricTransport& transport_;
  const PairOptions& options_;
  int peer_;
  bool first_;
  std::size_t bytes_;
  std::size_t slots_;
  std::vector<std::int64_t> out_;
  std::vector<std::int64_t> in_;
  FabricRequest* incoming_ = nullptr;
  FabricRequest* outgoing_ = nullptr;
  Row row_;
};

std::string PairName(int a, int b, std::size_t bytes) {
  return "ping-pong of ranks " + std::to_string(a) + " and " + std::to_string(b) + ", " +
         std::to_string(bytes) + " bytes";
}

/// Runs one pair and size; every rank learns both sides' rows.
Result<PairMeasurement> MeasurePair(FabricTransport& transport, const PairOptions& options, int a,
                                    int b, std::size_t bytes, Deadline deadline) {
  if (auto begun = transport.Begin(PairName(a, b, bytes), deadline); !begun) {
    return begun.error();
  }
  Row mine;
  const int rank = transport.rank();
  std::optional<PairSide> side;  // outlives End: until then messages may arrive in its buffers
  if (rank == a || rank == b) {
    side.emplace(transport, options, rank == a ? b : a, bytes);
    auto run = side->Run();
    if (!run) {
      return transport.End(run.error()).error();
    }
    mine = *run;
  }
  // Small, and also the barrier that keeps the next pair from starting early.
  std::vector<Row> rows(static_cast<std::size_t>(transport.size()));
  rows[static_cast<std::size_t>(rank)] = mine;
  if (auto used = transport.Use(rows.data(), rows.size() * sizeof(Row)); !used) {
    return transport.End(std::move(used)).error();
  }
  auto gathered = transport.End(
      DirectAllGather(transport, &rows[static_cast<std::size_t>(rank)], rows.data(), sizeof(Row)));
  if (!gathered) {
    return gathered.error();
  }
  const Row& at_a = rows[static_cast<std::size_t>(a)];
  const Row& at_b = rows[static_cast<std::size_t>(b)];
  PairMeasurement pair;
  pair.rank_a = a;
  pair.rank_b = b;
  pair.same_machine = transport.SameMachine(a, b);
  pair.size_bytes = static_cast<std::int64_t>(bytes);
  pair.latency_iterations = options.latency_iterations;
  pair.latency_seconds = at_a.latency_seconds;
  pair.latency_min_seconds = at_a.latency_min_seconds;
  pair.bandwidth_messages = options.bandwidth_messages;
  pair.bandwidth_bytes_per_second = at_a.forward;
  pair.reverse_bandwidth_bytes_per_second = at_b.backward;
  pair.checked_elements = at_a.checked + at_b.checked;
  pair.wrong_at_a = at_a.wrong;
  pair.wrong_at_b = at_b.wrong;
  return pair;
}

}  // namespace

std::vector<std::vector<std::pair<int, int>>> PairRounds(int size) {
  const int seats = size + size % 2;  // with an odd size somebody sits out each round
  std::vector<std::vector<std::pair<int, int>>> rounds;
  for (int round = 0; round + 1 < seats; ++round) {
    std::vector<std::pair<int, int>> pairs;
    for (int i = 0; i < seats / 2; ++i) {
      // The last seat stays, the others turn.
      const int left = i == 0 ? seats - 1 : (round + i) % (seats - 1);
      const int right = (round + seats - 1 - i) % (seats - 1);
      if (left < size && right < size) {
        pairs.emplace_back(std::minmax(left, right));
      }
    }
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

FabricMeasurements MeasurePairs(FabricTransport& transport, const PairOptions& options,
                                Deadline deadline) {
  FabricMeasurements measured;
  measured.ranks = transport.Ranks();
  for (const auto& round : PairRounds(transport.size())) {
    for (const auto& [a, b] : round) {
      for (const std::size_t asked : options.sizes_bytes) {
        const std::size_t bytes = std::max<std::size_t>((asked + 7) / 8 * 8, 8);
        auto pair =
            MeasurePair(transport, options, a, b, bytes, deadline.Within(options.step_limit));
        if (!pair) {
          measured.stopped_by = std::move(pair).error();
          return measured;
        }
        measured.pairs.push_back(std::move(pair).value());
      }
    }
  }
  return measured;
}

}  // namespace dlc

#include "probes/node/nccl/measure_nccl.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "kernels/pattern.h"

namespace dlc {
namespace {

bool Sums(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter;
}

/// Operations that are put into the stream before the last is waited for: a stream that is full
/// blocks its caller, and so would one whose other rank is lost. nccl-tests' default is 20.
constexpr int kMostInFlight = 128;
constexpr int kChecks = 1;  ///< operations of each row whose result is compared

/// Both buffers of a rank, as large as the largest size.
struct Buffers {
  std::byte* send = nullptr;
  std::byte* receive = nullptr;
  std::size_t bytes = 0;
};

/// What a rank tells the others of a row, before the wrong elements by the rank they came from.
struct OwnRow {
  double seconds = 0;
  std::int64_t checked = 0;
  std::int64_t wrong = 0;
};

class NcclRow {
 public:
  NcclRow(NcclGroup& group, RankGpu& gpu, Exchange& exchange, const NcclOptions& options,
          const Buffers& buffers, Collective collective, const RowShape& shape, bool in_place,
          Deadline deadline, NcclProgress& reached)
      : group_(group),
        gpu_(gpu),
        exchange_(exchange),
        options_(options),
        buffers_(buffers),
        collective_(collective),
        shape_(shape),
        in_place_(in_place),
        deadline_(deadline),
        reached_(reached),
        element_(ElementBytes(options.type)),
        wrong_from_(static_cast<std::size_t>(group.Size())) {}

  Result<void> WarmUp() {
    Enter("warm-up");
    return OperateTimes(options_.warm_up);
  }

  Result<CollectiveMeasurement> Run() {
    Enter("check");
    if (auto checked = CheckOnce(); !checked) {
      return checked.error();
    }
    Enter("barrier");
    if (auto met = exchange_.Barrier(deadline_); !met) {
      return met.error();
    }
    Enter("timed");
    const auto start = std::chrono::steady_clock::now();
    if (auto done = OperateTimes(options_.iterations); !done) {
      return done.error();
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    own_.seconds = elapsed.count() / std::max(options_.iterations, 1);
    Enter("gather");
    return Summarise();
  }

 private:
  void Enter(const char* phase) {
    reached_.phase = phase;
    reached_.started = 0;
  }

  std::size_t Rank() const { return static_cast<std::size_t>(group_.Rank()); }

  /// Of iteration `i`: so that small messages do not meet the same cache lines each time.
  std::size_t Shift(int i) const {
    const std::size_t most = std::max(shape_.send_count, shape_.receive_count) * element_;
    const std::size_t steps = most == 0 ? 1 : buffers_.bytes / most;
    return steps == 0 ? 0 : most * (static_cast<std::size_t>(i) % steps);
  }
  std::byte* Input(int i) const {
    if (!in_place_) {
      return buffers_.send + Shift(i);
    }
    const std::size_t part =
        collective_ == Collective::kAllGather ? Rank() * shape_.send_count * element_ : 0;
    return buffers_.receive + Shift(i) + part;
  }
  std::byte* Output(int i) const {
    const bool part = in_place_ && collective_ == Collective::kReduceScatter;
    return buffers_.receive + Shift(i) + (part ? Rank() * shape_.receive_count * element_ : 0);
  }

  Result<void> Operate(int i) {
    ++reached_.started;
    return group_.Start(collective_, Input(i), Output(i), shape_, options_.type, deadline_);
  }

  Result<void> OperateTimes(int times) {
    for (int i = 0; i < times; ++i) {
      if (auto started = Operate(i); !started) {
        return started;
      }
      if ((i + 1) % kMostInFlight == 0) {
        if (auto ended = group_.WaitIdle(deadline_); !ended) {
          return ended;
        }
      }
    }
    return group_.WaitIdle(deadline_);
  }

  Result<void> CheckOnce() {
    const std::size_t most = std::max(shape_.send_count, shape_.receive_count) * element_;
    const std::vector<std::byte> blank(most, std::byte{0xa5});
    std::vector<std::byte> data(shape_.send_count * element_);
    const int rank = group_.Rank();
    if (Sums(collective_)) {
      FillShare(options_.type, ReduceOp::kSum, options_.seed, rank, group_.Size(), 0,
                shape_.send_count, data.data());
    } else {
      FillMoved(options_.type, options_.seed, rank, 0, shape_.send_count, data.data());
    }
    if (options_.planted_bit_flip_on_rank == rank && shape_.send_count > 0) {
      // The highest bit below the sign of one element: no rounding hides it.
      data[(shape_.send_count / 2 + 1) * element_ - 1] ^= std::byte{0x40};
    }
    if (auto copied = gpu_.CopyIn(buffers_.receive, blank.data(), most); !copied) {
      return copied;
    }
    const bool reads = !in_place_ || collective_ != Collective::kBroadcast || rank == 0;
    if (auto copied = gpu_.CopyIn(Input(0), data.data(), reads ? data.size() : 0); !copied) {
      return copied;
    }
    if (auto started = Operate(0); !started) {
      return started;
    }
    if (auto ended = group_.WaitIdle(deadline_); !ended) {
      return ended;
    }
    data.resize(shape_.receive_count * element_);
    if (auto copied = gpu_.CopyOut(data.data(), Output(0), data.size()); !copied) {
      return copied;
    }
    own_.checked = static_cast<std::int64_t>(shape_.receive_count);
    CountWrong(data.data());
    return {};
  }

  void CountWrong(const std::byte* out) {
    const int size = group_.Size();
    const auto summed = [&](std::size_t first) {
      own_.wrong = static_cast<std::int64_t>(CountWrongReduced(
          options_.type, ReduceOp::kSum, options_.seed, size, first, shape_.receive_count, out));
    };
    const auto moved = [&](int from, const std::byte* data, std::size_t count) {
      const auto wrong = static_cast<std::int64_t>(
          CountWrongMoved(options_.type, options_.seed, from, 0, count, data));
      wrong_from_[static_cast<std::size_t>(from)] = wrong;
      own_.wrong += wrong;
    };
    switch (collective_) {
      case Collective::kAllReduce:
        return summed(0);
      case Collective::kReduceScatter:
        return summed(Rank() * shape_.receive_count);
      case Collective::kBroadcast:
        return moved(0, out, shape_.receive_count);
      case Collective::kSendReceive:
        return moved((group_.Rank() + size - 1) % size, out, shape_.receive_count);
      case Collective::kAllGather:
        break;
    }
    for (int from = 0; from < size; ++from) {
      moved(from, out + static_cast<std::size_t>(from) * shape_.send_count * element_,
            shape_.send_count);
    }
  }

  Result<CollectiveMeasurement> Summarise() {
    const std::size_t more = wrong_from_.size() * sizeof(std::int64_t);
    std::string mine(sizeof own_ + more, '\0');
    std::memcpy(mine.data(), &own_, sizeof own_);
    std::memcpy(mine.data() + sizeof own_, wrong_from_.data(), more);
    const auto all = exchange_.AllGather(mine, deadline_);
    if (!all) {
      return all.error();
    }
    CollectiveMeasurement row = Header();
    for (const std::string& theirs : *all) {
      if (theirs.size() != mine.size()) {
        return Error{ErrorCode::kInternal, "a rank's row cannot be read", ""};
      }
      OwnRow one;
      std::memcpy(&one, theirs.data(), sizeof one);
      row.mean_seconds += one.seconds / row.ranks;
      row.min_seconds = row.wrong.empty() ? one.seconds : std::min(row.min_seconds, one.seconds);
      row.max_seconds = std::max(row.max_seconds, one.seconds);
      row.checked_elements += one.checked;
      row.wrong.push_back(one.wrong);
      for (std::size_t from = 0; from < row.wrong_from.size(); ++from) {
        std::int64_t wrong = 0;
        std::memcpy(&wrong, theirs.data() + sizeof one + from * sizeof wrong, sizeof wrong);
        row.wrong_from[from] += wrong;
      }
    }
    row.algorithm_bandwidth_bytes_per_second =
        AlgorithmBandwidth(shape_.size_bytes, row.mean_seconds);
    row.bus_bandwidth_bytes_per_second =
        BusBandwidth(collective_, shape_.size_bytes, row.ranks, row.mean_seconds);
    return row;
  }

  CollectiveMeasurement Header() const {
    CollectiveMeasurement row;
    row.collective = CollectiveName(collective_);
    row.type = DataTypeName(options_.type);
    row.op = Sums(collective_) ? ReduceOpName(ReduceOp::kSum) : "";
    row.in_place = in_place_;
    row.ranks = group_.Size();
    row.size_bytes = static_cast<std::int64_t>(shape_.size_bytes);
    row.iterations = options_.iterations;
    row.operations = kChecks + options_.iterations + (in_place_ ? 0 : options_.warm_up);
    row.wrong_from.assign(Sums(collective_) ? 0 : wrong_from_.size(), 0);
    return row;
  }

  NcclGroup& group_;
  RankGpu& gpu_;
  Exchange& exchange_;
  const NcclOptions& options_;
  const Buffers& buffers_;
  Collective collective_;
  RowShape shape_;
  bool in_place_;
  Deadline deadline_;
  NcclProgress& reached_;
  std::size_t element_;
  OwnRow own_;
  std::vector<std::int64_t> wrong_from_;
};

Result<Buffers> MakeBuffers(NcclGroup& group, const NcclOptions& options) {
  Buffers buffers;
  for (const std::size_t size : options.sizes_bytes) {
    buffers.bytes = std::max(buffers.bytes, size);
  }
  for (std::byte** at : {&buffers.send, &buffers.receive}) {
    const auto memory = group.Allocate(std::max<std::size_t>(buffers.bytes, 16));
    if (!memory) {
      return memory.error();
    }
    *at = static_cast<std::byte*>(*memory);
  }
  return buffers;
}

/// "all_reduce of 8 bytes in place, timed: ..."
Error Where(const NcclProgress& reached, Error error) {
  error.message = reached.collective + " of " + std::to_string(reached.asked_bytes) + " bytes " +
                  (reached.in_place ? "in" : "out of") + " place, " + reached.phase + ": " +
                  error.message;
  return error;
}

/// Distinct boot ids; and whether some machine has more of the ranks than CPUs for them.
std::pair<int, bool> Machines(const std::vector<FabricRank>& ranks) {
  std::map<std::string, std::pair<int, int>> on;  // ranks, CPUs
  for (const FabricRank& rank : ranks) {
    auto& [count, cpus] = on[rank.boot_id.empty() ? rank.host : rank.boot_id];
    ++count;
    cpus = std::max(cpus, rank.usable_cpus);
  }
  const bool crowded = std::any_of(on.begin(), on.end(), [](const auto& machine) {
    return machine.second.first > machine.second.second;
  });
  return {static_cast<int>(on.size()), crowded};
}

}  // namespace

FabricMeasurements MeasureNccl(NcclGroup& group, RankGpu& gpu, Exchange& exchange,
                               const std::vector<FabricRank>& ranks, const NcclOptions& options,
                               Deadline deadline, NcclProgress& reached) {
  FabricMeasurements measured;
  measured.ranks = ranks;
  const auto buffers = MakeBuffers(group, options);
  if (!buffers) {
    measured.stopped_by = buffers.error();
    return measured;
  }
  const auto [machines, crowded] = Machines(ranks);
  const auto row_of = [&](Collective collective, std::size_t asked, bool in_place) {
    reached = {"", std::string(CollectiveName(collective)), static_cast<std::int64_t>(asked),
               in_place, 0};
    return NcclRow(group, gpu, exchange, options, *buffers, collective,
                   ShapeOfRow(collective, asked, ElementBytes(options.type), group.Size()),
                   in_place, deadline.Within(options.row_limit), reached);
  };
  for (const Collective collective : options.collectives) {
    if (options.on_collective) {
      options.on_collective(std::string(CollectiveName(collective)));
    }
    for (const std::size_t asked : options.sizes_bytes) {
      if (const auto warm = row_of(collective, asked, false).WarmUp(); !warm) {
        measured.stopped_by = Where(reached, warm.error());
        return measured;
      }
    }
    for (const std::size_t asked : options.sizes_bytes) {
      for (const bool in_place : {false, true}) {
        if (collective == Collective::kSendReceive && in_place) {
          continue;  // two different messages cannot share a buffer
        }
        auto row = row_of(collective, asked, in_place).Run();
        if (!row) {
          measured.stopped_by = Where(reached, std::move(row).error());
          return measured;
        }
        row->asked_bytes = static_cast<std::int64_t>(asked);
        row->machines = machines;
        row->oversubscribed = crowded;
        measured.collectives.push_back(std::move(row).value());
      }
    }
  }
  reached = {"done", "", 0, false, 0};
  return measured;
}

}  // namespace dlc

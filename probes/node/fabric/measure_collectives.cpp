#include "probes/node/fabric/measure_collectives.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>

#include "kernels/pattern.h"
#include "probes/node/fabric/place.h"

namespace dlc {
namespace {

bool Reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter;
}

/// One collective, size and placement on this rank.
class RowRun {
 public:
  RowRun(Communicator& communicator, const CollectiveOptions& options, Collective collective,
         const RowShape& shape, bool in_place, Deadline deadline)
      : communicator_(communicator),
        options_(options),
        collective_(collective),
        shape_(shape),
        in_place_(in_place),
        deadline_(deadline),
        element_(ElementBytes(options.type)),
        receive_(
            (in_place ? std::max(shape.send_count, shape.receive_count) : shape.receive_count) *
            element_),
        apart_(in_place ? 0 : shape.send_count * element_),
        wrong_from_(static_cast<std::size_t>(communicator.size())) {}

  Result<CollectiveMeasurement> Run() {
    auto receive_kept = communicator_.Register(receive_.data(), receive_.size());
    auto apart_kept = communicator_.Register(apart_.data(), apart_.size());
    for (const auto* kept : {&receive_kept, &apart_kept}) {
      if (!*kept) {
        return kept->error();
      }
    }
    if (auto checked = CheckOnce(); !checked) {
      return checked.error();
    }
    for (int i = 0; i < options_.warm_up; ++i) {
      if (auto done = Operate(); !done) {
        return done.error();
      }
    }
    if (auto met = communicator_.Barrier(deadline_); !met) {
      return met.error();
    }
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < options_.iterations; ++i) {
      if (auto done = Operate(); !done) {
        return done.error();
      }
    }
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    return Summarise(elapsed.count() / std::max(options_.iterations, 1));
  }

 private:
  /// What Summarise gathers of each rank, before the wrong elements by the rank they came from.
  static constexpr std::size_t kFields = 3;

  std::size_t Rank() const { return static_cast<std::size_t>(communicator_.rank()); }

  /// Where this rank's input is; in place it is a part of receive_, or all of it.
  std::byte* Input() {
    if (!in_place_) {
      return apart_.data();
    }
    return collective_ == Collective::kAllGather
               ? receive_.data() + Rank() * shape_.send_count * element_
               : receive_.data();
  }
  std::byte* Output() {
    return in_place_ && collective_ == Collective::kReduceScatter
               ? receive_.data() + Rank() * shape_.receive_count * element_
               : receive_.data();
  }

  Result<void> Operate() {
    const std::byte* in = Input();
    std::byte* out = Output();
    const int rank = communicator_.rank();
    const int size = communicator_.size();
    switch (collective_) {
      case Collective::kAllReduce:
        return communicator_.AllReduce(in, out, shape_.send_count, options_.type, options_.op,
                                       deadline_);
      case Collective::kAllGather:
        return communicator_.AllGather(in, out, shape_.send_count, options_.type, deadline_);
      case Collective::kReduceScatter:
        return communicator_.ReduceScatter(in, out, shape_.receive_count, options_.type,
                                           options_.op, deadline_);
      case Collective::kBroadcast:
        return communicator_.Broadcast(in, out, shape_.send_count, options_.type, 0, deadline_);
      case Collective::kSendReceive:
        break;
    }
    return communicator_.SendReceive(in, (rank + 1) % size, out, (rank + size - 1) % size,
                                     shape_.send_count, options_.type, deadline_);
  }

  Result<void> CheckOnce() {
    const int rank = communicator_.rank();
    std::fill(receive_.begin(), receive_.end(), std::byte{0xa5});
    if (Reduces(collective_)) {
      FillShare(options_.type, options_.op, options_.seed, rank, communicator_.size(), 0,
                shape_.send_count, Input());
    } else if (collective_ != Collective::kBroadcast || rank == 0 || !in_place_) {
      FillMoved(options_.type, options_.seed, rank, 0, shape_.send_count, Input());
    }
    if (options_.planted_bit_flip_on_rank == rank && shape_.send_count > 0) {
      PlantBitFlip();
    }
    if (auto done = Operate(); !done) {
      return done;
    }
    checked_ = static_cast<std::int64_t>(shape_.receive_count);
    CountWrong();
    return {};
  }

  /// The highest bit below the sign of one element: no rounding hides it (a low bit of a float may
  /// vanish in a sum). A maximum is only changed by the rank that holds it.
  void PlantBitFlip() {
    std::byte* in = Input();
    std::size_t at = shape_.send_count / 2;
    if (Reduces(collective_) && options_.op == ReduceOp::kMax) {
      at = 0;
      while (at + 1 < shape_.send_count &&
             CountWrongReduced(options_.type, options_.op, options_.seed, communicator_.size(), at,
                               1, in + at * element_) != 0) {
        ++at;
      }
    }
    in[(at + 1) * element_ - 1] ^= std::byte{0x40};
  }

  void CountWrong() {
    const int size = communicator_.size();
    const int rank = communicator_.rank();
    const std::byte* out = Output();
    const auto reduced = [&](std::size_t first) {
      wrong_ = static_cast<std::int64_t>(CountWrongReduced(
          options_.type, options_.op, options_.seed, size, first, shape_.receive_count, out));
    };
    const auto moved = [&](int from, const std::byte* data, std::size_t count) {
      const auto wrong = static_cast<std::int64_t>(
          CountWrongMoved(options_.type, options_.seed, from, 0, count, data));
      wrong_from_[static_cast<std::size_t>(from)] = wrong;
      wrong_ += wrong;
    };
    switch (collective_) {
      case Collective::kAllReduce:
        return reduced(0);
      case Collective::kReduceScatter:
        return reduced(Rank() * shape_.receive_count);
      case Collective::kBroadcast:
        return moved(0, out, shape_.receive_count);
      case Collective::kSendReceive:
        return moved((rank + size - 1) % size, out, shape_.receive_count);
      case Collective::kAllGather:
        break;
    }
    for (int from = 0; from < size; ++from) {
      moved(from, out + static_cast<std::size_t>(from) * shape_.send_count * element_,
            shape_.send_count);
    }
  }

  Result<CollectiveMeasurement> Summarise(double seconds) {
    const auto size = static_cast<std::size_t>(communicator_.size());
    std::vector<std::int64_t> mine = {std::bit_cast<std::int64_t>(seconds), checked_, wrong_};
    mine.insert(mine.end(), wrong_from_.begin(), wrong_from_.end());
    std::vector<std::int64_t> all(mine.size() * size);
    auto gathered =
        communicator_.AllGather(mine.data(), all.data(), mine.size(), DataType::kInt64, deadline_);
    if (!gathered) {
      return gathered.error();
    }
    CollectiveMeasurement row;
    row.collective = CollectiveName(collective_);
    row.type = DataTypeName(options_.type);
    row.op = Reduces(collective_) ? ReduceOpName(options_.op) : "";
    row.in_place = in_place_;
    row.ranks = communicator_.size();
    row.size_bytes = static_cast<std::int64_t>(shape_.size_bytes);
    row.iterations = options_.iterations;
    row.operations = 1 + options_.warm_up + options_.iterations;  // the first is the checked one
    row.min_seconds = seconds;
    row.wrong_from.assign(Reduces(collective_) ? 0 : size, 0);
    for (std::size_t i = 0; i < all.size(); i += mine.size()) {
      const auto of_rank = std::bit_cast<double>(all[i]);
      row.mean_seconds += of_rank / communicator_.size();
      row.min_seconds = std::min(row.min_seconds, of_rank);
      row.max_seconds = std::max(row.max_seconds, of_rank);
      row.checked_elements += all[i + 1];
      row.wrong.push_back(all[i + 2]);
      for (std::size_t from = 0; from < row.wrong_from.size(); ++from) {
        row.wrong_from[from] += all[i + kFields + from];
      }
    }
    row.algorithm_bandwidth_bytes_per_second =
        AlgorithmBandwidth(shape_.size_bytes, row.mean_seconds);
    row.bus_bandwidth_bytes_per_second =
        BusBandwidth(collective_, shape_.size_bytes, row.ranks, row.mean_seconds);
    return row;
  }

  Communicator& communicator_;
  const CollectiveOptions& options_;
  Collective collective_;
  RowShape shape_;
  bool in_place_;
  Deadline deadline_;
  std::size_t element_;
  std::vector<std::byte> receive_;
  std::vector<std::byte> apart_;
  std::int64_t checked_ = 0;
  std::int64_t wrong_ = 0;
  std::vector<std::int64_t> wrong_from_;
};

}  // namespace

FabricMeasurements MeasureCollectives(Communicator& communicator,
                                      const std::vector<FabricRank>& ranks,
                                      const CollectiveOptions& options, Deadline deadline) {
  FabricMeasurements measured;
  measured.ranks = ranks;
  if (!HasExactReduction(options.type, options.op, communicator.size())) {
    measured.stopped_by = Error{ErrorCode::kUnsupported,
                                "no exact " + std::string(ReduceOpName(options.op)) + " of " +
                                    std::string(DataTypeName(options.type)) + " over " +
                                    std::to_string(communicator.size()) + " ranks to check against",
                                "use float32 or sum"};
    return measured;
  }
  for (const Collective collective : options.collectives) {
    for (const std::size_t asked : options.sizes_bytes) {
      const RowShape shape =
          ShapeOfRow(collective, asked, ElementBytes(options.type), communicator.size());
      for (const bool in_place : {false, true}) {
        if (collective == Collective::kSendReceive && in_place) {
          continue;  // two different messages cannot share a buffer
        }
        auto row = RowRun(communicator, options, collective, shape, in_place,
                          deadline.Within(options.row_limit))
                       .Run();
        if (!row) {
          measured.stopped_by = std::move(row).error();
          return measured;
        }
        row->asked_bytes = static_cast<std::int64_t>(asked);
        row->machines = CountMachines(ranks);
        row->oversubscribed = IsOversubscribed(ranks);
        measured.collectives.push_back(std::move(row).value());
      }
    }
  }
  return measured;
}

}  // namespace dlc

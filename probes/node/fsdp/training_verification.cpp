#include "probes/node/fsdp/training_verification.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "probes/node/fsdp/training_bounds.h"
#include "probes/node/fsdp/unsharded_model.h"

namespace dlc {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 22;
/// What division by nothing gives: JSON has no infinity.
constexpr double kNoMeasure = 1e300;

double Quotient(double difference, double expected) {
  if (difference == 0) {
    return 0;
  }
  const double quotient = difference / expected;
  return std::isfinite(quotient) ? quotient : kNoMeasure;
}

/// Values of any type as float32, a chunk at a time.
class Widening {
 public:
  explicit Widening(TrainingBackend& backend) : backend_(backend) {}

  /// Adds the hash of `count` elements that begin at `at`, as `through` holds them.
  Result<void> Hash(const void* at, DataType type, DataType through, std::uint64_t key,
                    std::int64_t first, std::int64_t count, std::uint64_t& hash) {
    if (type == DataType::kFloat32 && through == DataType::kFloat32) {
      return TrainingResult(
          backend_.AddHash(static_cast<const float*>(at), key, first, count, &hash));
    }
    for (std::int64_t done = 0; done < count; done += kChunk) {
      const std::int64_t some = std::min(kChunk, count - done);
      const auto* from =
          static_cast<const std::byte*>(at) + static_cast<std::size_t>(done) * ElementBytes(type);
      if (auto good = HashChunk(from, type, key, first + done, some, hash); !good) {
        return good;
      }
    }
    return {};
  }

 private:
  Result<void> HashChunk(const void* from, DataType type, std::uint64_t key, std::int64_t first,
                         std::int64_t count, std::uint64_t& hash) {
    const auto whole = Whole(count);
    if (!whole) {
      return whole.error();
    }
    if (type == DataType::kFloat32) {
      if (auto good = TrainingResult(backend_.Move(*whole, from, type, narrow_.At(0),
                                                   DataType::kBfloat16, TrainingQueue::kCompute));
          !good) {
        return good;
      }
      from = narrow_.At(0);
    }
    if (auto good = TrainingResult(backend_.Move(*whole, from, DataType::kBfloat16, wide_.At(0),
                                                 DataType::kFloat32, TrainingQueue::kCompute));
        !good) {
      return good;
    }
    return TrainingResult(backend_.AddHash(wide_.Floats(), key, first, count, &hash));
  }

  Result<int> Whole(std::int64_t count) {
    std::int64_t taken = 0;
    if (!wide_.Taken()) {
      if (auto good = wide_.Take(backend_, kChunk, DataType::kFloat32, taken); !good) {
        return good.error();
      }
      if (auto good = narrow_.Take(backend_, kChunk, DataType::kBfloat16, taken); !good) {
        return good.error();
      }
    }
    const auto known = wholes_.find(count);
    if (known != wholes_.end()) {
      return known->second;
    }
    auto made = PrepareWhole(backend_, count);
    if (made) {
      wholes_[count] = *made;
    }
    return made;
  }

  TrainingBackend& backend_;
  TrainingMemory narrow_;
  TrainingMemory wide_;
  std::map<std::int64_t, int> wholes_;
};

using Hashes = std::vector<std::uint64_t>;

std::string HashText(std::uint64_t hash) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) {
    text += kDigits[(hash >> shift) & 0xfU];
  }
  return text;
}

/// Sums over ranks, modulo 2^64.
Result<Hashes> AddUpHashes(const Hashes& mine, Exchange& exchange, Deadline deadline) {
  std::string text;
  for (const std::uint64_t hash : mine) {
    text += HashText(hash);
  }
  const auto all = exchange.AllGather(text, deadline);
  if (!all) {
    return all.error();
  }
  Hashes sums(mine.size());
  for (const std::string& theirs : *all) {
    if (theirs.size() != text.size()) {
      return Error{ErrorCode::kInternal, "ranks do not hash the same parameters", ""};
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] += std::strtoull(theirs.substr(16 * i, 16).c_str(), nullptr, 16);
    }
  }
  return sums;
}

/// Of what this rank owns: as it is gathered, by parameter; then parameters and both moments.
Result<Hashes> HashOwned(TrainingBackend& backend, const ShardedModel& model, DataType compute) {
  const ShardPlan& plan = model.Plan();
  const ShardStates& states = model.States();
  Widening widening(backend);
  Hashes hashes(plan.parameters.size() + 3);
  for (int unit = 0; unit < plan.Units(); ++unit) {
    for (const OwnedPiece& piece : plan.Layout(unit).owned) {
      const std::int64_t at = plan.Offset(unit) + piece.offset;
      const std::uint64_t key = HashKey(static_cast<std::size_t>(piece.parameter));
      const auto add = [&](const TrainingMemory& memory, DataType through, std::uint64_t& hash) {
        return widening.Hash(memory.At(at), DataType::kFloat32, through, key, piece.first,
                             piece.count, hash);
      };
      std::uint64_t* whole = &hashes[plan.parameters.size()];
      for (const Result<void>& done :
           {add(states.master, compute, hashes[static_cast<std::size_t>(piece.parameter)]),
            add(states.master, DataType::kFloat32, whole[0]),
            add(states.m, DataType::kFloat32, whole[1]),
            add(states.v, DataType::kFloat32, whole[2])}) {
        if (!done) {
          return done.error();
        }
      }
    }
  }
  return hashes;
}

Result<Hashes> HashGathered(TrainingBackend& backend, ShardedModel& model, DataType compute,
                            Deadline deadline) {
  const ShardPlan& plan = model.Plan();
  Widening widening(backend);
  Hashes hashes(plan.parameters.size());
  for (int unit = 0; unit < plan.Units(); ++unit) {
    const auto gathered = model.Gathered(unit, deadline);
    if (!gathered) {
      return gathered.error();
    }
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      const ModelParameter& parameter = plan.parameters[i];
      const auto* at = static_cast<const std::byte*>(*gathered) +
                       static_cast<std::size_t>(parameter.unit_offset) * ElementBytes(compute);
      if (parameter.unit == unit) {
        if (auto done =
                widening.Hash(at, compute, compute, HashKey(i), 0, parameter.Elements(), hashes[i]);
            !done) {
          return done.error();
        }
      }
    }
  }
  return hashes;
}

/// A range of one of the shards' buffers against zeros.
Result<void> CompareWithZeros(TrainingBackend& backend, const float* found, const float* zeros,
                              std::int64_t count, std::int64_t chunk, FsdpComparison& comparison) {
  FloatComparison all;
  for (std::int64_t done = 0; done < count; done += chunk) {
    if (auto good = TrainingResult(
            backend.Compare(found + done, zeros, std::min(chunk, count - done), all));
        !good) {
      return good;
    }
  }
  comparison.elements += count;
  comparison.different += all.different;
  comparison.not_finite += all.not_finite;
  return {};
}

/// Between what is owned, to the end of the unit's shard.
std::vector<ElementRange> PaddingOf(const UnitLayout& layout) {
  std::vector<ElementRange> ranges;
  std::int64_t covered = 0;
  for (const OwnedPiece& piece : layout.owned) {
    if (piece.offset > covered) {
      ranges.push_back({covered, piece.offset - covered});
    }
    covered = piece.offset + piece.count;
  }
  if (layout.shard_elements > covered) {
    ranges.push_back({covered, layout.shard_elements - covered});
  }
  return ranges;
}

/// Keeps the largest error and its name.
void Worst(FsdpComparison& comparison, const std::string& name, double error) {
  if (comparison.worst.empty() || error > comparison.error) {
    comparison.worst = name;
    comparison.error = error;
  }
}

void AddNumber(FsdpComparison& comparison, const std::string& name, double found, double expected) {
  ++comparison.elements;
  comparison.different += found == expected ? 0 : 1;
  if (!std::isfinite(found) || !std::isfinite(expected)) {
    ++comparison.not_finite;
    return;
  }
  Worst(comparison, name, Quotient(std::abs(found - expected), std::abs(expected)));
}

/// One comparison piece by piece, then all of it.
class PieceErrors {
 public:
  explicit PieceErrors(TrainingBackend& backend) : backend_(backend) {}

  Result<void> Add(const std::string& name, const float* found, const float* expected,
                   std::int64_t count) {
    Piece piece{&name, {}};
    auto done = TrainingResult(backend_.Compare(found, expected, count, piece.seen));
    pieces_.push_back(piece);
    return done;
  }

  /// `scale`: what an element's difference is held against; 0: the root mean square of what was
  /// expected, of the piece or of all, whichever is larger.
  void Tell(double scale, FsdpComparison& comparison) const {
    double squares = 0;
    double elements = 0;
    for (const Piece& piece : pieces_) {
      comparison.elements += piece.seen.elements;
      comparison.different += piece.seen.different;
      comparison.not_finite += piece.seen.not_finite;
      squares += piece.seen.sum_squared_expected;
      elements += static_cast<double>(piece.seen.elements);
    }
    for (const Piece& piece : pieces_) {
      const auto count = static_cast<double>(piece.seen.elements);
      const double own = std::sqrt(piece.seen.sum_squared_expected / count);
      const double against = scale > 0 ? scale : std::max(own, std::sqrt(squares / elements));
      if (comparison.not_finite == 0) {
        Worst(comparison, *piece.name,
              Quotient(std::sqrt(piece.seen.sum_squared_difference / count), against));
      }
    }
  }

 private:
  struct Piece {
    const std::string* name;
    FloatComparison seen;
  };
  TrainingBackend& backend_;
  std::vector<Piece> pieces_;
};

Result<void> TrainUnsharded(UnshardedModel& whole, const TrainingOptions& options,
                            const std::vector<ShardedStep>& steps, int rank, Deadline deadline,
                            FsdpComparison& losses, FsdpComparison& norms) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto step = whole.Step(deadline);
    if (!step) {
      return step.error();
    }
    const std::string name = "step " + std::to_string(i + 1);
    const std::size_t first =
        static_cast<std::size_t>(rank) * static_cast<std::size_t>(options.micro_batches);
    for (std::size_t k = 0; k < steps[i].losses.size(); ++k) {
      AddNumber(losses, name, static_cast<double>(steps[i].losses[k]),
                static_cast<double>(step->losses[first + k]));
    }
    AddNumber(norms, name, steps[i].gradient_norm, step->gradient_norm);
  }
  return {};
}

}  // namespace

Result<FsdpComparison> ComparePadding(TrainingBackend& backend, const ShardedModel& model) {
  FsdpComparison comparison{"padding", "", 0, 0, 0, 0, 0};
  TrainingMemory zeros;
  std::int64_t taken = 0;
  const std::int64_t chunk = std::min(kChunk, model.Plan().total);
  if (auto done = zeros.Take(backend, chunk, DataType::kFloat32, taken); !done) {
    return done.error();
  }
  const ShardStates& states = model.States();
  for (int unit = 0; unit < model.Plan().Units(); ++unit) {
    for (const ElementRange& range : PaddingOf(model.Plan().Layout(unit))) {
      const std::int64_t at = model.Plan().Offset(unit) + range.from;
      for (const TrainingMemory* memory :
           {&states.master, &states.gradient, &states.m, &states.v}) {
        if (auto done = CompareWithZeros(backend, memory->Floats(at), zeros.Floats(), range.count,
                                         chunk, comparison);
            !done) {
          return done.error();
        }
      }
    }
  }
  comparison.error = static_cast<double>(comparison.different);
  return comparison;
}

Result<FsdpComparison> CompareGathered(TrainingBackend& backend, ShardedModel& model,
                                       const TrainingOptions& options, Exchange& exchange,
                                       Deadline deadline, std::string& hash) {
  const DataType compute = options.shape.compute;
  const auto owned = HashOwned(backend, model, compute);
  if (!owned) {
    return owned.error();
  }
  const auto gathered = HashGathered(backend, model, compute, deadline);
  if (!gathered) {
    return gathered.error();
  }
  const auto expected = AddUpHashes(*owned, exchange, deadline);
  if (!expected) {
    return expected.error();
  }
  FsdpComparison comparison{"gathered", "", 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < gathered->size(); ++i) {
    const ModelParameter& parameter = model.Plan().parameters[i];
    comparison.elements += parameter.Elements();
    if ((*gathered)[i] != (*expected)[i]) {
      comparison.worst = comparison.worst.empty() ? parameter.name : comparison.worst;
      comparison.different += parameter.Elements();
    }
  }
  comparison.error = static_cast<double>(comparison.different);
  hash = HashText((*expected)[gathered->size()]) + HashText((*expected)[gathered->size() + 1]) +
         HashText((*expected)[gathered->size() + 2]);
  return comparison;
}

Result<std::vector<FsdpComparison>> CompareWithUnsharded(TrainingBackend& backend,
                                                         const ShardedModel& model,
                                                         const TrainingOptions& options,
                                                         const std::vector<ShardedStep>& steps,
                                                         int rank, int ranks, Deadline deadline) {
  const TrainingBounds bounds = TrainingBoundsFor(options, ranks);
  std::vector<FsdpComparison> all = {{"losses", "", 0, 0, 0, 0, bounds.losses},
                                     {"gradient-norms", "", 0, 0, 0, 0, bounds.gradients},
                                     {"parameters", "", 0, 0, 0, 0, bounds.parameters},
                                     {"first-moments", "", 0, 0, 0, 0, bounds.gradients},
                                     {"second-moments", "", 0, 0, 0, 0, bounds.second_moments}};
  auto whole = UnshardedModel::Open(backend, options, ranks);
  if (!whole) {
    return whole.error();
  }
  if (auto done = TrainUnsharded(**whole, options, steps, rank, deadline, all[0], all[1]); !done) {
    return done.error();
  }
  const ShardPlan& plan = model.Plan();
  const ShardStates& states = model.States();
  PieceErrors masters(backend);
  PieceErrors first(backend);
  PieceErrors second(backend);
  for (int unit = 0; unit < plan.Units(); ++unit) {
    for (const OwnedPiece& piece : plan.Layout(unit).owned) {
      const ModelParameter& parameter = plan.ParameterOf(piece);
      const std::int64_t at = plan.Offset(unit) + piece.offset;
      const auto add = [&](PieceErrors& to, const TrainingMemory& found, const float* expected) {
        return to.Add(parameter.name, found.Floats(at), expected + piece.first, piece.count);
      };
      for (const Result<void>& done : {add(masters, states.master, (*whole)->Master(parameter)),
                                       add(first, states.m, (*whole)->FirstMoment(parameter)),
                                       add(second, states.v, (*whole)->SecondMoment(parameter))}) {
        if (!done) {
          return done.error();
        }
      }
    }
  }
  masters.Tell(static_cast<double>(options.adam.rate) * options.steps, all[2]);
  first.Tell(0, all[3]);
  second.Tell(0, all[4]);
  return all;
}

}  // namespace dlc

#include <algorithm>
#include <cmath>

#include "probes/node/fsdp/training_verification.h"

// What exact mode must come to, for this rank's own elements: from the same whole numbers, added
// up for each element where it is, with no shards and no collectives.
namespace dlc {
namespace {

constexpr std::int64_t kExactChunk = std::int64_t{1} << 20;

/// What may have been done to the gradients, or not.
struct Deviation {
  bool sum = false;       ///< not divided by the number of ranks
  bool skipped = false;   ///< the last step of the optimizer is left out
  int dropped_rank = -1;  ///< of whose last micro-batch of each step there is nothing
};

/// Elements of one parameter after all steps, a chunk at a time.
class ExactElements {
 public:
  ExactElements(TrainingBackend& backend, const TrainingOptions& options, int ranks)
      : backend_(backend), options_(options), ranks_(ranks) {}

  /// For up to `count` elements at a time.
  Result<void> Open(std::int64_t count) {
    std::int64_t taken = 0;
    for (TrainingMemory* memory : {&part_, &sum_, &mean_, &gradient_, &master_, &m_, &v_}) {
      if (auto done = memory->Take(backend_, count, DataType::kFloat32, taken); !done) {
        return done;
      }
    }
    if (auto done = zeros_.Take(backend_, count, DataType::kFloat32, taken); !done) {
      return done;
    }
    if (auto done = scale_.Take(backend_, 1, DataType::kFloat32, taken); !done) {
      return done;
    }
    const float one = 1;
    return TrainingResult(backend_.Upload(scale_.At(0), &one, sizeof one));
  }

  /// `count` is at most kExactChunk.
  Result<void> Make(const ModelParameter& parameter, std::size_t index, std::int64_t first,
                    std::int64_t count, const Deviation& deviation) {
    std::vector<DeviceStatus> calls;
    calls.push_back(backend_.FillNormal(master_.Floats(), WeightKey(options_, index), first, count,
                                        InitialMean(parameter), kWeightSpread));
    for (TrainingMemory* memory : {&m_, &v_}) {
      calls.push_back(
          backend_.Accumulate(memory->Floats(), zeros_.At(0), DataType::kFloat32, 1, false, count));
    }
    for (int step = 0; step < options_.steps; ++step) {
      AddGradients(index, first, count, step, deviation, calls);
      if (deviation.skipped && step + 1 == options_.steps) {
        break;
      }
      calls.push_back(backend_.AdamW(options_.adam, step + 1, gradient_.Floats(), scale_.Floats(),
                                     master_.Floats(), m_.Floats(), v_.Floats(), nullptr,
                                     DataType::kFloat32, count));
    }
    for (const DeviceStatus& status : calls) {
      if (!status.Good()) {
        return TrainingResult(status);
      }
    }
    return {};
  }

  const float* Master() const { return master_.Floats(); }
  const float* FirstMoment() const { return m_.Floats(); }
  const float* SecondMoment() const { return v_.Floats(); }
  const float* Zeros() const { return zeros_.Floats(); }

 private:
  void AddGradients(std::size_t index, std::int64_t first, std::int64_t count, int step,
                    const Deviation& deviation, std::vector<DeviceStatus>& calls) {
    const bool exact = MeanIsExact(ranks_);
    const int divisor = options_.micro_batches * (exact ? 1 : ranks_);
    const float factor =
        1.0F / static_cast<float>(divisor) * (deviation.sum ? static_cast<float>(ranks_) : 1.0F);
    for (int batch = 0; batch < options_.micro_batches; ++batch) {
      const bool last = batch + 1 == options_.micro_batches;
      calls.push_back(
          backend_.Accumulate(sum_.Floats(), zeros_.At(0), DataType::kFloat32, 1, false, count));
      for (int rank = 0; rank < ranks_; ++rank) {
        if (last && rank == deviation.dropped_rank) {
          continue;
        }
        const std::uint64_t key =
            GradientKey(options_, MicroBatch(options_, step, batch, rank, ranks_), index);
        calls.push_back(backend_.FillIntegers(part_.At(0), DataType::kFloat32, key, first, count));
        calls.push_back(
            backend_.Accumulate(sum_.Floats(), part_.At(0), DataType::kFloat32, 1, true, count));
      }
      const float share = exact ? 1.0F / static_cast<float>(ranks_) : 1.0F;
      calls.push_back(
          backend_.Accumulate(mean_.Floats(), sum_.At(0), DataType::kFloat32, share, false, count));
      calls.push_back(backend_.Accumulate(gradient_.Floats(), mean_.At(0), DataType::kFloat32,
                                          factor, batch > 0, count));
    }
  }

  TrainingBackend& backend_;
  const TrainingOptions& options_;
  int ranks_;
  TrainingMemory part_, sum_, mean_, gradient_, master_, m_, v_, zeros_, scale_;
};

class ExactVerifier {
 public:
  ExactVerifier(TrainingBackend& backend, const ShardedModel& model, const TrainingOptions& options,
                int rank, int ranks)
      : backend_(backend),
        model_(model),
        options_(options),
        rank_(rank),
        ranks_(ranks),
        expected_(backend, options, ranks),
        damaged_(backend, options, ranks) {}

  Result<ExactComparison> Run() {
    for (ExactElements* elements : {&expected_, &damaged_}) {
      if (auto done = elements->Open(std::min(kExactChunk, model_.Plan().MostElements())); !done) {
        return done.error();
      }
    }
    ExactComparison result;
    auto compared = CompareAll(Deviation{});
    if (!compared) {
      return compared.error();
    }
    result.comparisons = std::move(compared).value();
    if (Differs(result.comparisons)) {
      auto text = Explain(result.comparisons);
      if (!text) {
        return text.error();
      }
      result.explanation = std::move(text).value();
    }
    if (auto done = Controls(result.controls); !done) {
      return done.error();
    }
    return result;
  }

 private:
  static bool Differs(const std::vector<FsdpComparison>& comparisons) {
    return std::any_of(comparisons.begin(), comparisons.end(),
                       [](const FsdpComparison& one) { return one.different > 0; });
  }

  Result<std::vector<FsdpComparison>> CompareAll(const Deviation& deviation) {
    std::vector<FsdpComparison> all = {{"parameters", "", 0, 0, 0, 0, 0},
                                       {"first-moments", "", 0, 0, 0, 0, 0},
                                       {"second-moments", "", 0, 0, 0, 0, 0}};
    const ShardPlan& plan = model_.Plan();
    for (int unit = 0; unit < plan.Units(); ++unit) {
      for (const OwnedPiece& piece : plan.Layout(unit).owned) {
        for (std::int64_t done = 0; done < piece.count; done += kExactChunk) {
          if (auto good = CompareChunk(unit, piece, done, deviation, all); !good) {
            return good.error();
          }
        }
      }
    }
    for (FsdpComparison& one : all) {
      one.error = static_cast<double>(one.different);
    }
    return all;
  }

  Result<void> CompareChunk(int unit, const OwnedPiece& piece, std::int64_t done,
                            const Deviation& deviation, std::vector<FsdpComparison>& all) {
    const std::int64_t count = std::min(kExactChunk, piece.count - done);
    const ModelParameter& parameter = model_.Plan().ParameterOf(piece);
    if (auto good = expected_.Make(parameter, static_cast<std::size_t>(piece.parameter),
                                   piece.first + done, count, deviation);
        !good) {
      return good;
    }
    const std::int64_t at = model_.Plan().Offset(unit) + piece.offset + done;
    const ShardStates& states = model_.States();
    const float* found[] = {states.master.Floats(at), states.m.Floats(at), states.v.Floats(at)};
    const float* expected[] = {expected_.Master(), expected_.FirstMoment(),
                               expected_.SecondMoment()};
    for (std::size_t i = 0; i < 3; ++i) {
      FloatComparison one;
      if (auto good = TrainingResult(backend_.Compare(found[i], expected[i], count, one)); !good) {
        return good;
      }
      all[i].elements += count;
      all[i].different += one.different;
      all[i].not_finite += one.not_finite;
      if (one.different > 0 && all[i].worst.empty()) {
        all[i].worst = parameter.name;
      }
    }
    return {};
  }

  /// Which mistake gives the very bits that were found.
  Result<std::string> Explain(const std::vector<FsdpComparison>& right) {
    struct Guess {
      Deviation deviation;
      std::string text;
    };
    std::vector<Guess> guesses;
    guesses.push_back({{true, false, -1},
                       "wrong-average: the sums were not divided by the number "
                       "of ranks"});
    guesses.push_back({{false, true, -1},
                       "skipped-shard: the optimizer left out the last step of "
                       "this rank's shard"});
    for (int rank = 0; rank < ranks_; ++rank) {
      guesses.push_back({{false, false, rank},
                         "dropped-micro-batch: of rank " + std::to_string(rank) +
                             " the last micro-batch of each step is missing"});
    }
    for (const Guess& guess : guesses) {
      const auto compared = CompareAll(guess.deviation);
      if (!compared) {
        return compared.error();
      }
      if (!Differs(*compared)) {
        return guess.text;
      }
    }
    if (right[1].different == 1) {
      return "flipped-bit: one element of " + right[1].worst + " alone differs";
    }
    return std::string();
  }

  /// On copies, of the first elements that this rank owns.
  Result<void> Controls(std::vector<FsdpControl>& controls) {
    const OwnedPiece* piece = nullptr;
    for (int unit = 0; unit < model_.Plan().Units() && piece == nullptr; ++unit) {
      const auto& owned = model_.Plan().Layout(unit).owned;
      piece = owned.empty() ? nullptr : &owned.front();
    }
    const std::pair<const char*, Deviation> kinds[] = {
        {"wrong-average", {true, false, -1}},
        {"skipped-shard", {false, true, -1}},
        {"dropped-micro-batch", {false, false, rank_}}};
    for (const auto& [name, deviation] : kinds) {
      FsdpControl control{name, piece != nullptr && (ranks_ > 1 || !deviation.sum), false};
      if (control.planted) {
        const auto different = Different(*piece, deviation);
        if (!different) {
          return different.error();
        }
        control.caught = *different > 0;
      }
      controls.push_back(control);
    }
    for (const char* name : {"flipped-bit", "padding-leak"}) {
      FsdpControl control{name, piece != nullptr, false};
      if (control.planted) {
        const auto different = DifferentAfterFlip(*piece, std::string(name) == "padding-leak");
        if (!different) {
          return different.error();
        }
        control.caught = *different == 1;
      }
      controls.push_back(control);
    }
    return StaleControl(piece, controls);
  }

  Result<std::int64_t> Different(const OwnedPiece& piece, const Deviation& deviation) {
    const std::int64_t count = std::min(kExactChunk, piece.count);
    const ModelParameter& parameter = model_.Plan().ParameterOf(piece);
    const auto index = static_cast<std::size_t>(piece.parameter);
    for (const Result<void>& done :
         {expected_.Make(parameter, index, piece.first, count, Deviation{}),
          damaged_.Make(parameter, index, piece.first, count, deviation)}) {
      if (!done) {
        return done.error();
      }
    }
    FloatComparison one;
    if (auto done = TrainingResult(
            backend_.Compare(damaged_.FirstMoment(), expected_.FirstMoment(), count, one));
        !done) {
      return done.error();
    }
    return one.different;
  }

  /// One bit of a right copy, or of zeros that stand for what fills a shard.
  Result<std::int64_t> DifferentAfterFlip(const OwnedPiece& piece, bool zeros) {
    if (const auto same = Different(piece, Deviation{}); !same || *same != 0) {
      return same;
    }
    // Both are this verifier's own.
    auto* at = const_cast<float*>(zeros ? damaged_.Zeros() : damaged_.Master());
    std::uint32_t bits = 0;
    FloatComparison one;
    const auto flip = [&]() -> Result<void> {
      if (auto done = TrainingResult(backend_.Download(&bits, at, sizeof bits)); !done) {
        return done;
      }
      bits ^= 1U;
      return TrainingResult(backend_.Upload(at, &bits, sizeof bits));
    };
    if (auto done = flip(); !done) {
      return done.error();
    }
    const float* right = zeros ? expected_.Zeros() : expected_.Master();
    if (auto done =
            TrainingResult(backend_.Compare(at, right, std::min(kExactChunk, piece.count), one));
        !done) {
      return done.error();
    }
    if (auto done = flip(); !done) {
      return done.error();
    }
    return one.different;
  }

  /// The hash of what the parameters were before the last step, against that of what they are.
  Result<void> StaleControl(const OwnedPiece* piece, std::vector<FsdpControl>& controls) {
    FsdpControl control{"stale-gather", piece != nullptr, false};
    if (control.planted) {
      const auto made = Different(*piece, {false, true, -1});
      if (!made) {
        return made.error();
      }
      const std::int64_t count = std::min(kExactChunk, piece->count);
      std::uint64_t before = 0;
      std::uint64_t after = 0;
      for (const auto& [values, hash] :
           {std::pair(damaged_.Master(), &before), {expected_.Master(), &after}}) {
        if (auto done = TrainingResult(
                backend_.AddHash(values, HashKey(static_cast<std::size_t>(piece->parameter)),
                                 piece->first, count, hash));
            !done) {
          return done;
        }
      }
      control.caught = before != after;
    }
    controls.push_back(control);
    return {};
  }

  TrainingBackend& backend_;
  const ShardedModel& model_;
  const TrainingOptions& options_;
  int rank_;
  int ranks_;
  ExactElements expected_;
  ExactElements damaged_;
};

}  // namespace

Result<ExactComparison> CompareExactly(TrainingBackend& backend, const ShardedModel& model,
                                       const TrainingOptions& options, int rank, int ranks) {
  return ExactVerifier(backend, model, options, rank, ranks).Run();
}

}  // namespace dlc

#include "probes/node/fsdp/layout_proof.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "probes/node/fsdp/layout_comparison.h"
#include "probes/node/fsdp/layout_controls.h"
#include "probes/node/fsdp/layout_parts.h"
#include "probes/node/fsdp/step_traffic.h"

namespace dlc {
namespace {

constexpr std::uint64_t kStep = 1;
/// What no element is before something arrives.
constexpr std::uint32_t kDirt = 0xa5a5a5a5U;
/// Of all ranks' shards together, before and after a cut.
constexpr std::int64_t kAroundCuts = 65'536;

std::vector<ModelParameter> UnitOf(const std::vector<ModelParameter>& parameters, int unit) {
  std::vector<ModelParameter> some;
  for (const int index : ParametersOf(parameters, unit)) {
    some.push_back(parameters[static_cast<std::size_t>(index)]);
  }
  return some;
}

std::int64_t ElementsIn(const std::vector<ModelParameter>& parameters) {
  std::int64_t elements = 0;
  for (const ModelParameter& parameter : parameters) {
    elements += parameter.Elements();
  }
  return elements;
}

class LayoutProof {
 public:
  LayoutProof(const ShardedRanks& ranks, const LayoutProofOptions& options, Deadline deadline)
      : ranks_(ranks), options_(options), deadline_(deadline) {
    seen_.model = options.model;
    seen_.layout = options.layout;
    seen_.shard_ranks = ranks.shard.size();
    seen_.copies = ranks.copies == nullptr ? 1 : ranks.copies->size();
    seen_.type = DataTypeName(DataType::kInt32);
    seen_.units = options.parameters.back().unit + 1;
    seen_.model_elements = ElementsIn(options.parameters);
    const auto step = [&](DataType gradients) {
      return StepBytesPerRank(options.cut, options.parameters, seen_.shard_ranks, seen_.copies,
                              gradients);
    };
    seen_.step_bytes_bfloat16 = step(DataType::kBfloat16);
    seen_.step_bytes_float32 = step(DataType::kFloat32);
  }

  Result<FsdpLayoutProof> Run(std::int64_t& whole_elements) {
    const auto start = std::chrono::steady_clock::now();
    const bool small = seen_.model_elements <= kSmallModel;
    for (int unit = 0; unit < seen_.units; ++unit) {
      if (!small && !options_.every_unit && unit > 0 && unit + 1 < seen_.units) {
        continue;
      }
      const std::int64_t elements = UnitElements(options_.parameters, unit);
      const bool whole = small || options_.every_unit || elements <= whole_elements;
      if (whole && !small && !options_.every_unit) {
        whole_elements -= elements;
      }
      if (auto moved = MoveUnit(unit, whole); !moved) {
        return std::move(moved).error();
      }
    }
    seen_.controls = controls_.Seen();
    seen_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return seen_;
  }

 private:
  int Me() const { return ranks_.shard.rank(); }
  int RankOfRun(int shard) const { return ranks_.rank - Me() + shard; }

  Result<void> MoveUnit(int unit, bool whole) {
    const std::vector<ModelParameter> parameters = UnitOf(options_.parameters, unit);
    const int first_index = ParametersOf(options_.parameters, unit).front();
    const UnitLayout layout =
        options_.make(options_.cut, options_.parameters, unit, ranks_.shard.size(), Me());
    if (const auto misplaced = FindMisplaced(options_.cut, layout, parameters, first_index, Me());
        misplaced.count > 0) {
      NoteWrong("layout", parameters, misplaced.count, misplaced.first, 0, 0, 0);
      return {};
    }
    ++seen_.moved_units;
    seen_.whole_units += whole ? 1 : 0;
    const UnitRuns runs = RunsOf(layout, parameters);
    const std::int64_t ranks = ranks_.shard.size();
    const std::int64_t most = std::max<std::int64_t>(options_.part_elements / ranks, 1);
    const std::int64_t around = std::max<std::int64_t>(kAroundCuts / ranks, 64);
    for (const ElementRange& range :
         whole ? WholeShard(runs, most) : AroundCuts(runs, around, most)) {
      ShardBuffer part{RunsOfRange(runs, range), range.count, first_index};
      if (auto moved = MovePart(part, parameters, layout.filling); !moved) {
        return moved;
      }
    }
    return {};
  }

  /// The runs of this rank's own shard, in a buffer of it alone.
  ShardBuffer OwnOf(const ShardBuffer& part) const {
    ShardBuffer own{{}, part.stride, part.first_index};
    for (ShardRun run : part.runs) {
      if (run.shard == Me()) {
        run.shard = 0;
        own.runs.push_back(run);
      }
    }
    return own;
  }

  Result<void> MovePart(const ShardBuffer& part, const std::vector<ModelParameter>& parameters,
                        float filling) {
    const ShardBuffer own = OwnOf(part);
    mine_.assign(static_cast<std::size_t>(part.stride), kDirt);
    gathered_.assign(mine_.size() * static_cast<std::size_t>(ranks_.shard.size()), kDirt);
    for (const ShardRun& run : part.runs) {
      (run.parameter == ShardRun::kFilling ? seen_.filling_elements : seen_.moved_elements) +=
          run.count;
    }
    const auto fill = static_cast<std::uint32_t>(filling);
    const PlaceValues values = ParameterValues(kStep, fill);
    FillPart(own, values, mine_.data());
    PlantFlip(own);
    if (auto done = Gather(part.stride); !done) {
      return done;
    }
    const bool gathered_right =
        Compare("all-gather", part, parameters, values, gathered_.data(), RankOfRun(0));
    if (gathered_right) {
      controls_.PlantInGathered(part, values, ParameterValues(kStep - 1, fill), gathered_.data());
    }
    FillPart(part, GradientValues(kStep, ranks_.rank), gathered_.data());
    std::fill(mine_.begin(), mine_.end(), kDirt);
    if (auto done = Reduce(part.stride); !done) {
      return done;
    }
    const PlaceValues sums = GradientSums(kStep, ranks_.size);
    if (Compare("reduce-scatter", own, parameters, sums, mine_.data(), ranks_.rank)) {
      const int dropped = (ranks_.rank + 1) % ranks_.size;
      controls_.PlantInSums(own, sums, GradientValues(kStep, dropped), mine_.data());
    }
    return {};
  }

  void PlantFlip(const ShardBuffer& own) {
    if (!options_.plant_bit_flip || flipped_) {
      return;
    }
    for (const ShardRun& run : own.runs) {
      if (run.parameter != ShardRun::kFilling) {
        mine_[static_cast<std::size_t>(run.offset + run.count / 2)] ^= 1U;
        flipped_ = true;
        return;
      }
    }
  }

  Result<void> Gather(std::int64_t stride) {
    const std::int64_t before = ranks_.sent_bytes();
    if (auto done = ranks_.shard.AllGather(mine_.data(), gathered_.data(), mine_.size(),
                                           DataType::kInt32, deadline_);
        !done) {
      return done;
    }
    ++seen_.all_gathers;
    Count(before, stride * ranks_.size * (ranks_.shard.size() - 1));
    return {};
  }

  Result<void> Reduce(std::int64_t stride) {
    const std::int64_t before = ranks_.sent_bytes();
    if (auto done = ranks_.shard.ReduceScatter(gathered_.data(), mine_.data(), mine_.size(),
                                               DataType::kInt32, ReduceOp::kSum, deadline_);
        !done) {
      return done;
    }
    ++seen_.reduce_scatters;
    std::int64_t elements = stride * ranks_.size * (ranks_.shard.size() - 1);
    if (ranks_.copies != nullptr) {
      if (auto done = ranks_.copies->AllReduce(mine_.data(), mine_.data(), mine_.size(),
                                               DataType::kInt32, ReduceOp::kSum, deadline_);
          !done) {
        return done;
      }
      ++seen_.all_reduces;
      elements += stride * 2 * ranks_.shard.size() * (ranks_.copies->size() - 1);
    }
    Count(before, elements);
    return {};
  }

  void Count(std::int64_t before, std::int64_t expected_elements) {
    seen_.sent_bytes += ranks_.sent_bytes() - before;
    seen_.expected_bytes +=
        expected_elements * static_cast<std::int64_t>(ElementBytes(DataType::kInt32));
  }

  /// `first_owner` is the rank of the run that has the buffer's first shard.
  bool Compare(const char* where, const ShardBuffer& part,
               const std::vector<ModelParameter>& parameters, const PlaceValues& values,
               const std::uint32_t* data, int first_owner) {
    const ComparedElements found = ComparePart(part, values, data);
    seen_.compared_elements += found.compared;
    if (found.wrong > 0) {
      ShardRun run = found.first_run;
      run.shard += first_owner;
      NoteWrong(where, parameters, found.wrong, run, found.first_at - part.At(found.first_run),
                found.expected, found.found);
    }
    return found.wrong == 0;
  }

  /// The `skip`-th element of `run` is the first of `count` wrong ones.
  void NoteWrong(const char* where, const std::vector<ModelParameter>& parameters,
                 std::int64_t count, const ShardRun& run, std::int64_t skip, std::uint32_t expected,
                 std::uint32_t found) {
    if (seen_.wrong_elements == 0) {
      FsdpWrongElement wrong{where,
                             run.shard,
                             "",
                             run.first + skip,
                             0,
                             static_cast<std::int32_t>(expected),
                             static_cast<std::int32_t>(found)};
      if (run.parameter >= 0 && static_cast<std::size_t>(run.parameter) < parameters.size()) {
        const ModelParameter& parameter = parameters[static_cast<std::size_t>(run.parameter)];
        wrong.parameter = parameter.name;
        wrong.row = (run.first + skip) / parameter.RowElements();
        wrong.column = (run.first + skip) % parameter.RowElements();
      }
      seen_.first_wrong = std::move(wrong);
    }
    seen_.wrong_elements += count;
  }

  const ShardedRanks& ranks_;
  const LayoutProofOptions& options_;
  Deadline deadline_;
  FsdpLayoutProof seen_;
  LayoutControls controls_;
  std::vector<std::uint32_t> mine_;
  std::vector<std::uint32_t> gathered_;
  bool flipped_ = false;
};

}  // namespace

Result<FsdpLayoutProof> ProveLayout(const ShardedRanks& ranks, const LayoutProofOptions& options,
                                    std::int64_t& whole_elements, Deadline deadline) {
  return LayoutProof(ranks, options, deadline).Run(whole_elements);
}

}  // namespace dlc

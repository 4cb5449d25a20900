#include <algorithm>
#include <chrono>
#include <thread>

#include "probes/node/fsdp/backend_memory.h"
#include "probes/node/fsdp/shard_states.h"
#include "probes/node/fsdp/step_traffic.h"
#include "probes/node/fsdp/train_and_compare.h"

namespace dlc {
namespace {

constexpr int kBandwidthRepeats = 3;

Result<void> AwaitCommunication(const TrainingRanks& ranks, Deadline deadline) {
  const int mark = ranks.backend.Mark(TrainingQueue::kCommunication);
  for (bool ended = false; !ended; std::this_thread::yield()) {
    if (auto done = TrainingResult(ranks.backend.IsDone(mark, ended)); !done) {
      return done;
    }
    if (auto done = ranks.collectives.LookForError(); !done) {
      return done;
    }
    if (!ended && deadline.Passed()) {
      return Error{ErrorCode::kTimedOut, "a unit was not exchanged by the deadline", ""};
    }
  }
  ranks.backend.ForgetMarks();
  return {};
}

/// Seconds of one `operation`, the mean of some after one that is not timed.
template <class Operation>
Result<double> Timed(const TrainingRanks& ranks, Deadline deadline, Operation operation) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i <= kBandwidthRepeats; ++i) {
    if (auto done = operation(); !done) {
      return done.error();
    }
    if (i == 0 || i == kBandwidthRepeats) {
      if (auto done = AwaitCommunication(ranks, deadline); !done) {
        return done.error();
      }
    }
    start = i == 0 ? std::chrono::steady_clock::now() : start;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
         kBandwidthRepeats;
}

}  // namespace

std::int64_t TrainingStepBytes(const TrainingOptions& options, int ranks) {
  const ShardPlan plan = MakeShardPlan(options.shape.model, ranks, 0);
  const auto compute = static_cast<std::int64_t>(ElementBytes(options.shape.compute));
  const auto reduced = static_cast<std::int64_t>(ElementBytes(options.shape.gradients));
  std::int64_t shard_bytes = 0;
  for (int unit = 0; unit < plan.Units(); ++unit) {
    const int gathers = options.exact ? 0 : unit == plan.Root() ? 1 : 2;
    shard_bytes += plan.Layout(unit).shard_elements * (gathers * compute + reduced);
  }
  return std::int64_t{ranks} * (ranks - 1) *
         (shard_bytes * options.micro_batches + static_cast<std::int64_t>(sizeof(double)));
}

Result<UnitBandwidth> MeasureUnitBandwidth(const TrainingRanks& ranks,
                                           const TrainingOptions& options, Deadline deadline) {
  UnitBandwidth bandwidth;
  const int size = ranks.collectives.Size();
  if (size == 1) {
    return bandwidth;
  }
  const ShardPlan plan = MakeShardPlan(options.shape.model, size, 0);
  const std::int64_t count =
      std::max(plan.Layout(0).shard_elements, plan.Layout(plan.Root()).shard_elements);
  TrainingMemory shard;
  TrainingMemory all;
  std::int64_t taken = 0;
  for (const auto& [memory, elements] : {std::pair(&shard, count), {&all, size * count}}) {
    if (auto done = memory->Take(ranks.backend, elements, DataType::kFloat32, taken); !done) {
      return done.error();
    }
  }
  const auto gather = Timed(ranks, deadline, [&] {
    return ranks.collectives.AllGather(shard.At(0), all.At(0), count, options.shape.compute,
                                       deadline);
  });
  const auto reduce = Timed(ranks, deadline, [&] {
    return ranks.collectives.ReduceScatter(all.At(0), shard.At(0), count, options.shape.gradients,
                                           ReduceOp::kAvg, deadline);
  });
  if (!gather || !reduce) {
    return gather ? reduce.error() : gather.error();
  }
  const auto sent = static_cast<double>(count) * (size - 1);
  bandwidth.gather_bytes_per_second =
      sent * static_cast<double>(ElementBytes(options.shape.compute)) / *gather;
  bandwidth.reduce_bytes_per_second =
      sent * static_cast<double>(ElementBytes(options.shape.gradients)) / *reduce;
  return bandwidth;
}

FsdpPrediction PredictStep(const std::string& name, const Qwen2Shape& model, int ranks,
                           DataType gradients, const UnitBandwidth& bandwidth) {
  const auto parameters = Qwen2Parameters(model);
  const auto bytes = [&](DataType type) {
    return StepBytesPerRank(ShardLayout::kFsdp2, parameters, ranks, 1, type);
  };
  // What float32 takes more than bfloat16 is what bfloat16 takes.
  const std::int64_t half = bytes(DataType::kFloat32) - bytes(DataType::kBfloat16);
  const std::int64_t all = bytes(gradients);
  const std::int64_t reduced = gradients == DataType::kFloat32 ? 2 * half : half;
  FsdpPrediction prediction{name, all, 0};
  if (bandwidth.gather_bytes_per_second > 0 && bandwidth.reduce_bytes_per_second > 0) {
    prediction.seconds = static_cast<double>(all - reduced) / bandwidth.gather_bytes_per_second +
                         static_cast<double>(reduced) / bandwidth.reduce_bytes_per_second;
  }
  return prediction;
}

}  // namespace dlc

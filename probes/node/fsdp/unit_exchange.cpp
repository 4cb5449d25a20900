#include "probes/node/fsdp/unit_exchange.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace dlc {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

UnitExchange::UnitExchange(TrainingBackend& backend, UnitCollectives& collectives,
                           const ShardPlan& plan, ShardStates& states,
                           const TrainingOptions& options)
    : backend_(backend),
      collectives_(collectives),
      plan_(plan),
      states_(states),
      options_(options),
      ranks_(collectives.Size()),
      op_(options.exact && !MeanIsExact(ranks_) ? ReduceOp::kSum : ReduceOp::kAvg) {
  const bool plain = options.micro_batches == 1 && options.fault != TrainingFault::kWrongAverage;
  into_shard_ = plain && op_ == ReduceOp::kAvg && ranks_ > 1;
  in_place_ = plain && plan.direct && options.shape.gradients == DataType::kFloat32;
}

bool UnitExchange::Synchronous() const {
  return backend_.Stream(TrainingQueue::kCommunication) == nullptr;
}

Result<void> UnitExchange::Open(std::int64_t& taken) {
  if (auto done = TakeSlots(taken); !done) {
    return done;
  }
  if (auto done = TakeReduction(taken); !done) {
    return done;
  }
  return Prepare();
}

Result<void> UnitExchange::TakeSlots(std::int64_t& taken) {
  const DataType compute = options_.shape.compute;
  const DataType gradients = options_.shape.gradients;
  std::int64_t gathered = 0;
  for (int unit = 0; unit < plan_.Units(); ++unit) {
    gathered = std::max(gathered, plan_.Layout(unit).GatheredElements());
    Slot& slot = UnitSlot(unit);
    if (!plan_.direct && !slot.memory.Taken()) {
      if (auto done = slot.memory.Take(backend_, plan_.Elements(unit), compute, taken); !done) {
        return done;
      }
    }
    Slot& gradient = GradientSlot(unit);
    if (!in_place_ && !gradient.memory.Taken()) {
      if (auto done = gradient.memory.Take(backend_, plan_.Elements(unit), gradients, taken);
          !done) {
        return done;
      }
    }
  }
  return ranks_ > 1 ? staging_.Take(backend_, gathered, compute, taken) : Result<void>();
}

Result<void> UnitExchange::TakeReduction(std::int64_t& taken) {
  const DataType gradients = options_.shape.gradients;
  for (const int unit : {0, plan_.Root()}) {
    if (plan_.direct) {
      break;
    }
    const UnitLayout& layout = plan_.Layout(unit);
    TrainingMemory& packed = packed_[Kind(unit)];
    if (auto done = packed.Take(backend_, layout.GatheredElements(), gradients, taken); !done) {
      return done;
    }
    if (options_.fault == TrainingFault::kPaddingLeak) {
      const std::vector<std::uint32_t> noise(16, 0x3f803f80U);  // 1.0 in both types, or near
      for (const ElementRange& range : layout.unfilled) {
        const auto count = std::min<std::int64_t>(range.count, 16);
        if (auto done = TrainingResult(
                backend_.Upload(packed.At(range.from), noise.data(),
                                static_cast<std::uint64_t>(count) * ElementBytes(gradients)));
            !done) {
          return done;
        }
      }
    }
  }
  if (ranks_ == 1 || (into_shard_ && gradients == DataType::kFloat32)) {
    return {};
  }
  const std::int64_t most =
      std::max(plan_.Layout(0).shard_elements, plan_.Layout(plan_.Root()).shard_elements);
  for (TrainingMemory& received : received_) {
    if (auto done = received.Take(backend_, most, gradients, taken); !done) {
      return done;
    }
  }
  return {};
}

Result<void> UnitExchange::Prepare() {
  for (const int unit : {0, plan_.Root()}) {
    const UnitLayout& layout = plan_.Layout(unit);
    const std::size_t kind = Kind(unit);
    const auto whole = PrepareWhole(backend_, layout.shard_elements);
    if (!whole) {
      return whole.error();
    }
    shard_[kind] = *whole;
    for (const auto& [pieces, handle] :
         {std::pair(&layout.unshard, &unshard_[kind]), {&layout.pack_gradient, &pack_[kind]}}) {
      if (auto done = TrainingResult(backend_.PreparePieces(*pieces, *handle)); !done) {
        return done;
      }
    }
  }
  std::int64_t not_counted = 0;
  return options_.fault == TrainingFault::kDroppedMicroBatch
             ? zeros_.Take(backend_, plan_.MostElements(), options_.shape.gradients, not_counted)
             : Result<void>();
}

Result<void> UnitExchange::Gather(int unit, Deadline deadline) {
  if (plan_.direct) {
    return {};
  }
  const auto start = Clock::now();
  auto done = StartGather(unit, deadline);
  host_seconds_ += SecondsSince(start);
  return done;
}

Result<void> UnitExchange::StartGather(int unit, Deadline deadline) {
  const DataType type = options_.shape.compute;
  Slot& slot = UnitSlot(unit);
  if (slot.last_use >= 0) {
    if (auto done = TrainingResult(backend_.WaitFor(TrainingQueue::kCommunication, slot.last_use));
        !done) {
      return done;
    }
  }
  const void* from = states_.Sent(plan_, unit);
  if (ranks_ > 1) {
    if (auto done = collectives_.AllGather(from, staging_.At(0), plan_.Layout(unit).shard_elements,
                                           type, deadline);
        !done) {
      return done;
    }
    from = staging_.At(0);
  }
  const bool stale = options_.fault == TrainingFault::kStaleGather && unit == 0;
  if (!stale) {
    if (auto done =
            TrainingResult(backend_.Move(unshard_[Kind(unit)], from, type, slot.memory.At(0), type,
                                         TrainingQueue::kCommunication));
        !done) {
      return done;
    }
  }
  slot.ready = backend_.Mark(TrainingQueue::kCommunication);
  return {};
}

Result<void> UnitExchange::ComputeWaits(int mark) {
  const int before = backend_.Mark(TrainingQueue::kCompute);
  auto done = TrainingResult(backend_.WaitFor(TrainingQueue::kCompute, mark));
  waits_.emplace_back(before, backend_.Mark(TrainingQueue::kCompute));
  return done;
}

Result<const void*> UnitExchange::Use(int unit) {
  if (plan_.direct) {
    return states_.Sent(plan_, unit);
  }
  Slot& slot = UnitSlot(unit);
  if (auto done = ComputeWaits(slot.ready); !done) {
    return done.error();
  }
  return static_cast<const void*>(slot.memory.At(0));
}

void UnitExchange::Release(int unit) {
  if (!plan_.direct) {
    UnitSlot(unit).last_use = backend_.Mark(TrainingQueue::kCompute);
  }
}

Result<void*> UnitExchange::GradientOf(int unit) {
  if (in_place_) {
    return static_cast<void*>(states_.gradient.At(plan_.Offset(unit)));
  }
  Slot& slot = GradientSlot(unit);
  if (slot.last_use >= 0) {
    if (auto done = ComputeWaits(slot.last_use); !done) {
      return done.error();
    }
    slot.last_use = -1;
  }
  return static_cast<void*>(slot.memory.At(0));
}

Result<double> UnitExchange::TakeExposedSeconds() {
  double seconds = Synchronous() ? host_seconds_ : 0;
  for (const auto& [from, to] : waits_) {
    double one = 0;
    if (auto done = TrainingResult(backend_.SecondsBetween(from, to, one)); !done) {
      return done.error();
    }
    seconds += one;
  }
  waits_.clear();
  host_seconds_ = 0;
  // Marks are forgotten between steps.
  for (Slot* slot : {&layers_[0], &layers_[1], &root_, &layer_gradients_[0], &layer_gradients_[1],
                     &root_gradient_}) {
    slot->ready = slot->last_use = -1;
  }
  received_free_ = {-1, -1};
  return seconds;
}

}  // namespace dlc

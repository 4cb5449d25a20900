#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "probes/node/fsdp/unit_exchange.h"

// The way back: gradients of whole units into shards.
namespace dlc {

float UnitExchange::Factor() const {
  const int divisor = options_.micro_batches * (op_ == ReduceOp::kSum ? ranks_ : 1);
  const bool wrong = options_.fault == TrainingFault::kWrongAverage;
  return 1.0F / static_cast<float>(divisor) * (wrong ? static_cast<float>(ranks_) : 1.0F);
}

Result<void> UnitExchange::Reduce(int unit, int micro_batch, Deadline deadline) {
  if (options_.fault == TrainingFault::kFlippedBit && unit == 0 && !flipped_) {
    flipped_ = true;
    if (auto done = FlipOneBit(unit); !done) {
      return done;
    }
  }
  if (ranks_ == 1) {
    return ReduceAlone(unit, micro_batch);
  }
  const auto start = std::chrono::steady_clock::now();
  auto done = StartReduce(unit, micro_batch, deadline);
  host_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return done;
}

Result<void> UnitExchange::FlipOneBit(int unit) {
  const auto gradient = GradientOf(unit);
  if (!gradient) {
    return gradient.error();
  }
  // The upper byte's lower bits of the mantissa, in both types: little-endian. Of the first number
  // that is not 0: that of a 0 is lost in any sum.
  const std::size_t bytes = ElementBytes(options_.shape.gradients);
  std::array<std::byte, 256> some{};
  const std::size_t count =
      std::min(some.size(), static_cast<std::size_t>(plan_.Elements(unit)) * bytes);
  auto* start = static_cast<std::byte*>(*gradient);
  if (auto done = TrainingResult(backend_.Download(some.data(), start, count)); !done) {
    return done;
  }
  std::size_t at = bytes - 2;
  while (at + bytes < count && some[at] == std::byte{0} && some[at + 1] == std::byte{0}) {
    at += bytes;
  }
  const std::byte flipped = some[at] ^ std::byte{0x10};
  return TrainingResult(backend_.Upload(start + at, &flipped, 1));
}

/// In the compute queue: there is nobody to wait for.
Result<void> UnitExchange::ReduceAlone(int unit, int micro_batch) {
  if (in_place_) {
    return {};
  }
  const DataType type = options_.shape.gradients;
  const UnitLayout& layout = plan_.Layout(unit);
  float* into = states_.gradient.Floats(plan_.Offset(unit));
  const bool dropped = options_.fault == TrainingFault::kDroppedMicroBatch &&
                       micro_batch == options_.micro_batches - 1;
  const void* from = dropped ? zeros_.At(0) : GradientSlot(unit).memory.At(0);
  if (!plan_.direct) {
    TrainingMemory& packed = packed_[Kind(unit)];
    if (auto done = TrainingResult(backend_.Move(pack_[Kind(unit)], from, type, packed.At(0), type,
                                                 TrainingQueue::kCompute));
        !done) {
      return done;
    }
    from = packed.At(0);
  }
  return TrainingResult(
      backend_.Accumulate(into, from, type, Factor(), micro_batch > 0, layout.shard_elements));
}

Result<void> UnitExchange::StartReduce(int unit, int micro_batch, Deadline deadline) {
  if (auto done = TrainingResult(
          backend_.WaitFor(TrainingQueue::kCommunication, backend_.Mark(TrainingQueue::kCompute)));
      !done) {
    return done;
  }
  if (auto done = Pack(unit, micro_batch); !done) {
    return done;
  }
  return Scatter(unit, micro_batch, deadline);
}

Result<void> UnitExchange::Pack(int unit, int micro_batch) {
  const DataType type = options_.shape.gradients;
  const bool dropped = options_.fault == TrainingFault::kDroppedMicroBatch &&
                       micro_batch == options_.micro_batches - 1;
  Slot& slot = GradientSlot(unit);
  const void* from = dropped ? zeros_.At(0) : slot.memory.At(0);
  auto done = TrainingResult(backend_.Move(pack_[Kind(unit)], from, type, packed_[Kind(unit)].At(0),
                                           type, TrainingQueue::kCommunication));
  slot.last_use = backend_.Mark(TrainingQueue::kCommunication);
  return done;
}

Result<void> UnitExchange::Scatter(int unit, int micro_batch, Deadline deadline) {
  const DataType type = options_.shape.gradients;
  const std::int64_t count = plan_.Layout(unit).shard_elements;
  const void* packed = packed_[Kind(unit)].At(0);
  float* into = states_.gradient.Floats(plan_.Offset(unit));
  if (into_shard_ && type == DataType::kFloat32) {
    return collectives_.ReduceScatter(packed, into, count, type, op_, deadline);
  }
  const int turn = turn_;
  turn_ = 1 - turn_;
  TrainingMemory& received = received_[static_cast<std::size_t>(turn)];
  int& free = received_free_[static_cast<std::size_t>(turn)];
  if (free >= 0) {
    if (auto done = TrainingResult(backend_.WaitFor(TrainingQueue::kCommunication, free)); !done) {
      return done;
    }
  }
  if (auto done = collectives_.ReduceScatter(packed, received.At(0), count, type, op_, deadline);
      !done) {
    return done;
  }
  if (into_shard_) {
    return TrainingResult(backend_.Move(shard_[Kind(unit)], received.At(0), type, into,
                                        DataType::kFloat32, TrainingQueue::kCommunication));
  }
  // Added when the next unit's backward is in the compute queue, so that this one need not wait.
  if (auto done = AddPending(); !done) {
    return done;
  }
  pending_ = {unit, micro_batch, turn, backend_.Mark(TrainingQueue::kCommunication)};
  return {};
}

Result<void> UnitExchange::AddPending() {
  if (pending_.unit < 0) {
    return {};
  }
  const Pending one = std::exchange(pending_, Pending{});
  if (auto done = ComputeWaits(one.mark); !done) {
    return done;
  }
  auto done = TrainingResult(backend_.Accumulate(
      states_.gradient.Floats(plan_.Offset(one.unit)),
      received_[static_cast<std::size_t>(one.received)].At(0), options_.shape.gradients, Factor(),
      one.micro_batch > 0, plan_.Layout(one.unit).shard_elements));
  received_free_[static_cast<std::size_t>(one.received)] = backend_.Mark(TrainingQueue::kCompute);
  return done;
}

Result<void> UnitExchange::Settle() {
  if (ranks_ == 1) {
    return {};
  }
  if (auto done = AddPending(); !done) {
    return done;
  }
  return ComputeWaits(backend_.Mark(TrainingQueue::kCommunication));
}

}  // namespace dlc

#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "probes/node/fsdp/backend_memory.h"
#include "probes/node/fsdp/shard_states.h"
#include "probes/node/fsdp/training_options.h"
#include "probes/node/fsdp/unit_collectives.h"

namespace dlc {

/// Brings units together and takes their gradients apart, in the communication queue beside the
/// computation: FSDP2's side of a training step. Layers take turns in two buffers; the root has its
/// own, and stays gathered until it is gathered again. One rank has nothing to exchange, and where
/// its shards are laid out as units are, nothing is copied either.
class UnitExchange {
 public:
  UnitExchange(TrainingBackend& backend, UnitCollectives& collectives, const ShardPlan& plan,
               ShardStates& states, const TrainingOptions& options);

  /// Takes the buffers. `taken` grows by the bytes.
  Result<void> Open(std::int64_t& taken);

  /// Starts to gather; into the buffer that the layer before last had.
  Result<void> Gather(int unit, Deadline deadline);
  /// The gathered unit, for work that is put into the compute queue from now on. nullptr after an
  /// error.
  Result<const void*> Use(int unit);
  /// Nothing more in the compute queue will use it.
  void Release(int unit);

  /// Where the compute queue shall put the unit's gradient.
  Result<void*> GradientOf(int unit);
  /// Starts to average it over ranks, into the shard or, but for the first micro-batch, onto it.
  Result<void> Reduce(int unit, int micro_batch, Deadline deadline);
  /// The compute queue goes on when all gradients are in the shards.
  Result<void> Settle();

  /// For which the compute queue did nothing but wait for the communication queue, since the last
  /// call; all of it must be done.
  Result<double> TakeExposedSeconds();

 private:
  struct Slot {
    TrainingMemory memory;
    int ready = -1;     ///< mark: filled
    int last_use = -1;  ///< mark: free
  };
  /// Reduced gradients that are still to be added to the shard.
  struct Pending {
    int unit = -1;
    int micro_batch = 0;
    int received = 0;  ///< index of the buffer
    int mark = -1;
  };

  Slot& UnitSlot(int unit) { return unit == plan_.Root() ? root_ : layers_[SlotIndex(unit)]; }
  Slot& GradientSlot(int unit) {
    return unit == plan_.Root() ? root_gradient_ : layer_gradients_[SlotIndex(unit)];
  }
  static std::size_t SlotIndex(int unit) { return static_cast<std::size_t>(unit) % 2; }
  /// 0 of layers, 1 of the root: of what differs between the two alone.
  std::size_t Kind(int unit) const { return unit == plan_.Root() ? 1 : 0; }
  bool Synchronous() const;

  Result<void> TakeSlots(std::int64_t& taken);
  Result<void> TakeReduction(std::int64_t& taken);
  Result<void> Prepare();
  Result<void> StartGather(int unit, Deadline deadline);
  Result<void> StartReduce(int unit, int micro_batch, Deadline deadline);
  Result<void> ReduceAlone(int unit, int micro_batch);
  Result<void> Pack(int unit, int micro_batch);
  Result<void> Scatter(int unit, int micro_batch, Deadline deadline);
  Result<void> AddPending();
  Result<void> ComputeWaits(int mark);
  Result<void> FlipOneBit(int unit);
  float Factor() const;

  TrainingBackend& backend_;
  UnitCollectives& collectives_;
  const ShardPlan& plan_;
  ShardStates& states_;
  const TrainingOptions& options_;
  int ranks_;
  ReduceOp op_;
  /// The collective's result is what the shard's gradient is.
  bool into_shard_ = false;
  /// What the backend writes is what the shard's gradient is.
  bool in_place_ = false;

  std::array<Slot, 2> layers_;
  Slot root_;
  TrainingMemory staging_;  ///< of gathered shards
  std::array<Slot, 2> layer_gradients_;
  Slot root_gradient_;
  std::array<TrainingMemory, 2> packed_;
  std::array<TrainingMemory, 2> received_;
  std::array<int, 2> received_free_ = {-1, -1};
  TrainingMemory zeros_;  ///< for a planted fault
  std::array<int, 2> unshard_ = {-1, -1};
  std::array<int, 2> pack_ = {-1, -1};
  std::array<int, 2> shard_ = {-1, -1};
  Pending pending_;
  int turn_ = 0;
  bool flipped_ = false;
  std::vector<std::pair<int, int>> waits_;
  double host_seconds_ = 0;
};

}  // namespace dlc

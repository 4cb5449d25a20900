#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "kernels/training/cpu_backend.h"
#include "probes/node/checkpoint/read_checkpoint.h"
#include "probes/node/fsdp/memory_claims.h"
#include "probes/node/fsdp/sharded_model.h"
#include "probes/node/resume/resume_training.h"
#include "probes/node/resume/sharded_state.h"
#include "probes/node/resume/train_steps.h"

namespace dlc {
namespace {

constexpr std::size_t kMostWrongNames = 8;
constexpr std::string_view kSeen = "seen";
constexpr std::string_view kNotSeen = "not seen";

/// Numbers of ranks that the state is cut for; those first that a run is likely to go on with, for
/// of a large state not all are read.
std::vector<int> OtherWorlds(int ranks) {
  std::vector<int> worlds;
  for (const int other : {ranks / 2, ranks / 4, 1, 2, 3, 5}) {
    if (other > 0 && other != ranks &&
        std::find(worlds.begin(), worlds.end(), other) == worlds.end()) {
      worlds.push_back(other);
    }
  }
  return worlds;
}

class Loader {
 public:
  Loader(const TrainingRanks& ranks, const ResumeSetup& setup, CheckpointLoad& seen)
      : ranks_(ranks), setup_(setup), seen_(seen) {}

  Result<void> Run() {
    auto asked = AskForTrainingMemory(ranks_, setup_.options, setup_.deadline);
    if (!asked) {
      return asked.error();
    }
    seen_.not_looked_at = asked->too_little;
    if (!seen_.not_looked_at.empty()) {
      return {};
    }
    auto model = OpenForTraining(ranks_, setup_.options, setup_.deadline);
    if (!model) {
      return model.error();
    }
    model_ = std::move(model).value();
    tensors_ = StateTensorsOf(model_->Plan());
    if (auto good = Agree(Load()); !good) {
      return good;
    }
    if (auto done = Compare(); !done) {
      return done;
    }
    if (auto done = Reshard(); !done) {
      return done;
    }
    return TrainOn();
  }

 private:
  int Rank() const { return ranks_.collectives.Rank(); }

  Result<void> Agree(const Result<void>& mine) {
    return AgreeOnErrors(ranks_.exchange, mine, setup_.deadline);
  }

  /// What the reader refuses is an observation of its own, and ends the step.
  Result<void> Refused(const CheckpointFailure& failure) {
    if (failure.fault != CheckpointFault::kCaller && failure.fault != CheckpointFault::kTimedOut) {
      seen_.refused = std::string(CheckpointFaultName(failure.fault)) + ": " + failure.message;
    }
    return ErrorOf(failure);
  }

  /// Who wrote the manifest sees it at once. Where no rank does, there is none to wait for; where
  /// one does, the caches of the others' clients may still hide it (nfs(5): acdirmax).
  Result<void> Load() {
    ranks_.say("loading");
    const std::string directory = setup_.Root() + "/" + CheckpointStepName(setup_.saved_after);
    auto opened = OpenCheckpoint(directory);
    const auto seen = ranks_.exchange.AllGather(opened ? kSeen : kNotSeen, setup_.deadline);
    if (!seen) {
      return seen.error();
    }
    if (!opened && std::count(seen->begin(), seen->end(), kSeen) > 0) {
      Deadline visible = Deadline::After(setup_.visible_within);
      opened = AwaitCheckpoint(
          directory, visible.Remaining() < setup_.deadline.Remaining() ? visible : setup_.deadline);
    }
    return opened ? LoadFrom(std::move(*opened)) : Refused(opened.error());
  }

  Result<void> LoadFrom(Checkpoint opened) {
    checkpoint_ = std::move(opened);
    if (auto good = CheckIdentity(); !good) {
      return good;
    }
    const auto header = ReadCheckpointShardHeader(checkpoint_, Rank());
    if (!header) {
      return Refused(header.error());
    }
    if (!SameTensors(*header)) {
      return Refused({CheckpointFault::kSwapped,
                      "it holds other tensors than rank " + std::to_string(Rank()) + " has", "",
                      ""});
    }
    const auto read = ReadCheckpointShard(
        checkpoint_, Rank(),
        [&](std::size_t tensor, std::int64_t offset, std::span<const std::byte> bytes) {
          return Put(tensor, offset, bytes);
        },
        {}, setup_.deadline);
    if (!read) {
      return Refused(read.error());
    }
    seen_.bytes = read->facts.bytes;
    seen_.seconds = read->facts.seconds;
    seen_.resident_fraction = read->facts.resident_fraction;
    seen_.cold_because = seen_.other_node ? "other-node" : read->facts.cold_because;
    return Plant();
  }

  Result<void> CheckIdentity() {
    const CheckpointManifest& manifest = checkpoint_.manifest;
    seen_.step = manifest.identity.step;
    if (manifest.identity.run_id != setup_.run_id) {
      return Refused(
          {CheckpointFault::kMixedRun,
           "the manifest is of run " + manifest.identity.run_id + ", not " + setup_.run_id, "",
           ""});
    }
    const std::string seed = std::to_string(setup_.options.seed);
    const std::string step = std::to_string(manifest.identity.step);
    for (const auto& [key, value] : {std::pair(kSeedKey, seed), {kAdamStepKey, step}}) {
      const auto it = manifest.extra.find(std::string(key));
      if (it == manifest.extra.end() || it->second != value) {
        return Refused({CheckpointFault::kDamaged,
                        "the manifest's " + std::string(key) + " is not " + value, "", ""});
      }
    }
    return {};
  }

  bool SameTensors(const CheckpointShard& shard) const {
    return std::equal(
        shard.tensors.begin(), shard.tensors.end(), tensors_.begin(), tensors_.end(),
        [](const CheckpointTensor& a, const StateTensor& b) { return a == b.tensor; });
  }

  Result<void> Put(std::size_t tensor, std::int64_t offset, std::span<const std::byte> bytes) {
    auto* to = reinterpret_cast<std::byte*>(PlaceOf(model_->States(), tensors_[tensor])) + offset;
    return TrainingResult(ranks_.backend.Upload(to, bytes.data(), bytes.size()));
  }

  Result<void> Plant() {
    if (setup_.fault == "flip-bit" && !tensors_.empty()) {
      return FlipBitOf(ranks_.backend, PlaceOf(model_->States(), tensors_.front()));
    }
    if (setup_.fault != "lost-moments") {
      return {};
    }
    for (const StateTensor& one : tensors_) {
      const std::vector<float> zeros(static_cast<std::size_t>(one.count), 0.0F);
      if (one.index % 3 == 0) {
        continue;
      }
      if (auto done = TrainingResult(ranks_.backend.Upload(
              PlaceOf(model_->States(), one), zeros.data(), zeros.size() * sizeof(float)));
          !done) {
        return done;
      }
    }
    return {};
  }

  Result<void> Hash(StateHashes& hashes) {
    StateHashes mine(StateTensorCount(model_->Plan()), 0);
    if (auto good = Agree(AddStateHashes(ranks_.backend, tensors_, model_->States(), mine));
        !good) {
      return good;
    }
    auto all = SumStateHashes(mine, ranks_.exchange, setup_.deadline);
    if (!all) {
      return all.error();
    }
    hashes = std::move(all).value();
    return {};
  }

  Result<void> Compare() {
    StateHashes hashes;
    if (auto done = Hash(hashes); !done) {
      return done;
    }
    seen_.hash = StateHashOf(hashes);
    const CheckpointExtra& saved = checkpoint_.manifest.extra;
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      const std::string name = StateTensorName(model_->Plan(), i);
      const auto it = saved.find(std::string(kHashKeyPrefix) + name);
      if (it != saved.end() && it->second == StateHashText(hashes[i])) {
        continue;
      }
      ++seen_.wrong_tensors;
      if (seen_.wrong.size() < kMostWrongNames) {
        seen_.wrong.push_back(name);
      }
    }
    return {};
  }

  /// Ranks of another world share out its shards.
  Result<void> Reshard() {
    constexpr std::int64_t kBytesEach = 12;
    const std::int64_t bytes = ParameterCount(setup_.options.shape.model) * kBytesEach;
    std::int64_t left = setup_.most_reshard_bytes;
    for (const int ranks : OtherWorlds(ranks_.collectives.Size())) {
      if (left < bytes) {
        seen_.reshard_not_looked_at = "the state has " + std::to_string(bytes) +
                                      " bytes, and the plan reads up to " +
                                      std::to_string(setup_.most_reshard_bytes) + " again";
        return {};
      }
      left -= bytes;
      ranks_.say("cutting it for " + std::to_string(ranks) + " ranks");
      StateHashes mine(StateTensorCount(model_->Plan()), 0);
      const auto added = AddShardsOf(ranks, mine);
      CheckpointReshard one{ranks, "", ""};
      const auto good = Agree(added);
      if (!good) {
        one.error = good.error().message;
      } else {
        const auto all = SumStateHashes(mine, ranks_.exchange, setup_.deadline);
        if (!all) {
          return all.error();
        }
        one.hash = StateHashOf(*all);
      }
      seen_.reshards.push_back(std::move(one));
    }
    return {};
  }

  Result<void> AddShardsOf(int ranks, StateHashes& hashes) {
    auto rows = CheckpointRows::Open(checkpoint_, {});
    if (!rows) {
      return ErrorOf(rows.error());
    }
    const auto host = OpenCpuTrainingBackend();
    for (int rank = Rank(); rank < ranks; rank += ranks_.collectives.Size()) {
      const ShardPlan plan = MakeShardPlan(setup_.options.shape.model, ranks, rank);
      for (const StateTensor& one : StateTensorsOf(plan)) {
        std::vector<float> values(static_cast<std::size_t>(one.count));
        const auto read = rows->Read(one.tensor.name, one.tensor.first_row, one.tensor.rows,
                                     std::as_writable_bytes(std::span(values)), setup_.deadline);
        if (!read) {
          return ErrorOf(read.error());
        }
        if (auto done = AddHashOf(*host, one, values.data(), hashes); !done) {
          return done;
        }
      }
    }
    return {};
  }

  Result<void> TrainOn() {
    if (auto good = Agree(
            model_->Resume(static_cast<int>(seen_.step) - (setup_.fault == "stale-step" ? 1 : 0)));
        !good) {
      return good;
    }
    if (auto done = TrainSteps(ranks_, *model_, setup_.options.steps - setup_.saved_after,
                               setup_.deadline, seen_.losses);
        !done) {
      return done;
    }
    StateHashes hashes;
    if (auto done = Hash(hashes); !done) {
      return done;
    }
    seen_.resumed_hash = StateHashOf(hashes);
    return {};
  }

  const TrainingRanks& ranks_;
  const ResumeSetup& setup_;
  CheckpointLoad& seen_;
  std::unique_ptr<ShardedModel> model_;
  std::vector<StateTensor> tensors_;
  Checkpoint checkpoint_;
};

}  // namespace

void LoadAndResume(const TrainingRanks& ranks, const ResumeSetup& setup, CheckpointLoad& seen) {
  if (auto done = Loader(ranks, setup, seen).Run(); !done) {
    seen.stopped_by = std::move(done).error();
  }
}

}  // namespace dlc

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <future>
#include <sstream>
#include <utility>
#include <vector>

#include "probes/node/checkpoint/checkpoint_controls.h"
#include "probes/node/checkpoint/checkpoint_files.h"
#include "probes/node/checkpoint/write_checkpoint.h"
#include "probes/node/fsdp/memory_claims.h"
#include "probes/node/fsdp/sharded_model.h"
#include "probes/node/resume/resume_training.h"
#include "probes/node/resume/sharded_state.h"
#include "probes/node/resume/train_steps.h"
#include "probes/node/storage/mountinfo.h"
#include "probes/node/unique_fd.h"

namespace dlc {
namespace {

using Clock = std::chrono::steady_clock;

/// A rank's state from its device, the next block on its way while the last one is written. The
/// backend is for one thread at a time: nobody else calls it until the file is done.
class StateSource {
 public:
  StateSource(TrainingBackend& backend, const ShardStates& states,
              const std::vector<StateTensor>& tensors, std::int64_t block_bytes)
      : backend_(backend), states_(states), tensors_(tensors), block_bytes_(block_bytes) {}
  StateSource(const StateSource&) = delete;
  StateSource& operator=(const StateSource&) = delete;
  ~StateSource() {
    if (coming_.valid()) {
      coming_.wait();
    }
  }

  Result<const std::byte*> Read(std::size_t tensor, std::int64_t offset, std::int64_t bytes) {
    const Block wanted{tensor, offset, bytes};
    if (!coming_.valid() || !(next_ == wanted)) {
      if (coming_.valid()) {
        coming_.wait();
      }
      Start(wanted);
    }
    if (auto done = coming_.get(); !done) {
      return done.error();
    }
    const std::byte* here = buffers_[filling_].data();
    filling_ = 1 - filling_;
    if (const Block after = After(wanted); after.bytes > 0) {
      Start(after);
    }
    return here;
  }

 private:
  struct Block {
    std::size_t tensor = 0;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;

    bool operator==(const Block&) const = default;
  };

  /// 0 bytes: there is none.
  Block After(const Block& block) const {
    constexpr std::int64_t kFloat = sizeof(float);
    const std::int64_t end = block.offset + block.bytes;
    if (end < tensors_[block.tensor].count * kFloat) {
      return {block.tensor, end,
              std::min(block_bytes_, tensors_[block.tensor].count * kFloat - end)};
    }
    const std::size_t next = block.tensor + 1;
    return next < tensors_.size()
               ? Block{next, 0, std::min(block_bytes_, tensors_[next].count * kFloat)}
               : Block{};
  }

  void Start(const Block& block) {
    next_ = block;
    std::vector<std::byte>& to = buffers_[filling_];
    to.resize(static_cast<std::size_t>(block.bytes));
    const std::byte* from =
        reinterpret_cast<const std::byte*>(PlaceOf(states_, tensors_[block.tensor])) + block.offset;
    coming_ = std::async(std::launch::async, [this, &to, from] {
      return TrainingResult(backend_.Download(to.data(), from, to.size()));
    });
  }

  TrainingBackend& backend_;
  const ShardStates& states_;
  const std::vector<StateTensor>& tensors_;
  std::int64_t block_bytes_;
  std::vector<std::byte> buffers_[2];
  int filling_ = 0;
  Block next_;
  std::future<Result<void>> coming_;
};

/// One file's line of the manifest, between ranks.
std::string CardOf(const CheckpointFile& file) {
  return file.name + " " + std::to_string(file.bytes) + " " + file.sha256.ToString();
}

Result<CheckpointFile> FileOfCard(const std::string& card) {
  std::istringstream words(card);
  CheckpointFile file;
  std::string digest;
  words >> file.name >> file.bytes >> digest;
  auto parsed = Digest::Parse(digest);
  if (!words || !parsed) {
    return Error{ErrorCode::kInternal, "'" + card + "' tells no file", ""};
  }
  file.sha256 = *parsed;
  return file;
}

class Saver {
 public:
  Saver(const TrainingRanks& ranks, const ResumeSetup& setup, CheckpointSave& seen)
      : ranks_(ranks), setup_(setup), seen_(seen) {}

  Result<void> Run() {
    auto fits = Fits();
    if (!fits || !seen_.not_looked_at.empty()) {
      return fits;
    }
    auto model = OpenForTraining(ranks_, setup_.options, setup_.deadline);
    if (!model) {
      return model.error();
    }
    model_ = std::move(model).value();
    std::vector<double> before;
    if (auto done = TrainSteps(ranks_, *model_, setup_.saved_after, setup_.deadline, before);
        !done) {
      return done;
    }
    seen_.step = setup_.saved_after;
    tensors_ = StateTensorsOf(model_->Plan());
    if (auto done = Hash(seen_.hash); !done) {
      return done;
    }
    seen_.tensors = static_cast<std::int64_t>(hashes_.size());
    if (auto done = Save(); !done) {
      return done;
    }
    if (auto done = TrainSteps(ranks_, *model_, setup_.options.steps - setup_.saved_after,
                               setup_.deadline, seen_.losses);
        !done) {
      return done;
    }
    if (auto done = Hash(seen_.continued_hash); !done) {
      return done;
    }
    return Refusals();
  }

 private:
  int Rank() const { return ranks_.collectives.Rank(); }

  /// What the file system refused is an observation of its own, and ends the step.
  Error AsError(const CheckpointFailure& failure) {
    if (failure.fault != CheckpointFault::kCaller && failure.fault != CheckpointFault::kTimedOut &&
        failure.fault != CheckpointFault::kInvalid) {
      seen_.refused = std::string(CheckpointFaultName(failure.fault)) + ": " + failure.message;
    }
    return ErrorOf(failure);
  }

  Result<void> Agree(const Result<void>& mine) {
    return AgreeOnErrors(ranks_.exchange, mine, setup_.deadline);
  }

  /// Memory, then space: neither is taken before all ranks know that there is enough.
  Result<void> Fits() {
    auto asked = AskForTrainingMemory(ranks_, setup_.options, setup_.deadline);
    if (!asked) {
      return asked.error();
    }
    seen_.not_looked_at = asked->too_little;
    if (!seen_.not_looked_at.empty()) {
      return {};
    }
    constexpr std::int64_t kBytesEach = 12;  // a parameter and its two moments, in float32
    const std::int64_t needed = ParameterCount(setup_.options.shape.model) * kBytesEach;
    const auto space = ObserveSpace(setup_.path);
    std::string mine;
    if (space && space->available_bytes < needed + needed / 8) {
      mine = setup_.path + " has " + std::to_string(space->available_bytes) +
             " bytes free; the state needs " + std::to_string(needed) + " and an eighth to spare";
    }
    const auto all = ranks_.exchange.AllGather(mine, setup_.deadline);
    if (!all) {
      return all.error();
    }
    for (std::size_t rank = 0; rank < all->size() && seen_.not_looked_at.empty(); ++rank) {
      if (!(*all)[rank].empty()) {
        seen_.not_looked_at = "rank " + std::to_string(rank) + ": " + (*all)[rank];
      }
    }
    return {};
  }

  Result<void> Hash(std::string& text) {
    StateHashes mine(StateTensorCount(model_->Plan()), 0);
    const auto added = AddStateHashes(ranks_.backend, tensors_, model_->States(), mine);
    if (auto good = Agree(added); !good) {
      return good;
    }
    auto all = SumStateHashes(mine, ranks_.exchange, setup_.deadline);
    if (!all) {
      return all.error();
    }
    hashes_ = std::move(all).value();
    text = StateHashOf(hashes_);
    return {};
  }

  Result<void> MakeRoot() {
    for (const std::string& name : {setup_.directory, setup_.Root()}) {
      if (mkdir(name.c_str(), 0777) != 0 && errno != EEXIST) {
        return AsError(RefusedByErrno("make", name, errno));
      }
    }
    return {};
  }

  Result<void> Prepare() {
    ranks_.say("trying what the file system lets a checkpoint do");
    if (auto good = Agree(Rank() == 0 ? MakeRoot() : Result<void>()); !good) {
      return good;
    }
    const auto strategy = TryCheckpointStrategy(setup_.Root(), std::to_string(Rank()));
    if (auto good = Agree(strategy ? Result<void>() : AsError(strategy.error())); !good) {
      return good;
    }
    options_.strategy = *strategy;
    seen_.strategy = CheckpointPublishName(strategy->publish);
    seen_.notes = strategy->notes;
    Result<void> made;
    if (Rank() == 0) {
      const auto step = PrepareCheckpointStep(setup_.Root(), seen_.step, options_.strategy);
      made = step ? Result<void>() : AsError(step.error());
    }
    return Agree(made);
  }

  CheckpointExtra Extra() const {
    const TrainingOptions& options = setup_.options;
    return {{std::string(kSeedKey), std::to_string(options.seed)},
            {std::string(kAdamStepKey), std::to_string(seen_.step)},
            {std::string(kMicroBatchKey),
             std::to_string(MicroBatch(options, static_cast<int>(seen_.step), 0, 0,
                                       ranks_.collectives.Size()))},
            {std::string(kModelKey), setup_.model}};
  }

  Result<void> FlipBit() {
    if (tensors_.empty()) {
      return {};
    }
    return FlipBitOf(ranks_.backend, PlaceOf(model_->States(), tensors_.front()));
  }

  Result<void> Save() {
    const auto start = Clock::now();
    if (auto done = Prepare(); !done) {
      return done;
    }
    // The file is another than what was hashed, for as long as it takes to write it.
    const bool flip = setup_.fault == "flip-bit";
    if (auto done = flip ? FlipBit() : Result<void>(); !done) {
      return done;
    }
    auto file = WriteShard();
    if (auto done = flip ? FlipBit() : Result<void>(); !done) {
      return done;
    }
    if (auto good = Agree(file ? Result<void>() : Result<void>(file.error())); !good) {
      return good;
    }
    auto done = Publish(*file);
    seen_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    seen_.published = done.has_value();
    if (done && setup_.fault == "corrupt-shard") {
      return CorruptFile(setup_.Root() + "/" + CheckpointStepName(seen_.step) + "/" + file->name);
    }
    return done;
  }

  Result<CheckpointFile> WriteShard() {
    CheckpointShard shard;
    shard.identity = {setup_.run_id, seen_.step, ranks_.collectives.Size()};
    shard.rank = Rank();
    shard.extra = Extra();
    for (const StateTensor& one : tensors_) {
      shard.tensors.push_back(one.tensor);
    }
    ranks_.say("saving");
    StateSource source(ranks_.backend, model_->States(), tensors_, options_.block_bytes);
    const auto written = WriteCheckpointShard(
        setup_.Root() + "/" + CheckpointStepName(seen_.step), shard,
        [&](std::size_t tensor, std::int64_t offset, std::int64_t bytes) {
          return source.Read(tensor, offset, bytes);
        },
        options_, setup_.deadline);
    if (!written) {
      return AsError(written.error());
    }
    seen_.bytes = written->file.bytes;
    seen_.source_seconds = written->times.source_seconds;
    seen_.write_seconds = written->times.write_seconds;
    seen_.fsync_seconds = written->times.fsync_seconds;
    seen_.publish_seconds = written->times.publish_seconds;
    return written->file;
  }

  Result<void> Publish(const CheckpointFile& mine) {
    const auto cards = ranks_.exchange.AllGather(CardOf(mine), setup_.deadline);
    if (!cards) {
      return cards.error();
    }
    Result<void> done;
    if (Rank() == 0) {
      done = PublishManifest(*cards);
    }
    return Agree(done);
  }

  Result<void> PublishManifest(const std::vector<std::string>& cards) {
    CheckpointManifest manifest;
    manifest.identity = {setup_.run_id, seen_.step, ranks_.collectives.Size()};
    manifest.extra = Extra();
    for (std::size_t i = 0; i < hashes_.size(); ++i) {
      manifest.extra[std::string(kHashKeyPrefix) + StateTensorName(model_->Plan(), i)] =
          StateHashText(hashes_[i]);
    }
    for (const std::string& card : cards) {
      auto file = FileOfCard(card);
      if (!file) {
        return file.error();
      }
      manifest.shards.push_back(std::move(file).value());
    }
    const auto published =
        PublishCheckpoint(setup_.Root() + "/" + CheckpointStepName(seen_.step), manifest, options_);
    return published ? Result<void>() : AsError(published.error());
  }

  Result<void> Refusals() {
    if (Rank() != 0) {
      return {};
    }
    ranks_.say("damaging sets of files, to see them refused");
    const std::string scratch = setup_.directory + "/refusals";
    if (mkdir(scratch.c_str(), 0777) != 0) {
      return AsError(RefusedByErrno("make", scratch, errno));
    }
    const auto refused = PlantCheckpointDamages(scratch, options_.strategy, setup_.deadline);
    rmdir(scratch.c_str());
    if (!refused) {
      return AsError(refused.error());
    }
    for (const CheckpointRefusalControl& one : *refused) {
      seen_.refusals.push_back({one.name, one.planted, one.caught, one.found});
    }
    return {};
  }

  const TrainingRanks& ranks_;
  const ResumeSetup& setup_;
  CheckpointSave& seen_;
  std::unique_ptr<ShardedModel> model_;
  std::vector<StateTensor> tensors_;
  StateHashes hashes_;
  CheckpointWriteOptions options_;
};

}  // namespace

void SaveAndContinue(const TrainingRanks& ranks, const ResumeSetup& setup, CheckpointSave& seen) {
  if (auto done = Saver(ranks, setup, seen).Run(); !done) {
    seen.stopped_by = std::move(done).error();
  }
}

}  // namespace dlc

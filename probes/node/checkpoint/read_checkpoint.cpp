#include "probes/node/checkpoint/read_checkpoint.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <string_view>
#include <utility>

#include "probes/node/checkpoint/cold_file.h"
#include "probes/node/checkpoint/hashed_blocks.h"

namespace dlc {
namespace {

using Clock = Deadline::Clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Cuts blocks of the file at the borders of its tensors.
class TensorCutter {
 public:
  TensorCutter(const SafetensorsHeader& header, const CheckpointSink& sink)
      : header_(header), sink_(sink) {}

  /// `block` lies at `offset` of the file. In order.
  Result<void> Add(std::int64_t offset, std::string_view block) {
    const std::int64_t end = offset + static_cast<std::int64_t>(block.size());
    for (; next_ < header_.tensors.size(); ++next_) {
      const SafetensorsTensor& tensor = header_.tensors[next_];
      const std::int64_t from = std::max(offset, header_.data_begin + tensor.begin);
      const std::int64_t to = std::min(end, header_.data_begin + tensor.end);
      if (from < to) {
        const std::string_view part = block.substr(static_cast<std::size_t>(from - offset),
                                                   static_cast<std::size_t>(to - from));
        auto taken = sink_(next_, from - header_.data_begin - tensor.begin,
                           std::as_bytes(std::span(part.data(), part.size())));
        if (!taken) {
          return taken;
        }
      }
      if (header_.data_begin + tensor.end > end) {
        break;  // goes on in the next block
      }
    }
    return {};
  }

 private:
  const SafetensorsHeader& header_;
  const CheckpointSink& sink_;
  std::size_t next_ = 0;
};

/// A block is hashed while the sink has it and the next one is read.
class HashedReader {
 public:
  HashedReader(ColdFile& file, const CheckpointSink& sink, std::int64_t block_bytes)
      : file_(file),
        sink_(sink),
        block_bytes_(static_cast<std::size_t>(block_bytes)),
        buffers_{DirectBuffer(block_bytes_), DirectBuffer(block_bytes_)} {}

  CheckpointResult<Digest> Read(Deadline deadline, double& sink_seconds) {
    TensorCutter cutter(file_.header(), sink_);
    std::int64_t offset = 0;
    for (std::size_t current = 0; offset < file_.bytes(); current = 1 - current) {
      if (deadline.Passed()) {
        return CheckpointFaultOf(CheckpointFault::kTimedOut, file_.path(), "not read in time");
      }
      const auto count = file_.ReadBlock(offset, buffers_[current].data(), block_bytes_);
      if (!count) {
        return count.error();
      }
      if (*count == 0) {
        return CheckpointFaultOf(CheckpointFault::kPartial, file_.path(), "became shorter");
      }
      const std::string_view block(buffers_[current].data(), *count);
      if (hashing_.valid()) {
        hashing_.get();
      }
      hashing_ = HashBeside(hash_, block);
      if (sink_) {
        const auto start = Clock::now();
        const auto taken = cutter.Add(offset, block);
        sink_seconds += SecondsSince(start);
        if (!taken) {
          return CheckpointFaultOf(CheckpointFault::kCaller, file_.path(), taken.error().message);
        }
      }
      offset += static_cast<std::int64_t>(*count);
    }
    if (hashing_.valid()) {
      hashing_.get();
    }
    return hash_.FinishDigest();
  }

 private:
  ColdFile& file_;
  const CheckpointSink& sink_;
  std::size_t block_bytes_;
  std::array<DirectBuffer, 2> buffers_;
  Sha256 hash_;
  std::future<void> hashing_;  // last: ends before what it reads
};

}  // namespace

CheckpointResult<CheckpointShard> ReadCheckpointShardHeader(const Checkpoint& checkpoint,
                                                            int rank) {
  const auto file = ColdFile::Open(checkpoint, rank);
  if (!file) {
    return file.error();
  }
  return file->shard();
}

CheckpointResult<ReadCheckpointShardResult> ReadCheckpointShard(
    const Checkpoint& checkpoint, int rank, const CheckpointSink& sink,
    const CheckpointReadOptions& options, Deadline deadline) {
  if (const std::string problem = ProblemOfBlockBytes(options.block_bytes); !problem.empty()) {
    return CheckpointFailure{CheckpointFault::kInvalid, problem, "", ""};
  }
  auto file = ColdFile::Open(checkpoint, rank);
  if (!file) {
    return file.error();
  }
  file->KeepCold(options);
  const auto start = Clock::now();
  double sink_seconds = 0;
  const auto found = HashedReader(*file, sink, options.block_bytes).Read(deadline, sink_seconds);
  if (!found) {
    return found.error();
  }
  const Digest& expected = checkpoint.manifest.shards[static_cast<std::size_t>(rank)].sha256;
  if (*found != expected) {
    return CheckpointFaultOf(CheckpointFault::kDamaged, file->path(),
                             "expected " + expected.ToString() + ", found " + found->ToString());
  }
  ReadCheckpointShardResult result{file->shard(), file->Facts()};
  result.facts.bytes = file->bytes();
  result.facts.seconds = SecondsSince(start);
  result.facts.sink_seconds = sink_seconds;
  return result;
}

}  // namespace dlc

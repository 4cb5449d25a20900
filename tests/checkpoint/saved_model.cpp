#include "tests/checkpoint/saved_model.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace dlc {
namespace {

std::int64_t ColumnsOf(const CheckpointTensor& tensor) {
  return BytesOfRows(tensor, 1) / static_cast<std::int64_t>(sizeof(float));
}

}  // namespace

SavedModel SavedModel::Small(std::int64_t scale) {
  return {{{"embed.weight", {11, 4 * scale}, 0, 11},
           {"norm.weight", {3}, 0, 3},  // fewer rows than ranks: some have none
           {"conv", {7, 2, 3 * scale}, 0, 7},
           {"optimizer/exp_avg \"embed\"", {11, 4 * scale}, 0, 11}}};
}

std::vector<CheckpointTensor> SavedModel::PartOf(int rank, int ranks) const {
  std::vector<CheckpointTensor> parts = tensors;
  for (CheckpointTensor& part : parts) {
    const std::int64_t all = part.shape[0];
    const std::int64_t each = all / ranks;
    const std::int64_t more = all % ranks;
    part.first_row = rank * each + std::min<std::int64_t>(rank, more);
    part.rows = each + (rank < more ? 1 : 0);
  }
  return parts;
}

float SavedModel::Value(std::size_t tensor, std::int64_t element, std::int64_t step) {
  return static_cast<float>(step * 1'000'000 + static_cast<std::int64_t>(tensor) * 100'000 +
                            element % 99'991);
}

std::vector<float> SavedModel::Values(std::size_t tensor, std::int64_t first_row, std::int64_t rows,
                                      std::int64_t step) const {
  const std::int64_t columns = ColumnsOf(tensors[tensor]);
  std::vector<float> values;
  for (std::int64_t i = first_row * columns; i < (first_row + rows) * columns; ++i) {
    values.push_back(Value(tensor, i, step));
  }
  return values;
}

CheckpointWriteOptions SmallBlocks(const CheckpointStrategy& strategy) {
  return {strategy, 4096, false};
}
CheckpointReadOptions SmallReads(bool cold) {
  return {4096, cold};
}
Deadline Plenty() {
  return Deadline::After(std::chrono::milliseconds(60'000));
}

CheckpointResult<WrittenCheckpointFile> SaveRank(const SavedModel& model,
                                                 const std::string& directory,
                                                 const CheckpointIdentity& identity, int rank,
                                                 const CheckpointWriteOptions& options) {
  const CheckpointShard shard{identity, rank, {{"seed", "7"}}, model.PartOf(rank, identity.ranks)};
  std::vector<std::vector<float>> values;
  for (std::size_t i = 0; i < shard.tensors.size(); ++i) {
    values.push_back(
        model.Values(i, shard.tensors[i].first_row, shard.tensors[i].rows, identity.step));
  }
  const auto source = [&](std::size_t tensor, std::int64_t offset,
                          std::int64_t /*bytes*/) -> Result<const std::byte*> {
    return std::as_bytes(std::span(values[tensor])).data() + offset;
  };
  return WriteCheckpointShard(directory, shard, source, options, Plenty());
}

CheckpointResult<Checkpoint> SaveAll(const SavedModel& model, const std::string& root,
                                     const CheckpointIdentity& identity,
                                     const CheckpointWriteOptions& options) {
  const auto directory = PrepareCheckpointStep(root, identity.step, options.strategy);
  if (!directory) {
    return directory.error();
  }
  CheckpointManifest manifest{identity, {{"data_position", "42"}}, {}};
  for (int rank = 0; rank < identity.ranks; ++rank) {
    const auto written = SaveRank(model, *directory, identity, rank, options);
    if (!written) {
      return written.error();
    }
    manifest.shards.push_back(written->file);
  }
  if (const auto published = PublishCheckpoint(*directory, manifest, options); !published) {
    return published.error();
  }
  return OpenCheckpoint(*directory);
}

std::string DifferenceForRanks(const SavedModel& model, const Checkpoint& checkpoint, int ranks,
                               const CheckpointReadOptions& options) {
  auto rows = CheckpointRows::Open(checkpoint, options);
  if (!rows) {
    return rows.error().message;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const auto parts = model.PartOf(rank, ranks);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto expected =
          model.Values(i, parts[i].first_row, parts[i].rows, checkpoint.manifest.identity.step);
      std::vector<float> found(expected.size());
      const auto read = rows->Read(parts[i].name, parts[i].first_row, parts[i].rows,
                                   std::as_writable_bytes(std::span(found)), Plenty());
      if (!read) {
        return read.error().message;
      }
      if (found != expected) {
        return "other values of '" + parts[i].name + "' on rank " + std::to_string(rank);
      }
    }
  }
  return "";
}

std::string DifferenceOf(const SavedModel& model, const Checkpoint& checkpoint) {
  const CheckpointIdentity& identity = checkpoint.manifest.identity;
  for (int rank = 0; rank < identity.ranks; ++rank) {
    std::vector<std::string> found;
    const auto sink = [&](std::size_t tensor, std::int64_t offset,
                          std::span<const std::byte> bytes) -> Result<void> {
      found.resize(std::max(found.size(), tensor + 1));
      if (static_cast<std::int64_t>(found[tensor].size()) != offset) {
        return Error{ErrorCode::kInternal, "out of order", ""};
      }
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes as chars
      found[tensor].append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return {};
    };
    const auto read = ReadCheckpointShard(checkpoint, rank, sink, SmallReads(), Plenty());
    if (!read) {
      return read.error().message;
    }
    std::size_t place = 0;
    const auto parts = model.PartOf(rank, identity.ranks);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].rows == 0) {
        continue;
      }
      const auto expected = model.Values(i, parts[i].first_row, parts[i].rows, identity.step);
      const auto bytes = std::as_bytes(std::span(expected));
      if (place >= read->shard.tensors.size() || read->shard.tensors[place] != parts[i] ||
          place >= found.size() || found[place].size() != bytes.size() ||
          std::memcmp(found[place].data(), bytes.data(), bytes.size()) != 0) {
        return "rank " + std::to_string(rank) + " differs in '" + parts[i].name + "'";
      }
      ++place;
    }
    if (place != read->shard.tensors.size()) {
      return "rank " + std::to_string(rank) + " has a tensor too many";
    }
  }
  return DifferenceForRanks(model, checkpoint, identity.ranks, SmallReads());
}

}  // namespace dlc

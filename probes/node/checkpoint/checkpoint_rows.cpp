#include <algorithm>
#include <chrono>
#include <utility>

#include "probes/node/checkpoint/cold_file.h"
#include "probes/node/checkpoint/read_checkpoint.h"

namespace dlc {
namespace {

/// Rows of one tensor in one rank's file.
struct HeldRows {
  int rank = 0;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t offset = 0;  ///< of the first one, in the file
};

std::string RowsText(std::int64_t first, std::int64_t end) {
  return "rows " + std::to_string(first) + " to " + std::to_string(end - 1);
}

}  // namespace

struct CheckpointRows::State {
  State(const Checkpoint& set, const CheckpointReadOptions& how)
      : checkpoint(set),
        options(how),
        bounce(static_cast<std::size_t>(how.block_bytes)),
        opened(static_cast<std::size_t>(set.manifest.identity.ranks)) {}

  std::optional<CheckpointFailure> Index(int rank);
  std::optional<CheckpointFailure> CheckCover();
  CheckpointResult<ColdFile*> FileOf(int rank);

  Checkpoint checkpoint;
  CheckpointReadOptions options;
  DirectBuffer bounce;
  std::map<std::string, CheckpointTensor> tensors;
  std::map<std::string, std::vector<HeldRows>> held;
  std::vector<std::optional<ColdFile>> opened;  ///< by rank; those that rows were read from
  std::int64_t bytes = 0;
  double seconds = 0;
};

std::optional<CheckpointFailure> CheckpointRows::State::Index(int rank) {
  const auto file = ColdFile::Open(checkpoint, rank);
  if (!file) {
    return file.error();
  }
  for (std::size_t i = 0; i < file->shard().tensors.size(); ++i) {
    const CheckpointTensor& part = file->shard().tensors[i];
    CheckpointTensor whole = part;
    whole.first_row = 0;
    whole.rows = whole.shape[0];
    const auto [place, added] = tensors.emplace(part.name, whole);
    if (!added && place->second != whole) {
      return CheckpointFaultOf(CheckpointFault::kDamaged, file->path(),
                               "tensor '" + part.name + "' has another shape or type than before");
    }
    held[part.name].push_back({rank, part.first_row, part.rows,
                               file->header().data_begin + file->header().tensors[i].begin});
  }
  return std::nullopt;
}

std::optional<CheckpointFailure> CheckpointRows::State::CheckCover() {
  for (auto& [name, parts] : held) {
    std::sort(parts.begin(), parts.end(),
              [](const HeldRows& a, const HeldRows& b) { return a.first_row < b.first_row; });
    std::int64_t end = 0;
    int before = -1;
    const std::string of_tensor = "tensor '" + name + "': ";
    const auto fault = [&](CheckpointFault kind, const std::string& message) {
      return CheckpointFaultOf(kind, checkpoint.directory, of_tensor + message);
    };
    for (const HeldRows& part : parts) {
      if (part.first_row > end) {
        return fault(CheckpointFault::kPartial, RowsText(end, part.first_row) + " are in no file");
      }
      if (part.first_row < end) {
        const std::int64_t last = std::min(end, part.first_row + part.rows);
        return fault(CheckpointFault::kSwapped,
                     RowsText(part.first_row, last) + " are in the files of rank " +
                         std::to_string(before) + " and of rank " + std::to_string(part.rank));
      }
      end = part.first_row + part.rows;
      before = part.rank;
    }
    if (const std::int64_t all = tensors.at(name).rows; end != all) {
      return fault(CheckpointFault::kPartial, RowsText(end, all) + " are in no file");
    }
  }
  return std::nullopt;
}

CheckpointResult<ColdFile*> CheckpointRows::State::FileOf(int rank) {
  auto& file = opened[static_cast<std::size_t>(rank)];
  if (!file) {
    auto now = ColdFile::Open(checkpoint, rank);
    if (!now) {
      return now.error();
    }
    now->KeepCold(options);
    file.emplace(std::move(*now));
  }
  return &*file;
}

CheckpointRows::CheckpointRows(std::unique_ptr<State> state) : state_(std::move(state)) {}
CheckpointRows::CheckpointRows(CheckpointRows&&) noexcept = default;
CheckpointRows& CheckpointRows::operator=(CheckpointRows&&) noexcept = default;
CheckpointRows::~CheckpointRows() = default;

CheckpointResult<CheckpointRows> CheckpointRows::Open(const Checkpoint& checkpoint,
                                                      const CheckpointReadOptions& options) {
  if (const std::string problem = ProblemOfBlockBytes(options.block_bytes); !problem.empty()) {
    return CheckpointFailure{CheckpointFault::kInvalid, problem, "", ""};
  }
  auto state = std::make_unique<State>(checkpoint, options);
  for (int rank = 0; rank < checkpoint.manifest.identity.ranks; ++rank) {
    if (auto problem = state->Index(rank)) {
      return std::move(*problem);
    }
  }
  if (auto problem = state->CheckCover()) {
    return std::move(*problem);
  }
  return CheckpointRows(std::move(state));
}

const std::map<std::string, CheckpointTensor>& CheckpointRows::Tensors() const {
  return state_->tensors;
}

CheckpointResult<std::monostate> CheckpointRows::Read(const std::string& tensor,
                                                      std::int64_t first_row, std::int64_t rows,
                                                      std::span<std::byte> to, Deadline deadline) {
  const auto found = state_->tensors.find(tensor);
  const bool known = found != state_->tensors.end();
  if (!known || first_row < 0 || rows < 0 || first_row > found->second.rows ||
      rows > found->second.rows - first_row ||
      static_cast<std::int64_t>(to.size()) != BytesOfRows(found->second, rows)) {
    return CheckpointFailure{CheckpointFault::kInvalid,
                             "tensor '" + tensor + "': " + std::to_string(rows) + " rows from " +
                                 std::to_string(first_row) + " on into " +
                                 std::to_string(to.size()) + " bytes",
                             "", ""};
  }
  const auto start = Deadline::Clock::now();
  const std::int64_t row_bytes = BytesOfRows(found->second, 1);
  for (const HeldRows& part : state_->held.at(tensor)) {
    const std::int64_t from = std::max(first_row, part.first_row);
    const std::int64_t end = std::min(first_row + rows, part.first_row + part.rows);
    if (from >= end) {
      continue;
    }
    if (deadline.Passed()) {
      return CheckpointFaultOf(CheckpointFault::kTimedOut, state_->checkpoint.directory,
                               "tensor '" + tensor + "' not read in time");
    }
    const auto file = state_->FileOf(part.rank);
    if (!file) {
      return file.error();
    }
    const auto target = to.subspan(static_cast<std::size_t>((from - first_row) * row_bytes),
                                   static_cast<std::size_t>((end - from) * row_bytes));
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes as chars
    char* chars = reinterpret_cast<char*>(target.data());
    const std::int64_t offset = part.offset + (from - part.first_row) * row_bytes;
    if (auto read = (*file)->ReadRange(offset, chars, target.size(), state_->bounce,
                                       static_cast<std::size_t>(state_->options.block_bytes));
        !read) {
      return read;
    }
    state_->bytes += static_cast<std::int64_t>(target.size());
  }
  state_->seconds += std::chrono::duration<double>(Deadline::Clock::now() - start).count();
  return std::monostate();
}

CheckpointReadFacts CheckpointRows::Facts() const {
  CheckpointReadFacts all;
  bool first = true;
  for (const auto& file : state_->opened) {
    if (!file) {
      continue;
    }
    const CheckpointReadFacts one = file->Facts();
    all.direct = one.direct && (first || all.direct);
    all.resident_fraction = first ? one.resident_fraction
                            : one.resident_fraction < 0 || all.resident_fraction < 0
                                ? -1
                                : std::max(one.resident_fraction, all.resident_fraction);
    all.cold_because = first || one.cold_because == all.cold_because          ? one.cold_because
                       : one.cold_because.empty() || all.cold_because.empty() ? ""
                                                                              : "evicted";
    all.direct_refused = one.direct_refused.empty() ? all.direct_refused : one.direct_refused;
    first = false;
  }
  all.bytes = state_->bytes;
  all.seconds = state_->seconds;
  return all;
}

}  // namespace dlc

#include "probes/node/checkpoint/shard_metadata.h"

#include <charconv>
#include <limits>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace dlc {
namespace {

constexpr std::string_view kOurs = "dlc.";
constexpr std::string_view kSlice = "dlc.slice.";
constexpr std::string_view kFormat = "1";

Error Wrong(std::string message) {
  return {ErrorCode::kInvalidInput, std::move(message), ""};
}

/// Digits only.
std::optional<std::int64_t> Number(std::string_view text) {
  std::int64_t value = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = status == std::errc() && end == text.data() + text.size() && value >= 0;
  return whole ? std::optional<std::int64_t>(value) : std::nullopt;
}

std::string SliceText(const CheckpointTensor& tensor) {
  std::string text =
      std::to_string(tensor.first_row) + ":" + std::to_string(tensor.first_row + tensor.rows);
  const char* between = " of ";
  for (const std::int64_t dimension : tensor.shape) {
    text += between + std::to_string(dimension);
    between = "x";
  }
  return text;
}

/// Takes the digits before `end` off `text`.
std::optional<std::int64_t> NumberBefore(std::string_view& text, std::string_view end) {
  const std::size_t at = text.find(end);
  const auto number = Number(text.substr(0, at));
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + end.size());
  return number;
}

/// False: not what SliceText writes.
bool ReadSlice(std::string_view text, CheckpointTensor& tensor) {
  if (text.find(':') == std::string_view::npos || text.find(" of ") == std::string_view::npos) {
    return false;
  }
  const auto first = NumberBefore(text, ":");
  const auto last = NumberBefore(text, " of ");
  if (!first || !last || *last < *first) {
    return false;
  }
  tensor.first_row = *first;
  tensor.rows = *last - *first;
  while (!text.empty()) {
    const auto dimension = NumberBefore(text, "x");
    if (!dimension) {
      return false;
    }
    tensor.shape.push_back(*dimension);
  }
  return true;
}

/// Why these are no rows of a tensor; empty when they are.
std::string ProblemOf(const CheckpointTensor& tensor) {
  if (tensor.name.empty() || tensor.name == "__metadata__") {
    return "no name for a tensor";
  }
  if (tensor.shape.empty()) {
    return "a scalar has no rows";
  }
  for (const std::int64_t dimension : tensor.shape) {
    if (dimension < 1) {
      return "dimension " + std::to_string(dimension);
    }
  }
  if (const auto whole = SafetensorsBytesOf(tensor.dtype, tensor.shape); !whole) {
    return whole.error().message;
  }
  // Parts of a byte would leave a rank's rows without a begin.
  if (SafetensorsBitsOf(tensor.dtype).value_or(1) % 8 != 0) {
    return "type " + tensor.dtype + " has no whole bytes";
  }
  const std::int64_t all = tensor.shape[0];
  if (tensor.first_row < 0 || tensor.rows < 0 || tensor.first_row > all ||
      tensor.rows > all - tensor.first_row) {
    return "rows " + std::to_string(tensor.first_row) + " and " + std::to_string(tensor.rows) +
           " more of " + std::to_string(all);
  }
  return "";
}

std::string ProblemOf(const CheckpointIdentity& identity, int rank) {
  if (identity.step < 0 || identity.ranks < 1 || rank < 0 || rank >= identity.ranks) {
    return "rank " + std::to_string(rank) + " of " + std::to_string(identity.ranks) +
           " ranks at step " + std::to_string(identity.step);
  }
  return "";
}

Result<CheckpointTensor> TensorOf(const SafetensorsTensor& tensor, const std::string* slice) {
  CheckpointTensor rows{tensor.name, {}, 0, 0, tensor.dtype};
  if (slice == nullptr || !ReadSlice(*slice, rows)) {
    return Wrong("tensor '" + tensor.name + "' does not say which rows it holds");
  }
  if (const std::string problem = ProblemOf(rows); !problem.empty()) {
    return Wrong("tensor '" + tensor.name + "': " + problem);
  }
  std::vector<std::int64_t> expected = rows.shape;
  expected[0] = rows.rows;
  if (rows.rows == 0 || tensor.shape != expected) {
    return Wrong("tensor '" + tensor.name + "' has another shape than its rows '" + *slice + "'");
  }
  return rows;
}

}  // namespace

Result<SafetensorsHeader> SafetensorsOfShard(const CheckpointShard& shard) {
  if (const std::string problem = ProblemOf(shard.identity, shard.rank); !problem.empty()) {
    return Wrong(problem);
  }
  SafetensorsHeader header;
  for (const auto& [key, value] : shard.extra) {
    if (key.starts_with(kOurs)) {
      return Wrong("key '" + key + "' begins with '" + std::string(kOurs) + "'");
    }
    header.metadata[key] = value;
  }
  header.metadata["dlc.format"] = kFormat;
  header.metadata["dlc.run_id"] = shard.identity.run_id;
  header.metadata["dlc.step"] = std::to_string(shard.identity.step);
  header.metadata["dlc.ranks"] = std::to_string(shard.identity.ranks);
  header.metadata["dlc.rank"] = std::to_string(shard.rank);
  std::set<std::string> names;
  std::int64_t end = 0;
  for (const CheckpointTensor& tensor : shard.tensors) {
    std::string problem = ProblemOf(tensor);
    if (problem.empty() && !names.insert(tensor.name).second) {
      problem = "is there twice";
    }
    const std::int64_t begin = end;
    if (problem.empty() && __builtin_add_overflow(begin, BytesOfRows(tensor, tensor.rows), &end)) {
      problem = "all sizes together do not fit 63 bits";
    }
    if (!problem.empty()) {
      return Wrong("tensor '" + tensor.name + "': " + problem);
    }
    if (tensor.rows == 0) {
      continue;
    }
    header.metadata[std::string(kSlice) + tensor.name] = SliceText(tensor);
    std::vector<std::int64_t> shape = tensor.shape;
    shape[0] = tensor.rows;
    header.tensors.push_back({tensor.name, tensor.dtype, std::move(shape), begin, end});
  }
  return header;
}

Result<CheckpointShard> ShardOfSafetensors(const SafetensorsHeader& header) {
  const auto text = [&](const std::string& key) -> const std::string* {
    const auto found = header.metadata.find(key);
    return found != header.metadata.end() ? &found->second : nullptr;
  };
  const auto number = [&](const char* key, std::int64_t most) {
    const std::string* value = text(key);
    const auto parsed = value != nullptr ? Number(*value) : std::nullopt;
    return parsed && *parsed <= most ? *parsed : -1;
  };
  const std::string* format = text("dlc.format");
  const std::string* run_id = text("dlc.run_id");
  if (format == nullptr || run_id == nullptr) {
    return Wrong("the file is no part of a checkpoint of ours: no dlc.format and dlc.run_id");
  }
  if (*format != kFormat) {
    return Wrong("format " + *format + ", this reads " + std::string(kFormat));
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMostRanks = std::numeric_limits<int>::max();
  CheckpointShard shard{
      {*run_id, number("dlc.step", kMost), static_cast<int>(number("dlc.ranks", kMostRanks))},
      static_cast<int>(number("dlc.rank", kMostRanks)),
      {},
      {}};
  if (const std::string problem = ProblemOf(shard.identity, shard.rank); !problem.empty()) {
    return Wrong("the file says " + problem);
  }
  for (const SafetensorsTensor& tensor : header.tensors) {
    auto rows = TensorOf(tensor, text(std::string(kSlice) + tensor.name));
    if (!rows) {
      return rows.error();
    }
    shard.tensors.push_back(std::move(*rows));
  }
  for (const auto& [key, value] : header.metadata) {
    if (!key.starts_with(kOurs)) {
      shard.extra[key] = value;
    }
  }
  return shard;
}

}  // namespace dlc

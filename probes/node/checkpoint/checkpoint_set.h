#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "probes/observations/digest.h"
#include "probes/observations/result.h"

namespace dlc {

/// Why a set of files is no checkpoint, or could not be read or written. The first five are about
/// the files; the others say nothing about them.
enum class CheckpointFault : std::uint8_t {
  kPartial,      ///< no manifest, or a file of it is absent or too short, or rows are in no file
  kDamaged,      ///< other bytes than the manifest's sha256 says, or a header that is none
  kSwapped,      ///< the file is another rank's, or holds rows that another one holds too
  kStale,        ///< the file is of another step than the manifest
  kMixedRun,     ///< the file is of another run than the manifest
  kUnavailable,  ///< the file system refused: `errno_name`
  kTimedOut,     ///< the deadline passed
  kInvalid,      ///< the caller's request cannot be met; nothing was touched
  kCaller,       ///< the caller's own source or sink gave the error
};

/// "partial", "damaged", "swapped", "stale", "mixed-run", "unavailable", "timed-out", "invalid",
/// "caller".
const char* CheckpointFaultName(CheckpointFault fault);

/// `message` is for a person: lower case, names the file, what was expected and what was found.
struct CheckpointFailure {
  CheckpointFault fault = CheckpointFault::kInvalid;
  std::string message;
  std::string file;        ///< absolute or as the caller gave its directory; may be empty
  std::string errno_name;  ///< "ENOSPC", "EIO", "ESTALE"; of kUnavailable only

  bool operator==(const CheckpointFailure&) const = default;
};

/// As Error, for where a Result is wanted: kUnavailable, kTimedOut, kInvalidInput for what the
/// files are, kInternal for kInvalid and kCaller.
Error ErrorOf(const CheckpointFailure& failure);

/// A value or why there is none. As Result, with a CheckpointFailure.
template <class T>
class [[nodiscard]] CheckpointResult {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): `return value;` is the point
  CheckpointResult(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): `return CheckpointFailure{...};` is the point
  CheckpointResult(CheckpointFailure failure)
      : state_(std::in_place_index<1>, std::move(failure)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  /// Precondition of * and ->: has_value(). Of error: not.
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const CheckpointFailure& error() const& { return std::get<1>(state_); }
  CheckpointFailure&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, CheckpointFailure> state_;
};

/// A rank's part of a tensor: whole rows of dimension 0, row-major, little endian.
struct CheckpointTensor {
  std::string name;
  std::vector<std::int64_t> shape;  ///< of the whole tensor: one dimension or more, each at least 1
  std::int64_t first_row = 0;
  std::int64_t rows = 0;  ///< 0: left out of the file
  std::string dtype = "F32";

  bool operator==(const CheckpointTensor&) const = default;
};

/// Of `rows` rows of the tensor, in bytes. Precondition: WriteCheckpointShard would take it.
std::int64_t BytesOfRows(const CheckpointTensor& tensor, std::int64_t rows);

/// What every file of one set has in common.
struct CheckpointIdentity {
  std::string run_id;
  std::int64_t step = 0;
  int ranks = 0;

  bool operator==(const CheckpointIdentity&) const = default;
};

/// Free pairs: seed, data position, model name. No key may begin with "dlc.".
using CheckpointExtra = std::map<std::string, std::string>;

/// A rank's file, without its data.
struct CheckpointShard {
  CheckpointIdentity identity;
  int rank = 0;
  CheckpointExtra extra;
  std::vector<CheckpointTensor> tensors;  ///< in the order of their bytes in the file

  bool operator==(const CheckpointShard&) const = default;
};

struct CheckpointFile {
  std::string name;  ///< in the step's directory
  std::int64_t bytes = 0;
  Digest sha256;

  bool operator==(const CheckpointFile&) const = default;
};

/// "checkpoint.json": written last, it makes the files of its directory a checkpoint.
struct CheckpointManifest {
  CheckpointIdentity identity;
  CheckpointExtra extra;
  std::vector<CheckpointFile> shards;  ///< one a rank, in their order

  bool operator==(const CheckpointManifest&) const = default;
};

inline constexpr std::string_view kCheckpointManifestName = "checkpoint.json";

/// "step-00000005"
std::string CheckpointStepName(std::int64_t step);
/// The step in such a name, or -1.
std::int64_t StepOfCheckpointName(std::string_view name);
/// "rank-00000-of-00004.safetensors"
std::string CheckpointShardName(int rank, int ranks);

/// JSON that ends in the sha256 of all that stands before it. kInternal when the manifest is none
/// (a name that is not its rank's, another number of shards than of ranks).
Result<std::string> WriteCheckpointManifest(const CheckpointManifest& manifest);
/// Damaged: not what WriteCheckpointManifest writes. Partial: it stops before its end. `file` is
/// for messages.
CheckpointResult<CheckpointManifest> ParseCheckpointManifest(std::string_view text,
                                                             const std::string& file);

}  // namespace dlc

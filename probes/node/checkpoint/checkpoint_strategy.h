#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probes/node/checkpoint/checkpoint_set.h"

namespace dlc {

enum class CheckpointPublish : std::uint8_t {
  kRename,   ///< written under another name in the same directory, then renamed
  kInPlace,  ///< written under its own name: only the manifest says that it is whole
};

/// "rename", "in-place"
const char* CheckpointPublishName(CheckpointPublish publish);

/// What a directory's file system lets a checkpoint do, by having tried it.
struct CheckpointStrategy {
  CheckpointPublish publish = CheckpointPublish::kRename;
  bool directory_fsync = true;  ///< false: that a name is durable is not shown
  bool removes = true;          ///< false: no old or half checkpoint can be removed
  /// "rename refused: ENOSYS", "directory fsync refused: EINVAL", "unlink refused: EPERM".
  std::vector<std::string> notes;

  bool operator==(const CheckpointStrategy&) const = default;
};

/// Writes, syncs, renames, reads back and removes a small file ".dlc-try-<tag>" in `directory`, and
/// where renaming is refused (ENOSYS, EPERM, EOPNOTSUPP, EXDEV, EINVAL) writes one by its own name.
/// Nothing is concluded from the mount's type. Ranks that try at the same time need different tags.
/// Unavailable: neither way works, with the errno's name; damaged: it reads back as something else.
CheckpointResult<CheckpointStrategy> TryCheckpointStrategy(const std::string& directory,
                                                           const std::string& tag);

}  // namespace dlc

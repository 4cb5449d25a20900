#include "cmd/dlc-check/checkpoint_import.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "cmd/dlc-check/rank_stage.h"
#include "probes/node/storage/checkpoint_tree.h"
#include "probes/observations/deadline.h"

namespace dlc {
namespace {

Result<std::pair<dev_t, ino_t>> IdentityOf(const std::string& directory) {
  struct stat info {};
  if (stat(directory.c_str(), &info) != 0) {
    return Error{ErrorCode::kInvalidInput,
                 "--from-checkpoint: " + directory + ": " + strerrordesc_np(errno), ""};
  }
  if (!S_ISDIR(info.st_mode)) {
    return Error{ErrorCode::kInvalidInput, "--from-checkpoint: " + directory + " is no directory",
                 "pass the checkpoint's directory, or Ray Train's that holds several"};
  }
  return std::pair(info.st_dev, info.st_ino);
}

}  // namespace

Result<void> ReadCheckpointImports(const CheckpointImports& imports, Observations& observations) {
  std::set<std::pair<dev_t, ino_t>> known;
  for (const std::string& directory : imports.directories) {
    const auto identity = IdentityOf(directory);
    if (!identity) {
      return identity.error();
    }
    if (!known.insert(*identity).second) {
      return Error{ErrorCode::kInvalidInput, "--from-checkpoint: " + directory + " is given twice",
                   "name one directory for each pod or node that looks at the checkpoint"};
    }
  }
  std::vector<CheckpointView> views;
  for (const std::string& directory : imports.directories) {
    views.push_back({directory, ObserveCheckpointTree({directory, kHashedBytesOfCheckpoint},
                                                      Deadline::After(timeouts::kCheckpointView))});
  }
  observations.checkpoint_views = std::move(views);
  return {};
}

}  // namespace dlc

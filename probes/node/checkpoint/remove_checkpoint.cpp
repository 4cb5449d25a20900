#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "probes/node/checkpoint/checkpoint_files.h"
#include "probes/node/checkpoint/read_checkpoint.h"
#include "probes/node/checkpoint/write_checkpoint.h"

namespace dlc {
namespace {

/// Another process may have removed it meanwhile.
CheckpointResult<std::monostate> Unlink(const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return RefusedByErrno("remove", path, errno);
  }
  return std::monostate();
}

CheckpointResult<std::monostate> Sync(const std::string& directory,
                                      const CheckpointStrategy& strategy) {
  const int failure = strategy.directory_fsync ? SyncDirectory(directory) : 0;
  if (failure != 0 && failure != ENOENT) {
    return RefusedByErrno("fsync", directory, failure);
  }
  return std::monostate();
}

}  // namespace

CheckpointResult<std::monostate> RemoveCheckpoint(const std::string& directory,
                                                  const CheckpointStrategy& strategy) {
  // Without its manifest it is no checkpoint, whatever of it stays after a crash.
  if (auto gone = Unlink(directory + "/" + std::string(kCheckpointManifestName)); !gone) {
    return gone;
  }
  if (auto synced = Sync(directory, strategy); !synced) {
    return synced;
  }
  const auto names = NamesIn(directory);
  if (!names) {
    return names.error().errno_name == "ENOENT" ? CheckpointResult<std::monostate>(std::monostate())
                                                : names.error();
  }
  for (const std::string& name : *names) {
    if (auto gone = Unlink(directory + "/" + name); !gone) {
      return gone;
    }
  }
  if (rmdir(directory.c_str()) != 0 && errno != ENOENT) {
    return RefusedByErrno("remove", directory, errno);
  }
  const std::size_t slash = directory.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : directory.substr(0, slash);
  return Sync(parent.empty() ? "/" : parent, strategy);
}

CheckpointResult<std::vector<std::string>> RemoveOlderCheckpoints(
    const std::string& root, std::int64_t keep, const CheckpointStrategy& strategy) {
  const auto kept = OpenCheckpoint(root + "/" + CheckpointStepName(keep));
  if (!kept) {
    return kept.error();
  }
  std::vector<std::string> removed;
  if (!strategy.removes) {
    return removed;
  }
  const auto names = NamesIn(root);
  if (!names) {
    return names.error();
  }
  for (const std::string& name : *names) {
    const std::int64_t step = StepOfCheckpointName(name);
    if (step < 0 || step >= keep) {
      continue;
    }
    if (auto gone = RemoveCheckpoint(root + "/" + name, strategy); !gone) {
      return gone.error();
    }
    removed.push_back(name);
  }
  return removed;
}

}  // namespace dlc

#include "checks/storage_errors.h"

namespace dlc {

std::string StorageErrorHint(std::string_view error) {
  if (error == "ENOSPC") {
    return "the file system is full (bytes or inodes): free some space";
  }
  if (error == "EDQUOT") {
    return "a quota is exhausted, whatever df shows: look at the quota of the user and of the "
           "directory";
  }
  if (error == "EIO") {
    return "the storage lost what it had taken: look at the kernel's log and at the file server; a "
           "checkpoint that was just saved there may be damaged";
  }
  if (error == "ESTALE") {
    return "the file handle is stale: the server failed over or the export was replaced; remount";
  }
  if (error == "ETIMEDOUT") {
    return "it did not end in time: measure with smaller files (storage.maxBytesPerRank, "
           "storage.metadataFiles), or give it more (target.timeoutSeconds)";
  }
  if (error == "short-read" || error == "missing-names") {
    return "a rank does not see all that another has written and synced: look at the client's "
           "caching of attributes and names, and whether it is one file system";
  }
  return "";
}

}  // namespace dlc

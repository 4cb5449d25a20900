#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probes/observations/digest.h"
#include "probes/observations/observed.h"

namespace dlc {

/// One line of /proc/self/mountinfo, and what statfs says.
struct MountFacts {
  std::string mount_point;
  std::string source;  ///< "fs-0123.efs.eu-west-1.amazonaws.com:/", "10.0.0.1@tcp:/abc", "overlay"
  std::string filesystem;  ///< "nfs4", "lustre", "fuse.mount-s3", "overlay", "tmpfs"
  std::string root;        ///< the part of the file system that is mounted: differs for bind mounts
  std::string options;     ///< of the mount and of the file system, comma separated
  std::string device;      ///< "0:52"
  bool read_only = false;

  bool operator==(const MountFacts&) const = default;
};

struct SpaceFacts {
  std::int64_t total_bytes = 0;
  std::int64_t available_bytes = 0;  ///< to us, without root's reserve
  std::int64_t total_inodes = 0;     ///< 0: the file system does not count them
  std::int64_t available_inodes = 0;

  bool operator==(const SpaceFacts&) const = default;
};

/// One thing that a checkpoint needs from a file system, tried. `error` is the errno's name
/// ("ENOSPC", "EDQUOT", "EROFS", "EACCES", "ESTALE"); empty when it worked.
struct FileOperation {
  std::string
      name;  ///< "create-exclusive", "write", "fsync-file", "rename", "fsync-directory", ...
  std::string error;   ///< errno name, or "wrong-data" of what was read back; empty: it worked
  std::string detail;  ///< for people

  bool operator==(const FileOperation&) const = default;
};

/// What this rank saw of another rank's file.
struct PeerFile {
  int rank = 0;
  std::string host;
  std::string node;    ///< the other's RankFacts::node
  std::string state;   ///< "same", "absent", "different", "error", "not-written"
  std::string error;   ///< errno name of the last attempt
  double seconds = 0;  ///< from the moment that every writer was done to the sight of it
  int attempts = 0;
  int stale_handles = 0;  ///< ESTALE answers on the way
  std::string
      exclusive_create;  ///< O_EXCL on the existing file: "refused", "allowed" or errno name

  bool operator==(const PeerFile&) const = default;
};

/// `storage-shared` as one rank saw it.
struct StorageShared {
  std::string path;  ///< as configured
  std::int64_t uid = 0;
  std::int64_t gid = 0;
  Observed<MountFacts> mount;
  Observed<SpaceFacts> space;
  std::int64_t directory_uid = 0;  ///< of the configured path
  std::int64_t directory_gid = 0;
  int directory_mode = 0;     ///< permission bits
  std::int64_t file_uid = 0;  ///< of a file that we made: another than uid means squashed
  std::vector<FileOperation> operations;
  /// The other ranks' files; an error when the ranks lost each other.
  Observed<std::vector<PeerFile>> peers;
  std::vector<std::string> leftovers;  ///< what could not be removed

  bool operator==(const StorageShared&) const = default;
};

/// A part of a pass, in its order.
struct StorageQuarter {
  std::int64_t bytes = 0;
  double seconds = 0;

  bool operator==(const StorageQuarter&) const = default;
};

/// One timed pass over one file of one rank: all ranks at the same time, unless it is `alone`.
struct StorageTransfer {
  std::string direction;  ///< "write" (with fsync) or "read"
  std::int64_t bytes = 0;
  std::int64_t block_bytes = 0;
  bool direct = false;       ///< O_DIRECT
  double start_seconds = 0;  ///< after the barrier before it, on this rank's clock
  double seconds = 0;
  /// Reads: why the bytes did not come from this node's page cache: "other-node" (another node
  /// wrote them), "evicted" (mincore saw no page), "direct"; empty: not shown.
  std::string cold_because;
  double resident_fraction = 0;  ///< of the file's pages before the read, by mincore; -1 unknown
  /// errno name, "short-read", "wrong-data", or "not-written" (not read, for what was to be read
  /// was not written to its end); empty: it worked.
  std::string error;
  std::string detail;       ///< for people, with the operation: "fsync: Input/output error"
  bool alone = false;       ///< the other ranks did nothing meanwhile, and have no such pass
  double sync_seconds = 0;  ///< writes: fsync and close, which are part of `seconds`
  /// By blocks, without sync_seconds; empty where there are fewer than four, or it did not end.
  std::vector<StorageQuarter> quarters = {};

  bool operator==(const StorageTransfer&) const = default;
};

/// What all ranks did at the same time to many small files, each rank in a directory of its own.
struct StorageMetadataPhase {
  /// "create" (and close: no byte is written), "create-write-fsync" (a page, fsync and close),
  /// "list" (names only), "delete" (of the files of both).
  std::string name;
  std::int64_t asked = 0;    ///< files, or names
  std::int64_t done = 0;     ///< fewer than asked, without an error: the phase's time was over
  double start_seconds = 0;  ///< after the barrier before it, on this rank's clock
  double seconds = 0;
  bool other_node = false;  ///< "list": of a directory that a rank of another node filled
  std::string error;        ///< errno name, "missing-names" of a list; empty: it worked
  std::string detail;       ///< for people

  bool operator==(const StorageMetadataPhase&) const = default;
};

/// `storage-speed` on one rank.
struct StorageSpeed {
  std::string path;
  std::vector<StorageTransfer> transfers;
  std::vector<std::string> leftovers;
  Observed<MountFacts> mount;
  Observed<SpaceFacts> space;  ///< before anything was written
  std::vector<StorageMetadataPhase> metadata;

  bool operator==(const StorageSpeed&) const = default;
};

}  // namespace dlc

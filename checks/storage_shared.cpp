#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "checks/check.h"
#include "checks/checkpoint_path.h"
#include "checks/checkpoint_trees.h"
#include "checks/file_visibility.h"
#include "checks/rank_results.h"

namespace dlc {

extern const Check kStorageShared;  // the table in check_list.cpp finds it by this name

namespace {

constexpr std::string_view kFileOperations = "storage-shared/file-operations";
constexpr std::string_view kOwnerKept = "storage-shared/owner-kept";
constexpr std::string_view kSameMount = "storage-shared/same-mount";
constexpr std::string_view kFilesystemType = "storage-shared/filesystem-type";
constexpr std::string_view kFreeSpace = "storage-shared/free-space";

constexpr std::string_view kOneNodeProvesNothing =
    "that nodes share it: ranks under one kernel see each other's files in any local directory";

constexpr Rule kRules[] = {
    {kFilesVisible, Severity::kRequired, false, "every rank reads the files that the others wrote",
     "each rank read, in another process, the random bytes that each other rank had written and "
     "fsynced: more than Ray Train's own test of storage_path, in which each worker looks whether "
     "a "
     "marker of the controller exists (.validate_storage_marker)",
     kOneNodeProvesNothing,
     "mount one file system with ReadWriteMany at this path in every worker pod: an emptyDir, a "
     "hostPath or a ReadWriteOnce volume is another directory on every node"},
    {kBetweenNodes, Severity::kRequired, false, "ranks on different nodes share the path",
     "files written on each node were read on every other, both ways",
     "that large files arrive, nor how fast",
     "mount one file system with ReadWriteMany at this path in every worker pod"},
    {kFileOperations, Severity::kRequired, false,
     "the path can do what a checkpoint needs of a file system",
     "exclusive create, write, fsync of file and directory, rename, replace and delete worked here",
     "that written data survives a crash of the file server",
     "choose another path, or repair this one"},
    {kExclusiveCreate, Severity::kRequired, false,
     "a file that exists is not created again from another rank",
     "open with O_EXCL was refused for files of other ranks", "that file locks work",
     "use a file system with atomic exclusive create: two writers could both believe that they own "
     "a name"},
    {kVisibleInTime, Severity::kWarn, false, "new files are visible to other ranks in time",
     "no file stayed out of sight longer than the policy allows", "the same under load",
     "shorten the client's attribute and lookup caching (nfs: acdirmax, lookupcache=positive)"},
    {kStaleHandles, Severity::kWarn, false, "no file handle went stale", "no read met ESTALE",
     "the same when files are replaced while they are read",
     "look at the file server's failovers and at clients that replace files in use"},
    {kOwnerKept, Severity::kWarn, false, "files belong to who writes them",
     "a new file has the writer's uid", "that other users of the volume have the rights they need",
     "root squash or an access point maps the uid: set securityContext.runAsUser and fsGroup to "
     "the "
     "uid that it maps to"},
    {kSameMount, Severity::kWarn, false, "every rank has the same source mounted at the path",
     "mount source and file system type are equal on every rank",
     "that it is one file system: local disks carry equal names too",
     "compare the volumes of the pods: one may mount another claim, access point or subdirectory"},
    {kFilesystemType, Severity::kRequired, false, "the path has a file system type of the policy",
     "the type in /proc/self/mountinfo is an accepted one", kOneNodeProvesNothing,
     "mount the file system that the policy names, or change policy storage.filesystems"},
    {kFreeSpace, Severity::kRequired, false, "there is room for a checkpoint",
     "the file system reports the free bytes and inodes that the policy demands",
     "that a quota of this user or directory allows as much: EDQUOT comes with the write",
     "free some space, or choose a larger file system"},
    {kNotContainerLayer, Severity::kWarn, false,
     "with several nodes, the path is not in the container's own layer",
     "a volume is mounted at the path or above it", kOneNodeProvesNothing,
     "set RunConfig(storage_path) and checkpoint.path to a volume that all nodes mount"},
    {kNoLeftovers, Severity::kWarn, false, "no other run of this tool left something in the path",
     "the path has no directory of another run", "that no other run goes on elsewhere",
     "dlc-check cleanup -c CONFIG lists what was left; --yes removes it"},
    {kTreeSameFiles, Severity::kRequired, false,
     "every rank sees the same files of the checkpoint directory",
     "names of shards and of what is written last are equal for every rank, or in every directory "
     "that was named",
     kOneNodeProvesNothing,
     "save to storage that all nodes share; loading needs files of other ranks even without "
     "resharding"},
    {kTreeSameContent, Severity::kRequired, false, "every rank reads the same checkpoint files",
     "sizes and digests of files with one name are equal for every rank, or in every directory",
     "the bytes between the hashed ends of large files",
     "the ranks see two file systems, or a client's cache is old: mount one file system"},
    {kTreeComplete, Severity::kRequired, false, "the checkpoint directory is complete",
     "as far as names and sizes tell: what the writer writes last is there, and a shard of every "
     "rank",
     "that it can be loaded: no pickle was opened",
     "use an earlier checkpoint; this save did not end on every rank"},
    {kTreeMetadataLast, Severity::kRequired, false,
     "no file of the checkpoint is newer than what is written last",
     "no shard was changed after .metadata or the manifest",
     "that clocks of the nodes agree, where they and not the server set the times",
     "save into a fresh directory each time; compare with the original, or copy with its times "
     "(cp -a, tar -p)"},
};

using Context = SharedStorage;
using Texts = std::vector<std::string>;

std::string OperationHint(const StorageShared& seen, const FileOperation& broken) {
  const std::string& error = broken.error;
  if (error == "wrong-data") {
    return "what was written does not come back: no checkpoint is safe here; look at the file "
           "server, the client's cache and the disks";
  }
  if (error == "ENOSPC") {
    return "the file system is full (bytes or inodes): free some space";
  }
  if (error == "EDQUOT") {
    return "a quota is exhausted, whatever df shows: look at the quota of uid " +
           std::to_string(seen.uid) + " and of the directory";
  }
  if (error == "EROFS") {
    return "the path is mounted read-only: look at readOnly in volumeMounts and at the volume's "
           "access mode";
  }
  if (error == "EPERM" && (broken.name == "replace" || broken.name == "delete")) {
    return "files can be made and not replaced or deleted, as in object stores mounted as "
           "directories: mount it with the rights to, or use a real shared file system";
  }
  if (error == "EACCES" || error == "EPERM") {
    return "uid " + std::to_string(seen.uid) + " may not write in a directory of uid " +
           std::to_string(seen.directory_uid) +
           ": set securityContext.fsGroup, or use an access point with that uid";
  }
  if (error == "ENOENT" && broken.name != "create-directory") {
    return "a name that was just made is not there: the file system loses names, or another "
           "program deletes them";
  }
  if (error == "ENOENT") {
    return "there is no such directory here: is the volume mounted in this pod?";
  }
  if (error == "ESTALE") {
    return "the file handle is stale: the server failed over or the export was replaced; remount";
  }
  if (error == "ENOTSUP" || error == "EOPNOTSUPP" || error == "ENOSYS" || error == "EINVAL") {
    return "the file system cannot do this, as object stores mounted as directories cannot: use "
           "s3:// through pyarrow, or a real shared file system";
  }
  return "";
}

/// In the order in which they are tried; all must have been.
const Texts& NeededOperations() {
  static const Texts needed = {
      "create-directory", "create-exclusive", "refuse-existing", "write",
      "read-owner",       "fsync-file",       "close",           "rename",
      "fsync-directory",  "read-back",        "replace",         "read-replaced",
      "delete",           "write-nonce"};
  return needed;
}

void JudgeOperations(Context& context, const RankResult<StorageShared>& result) {
  const Subject subject{"rank", result.name};
  if (!result.seen.seen()) {
    context.judge.Unseen(kFileOperations, subject, "the checkpoint path", result.seen);
    return;
  }
  const StorageShared& seen = result.seen.value();
  std::set<std::string> worked;
  const FileOperation* broken = nullptr;
  for (const FileOperation& operation : seen.operations) {
    if (operation.error.empty()) {
      worked.insert(operation.name);
    } else if (broken == nullptr) {
      broken = &operation;
    }
  }
  Texts missing;
  for (const std::string& name : NeededOperations()) {
    if (worked.count(name) == 0) {
      missing.push_back(name);
    }
  }
  Finding& finding =
      context.judge.Decide(kFileOperations, subject,
                           {{"operations that did not work", Op::kSubset, Texts{}, missing, "",
                             "observation:checkpoint_ranks.storage_shared.operations"}});
  finding.expected = "every operation works at " + seen.path;
  finding.actual = broken == nullptr
                       ? "all do"
                       : broken->name + ": " + broken->error + " (" + broken->detail + ")";
  if (finding.verdict == Verdict::kFail) {
    finding.actual = broken == nullptr ? missing.front() + " was not tried" : finding.actual;
    finding.reason.message = finding.actual;
    const std::string hint = broken == nullptr ? "" : OperationHint(seen, *broken);
    finding.hint = hint.empty() ? finding.hint : hint;
  }
  for (const FileOperation& operation : seen.operations) {
    if (operation.error.empty() && !operation.detail.empty()) {
      finding.notes.push_back(operation.name + ": " + operation.detail +
                              "; what does not write the rest itself loses it");
    }
  }
}

void JudgeOwner(Context& context, const RankResult<StorageShared>& result) {
  // Without a file there is no owner to tell.
  const bool made =
      result.seen.seen() &&
      std::any_of(result.seen.value().operations.begin(), result.seen.value().operations.end(),
                  [](const FileOperation& o) { return o.name == "read-owner" && o.error.empty(); });
  if (made) {
    context.judge.Decide(
        kOwnerKept, {"rank", result.name},
        {{"uid of a new file", Op::kEq, result.seen.value().uid, result.seen.value().file_uid, "",
          "observation:checkpoint_ranks.storage_shared.uid"}});
  }
}

void MountUnseen(Context& context, std::string_view rule, const RankResult<StorageShared>& result) {
  const Subject subject{"rank", result.name};
  constexpr std::string_view kMount = "the mount at the path";
  if (result.seen.seen()) {
    context.judge.Unseen(rule, subject, kMount, result.seen.value().mount);
  } else {
    context.judge.Unseen(rule, subject, kMount, result.seen);
  }
}

void JudgeType(Context& context, const RankResult<StorageShared>& result, const MountFacts* mount) {
  const auto& accepted = context.policy.storage.filesystems;
  if (accepted.empty()) {
    return;
  }
  if (mount == nullptr) {
    MountUnseen(context, kFilesystemType, result);
    return;
  }
  context.judge.Decide(kFilesystemType, {"rank", result.name},
                       {{"file system type", Op::kIn, accepted, mount->filesystem, "",
                         "policy:storage.filesystems"}});
}

void JudgeMounts(Context& context) {
  const Subject subject{"run", context.path};
  std::map<std::string, std::vector<int>> ranks_by_mount;
  const RankResult<StorageShared>* unseen = nullptr;
  for (const auto& result : context.results) {
    const MountFacts* mount = result.seen.seen() ? result.seen.value().mount.get() : nullptr;
    JudgeType(context, result, mount);
    if (mount == nullptr) {
      unseen = unseen == nullptr ? &result : unseen;
      continue;
    }
    ranks_by_mount[mount->filesystem + " " + mount->source + " " + mount->root].push_back(
        result.rank);
  }
  // What was seen to differ stays a failure; what nobody could tell is no pass.
  if (ranks_by_mount.size() < 2 && unseen != nullptr) {
    MountUnseen(context, kSameMount, *unseen);
    return;
  }
  Finding& finding =
      context.judge.Decide(kSameMount, subject,
                           {{"different mounts at the path", Op::kEq, std::int64_t{1},
                             static_cast<std::int64_t>(ranks_by_mount.size()), "", "constant"}});
  finding.actual.clear();
  for (const auto& [mount, ranks] : ranks_by_mount) {
    finding.actual +=
        (finding.actual.empty() ? "" : "; ") + RankNames(context.run, ranks) + ": " + mount;
  }
  finding.expected = "one mount";
  if (finding.verdict == Verdict::kFail) {
    finding.reason.message = finding.actual;
  }
}

void JudgeSpace(Context& context) {
  const StoragePolicy& policy = context.policy.storage;
  if (policy.min_free_bytes == 0 && policy.min_free_inodes == 0) {
    context.judge.NotApplicable(kFreeSpace, {"run", context.path},
                                "the policy demands no free space");
    return;
  }
  for (const auto& result : context.results) {
    const Subject subject{"rank", result.name};
    if (!result.seen.seen()) {
      context.judge.Unseen(kFreeSpace, subject, "the free space at the path", result.seen);
      continue;
    }
    const auto& space = result.seen.value().space;
    if (!space.seen()) {
      context.judge.Unseen(kFreeSpace, subject, "the free space at the path", space);
      continue;
    }
    std::vector<Assertion> assertions;
    if (policy.min_free_bytes > 0) {
      assertions.push_back({"available", Op::kGe, policy.min_free_bytes,
                            space.value().available_bytes, "bytes", "policy:storage.minFreeBytes"});
    }
    // A file system that counts no inodes has no limit of them.
    if (policy.min_free_inodes > 0 && space.value().total_inodes > 0) {
      assertions.push_back({"available inodes", Op::kGe, policy.min_free_inodes,
                            space.value().available_inodes, "", "policy:storage.minFreeInodes"});
    }
    if (assertions.empty()) {
      context.judge.NotApplicable(kFreeSpace, subject, "the file system counts no inodes");
    } else {
      context.judge.Decide(kFreeSpace, subject, std::move(assertions));
    }
  }
}

std::vector<Finding> JudgeStorageShared(const Observations& observations, const Policy& policy) {
  Judge judge(kStorageShared, policy);
  if (observations.checkpoint_views.seen()) {
    JudgeCheckpointViews(observations.checkpoint_views.value(), observations.run.workload.workers,
                         judge);
  }
  const Observed<RankRun>& ranks = observations.checkpoint_ranks;
  if (JudgeWithoutRanks(observations, ranks, kFilesVisible, "what the ranks see", "", judge)) {
    return judge.Take();
  }
  const RankRun& run = ranks.value();
  Context context{run,
                  policy,
                  ResultsOf(run, &RankObservations::storage_shared),
                  std::move(judge),
                  {},
                  "the checkpoint path"};
  for (const auto& result : context.results) {
    if (!result.node.empty()) {
      context.node_of[result.rank] = result.node;
    }
    if (result.seen.seen()) {
      context.path = result.seen.value().path;
    }
  }
  JudgeFileVisibility(context);
  for (const auto& result : context.results) {
    JudgeOperations(context, result);
    JudgeOwner(context, result);
  }
  JudgeMounts(context);
  JudgeSpace(context);
  JudgeContainerLayer(context, observations.run.workload.nodes);
  JudgeLeftovers(context);
  JudgeCheckpointTrees(run, observations.run.workload.workers, context.judge);
  std::vector<Finding> findings = context.judge.Take();
  NotePlantedFaults(run, findings);
  return findings;
}

}  // namespace

constinit const Check kStorageShared{
    "storage-shared",
    Stage::kCheckpoint,
    false,
    "the checkpoint path is shared and usable",
    "nonce files written by each rank and read by every other, file operations, mounts, free "
    "space, "
    "files of an existing checkpoint, what earlier runs left",
    kRules,
    JudgeStorageShared,
};

}  // namespace dlc

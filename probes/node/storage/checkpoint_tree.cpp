#include "probes/node/storage/checkpoint_tree.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include "probes/node/storage/checkpoint_files.h"
#include "probes/node/storage/checkpoint_names.h"

namespace dlc {
namespace {

/// <run directory>/<trial>/<checkpoint>/<what the user put there>.
constexpr int kDeepest = 4;
constexpr std::size_t kMostPeeked = 256;
constexpr std::size_t kMostTagBytes = 4096;
constexpr std::size_t kMostSnapshotBytes = std::size_t{4} << 20U;
constexpr std::string_view kRayPrefix = "checkpoint_";
constexpr std::string_view kRayMarker = ".validate_storage_marker";
constexpr std::string_view kRaySnapshot = "checkpoint_manager_snapshot.json";
constexpr std::string_view kTagFile = "latest";
constexpr std::string_view kOwnManifest = "checkpoint.json";

bool IsDirectory(const DirectoryEntry& entry) {
  return S_ISDIR(entry.info.st_mode);
}

std::int64_t ModifiedAt(const struct stat& info) {
  constexpr std::int64_t kPerSecond = 1'000'000'000;
  return info.st_mtim.tv_sec * kPerSecond + info.st_mtim.tv_nsec;
}

/// The first kind, in the order of what says most, that a file of the directory has.
std::string KindOf(const DirectoryListing& listing) {
  std::vector<std::string> there;
  for (const DirectoryEntry& entry : listing.entries) {
    const auto name = IsDirectory(entry) ? std::nullopt : ParseCheckpointName(entry.name);
    if (name) {
      there.push_back(name->kind);
    }
  }
  for (const char* kind : {"dcp", "dlc-check", "deepspeed", "world-size-rank"}) {
    if (std::find(there.begin(), there.end(), kind) != there.end()) {
      return kind;
    }
  }
  return "";
}

bool HoldsCheckpoints(const DirectoryListing& listing) {
  return !KindOf(listing).empty() ||
         std::any_of(listing.entries.begin(), listing.entries.end(), [](const auto& entry) {
           return IsDirectory(entry) ? entry.name.starts_with(kRayPrefix) : entry.name == kTagFile;
         });
}

class TreeReader {
 public:
  TreeReader(const CheckpointTreeParameters& parameters, Deadline deadline)
      : part_(parameters.hashed_bytes_per_file), deadline_(deadline) {
    tree_.path = parameters.path;
    tree_.hashed_bytes_per_file = part_;
  }

  Result<CheckpointTree> Read() {
    auto listing = ListDirectory(tree_.path, deadline_);
    for (int depth = 0; listing && depth < kDeepest; ++depth) {
      NoteRayMarker(*listing);
      tree_.kind = KindOf(*listing);
      const std::string next = tree_.kind.empty() ? Next(*listing) : "";
      if (next.empty()) {
        if (auto taken = TakeFiles(*listing); !taken) {
          return taken.error();
        }
        return std::move(tree_);
      }
      tree_.directory += (tree_.directory.empty() ? "" : "/") + next;
      listing = ListBelow(*listing, next, tree_.path + "/" + tree_.directory, deadline_);
    }
    if (!listing) {
      return listing.error();
    }
    tree_.unclear = "its directories are nested too deep";
    return std::move(tree_);
  }

 private:
  void NoteRayMarker(const DirectoryListing& listing);
  std::string Next(const DirectoryListing& listing);
  std::string NewestOfRay(const DirectoryListing& listing);
  std::string Tagged(const DirectoryListing& listing);
  std::string OnlyOne(const DirectoryListing& listing);
  bool LeadsToCheckpoints(const DirectoryListing& listing, const std::string& path,
                          std::size_t& peeked, int below);
  Result<void> TakeFiles(const DirectoryListing& listing);
  Result<void> TakeFile(const DirectoryListing& listing, const DirectoryEntry& entry,
                        const CheckpointName& name);

  std::int64_t part_;
  Deadline deadline_;
  CheckpointTree tree_;
};

void TreeReader::NoteRayMarker(const DirectoryListing& listing) {
  tree_.ray_marker =
      tree_.ray_marker || std::any_of(listing.entries.begin(), listing.entries.end(),
                                      [](const auto& entry) { return entry.name == kRayMarker; });
}

/// The directory to go on in; empty: here is the end, and `unclear` says why.
std::string TreeReader::Next(const DirectoryListing& listing) {
  const auto any = [&](const auto& fits) {
    return std::any_of(listing.entries.begin(), listing.entries.end(), fits);
  };
  if (any([](const auto& e) {
        return e.name.starts_with(kRayPrefix) && !S_ISREG(e.info.st_mode);
      })) {
    return NewestOfRay(listing);
  }
  if (any([](const auto& e) { return e.name == kTagFile && S_ISREG(e.info.st_mode); })) {
    return Tagged(listing);
  }
  return OnlyOne(listing);
}

std::string TreeReader::NewestOfRay(const DirectoryListing& listing) {
  // By version, then number or time: both are of one length for names of one writer.
  std::vector<std::tuple<std::string, std::size_t, std::string>> named;
  std::vector<std::string> others;
  for (const DirectoryEntry& entry : listing.entries) {
    if (!entry.name.starts_with(kRayPrefix) || S_ISREG(entry.info.st_mode)) {
      continue;
    }
    const std::string version = RayDirectoryVersion(entry.name);
    if (!IsDirectory(entry)) {
      tree_.unread.push_back(entry.name + ": a link, which is not followed");
    } else if (version.empty()) {
      others.push_back(entry.name);
    } else {
      named.emplace_back(version, version == "v1" ? entry.name.size() : 0, entry.name);
    }
  }
  std::sort(named.begin(), named.end());
  std::sort(others.begin(), others.end());
  if (named.empty() && others.size() == 1) {
    return others.front();
  }
  if (named.empty()) {
    tree_.unclear = others.empty() ? "it holds links to checkpoints alone"
                                   : "the names of its checkpoints tell no time: name one of them";
    return "";
  }
  const auto [newest_version, length, newest] = named.back();
  for (std::size_t i = named.size() - 1; i-- > 0;) {
    tree_.passed_over.push_back(std::get<2>(named[i]) + (std::get<0>(named[i]) == newest_version
                                                             ? ": older"
                                                             : ": a name of Ray Train v1"));
  }
  for (const std::string& other : others) {
    tree_.passed_over.push_back(other + ": its name tells no time");
  }
  const std::string snapshot = ReadSmallFile(listing, kRaySnapshot, kMostSnapshotBytes);
  if (!snapshot.empty()) {
    tree_.ray_registered = snapshot.find('"' + newest + '"') != std::string::npos ? "yes" : "no";
  }
  return newest;
}

std::string TreeReader::Tagged(const DirectoryListing& listing) {
  std::string tag = ReadSmallFile(listing, kTagFile, kMostTagBytes);
  while (!tag.empty() && (tag.back() == '\n' || tag.back() == ' ' || tag.back() == '\r')) {
    tag.pop_back();
  }
  const auto it =
      std::find_if(listing.entries.begin(), listing.entries.end(),
                   [&](const auto& entry) { return entry.name == tag && IsDirectory(entry); });
  if (it == listing.entries.end()) {
    tree_.unclear = "`latest` names no directory beside it";
    return "";
  }
  tree_.has_metadata = true;
  tree_.metadata_bytes = static_cast<std::int64_t>(tag.size());
  for (const DirectoryEntry& entry : listing.entries) {
    if (IsDirectory(entry) && entry.name != tag) {
      tree_.passed_over.push_back(entry.name + ": `latest` does not name it");
    }
  }
  return tag;
}

/// Whether it holds some, or one of its directories does, down to so many levels. A directory that
/// cannot be listed is told. At most kMostPeeked are looked into.
bool TreeReader::LeadsToCheckpoints(const DirectoryListing& listing, const std::string& path,
                                    std::size_t& peeked, int below) {
  if (HoldsCheckpoints(listing)) {
    return true;
  }
  for (auto entry = listing.entries.begin(); below > 0 && entry != listing.entries.end(); ++entry) {
    if (!IsDirectory(*entry) || ++peeked > kMostPeeked) {
      continue;
    }
    const std::string name = path + "/" + entry->name;
    const auto inner = ListBelow(listing, entry->name, name, deadline_);
    if (!inner) {
      tree_.unread.push_back(name + ": " + inner.error().message);
    } else if (LeadsToCheckpoints(*inner, name, peeked, below - 1)) {
      return true;
    }
  }
  return false;
}

std::string TreeReader::OnlyOne(const DirectoryListing& listing) {
  std::vector<std::string> candidates;
  std::size_t peeked = 0;
  for (const DirectoryEntry& entry : listing.entries) {
    if (!IsDirectory(entry)) {
      continue;
    }
    const auto below = ListBelow(listing, entry.name, entry.name, deadline_);
    if (!below) {
      tree_.unread.push_back(entry.name + ": " + below.error().message);
    } else if (LeadsToCheckpoints(*below, entry.name, peeked, 1)) {
      // Ray Train v1 has a directory of the trial between the run's and the checkpoints.
      candidates.push_back(entry.name);
    }
    if (++peeked > kMostPeeked) {
      tree_.unclear =
          "it holds more than " + std::to_string(kMostPeeked) + " directories: name one";
      return "";
    }
  }
  if (candidates.size() == 1) {
    return candidates.front();
  }
  std::string names;
  for (std::size_t i = 0; i < candidates.size() && i < 3; ++i) {
    names += (i == 0 ? "" : ", ") + candidates[i];
  }
  tree_.unclear = candidates.empty()
                      ? "no name in it is one of a sharded checkpoint"
                      : "it holds " + std::to_string(candidates.size()) +
                            " directories with checkpoints (" + names + "): name one of them";
  return "";
}

Result<void> TreeReader::TakeFile(const DirectoryListing& listing, const DirectoryEntry& entry,
                                  const CheckpointName& name) {
  if (!S_ISREG(entry.info.st_mode)) {
    tree_.unread.push_back(entry.name + (S_ISLNK(entry.info.st_mode)
                                             ? ": a link, which is not followed"
                                             : ": not a regular file"));
    return {};
  }
  const auto content = DigestEnds(listing, entry.name, part_, deadline_);
  if (!content && content.error().code == ErrorCode::kTimedOut) {
    return content.error();
  }
  if (!content) {
    tree_.unread.push_back(content.error().message);
    return {};
  }
  if (name.metadata) {
    tree_.has_metadata = true;
    tree_.metadata_bytes = content->info.st_size;
    tree_.metadata_digest = content->digest;
    tree_.metadata_modified_at_ns = ModifiedAt(content->info);
    return {};
  }
  tree_.shards.push_back({entry.name, name.rank, content->info.st_size, content->digest, name.part,
                          ModifiedAt(content->info)});
  tree_.stated_ranks = std::max(tree_.stated_ranks, name.stated_ranks);
  return {};
}

Result<void> TreeReader::TakeFiles(const DirectoryListing& listing) {
  for (const DirectoryEntry& entry : listing.entries) {
    auto name = ParseCheckpointName(entry.name);
    if (!name && tree_.kind == "dlc-check" && entry.name == kOwnManifest) {
      name = CheckpointName{tree_.kind, "", 0, 0, true, false};
    }
    if (name && name->kind == tree_.kind && !IsDirectory(entry)) {
      if (name->rank_metadata) {
        tree_.rank_metadata = true;
      } else if (auto taken = TakeFile(listing, entry, *name); !taken) {
        return taken;
      }
    } else if (IsUnfinishedName(entry.name)) {
      tree_.unfinished.push_back(entry.name);
    } else if (S_ISREG(entry.info.st_mode)) {
      ++tree_.other_files;
      tree_.other_bytes += entry.info.st_size;
    }
  }
  std::sort(tree_.shards.begin(), tree_.shards.end(), [](const auto& a, const auto& b) {
    return std::tie(a.part, a.rank, a.name) < std::tie(b.part, b.rank, b.name);
  });
  const std::string& whole = tree_.directory.empty() ? tree_.path : tree_.directory;
  const std::size_t end = whole.find_last_not_of('/');
  const std::size_t slash = end == std::string::npos ? end : whole.rfind('/', end);
  const std::size_t start = slash == std::string::npos ? 0 : slash + 1;
  tree_.ray = end == std::string::npos
                  ? ""
                  : RayDirectoryVersion(std::string_view(whole).substr(start, end + 1 - start));
  return {};
}

}  // namespace

Result<CheckpointTree> ObserveCheckpointTree(const CheckpointTreeParameters& parameters,
                                             Deadline deadline) {
  return TreeReader(parameters, deadline).Read();
}

}  // namespace dlc

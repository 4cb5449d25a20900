#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "probes/node/unique_fd.h"
#include "probes/observations/deadline.h"
#include "probes/observations/digest.h"
#include "probes/observations/result.h"

namespace dlc {

struct DirectoryEntry {
  std::string name;
  struct stat info {};  ///< of the entry itself: no link is followed
};

/// An open directory, so that what is below is reached through it and through no link.
struct DirectoryListing {
  UniqueFd fd;
  std::vector<DirectoryEntry> entries;  ///< by name, without "." and ".."
};

/// Errors: "cannot read PATH: ENOENT" with the code that fits; more than 200,000 entries; the
/// deadline.
Result<DirectoryListing> ListDirectory(const std::string& path, Deadline deadline);
/// Of an entry; a link is an error. `shown`: the path for the error.
Result<DirectoryListing> ListBelow(const DirectoryListing& listing, const std::string& name,
                                   const std::string& shown, Deadline deadline);

struct FileEnds {
  struct stat info {};
  Digest digest;  ///< of the first and the last `part` bytes, or of all if there are no more
};
/// `part` 0: no digest. Neither waits for a pipe nor follows a link. Errors: "NAME: EACCES".
Result<FileEnds> DigestEnds(const DirectoryListing& listing, const std::string& name,
                            std::int64_t part, Deadline deadline);

/// Empty: no such regular file, larger than `most`, or unreadable.
std::string ReadSmallFile(const DirectoryListing& listing, std::string_view name, std::size_t most);

}  // namespace dlc

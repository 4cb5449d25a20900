#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "probes/node/checkpoint/checkpoint_set.h"
#include "probes/node/unique_fd.h"

namespace dlc {

/// O_DIRECT's alignment of memory, offset and length, for every file system we know.
inline constexpr std::size_t kDirectAlignment = 4096;

/// "ENOSPC"
std::string CheckpointErrnoName(int failure);
/// "cannot <verb> <path>: ENOSPC"
CheckpointFailure RefusedByErrno(const std::string& verb, const std::string& path, int failure);
/// `message` follows the path.
CheckpointFailure CheckpointFaultOf(CheckpointFault fault, const std::string& path,
                                    const std::string& message);
/// Empty, or why no file can be read or written in such blocks.
std::string ProblemOfBlockBytes(std::int64_t block_bytes);

/// Memory that O_DIRECT takes. Precondition: a multiple of kDirectAlignment.
class DirectBuffer {
 public:
  explicit DirectBuffer(std::size_t size)
      : bytes_(static_cast<char*>(std::aligned_alloc(kDirectAlignment, size)), std::free) {}
  char* data() const { return bytes_.get(); }

 private:
  std::unique_ptr<char, void (*)(void*)> bytes_;
};

// Each gives 0 or an errno.
int WriteAllBytes(int fd, std::string_view bytes);
int SyncDirectory(const std::string& path);
/// close(2) tells what a network file system could not write.
int CloseFile(UniqueFd& fd);

/// The names in a directory but "." and "..", sorted.
CheckpointResult<std::vector<std::string>> NamesIn(const std::string& directory);
/// Unavailable with ENOENT when it is not there; damaged when it is longer than `most`.
CheckpointResult<std::string> ReadSmallFile(const std::string& path, std::size_t most);

}  // namespace dlc

#include "probes/node/checkpoint/hashed_blocks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "probes/observations/deadline.h"

namespace dlc {

std::future<void> HashBeside(Sha256& hash, std::string_view bytes) {
  // Where no thread can be had, it is done by whoever waits.
  return std::async(std::launch::async | std::launch::deferred,
                    [&hash, bytes] { hash.Add(bytes); });
}

HashedBlocks::HashedBlocks(int fd, std::int64_t block_bytes, bool direct)
    : fd_(fd),
      block_bytes_(static_cast<std::size_t>(block_bytes)),
      direct_(direct),
      buffers_{DirectBuffer(block_bytes_), DirectBuffer(block_bytes_)} {}

int HashedBlocks::Add(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), block_bytes_ - filled_);
    std::memcpy(buffers_[current_].data() + filled_, bytes.data(), count);
    filled_ += count;
    bytes.remove_prefix(count);
    if (filled_ == block_bytes_) {
      if (const int failure = Flush(); failure != 0) {
        return failure;
      }
    }
  }
  return 0;
}

int HashedBlocks::Finish() {
  const int failure = filled_ > 0 ? Flush() : 0;
  if (hashing_.valid()) {
    hashing_.get();
  }
  return failure;
}

int HashedBlocks::Flush() {
  const auto start = Deadline::Clock::now();
  const std::string_view block(buffers_[current_].data(), filled_);
  if (hashing_.valid()) {
    hashing_.get();
  }
  hashing_ = HashBeside(hash_, block);
  const int failure = Write(block);
  bytes_ += static_cast<std::int64_t>(filled_);
  current_ = 1 - current_;
  filled_ = 0;
  write_seconds_ += std::chrono::duration<double>(Deadline::Clock::now() - start).count();
  return failure;
}

int HashedBlocks::Write(std::string_view block) {
  if (direct_ && block.size() % kDirectAlignment != 0) {
    if (const int failure = LeaveDirect(); failure != 0) {
      return failure;
    }
  }
  while (!block.empty()) {
    const ssize_t count = write(fd_, block.data(), block.size());
    if (count > 0) {
      block.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    const int failure = count == 0 ? EIO : errno;
    if (failure == EINVAL && direct_) {
      // Taken by open and refused here, or a short write left an odd rest.
      direct_refused_ = CheckpointErrnoName(failure);
      if (const int left = LeaveDirect(); left != 0) {
        return left;
      }
    } else if (failure != EINTR) {
      return failure;
    }
  }
  return 0;
}

int HashedBlocks::LeaveDirect() {
  direct_ = false;
  const int flags = fcntl(fd_, F_GETFL);
  return flags < 0 || fcntl(fd_, F_SETFL, flags & ~O_DIRECT) != 0 ? errno : 0;
}

}  // namespace dlc

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <future>
#include <string>
#include <string_view>

#include "probes/node/checkpoint/checkpoint_files.h"
#include "probes/node/sha256/sha256.h"

namespace dlc {

/// Writes a stream in whole blocks and takes its sha256: a block is hashed while it is written and
/// the next one is filled.
class HashedBlocks {
 public:
  /// `direct`: the file is open with O_DIRECT; taken off for what is no whole block, and for good
  /// where write(2) refuses it. Precondition: !ProblemOfBlockBytes.
  HashedBlocks(int fd, std::int64_t block_bytes, bool direct);

  /// 0 or an errno.
  int Add(std::string_view bytes);
  /// Writes what is left. 0 or an errno.
  int Finish();

  /// After Finish, once.
  Digest TakeDigest() { return hash_.FinishDigest(); }
  std::int64_t bytes() const { return bytes_; }
  /// "EINVAL", or empty.
  const std::string& direct_refused() const { return direct_refused_; }
  /// In write(2), and waiting for the hash.
  double write_seconds() const { return write_seconds_; }

 private:
  int Flush();
  int Write(std::string_view block);
  int LeaveDirect();

  int fd_;
  std::size_t block_bytes_;
  bool direct_;
  std::array<DirectBuffer, 2> buffers_;
  std::size_t current_ = 0;
  std::size_t filled_ = 0;
  std::int64_t bytes_ = 0;
  double write_seconds_ = 0;
  std::string direct_refused_;
  Sha256 hash_;
  std::future<void> hashing_;  // last: ends before what it reads
};

/// `hash` takes `bytes` beside the caller, who keeps both until the future is ready.
std::future<void> HashBeside(Sha256& hash, std::string_view bytes);

}  // namespace dlc

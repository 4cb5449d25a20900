#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "probes/node/unique_fd.h"

namespace dlc {

/// How long a peer may take to prove that it knows the secret.
inline constexpr std::chrono::milliseconds kHandshakePatience{5'000};

/// The meeting point, on rank 0's host. One thread, no locks: it is a process of its own, so that
/// experiments can be forked from a process without threads.
class RendezvousServer {
 public:
  /// `listener`: non-blocking and listening.
  RendezvousServer(UniqueFd listener, int size, std::string secret,
                   std::chrono::milliseconds handshake_patience = kHandshakePatience);
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  /// Serves until `stop_fd` is readable, then answers those who have come, for two seconds at most.
  void Serve(int stop_fd);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlc

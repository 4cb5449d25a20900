#pragma once

#include <string>

#include "probes/observations/result.h"

namespace dlc {

/// Who this process is, as torchrun, mpirun wrappers and Ray Train tell it in the environment.
struct RankIdentity {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string master_address;  ///< host name, IPv4 or IPv6 without brackets
  int master_port = 0;         ///< 0 only when rank 0 inherits a listening socket
};

/// RANK, WORLD_SIZE, LOCAL_RANK (optional, 0), MASTER_ADDR, MASTER_PORT. An error names the
/// variable and its value.
Result<RankIdentity> RankIdentityFromEnvironment();

/// Variables of the run's one-time secret: its text, or the number of an inherited file descriptor
/// to read it from until the end. Never by argv: /proc shows that to everybody.
inline constexpr const char* kSecretVariable = "DLC_CHECK_RUN_SECRET";
inline constexpr const char* kSecretFdVariable = "DLC_CHECK_RUN_SECRET_FD";
/// Rank 0 may inherit its listening socket, so that nobody takes the port in between.
inline constexpr const char* kListenFdVariable = "DLC_CHECK_LISTEN_FD";

inline constexpr std::size_t kMinSecretBytes = 16;

/// Reads the secret and takes it out of the environment and closes the descriptor, so that nothing
/// started later sees it. Errors never quote it.
Result<std::string> TakeRunSecret();

/// The inherited listening socket, or -1.
Result<int> InheritedListenFd();

}  // namespace dlc

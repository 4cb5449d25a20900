#pragma once

#include <string>

#include "probes/node/unique_fd.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// A TCP socket that listens on all addresses of this network namespace (IPv6 and IPv4; IPv4 alone
/// where IPv6 is off). Port 0: the kernel picks. Non-blocking.
Result<UniqueFd> ListenTcp(int port);

/// The port that a listening socket got.
int PortOf(int fd);

/// Connects, trying again (refused, name not known yet) until the deadline: rank 0 may still be
/// starting. Non-blocking socket. `stop_fd` readable ends it (-1: none).
Result<UniqueFd> ConnectTcp(const std::string& host, int port, Deadline deadline, int stop_fd);

/// "10.0.0.7:41234", "[fe80::1%eth0]:41234"; of the other end.
std::string PeerAddress(int fd);
/// "10.0.0.1:29500", "[::1]:29500".
std::string AddressText(const std::string& host, int port);

/// A dead host or a cut link ends the connection within about ten seconds of silence.
void SetKeepAlive(int fd);

enum class Waited { kReady, kTimedOut, kStopped };
/// Waits for `events` on fd (-1: only for stop or deadline).
Waited WaitForFd(int fd, short events, Deadline deadline, int stop_fd);

}  // namespace dlc

#include "probes/node/rendezvous/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#include "probes/node/bytes.h"
#include "probes/node/process/experiment.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

// The sockets API takes one pointer type for all families.
// NOLINTBEGIN(cppcoreguidelines-pro-type-reinterpret-cast)
sockaddr* Generic(Address& address) {
  return reinterpret_cast<sockaddr*>(&address.storage);
}
const sockaddr* Generic(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}
// NOLINTEND(cppcoreguidelines-pro-type-reinterpret-cast)

Result<std::string> Resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (status != 0) {
    return Error{ErrorCode::kUnavailable, "cannot resolve '" + host + "': " + gai_strerror(status),
                 ""};
  }
  ByteWriter out;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): a socket address as bytes
    out.Text({reinterpret_cast<const char*>(entry->ai_addr), entry->ai_addrlen});
  }
  freeaddrinfo(list);
  return out.Take();
}

/// getaddrinfo has no deadline of its own, so a name is looked up in a child process.
Result<std::vector<Address>> AddressesOf(const std::string& host, int port, Deadline deadline,
                                         int stop_fd) {
  auto bytes = Resolve(host, port, AI_NUMERICHOST);
  if (!bytes) {
    bytes = RunExperiment([&](const Progress&) { return Resolve(host, port, AI_ADDRCONFIG); },
                          {deadline, {}, stop_fd, 65'536})
                .result;
  }
  if (!bytes) {
    return bytes.error();
  }
  std::vector<Address> addresses;
  ByteReader reader(*bytes);
  while (reader.ok() && !reader.AtEnd()) {
    const std::string_view raw = reader.Text();
    Address address;
    address.length = static_cast<socklen_t>(std::min(raw.size(), sizeof address.storage));
    std::memcpy(&address.storage, raw.data(), address.length);
    addresses.push_back(address);
  }
  return addresses;
}

Result<UniqueFd> ConnectOnce(const Address& address, Deadline deadline, int stop_fd) {
  UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    return Error{ErrorCode::kUnavailable, strerrordesc_np(errno), ""};
  }
  if (connect(fd.get(), Generic(address), address.length) != 0 && errno != EINPROGRESS) {
    return Error{ErrorCode::kUnavailable, strerrordesc_np(errno), ""};
  }
  switch (WaitForFd(fd.get(), POLLOUT, deadline, stop_fd)) {
    case Waited::kStopped:
      return Error{ErrorCode::kInterrupted, "interrupted", ""};
    case Waited::kTimedOut:
      return Error{ErrorCode::kTimedOut, "no answer", ""};
    case Waited::kReady:
      break;
  }
  int failure = 0;
  socklen_t length = sizeof failure;
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &length);
  if (failure != 0) {
    return Error{ErrorCode::kUnavailable, strerrordesc_np(failure), ""};
  }
  // With a port of the ephemeral range and nobody listening, TCP may connect a socket to itself.
  Address mine;
  mine.length = sizeof mine.storage;
  getsockname(fd.get(), Generic(mine), &mine.length);
  if (mine.length == address.length &&
      std::memcmp(&mine.storage, &address.storage, mine.length) == 0) {
    return Error{ErrorCode::kUnavailable, "connection refused", ""};
  }
  return fd;
}

std::string TextOf(const Address& address) {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (getnameinfo(Generic(address), address.length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "(unknown address)";
  }
  std::string text = host;
  // An IPv4 peer of a dual-stack socket.
  constexpr std::string_view kMapped = "::ffff:";
  if (text.starts_with(kMapped) && text.find('.') != std::string::npos) {
    text.erase(0, kMapped.size());
  }
  const bool v6 = text.find(':') != std::string::npos;
  return (v6 ? "[" + text + "]" : text) + ":" + port;
}

}  // namespace

Waited WaitForFd(int fd, short events, Deadline deadline, int stop_fd) {
  while (true) {
    pollfd fds[] = {{fd, events, 0}, {stop_fd, POLLIN, 0}};
    const auto left = std::min<std::int64_t>(deadline.Remaining().count(), 1'000'000);
    const int ready = poll(fds, 2, static_cast<int>(left));
    if (ready > 0 && fds[1].revents != 0) {
      return Waited::kStopped;
    }
    if (ready > 0) {
      return Waited::kReady;
    }
    if (deadline.Passed()) {
      return Waited::kTimedOut;
    }
  }
}

Result<UniqueFd> ListenTcp(int port) {
  int failure = 0;
  for (const int family : {AF_INET6, AF_INET}) {
    UniqueFd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    const int off = 0;
    Address any;
    any.storage.ss_family = static_cast<sa_family_t>(family);
    // NOLINTBEGIN(cppcoreguidelines-pro-type-reinterpret-cast): the sockets API
    if (family == AF_INET6) {
      setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
      reinterpret_cast<sockaddr_in6*>(&any.storage)->sin6_port = htons(static_cast<uint16_t>(port));
      any.length = sizeof(sockaddr_in6);
    } else {
      reinterpret_cast<sockaddr_in*>(&any.storage)->sin_port = htons(static_cast<uint16_t>(port));
      any.length = sizeof(sockaddr_in);
    }
    // NOLINTEND(cppcoreguidelines-pro-type-reinterpret-cast)
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd && bind(fd.get(), Generic(any), any.length) == 0 && listen(fd.get(), 1024) == 0) {
      return fd;
    }
    failure = errno;
  }
  return Error{ErrorCode::kUnavailable,
               "cannot listen on port " + std::to_string(port) + ": " + strerrordesc_np(failure),
               failure == EADDRINUSE ? "another program has MASTER_PORT: choose another" : ""};
}

int PortOf(int fd) {
  Address address;
  address.length = sizeof address.storage;
  if (getsockname(fd, Generic(address), &address.length) != 0) {
    return 0;
  }
  // NOLINTBEGIN(cppcoreguidelines-pro-type-reinterpret-cast): the sockets API
  return ntohs(address.storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
  // NOLINTEND(cppcoreguidelines-pro-type-reinterpret-cast)
}

Result<UniqueFd> ConnectTcp(const std::string& host, int port, Deadline deadline, int stop_fd) {
  constexpr milliseconds kLongestPause{500};
  constexpr milliseconds kOneAttempt{5'000};
  milliseconds pause{10};
  Error last{ErrorCode::kTimedOut, "no answer", ""};
  while (!deadline.Passed()) {
    const auto addresses = AddressesOf(host, port, deadline, stop_fd);
    if (!addresses) {
      last = addresses.error();
    } else {
      for (const Address& address : *addresses) {
        auto fd = ConnectOnce(address, deadline.Within(kOneAttempt), stop_fd);
        if (fd) {
          return fd;
        }
        last = fd.error();
      }
    }
    if (last.code == ErrorCode::kInterrupted ||
        WaitForFd(-1, 0, deadline.Within(pause), stop_fd) == Waited::kStopped) {
      return Error{ErrorCode::kInterrupted, "interrupted while connecting to rank 0", ""};
    }
    pause = std::min(pause * 2, kLongestPause);
  }
  return Error{ErrorCode::kTimedOut,
               "rank 0 at " + AddressText(host, port) + " never answered: " + last.message,
               "see whether rank 0 runs, and whether MASTER_ADDR and MASTER_PORT lead to it"};
}

std::string PeerAddress(int fd) {
  Address address;
  address.length = sizeof address.storage;
  if (getpeername(fd, Generic(address), &address.length) != 0) {
    return "(unknown address)";
  }
  return TextOf(address);
}

std::string AddressText(const std::string& host, int port) {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

void SetKeepAlive(int fd) {
  const int on = 1;
  const int idle_seconds = 4;
  const int interval_seconds = 2;
  const int probes = 3;
  const int unacknowledged_ms = 10'000;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_seconds, sizeof interval_seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace dlc

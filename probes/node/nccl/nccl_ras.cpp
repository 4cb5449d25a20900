#include "probes/node/nccl/nccl_ras.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "probes/node/unique_fd.h"
#include "probes/observations/result.h"

namespace dlc {
namespace {

constexpr int kFirstWithJson = 22807;
constexpr const char* kDefaultAddress = "localhost:28028";
constexpr std::size_t kMostLineBytes = 1'024;

std::string SettingOf(const std::vector<NcclSetting>& settings, std::string_view name,
                      const char* otherwise) {
  const auto it = std::find_if(settings.begin(), settings.end(),
                               [&](const NcclSetting& one) { return one.name == name; });
  return it == settings.end() ? otherwise : it->value;
}

/// Waits for `events`; false when the deadline passes first.
bool WaitFor(const UniqueFd& fd, short events, Deadline deadline) {
  while (true) {
    pollfd one{fd.get(), events, 0};
    const auto left = std::min<std::int64_t>(deadline.Remaining().count(), 1'000'000);
    if (poll(&one, 1, static_cast<int>(left)) > 0) {
      return true;
    }
    if (deadline.Passed()) {
      return false;
    }
  }
}

Result<UniqueFd> ConnectNumeric(const std::string& host, const std::string& port,
                                Deadline deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (const int status = getaddrinfo(host.c_str(), port.c_str(), &hints, &list); status != 0) {
    // A name server may take longer than there is time, and a process of NCCL should not fork.
    return Error{ErrorCode::kUnsupported, std::string("it is no address: ") + gai_strerror(status),
                 "give NCCL_RAS_ADDR as address:port"};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  UniqueFd fd(socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) {
    return Error{ErrorCode::kUnavailable, strerrordesc_np(errno), ""};
  }
  if (connect(fd.get(), list->ai_addr, list->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return Error{ErrorCode::kUnavailable, strerrordesc_np(errno), ""};
  }
  if (!WaitFor(fd, POLLOUT, deadline)) {
    return Error{ErrorCode::kTimedOut, "no answer", ""};
  }
  int failure = 0;
  socklen_t length = sizeof failure;
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &length);
  if (failure != 0) {
    return Error{ErrorCode::kUnavailable, strerrordesc_np(failure), ""};
  }
  return fd;
}

/// "localhost:28028", "10.0.0.1:28028", "[::1]:28028".
Result<UniqueFd> ConnectRas(const std::string& address, Deadline deadline) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos) {
    return Error{ErrorCode::kInvalidInput, "it has no port", "give NCCL_RAS_ADDR as address:port"};
  }
  std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  if (host != "localhost") {
    return ConnectNumeric(host, port, deadline);
  }
  auto fd = ConnectNumeric("127.0.0.1", port, deadline);
  return fd ? std::move(fd) : ConnectNumeric("::1", port, deadline);
}

class RasClient {
 public:
  RasClient(UniqueFd fd, Deadline deadline) : fd_(std::move(fd)), deadline_(deadline) {}

  Result<void> Send(std::string_view line) {
    std::string bytes(line);
    bytes += '\n';
    std::string_view left = bytes;
    while (!left.empty()) {
      const ssize_t sent = send(fd_.get(), left.data(), left.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        return Error{ErrorCode::kUnavailable, strerrordesc_np(errno), ""};
      }
      if (sent < 0 && !WaitFor(fd_, POLLOUT, deadline_)) {
        return Late();
      }
      left.remove_prefix(sent > 0 ? static_cast<std::size_t>(sent) : 0);
    }
    return {};
  }

  void Patience(Deadline deadline) { deadline_ = deadline; }

  /// One command and the line that must answer it.
  Result<void> Ask(const std::string& command, std::string_view begin) {
    if (auto sent = Send(command); !sent) {
      return sent;
    }
    std::size_t end = 0;
    while ((end = got_.find('\n')) == std::string::npos) {
      if (got_.size() > kMostLineBytes) {
        return Error{ErrorCode::kUnavailable, "it is no RAS: it does not answer in lines", ""};
      }
      const auto more = Receive();
      if (!more) {
        return more.error();
      }
      if (!*more) {
        return Error{ErrorCode::kUnavailable, "it hung up at '" + command + "'", ""};
      }
    }
    const std::string answer = got_.substr(0, end);
    got_.erase(0, end + 1);
    return answer.starts_with(begin)
               ? Result<void>()
               : Result<void>(Error{ErrorCode::kUnavailable,
                                    "it said '" + answer + "' to '" + command + "'", ""});
  }

  /// Up to the end, or kMostRasBytes.
  Result<std::string> Rest() {
    while (got_.size() < kMostRasBytes) {
      const auto more = Receive();
      if (!more) {
        return more.error();
      }
      if (!*more) {
        break;
      }
    }
    got_.resize(std::min(got_.size(), kMostRasBytes));
    if (got_.empty()) {
      return Error{ErrorCode::kUnavailable, "it hung up without an answer", ""};
    }
    return std::move(got_);
  }

 private:
  static Error Late() { return {ErrorCode::kTimedOut, "it did not answer in time", ""}; }

  /// False at the end of the stream.
  Result<bool> Receive() {
    std::array<char, 4'096> chunk{};
    while (true) {
      if (!WaitFor(fd_, POLLIN, deadline_)) {
        return Late();
      }
      const ssize_t count = recv(fd_.get(), chunk.data(), chunk.size(), 0);
      if (count >= 0) {
        got_.append(chunk.data(), static_cast<std::size_t>(count));
        return count > 0;
      }
      if (errno != EAGAIN && errno != EINTR) {
        return Error{ErrorCode::kUnavailable, strerrordesc_np(errno), ""};
      }
    }
  }

  UniqueFd fd_;
  Deadline deadline_;
  std::string got_;
};

/// Every process of NCCL on a node listens at the one port, and the kernel chooses among them:
/// where a process that hangs was chosen, the next connection may find another.
Result<RasClient> Greet(const std::string& address, Deadline deadline) {
  constexpr std::chrono::milliseconds kOneAttempt{400};
  while (true) {
    const Deadline attempt = deadline.Within(kOneAttempt);
    auto fd = ConnectRas(address, attempt);
    if (!fd) {
      return std::move(fd).error();
    }
    RasClient client(std::move(fd).value(), attempt);
    const auto greeted = client.Ask("CLIENT PROTOCOL 2", "SERVER PROTOCOL");
    if (greeted) {
      client.Patience(deadline);
      return client;
    }
    if (greeted.error().code != ErrorCode::kTimedOut || deadline.Passed()) {
      return greeted.error();
    }
  }
}

Result<std::string> AskAt(const std::string& address, Deadline deadline) {
  auto greeted = Greet(address, deadline);
  if (!greeted) {
    return std::move(greeted).error();
  }
  RasClient client = std::move(greeted).value();
  // RAS waits that long for ranks that are silent, then tells of the others.
  const auto patience = std::max<std::int64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(deadline.Remaining()).count() / 2, 1);
  const std::string timeout = "TIMEOUT " + std::to_string(patience);
  for (const std::string& command : {timeout, std::string("SET FORMAT json")}) {
    if (const auto asked = client.Ask(command, "OK"); !asked) {
      return asked.error();
    }
  }
  if (const auto sent = client.Send("VERBOSE STATUS"); !sent) {
    return sent.error();
  }
  return client.Rest();
}

}  // namespace

Observed<std::string> AskNcclRas(int version_code, const std::vector<NcclSetting>& settings,
                                 Deadline deadline) {
  if (version_code < kFirstWithJson) {
    return NotLookedAt{"NCCL before 2.28.7 does not tell it as JSON", ""};
  }
  if (SettingOf(settings, "NCCL_RAS_ENABLE", "1") == "0") {
    return NotLookedAt{"NCCL_RAS_ENABLE=0", ""};
  }
  const std::string address = SettingOf(settings, "NCCL_RAS_ADDR", kDefaultAddress);
  auto answer = AskAt(address, deadline);
  if (!answer) {
    Error error = std::move(answer).error();
    error.message = "NCCL's RAS at " + address + ": " + error.message;
    return error;
  }
  return std::move(answer).value();
}

}  // namespace dlc

#include "probes/node/rendezvous/identity.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

namespace dlc {
namespace {

std::optional<std::string> Variable(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): read before any thread or child starts
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Error Missing(const char* name) {
  return {ErrorCode::kInvalidInput, std::string(name) + " is not set",
          "start dlc-probe as torchrun starts a rank: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, "
          "MASTER_PORT"};
}

Result<int> NumberIn(const char* name, const std::string& text, int low, int high) {
  int number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size() || number < low || number > high) {
    return Error{ErrorCode::kInvalidInput,
                 std::string(name) + " is '" + text + "', not a whole number from " +
                     std::to_string(low) + " to " + std::to_string(high),
                 ""};
  }
  return number;
}

constexpr int kMaxRanks = 65'536;

}  // namespace

Result<RankIdentity> RankIdentityFromEnvironment() {
  RankIdentity identity;
  struct Row {
    const char* name;
    int* into;
    int low;
    int high;
    bool required;
  };
  const bool inherits = Variable(kListenFdVariable).has_value();
  const Row rows[] = {
      {"WORLD_SIZE", &identity.size, 1, kMaxRanks, true},
      {"RANK", &identity.rank, 0, kMaxRanks - 1, true},
      {"LOCAL_RANK", &identity.local_rank, 0, kMaxRanks - 1, false},
      {"MASTER_PORT", &identity.master_port, inherits ? 0 : 1, 65'535, true},
  };
  for (const Row& row : rows) {
    const auto text = Variable(row.name);
    if (!text && row.required) {
      return Missing(row.name);
    }
    if (text) {
      const auto number = NumberIn(row.name, *text, row.low, row.high);
      if (!number) {
        return number.error();
      }
      *row.into = *number;
    }
  }
  if (identity.rank >= identity.size) {
    return Error{ErrorCode::kInvalidInput,
                 "RANK " + std::to_string(identity.rank) + " is not below WORLD_SIZE " +
                     std::to_string(identity.size),
                 "ranks count from 0"};
  }
  const auto address = Variable("MASTER_ADDR");
  if (!address || address->empty()) {
    return Missing("MASTER_ADDR");
  }
  identity.master_address = *address;
  if (address->size() > 2 && address->front() == '[' && address->back() == ']') {
    identity.master_address = address->substr(1, address->size() - 2);
  }
  return identity;
}

Result<std::string> TakeRunSecret() {
  std::string secret;
  if (const auto fd_text = Variable(kSecretFdVariable)) {
    const auto fd = NumberIn(kSecretFdVariable, *fd_text, 0, std::numeric_limits<int>::max());
    if (!fd) {
      return fd.error();
    }
    char chunk[512];
    ssize_t count = 0;
    constexpr std::size_t kMaxSecretBytes = 4096;
    while (secret.size() <= kMaxSecretBytes &&
           ((count = read(*fd, chunk, sizeof chunk)) > 0 || (count < 0 && errno == EINTR))) {
      secret.append(chunk, count > 0 ? static_cast<std::size_t>(count) : 0);
    }
    if (count < 0) {
      return Error{ErrorCode::kInvalidInput,
                   std::string(kSecretFdVariable) + " " + *fd_text +
                       " cannot be read: " + strerrordesc_np(errno),
                   ""};
    }
    close(*fd);
  } else if (auto text = Variable(kSecretVariable)) {
    secret = std::move(*text);
  } else {
    return Error{ErrorCode::kInvalidInput, std::string(kSecretVariable) + " is not set",
                 "give every rank the same random text, e.g. $(openssl rand -hex 32), in "
                 "DLC_CHECK_RUN_SECRET or through DLC_CHECK_RUN_SECRET_FD"};
  }
  // NOLINTBEGIN(concurrency-mt-unsafe): before any thread or child starts
  unsetenv(kSecretVariable);
  unsetenv(kSecretFdVariable);
  // NOLINTEND(concurrency-mt-unsafe)
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) {
    secret.pop_back();
  }
  if (secret.size() < kMinSecretBytes) {
    return Error{ErrorCode::kInvalidInput,
                 "the run's secret has " + std::to_string(secret.size()) + " bytes, fewer than " +
                     std::to_string(kMinSecretBytes),
                 "make one with: openssl rand -hex 32"};
  }
  return secret;
}

Result<int> InheritedListenFd() {
  const auto text = Variable(kListenFdVariable);
  if (!text) {
    return -1;
  }
  const auto fd = NumberIn(kListenFdVariable, *text, 0, std::numeric_limits<int>::max());
  if (!fd) {
    return fd.error();
  }
  int listening = 0;
  socklen_t length = sizeof listening;
  if (getsockopt(*fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0 || listening == 0) {
    return Error{ErrorCode::kInvalidInput,
                 std::string(kListenFdVariable) + " " + *text + " is not a listening socket", ""};
  }
  return *fd;
}

}  // namespace dlc

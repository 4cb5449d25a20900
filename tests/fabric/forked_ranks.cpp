#include "tests/fabric/forked_ranks.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace dlc {
namespace {

Error Lost(int rank, const char* why) {
  return Error{ErrorCode::kUnavailable, "rank " + std::to_string(rank) + " " + why, ""};
}

/// Moves exactly `bytes` or says what stopped it. `outgoing` chooses the direction.
Result<void> Move(int fd, bool outgoing, char* memory, std::size_t bytes, int peer,
                  Deadline deadline) {
  while (bytes > 0) {
    pollfd wait{fd, static_cast<short>(outgoing ? POLLOUT : POLLIN), 0};
    const int ready = poll(&wait, 1, static_cast<int>(deadline.Remaining().count()));
    if (ready <= 0) {
      return Lost(peer, "is late at the exchange");
    }
    const ssize_t moved = outgoing ? send(fd, memory, bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
                                   : recv(fd, memory, bytes, MSG_DONTWAIT);
    if (moved <= 0) {
      return Lost(peer, "left the exchange");
    }
    memory += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
  return {};
}

Result<void> SendText(int fd, std::string text, int peer, Deadline deadline) {
  std::uint64_t length = text.size();
  std::string framed(sizeof(length), '\0');
  std::memcpy(framed.data(), &length, sizeof(length));
  framed += text;
  return Move(fd, true, framed.data(), framed.size(), peer, deadline);
}

Result<std::string> ReceiveText(int fd, int peer, Deadline deadline) {
  std::uint64_t length = 0;
  std::array<char, sizeof(length)> header{};
  if (auto moved = Move(fd, false, header.data(), header.size(), peer, deadline); !moved) {
    return moved.error();
  }
  std::memcpy(&length, header.data(), sizeof(length));
  std::string text(length, '\0');
  if (auto moved = Move(fd, false, text.data(), length, peer, deadline); !moved) {
    return moved.error();
  }
  return text;
}

class StarExchange : public Exchange {
 public:
  /// Rank 0: one socket for each other rank, by rank (index 0 unused). Others: one to rank 0.
  StarExchange(int rank, int size, std::vector<int> sockets)
      : rank_(rank), size_(size), sockets_(std::move(sockets)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Result<std::vector<std::string>> AllGather(std::string_view mine, Deadline deadline) override {
    std::vector<std::string> all(static_cast<std::size_t>(size_));
    if (rank_ != 0) {
      if (auto sent = SendText(sockets_[0], std::string(mine), 0, deadline); !sent) {
        return sent.error();
      }
      for (std::string& one : all) {
        auto got = ReceiveText(sockets_[0], 0, deadline);
        if (!got) {
          return got.error();
        }
        one = *got;
      }
      return all;
    }
    all[0] = mine;
    for (int peer = 1; peer < size_; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      auto got = ReceiveText(sockets_[at], peer, deadline);
      if (!got) {
        return got.error();
      }
      all[at] = *got;
    }
    for (int peer = 1; peer < size_; ++peer) {
      for (const std::string& one : all) {
        if (auto sent = SendText(sockets_[static_cast<std::size_t>(peer)], one, peer, deadline);
            !sent) {
          return sent.error();
        }
      }
    }
    return all;
  }

  Result<void> Barrier(Deadline deadline) override {
    auto all = AllGather("", deadline);
    return all ? Result<void>() : Result<void>(all.error());
  }

 private:
  int rank_;
  int size_;
  std::vector<int> sockets_;
};

struct Child {
  pid_t pid = -1;
  int report = -1;
};

/// Never returns: no destructor or exit handler of the test program may run in a child.
[[noreturn]] void RunChild(int rank, int size, std::vector<int> sockets, int report,
                           const std::function<std::string(Exchange&)>& body) {
  // The test framework's handlers would report a child's crash as the program's.
  for (const int number : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGTERM, SIGINT}) {
    signal(number, SIG_DFL);
  }
  StarExchange exchange(rank, size, std::move(sockets));
  const std::string text = body(exchange);
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = write(report, text.data() + written, text.size() - written);
    if (n <= 0) {
      break;
    }
    written += static_cast<std::size_t>(n);
  }
  _exit(0);
}

RankOutcome Collect(const Child& child, Deadline deadline) {
  RankOutcome outcome;
  std::array<char, 4096> buffer{};
  bool killed = false;
  for (;;) {
    pollfd wait{child.report, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(deadline.Remaining().count())) <= 0) {
      kill(child.pid, SIGKILL);
      killed = true;
      break;
    }
    const ssize_t n = read(child.report, buffer.data(), buffer.size());
    if (n <= 0) {
      break;
    }
    outcome.text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(child.report);
  int status = 0;
  waitpid(child.pid, &status, 0);
  outcome.exited = WIFEXITED(status) && !killed;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (killed) {
    outcome.text += " [killed after the limit]";
  }
  return outcome;
}

}  // namespace

std::vector<RankOutcome> RunRanks(int size, const std::function<std::string(Exchange&)>& body,
                                  std::chrono::milliseconds limit) {
  std::vector<int> hub(static_cast<std::size_t>(size), -1);
  std::vector<int> spokes(static_cast<std::size_t>(size), -1);
  for (std::size_t i = 1; i < hub.size(); ++i) {
    std::array<int, 2> pair{};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) != 0) {
      return {};
    }
    hub[i] = pair[0];
    spokes[i] = pair[1];
  }
  std::vector<Child> children;
  for (int rank = 0; rank < size; ++rank) {
    std::array<int, 2> report{};
    if (pipe(report.data()) != 0) {
      return {};
    }
    const pid_t pid = fork();
    if (pid == 0) {
      // Only this rank's ends stay open, so that a dead rank is seen as end of file.
      close(report[0]);
      for (int other = 0; other < size; ++other) {
        const auto at = static_cast<std::size_t>(other);
        if (rank != 0 && hub[at] >= 0) {
          close(hub[at]);
        }
        if (other != rank && spokes[at] >= 0) {
          close(spokes[at]);
        }
      }
      RunChild(rank, size,
               rank == 0 ? hub : std::vector<int>{spokes[static_cast<std::size_t>(rank)]},
               report[1], body);
    }
    close(report[1]);
    children.push_back({pid, report[0]});
  }
  for (std::size_t i = 1; i < hub.size(); ++i) {
    close(hub[i]);
    close(spokes[i]);
  }
  const Deadline deadline = Deadline::After(limit);
  std::vector<RankOutcome> outcomes;
  outcomes.reserve(children.size());
  for (const Child& child : children) {
    outcomes.push_back(Collect(child, deadline));
  }
  return outcomes;
}

std::string Trouble(const std::vector<RankOutcome>& outcomes) {
  if (outcomes.empty()) {
    return "no rank was started";
  }
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const RankOutcome& outcome = outcomes[i];
    if (!outcome.exited || outcome.exit_code != 0 || !outcome.text.empty()) {
      return "rank " + std::to_string(i) + ": " +
             (outcome.exited ? "exit code " + std::to_string(outcome.exit_code) : "killed") + ", " +
             outcome.text;
    }
  }
  return "";
}

}  // namespace dlc

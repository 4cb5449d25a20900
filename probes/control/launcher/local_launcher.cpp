#include "probes/control/launcher/local_launcher.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "probes/control/process/file_descriptor.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

/// Rank 0's socket is made here and inherited, so that nobody can take the port in between, and
/// reached on loopback alone.
Result<FileDescriptor> ListenOnLoopback(int& port) {
  FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  socklen_t length = sizeof address;
  // NOLINTBEGIN(cppcoreguidelines-pro-type-reinterpret-cast): the sockets API
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  // NOLINTEND(cppcoreguidelines-pro-type-reinterpret-cast)
  if (listener.Get() < 0 || bind(listener.Get(), generic, length) != 0 ||
      listen(listener.Get(), SOMAXCONN) != 0 ||
      getsockname(listener.Get(), generic, &length) != 0) {
    return Error{ErrorCode::kUnavailable,
                 std::string("cannot listen on loopback: ") + strerrordesc_np(errno), ""};
  }
  port = ntohs(address.sin_port);
  return listener;
}

Result<FileDescriptor> OpenNetworkNamespace(const std::string& name) {
  if (name.empty()) {
    return FileDescriptor();
  }
  FileDescriptor opened(open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  if (opened.Get() < 0) {
    return Error{errno == EACCES ? ErrorCode::kPermissionDenied : ErrorCode::kNotFound,
                 "cannot open network namespace '" + name + "': " + strerrordesc_np(errno),
                 "`ip netns list` names those there are"};
  }
  return opened;
}

}  // namespace

Result<void> LocalLauncher::StartAll(const std::string& program, int listen_fd, int port) {
  ProbeStart start;
  start.program = program;
  start.plan_json = RankPlanToJson(request_.plan);
  start.secret = MakeRunSecret();
  start.environment = {{"WORLD_SIZE", std::to_string(size_)},
                       {"MASTER_ADDR", options_.master_address},
                       {"MASTER_PORT", std::to_string(port)}};
  int rank = 0;
  for (const LocalRankGroup& group : options_.groups) {
    const auto netns = OpenNetworkNamespace(group.network_namespace);
    if (!netns) {
      return netns.error();
    }
    for (int local = 0; local < group.ranks; ++local, ++rank) {
      start.rank = rank;
      start.netns_fd = netns->Get();
      start.listen_fd = rank == 0 ? listen_fd : -1;
      start.environment["RANK"] = std::to_string(rank);
      start.environment["LOCAL_RANK"] = std::to_string(local);
      auto process = ProbeProcess::Start(start);
      if (!process) {
        return process.error();
      }
      ranks_.push_back({rank, std::move(process).value()});
    }
  }
  return {};
}

Result<void> LocalLauncher::Start(const LaunchRequest& request, Deadline /*deadline*/) {
  request_ = request;
  request_.plan.gather = false;  // we see every rank's output ourselves
  size_ = request.ranks;
  if (options_.groups.empty()) {
    options_.groups = {{size_, ""}};
  }
  int grouped = 0;
  for (const LocalRankGroup& group : options_.groups) {
    grouped += group.ranks;
  }
  if (size_ < 1 || grouped != size_) {
    return Error{
        ErrorCode::kInvalidInput,
        "groups of " + std::to_string(grouped) + " ranks for a run of " + std::to_string(size_),
        ""};
  }
  const auto program = FindProbe(options_.probe);
  if (!program) {
    return program.error();
  }
  int port = options_.master_port;
  FileDescriptor listener;
  if (options_.master_address.empty()) {
    options_.master_address = "127.0.0.1";
    auto listening = ListenOnLoopback(port);
    if (!listening) {
      return listening.error();
    }
    listener = std::move(listening).value();
  }
  auto started = StartAll(*program, listener.Get(), port);
  if (!started) {
    KillAll();
    ranks_.clear();
  }
  return started;
}

}  // namespace dlc

#include "cmd/dlc-probe/faults.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "probes/node/unique_fd.h"

namespace dlc {
namespace {

Error MountFailed(const std::string& what) {
  return {ErrorCode::kPermissionDenied,
          "cannot plant other-directory: " + what + ": " + strerrordesc_np(errno),
          "it needs root, or user namespaces"};
}

bool WriteFile(const char* file, const std::string& text) {
  const UniqueFd fd(open(file, O_WRONLY | O_CLOEXEC));
  return fd && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

/// In a mount namespace of this process alone.
Result<void> MountOver(const std::string& directory, const std::string& over) {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
      return MountFailed("no mount namespace");
    }
    WriteFile("/proc/self/setgroups", "deny");
    if (!WriteFile("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1") ||
        !WriteFile("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1")) {
      return MountFailed("no user map");
    }
  }
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount(directory.c_str(), over.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    return MountFailed("bind " + directory + " over " + over);
  }
  return {};
}

}  // namespace

const PlantedFault* FaultAt(const RankPlan& plan, int rank, const std::string& step) {
  const auto it = std::find_if(plan.faults.begin(), plan.faults.end(), [&](const PlantedFault& f) {
    return f.rank == rank && f.step == step;
  });
  return it == plan.faults.end() ? nullptr : &*it;
}

Result<void> CheckFaults(const RankPlan& plan) {
  for (const PlantedFault& fault : plan.faults) {
    const auto among = [&](const auto& kinds) {
      return std::find(kinds.begin(), kinds.end(), fault.kind) != kinds.end();
    };
    if (!(fault.step.empty() ? among(kFaultsAtStart) : among(kFaultsInStep))) {
      return Error{ErrorCode::kInvalidInput, "unknown fault '" + fault.kind + "'", ""};
    }
  }
  return {};
}

Result<void> PlantInStep(const PlantedFault& fault, const std::string& mount_over) {
  if (fault.kind == "exit") {
    _exit(1);
  }
  if (fault.kind == "crash") {
    // The default action even under a sanitizer.
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  }
  if (fault.kind == "kill") {
    raise(SIGKILL);
  }
  if (fault.kind == "exit-rank") {
    kill(getppid(), SIGKILL);  // and its death is ours
  }
  if (fault.kind == "sleep" || fault.kind == "exit-rank") {
    while (true) {
      pause();
    }
  }
  if (fault.kind == "other-directory") {
    return MountOver(fault.path, mount_over);
  }
  return {};
}

}  // namespace dlc

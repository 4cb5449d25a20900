#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "probes/control/launcher/launcher.h"

namespace dlc {

inline constexpr std::chrono::milliseconds kPlenty{60'000};

/// A fresh directory, gone at the end; it must be empty then.
class SharedDirectory {
 public:
  SharedDirectory() {
    char name[] = "/tmp/dlc-launcher-test-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~SharedDirectory() {
    CHECK(std::filesystem::is_empty(path_));
    std::filesystem::remove_all(path_);
  }
  SharedDirectory(const SharedDirectory&) = delete;
  SharedDirectory& operator=(const SharedDirectory&) = delete;
  const std::string& path() const { return path_; }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

/// A pipe whose reading end sees the end of file when every process that inherited the other is
/// gone.
class Witness {
 public:
  Witness() {
    REQUIRE(pipe(ends_) == 0);
    fcntl(ends_[0], F_SETFD, FD_CLOEXEC);
  }
  ~Witness() {
    close(ends_[0]);
    OnlyOthersHoldIt();
  }
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  void OnlyOthersHoldIt() {
    if (ends_[1] >= 0) {
      close(ends_[1]);
      ends_[1] = -1;
    }
  }
  bool AllGone() {
    OnlyOthersHoldIt();
    char byte = 0;
    alarm(30);  // rather a killed test than one that hangs
    const bool gone = read(ends_[0], &byte, 1) == 0;
    alarm(0);
    return gone;
  }

 private:
  int ends_[2] = {-1, -1};
};

inline LaunchRequest StorageRun(int ranks, const std::string& path,
                                std::vector<PlantedFault> faults = {}) {
  LaunchRequest request;
  request.ranks = ranks;
  request.plan.run_id = "0123456789abcdef";
  request.plan.join_deadline_ms = 20'000;
  request.plan.steps = {
      {"share", "storage-shared", 20'000, "{\"path\":\"" + path + "\",\"visibleWithinMs\":2000}"}};
  request.plan.faults = std::move(faults);
  request.run_directories = {path + "/.dlc-check-0123456789abcdef"};
  return request;
}

/// All events until the end, or until `enough` says so.
inline std::vector<RankEvent> Listen(
    Launcher& launcher,
    const std::function<bool(const RankEvent&)>& enough = [](const RankEvent&) { return false; }) {
  std::vector<RankEvent> events;
  while (true) {
    const auto event = launcher.NextEvent(Deadline::After(kPlenty));
    if (!event) {
      FAIL(event.error().message);
    }
    if (!*event) {
      return events;
    }
    events.push_back(**event);
    if (enough(events.back())) {
      return events;
    }
  }
}

}  // namespace dlc

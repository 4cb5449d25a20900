#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "probes/control/launcher/launcher.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/witness.h"

namespace dlc {

inline constexpr std::chrono::milliseconds kPlenty{60'000};

/// It must be empty at the end.
class SharedDirectory : public TemporaryDirectory {
 public:
  SharedDirectory() = default;
  ~SharedDirectory() { CHECK(Empty()); }
  SharedDirectory(const SharedDirectory&) = delete;
  SharedDirectory& operator=(const SharedDirectory&) = delete;
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

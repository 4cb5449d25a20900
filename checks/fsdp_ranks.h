#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checks/check.h"
#include "checks/policy.h"
#include "probes/observations/fsdp.h"
#include "probes/observations/observations.h"

namespace dlc {

/// Where nothing of a check is to be judged, one finding of `rule` that says why, and true: the
/// policy asks for no sharded models, or, if `asks_none` is not empty, for that reason not for
/// these; or no rank ran. `what`: what ranks would show.
bool JudgeWithoutFsdp(const Observations& observations, const Policy& policy, std::string_view rule,
                      std::string_view what, std::string_view asks_none, Judge& judge);

/// What became of one planted fault on all ranks.
struct FsdpControlSeen {
  bool planted = false;  ///< by some rank
  bool missed = false;   ///< by some rank that planted it
};

/// `by_rank`: runs or proofs, nullptr where a rank has none.
template <class T>
FsdpControlSeen FsdpControlOf(const std::vector<const T*>& by_rank, std::string_view name) {
  FsdpControlSeen seen;
  for (const T* one : by_rank) {
    if (one == nullptr) {
      continue;
    }
    for (const FsdpControl& control : one->controls) {
      if (control.name == name && control.planted) {
        seen.planted = true;
        seen.missed = seen.missed || !control.caught;
      }
    }
  }
  return seen;
}

/// What was planted in a run, to see that its comparison finds it.
struct FsdpPlanted {
  std::vector<std::string> missed;
  std::vector<std::string> absent;  ///< planted by nobody, though it could have been
  std::int64_t planted = 0;

  /// `possible`: there was something to plant it in.
  void Add(const FsdpControlSeen& seen, bool possible, const std::string& told);
};

/// The verdict of `rule`, of all that was seen. The finding is for what a pass tells; nullptr where
/// something was not planted.
Finding* JudgeFsdpPlanted(std::string_view rule, const Subject& subject, const FsdpPlanted& all,
                          const char* source, Judge& judge);

}  // namespace dlc

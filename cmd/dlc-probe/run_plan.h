#pragma once

#include <string>

#include "probes/node/rendezvous/identity.h"
#include "probes/observations/plan.h"

namespace dlc {

/// One rank's run of a plan. Events and the document go to stdout as JSON lines, the document last.
struct RankInvocation {
  RankPlan plan;
  std::string plan_digest;  ///< of the plan's bytes: all ranks must have the same
  RankIdentity identity;
  std::string secret;
  int listen_fd = -1;  ///< rank 0 only; -1: bind MASTER_PORT
  int stop_fd = -1;    ///< readable: stop, clean up, write what there is
};

/// Exit codes of `dlc-probe run`.
inline constexpr int kExitDone = 0;         ///< the document is written; it may hold errors
inline constexpr int kExitUsage = 2;        ///< flags, plan or environment: nothing ran
inline constexpr int kExitNotMet = 3;       ///< the document is written; the ranks did not meet
inline constexpr int kExitInterrupted = 4;  ///< the caller makes 128 + signal of it

int RunPlan(const RankInvocation& invocation);

}  // namespace dlc

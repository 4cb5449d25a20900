#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checks/check.h"
#include "checks/fabric_rows.h"
#include "checks/rank_results.h"
#include "checks/wire_bytes.h"
#include "probes/observations/nccl.h"
#include "probes/observations/plan.h"

namespace dlc {

/// Collectives of NCCL as all ranks ran them in one step of the plan.
struct NcclStep {
  std::string name;
  /// NCCL_NET that the step itself set, so that no other network is taken; empty: the job's own
  /// environment, untouched.
  std::string forced_network;
  std::vector<RankResult<NcclExperiment>> ranks;
  FabricRows rows;  ///< collectives, places, and who kept them from being more

  /// "float32", of its rows; empty when it has none.
  std::string Type() const;
};

/// In the plan's order. A rank that was lost is in every step, as an error.
std::vector<NcclStep> NcclStepsOf(const RankRun& run);
/// Those that ran as the job would.
std::vector<const NcclStep*> AsTheJob(const std::vector<NcclStep>& steps);

/// What was on the wire during a step, of all nodes together.
struct NcclTraffic {
  int nodes = 0;  ///< as NCCL counts: by host name and boot id, or NCCL_HOSTID; 0: not known
  Observed<std::int64_t> tcp_sent_bytes;  ///< without loopback
  /// Several of NCCL's nodes share a network namespace: the kernel takes loopback between them.
  bool loopback_counts = false;
  std::int64_t loopback_sent_bytes = 0;  ///< 0 unless it counts
  Observed<std::int64_t> efa_sent_bytes;
  std::optional<ByteWindow> expected;  ///< of the operations; nullopt: not known
};
NcclTraffic TrafficOf(const NcclStep& step);

/// Where no ranks ran collectives: one finding that says why. True then, and nothing else is to be
/// judged. `demanded`: the policy asks for what they would show.
bool JudgeWithoutNccl(const Observations& observations, const Policy& policy, std::string_view rule,
                      bool demanded, Judge& judge);

/// If the ranks ran no step as the job would, a finding that says why.
void JudgeNoOwnSteps(const RankRun& run, const std::vector<NcclStep>& steps, std::string_view rule,
                     Judge& judge);

}  // namespace dlc

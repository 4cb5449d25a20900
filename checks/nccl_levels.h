#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checks/check.h"
#include "checks/nccl_evidence.h"
#include "checks/transport_demand.h"
#include "probes/observations/nccl.h"

namespace dlc {

/// Rules of nccl-transport about single ranks.
inline constexpr std::string_view kTransportLevel = "nccl-transport/level";
inline constexpr std::string_view kGpuDirectRule = "nccl-transport/gpu-direct";
inline constexpr std::string_view kNicsRule = "nccl-transport/nics";

/// One rank, what is asked of it, and what its evidence comes to.
struct RankTransport {
  int rank = 0;
  std::string name;  ///< "rank 2 on gpu-worker-1"
  std::string type;  ///< instance type, empty where it is not known
  TransportEvidence evidence;
  TransportDemand demand;
  std::optional<std::int64_t> usable_devices;  ///< EFA devices in the rank's pod
  TransportVerdict verdict;
};

/// Whether each rank reaches the level that is asked for. A rank that reaches EFA shows that there
/// is one: then the others are asked for it too. `rule`: whose finding it is.
void JudgeLevels(std::vector<RankTransport> ranks, const Subject& subject, Judge& judge,
                 std::string_view rule = kTransportLevel);
void JudgeGpuDirect(const std::vector<RankTransport>& ranks, const Policy& policy,
                    const Subject& subject, Judge& judge);
/// Emits nothing for ranks whose plugin did not start.
void JudgeNics(const std::vector<RankTransport>& ranks, Judge& judge);

/// The same of a run that somebody else made: one log a rank.
void JudgeLoggedTransport(const std::vector<NcclLogFile>& logs, const Policy& policy, Judge& judge);

}  // namespace dlc

#pragma once

#include <string>
#include <vector>

#include "probes/node/fabric/endpoint.h"
#include "probes/observations/fabric.h"

namespace dlc {

/// What each rank tells the others before the first message.
struct FabricIntroduction {
  Error error;          ///< of opening the endpoint; no message when that worked
  std::string dialect;  ///< FabricEndpoint::Dialect
  std::string address;  ///< FabricEndpoint::Name
  FabricRank place;     ///< rank is not sent

  std::string Pack() const;
  static Result<FabricIntroduction> Unpack(std::string_view packed);
};

/// This process: host name, boot id, network namespace, CPUs.
FabricRank ObservePlace();

/// Some machine has more of the ranks than CPUs that they may use.
bool IsOversubscribed(const std::vector<FabricRank>& ranks);
/// Distinct boot ids; ranks without one count as a machine each.
int CountMachines(const std::vector<FabricRank>& ranks);

/// The first rank that could not open its side or does not speak rank 0's dialect, as an error.
Result<void> CheckIntroductions(const std::vector<FabricIntroduction>& introductions);

}  // namespace dlc

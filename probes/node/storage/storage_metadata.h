#pragma once

#include <string>
#include <vector>

#include "probes/node/exchange.h"
#include "probes/node/process/experiment.h"
#include "probes/observations/deadline.h"
#include "probes/observations/storage.h"

namespace dlc {

struct MetadataTask {
  std::string directory;  ///< exists; each rank makes "meta-<rank>" there, which stays, empty
  int files = 0;          ///< of each of the two kinds
  double seconds = 0;     ///< of each phase at most
  int listed_rank = 0;    ///< whose directory we list: another node's where there is one
  bool other_node = false;
};

/// All ranks create, write, list and delete small files at the same time, phase by phase. After a
/// failure of this rank its later phases are left out, but it meets the others to the end. An Error
/// is of the exchange alone.
Result<std::vector<StorageMetadataPhase>> TimeMetadata(const MetadataTask& task, Exchange& exchange,
                                                       Deadline work, Deadline deadline,
                                                       const Progress& progress);

}  // namespace dlc

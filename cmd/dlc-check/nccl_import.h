#pragma once

#include <string>

#include "probes/observations/observations.h"
#include "probes/observations/result.h"

namespace dlc {

/// What somebody else's run left, to be judged instead of ranks.
struct NcclImports {
  std::string logs;   ///< --from-nccl-log: a directory with a log for each rank, or one log
  std::string tests;  ///< --from-nccl-tests: text or JSON

  bool empty() const { return logs.empty() && tests.empty(); }
};

/// Puts them into the observations, each file's digest into the run's inputs, and says why no ranks
/// run. kInvalidInput for a file that is none of the kind.
Result<void> ReadNcclImports(const NcclImports& imports, Observations& observations);

}  // namespace dlc

#pragma once

#include <string>
#include <vector>

#include "probes/observations/observations.h"
#include "probes/observations/result.h"

namespace dlc {

/// `--from-checkpoint`: existing checkpoint directories, each as a pod or node shows it, to be
/// judged instead of what ranks see.
struct CheckpointImports {
  std::vector<std::string> directories;

  bool empty() const { return directories.empty(); }
};

/// Looks at them. kInvalidInput for one that is not there, is no directory, or is given twice: a
/// directory would agree with itself. What else cannot be seen is an observation.
Result<void> ReadCheckpointImports(const CheckpointImports& imports, Observations& observations);

}  // namespace dlc

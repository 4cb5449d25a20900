#pragma once

#include <string>

#include "probes/node/exchange.h"
#include "probes/node/process/experiment.h"
#include "probes/observations/deadline.h"
#include "probes/observations/framework.h"
#include "probes/observations/plan.h"
#include "probes/observations/ranks.h"
#include "probes/observations/result.h"

namespace dlc {

/// The step's surroundings.
struct FrameworkContext {
  const FsdpFrameworkParameters& parameters;
  const std::string& run_id;
  const RankFacts& me;
  /// Where rank 0 is for the others, as of the rendezvous.
  const std::string& address;
  /// Planted on this rank (framework_job.h); else empty.
  const std::string& fault;
  Exchange& exchange;
  Deadline deadline;
  const Progress& progress;
};

/// Trains with the framework of the python that the parameters name, in a process per rank, and
/// with a path once more in other processes, from the checkpoint of the first. What becomes of them
/// is in the processes. All ranks together; an error where none was started.
Result<FrameworkExperiment> ObserveFramework(const FrameworkContext& context);

/// train_framework.py, as it was when this program was built.
const std::string& FrameworkProgram();

}  // namespace dlc

#pragma once

#include <string>
#include <vector>

#include "probes/observations/nccl_tests.h"

namespace dlc {

/// Why the numbers of a run of nccl-tests do not tell how fast nodes talk to each other, or are not
/// to be believed; empty: they do. Several tests side by side, each with a rank 0 of its own, are
/// how a build without MPI turns into a wrong number.
std::vector<std::string> ProblemsOf(const NcclTestsOutput& output);

}  // namespace dlc

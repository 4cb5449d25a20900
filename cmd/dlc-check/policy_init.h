#pragma once

#include <string>

#include "probes/observations/result.h"

namespace dlc {

/// A policy to begin with, for `nodes` worker pods on that EC2 instance type, as commented YAML:
/// what AWS promises of the type, and a bandwidth as a share of its line rate where there is one.
/// kInvalidInput for a type that the table does not hold, naming the nearest.
Result<std::string> InitialPolicy(const std::string& instance_type, int nodes);

}  // namespace dlc

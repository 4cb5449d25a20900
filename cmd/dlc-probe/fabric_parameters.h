#pragma once

#include <string>

#include "probes/observations/result.h"

namespace dlc {

/// Whether a step of the kind can be done with these parameters; names what is out of range.
Result<void> CheckFabricPairsParameters(const std::string& parameters);
Result<void> CheckFabricCollectivesParameters(const std::string& parameters);

}  // namespace dlc

#pragma once

#include <string>
#include <vector>

#include "probes/observations/plan.h"
#include "probes/observations/result.h"

namespace dlc {

/// The layouts that a plan may name: those of ShardLayout, and "hsdp", FSDP2's in several copies.
const std::vector<std::string>& FsdpLayoutNames();

/// Whether the experiment can be done with these; names what is out of range.
Result<void> CheckFsdpLayout(const FsdpLayoutParameters& parameters);

}  // namespace dlc

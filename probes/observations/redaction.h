#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/observations.h"

namespace dlc {

/// What stands where a secret stood.
inline constexpr std::string_view kRedacted = "(redacted)";

/// What was taken out of the observations, for people: "environment variable HF_TOKEN (3 values)".
/// Empty when nothing was.
std::vector<std::string> RedactionsOf(const Observations& observations);

}  // namespace dlc

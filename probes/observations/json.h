#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "probes/observations/observations.h"
#include "probes/observations/result.h"

namespace dlc {

/// apiVersion of the document; a reader refuses any other.
inline constexpr std::string_view kObservationsApiVersion = "dlc-check/observations/v1";

/// One JSON document, keys in declaration order. Invalid UTF-8 in host names and logs becomes
/// U+FFFD. indent < 0: one line.
std::string ObservationsToJson(const Observations& observations, int indent);

/// Strict: unknown, missing and duplicate keys and wrong types are kInvalidInput naming the JSON
/// path. Reads at most `max_bytes`.
Result<Observations> ParseObservations(std::string_view json, std::size_t max_bytes = 256U << 20U);

}  // namespace dlc

#pragma once

#include <string_view>

#include "probes/observations/result.h"

namespace dlc {

/// JSON Schema (draft-07) of a whole statement of ours: the bytes of preflight-v1.schema.json.
std::string_view PreflightSchema();

/// kInvalidInput with the first place that breaks the schema. `json` has passed ParseStrictJson.
Result<void> MatchPreflightSchema(std::string_view json);

}  // namespace dlc

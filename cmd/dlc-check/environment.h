#pragma once

namespace dlc {

/// getenv. The one place that reads the environment of dlc-check; nullptr when unset.
const char* EnvironmentVariable(const char* name);

}  // namespace dlc

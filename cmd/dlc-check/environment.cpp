#include "cmd/dlc-check/environment.h"

#include <cstdlib>

namespace dlc {

const char* EnvironmentVariable(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing in this program sets the environment
  return std::getenv(name);
}

}  // namespace dlc

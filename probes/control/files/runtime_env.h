#pragma once

#include "probes/control/files/fields.h"
#include "probes/observations/ray.h"

namespace dlc {

/// A runtime_env in every shape that Ray accepts for pip, uv, conda, container and image_uri
/// (python/ray/_private/runtime_env/validation.py). A requirements or environment file that is
/// only named cannot be read here: it becomes an option entry. Values of variables whose name looks
/// secret become "(redacted)".
RuntimeEnv ReadRuntimeEnv(const Fields& fields);

/// Some key is one that a runtime_env has.
bool LooksLikeRuntimeEnv(const DocNode& node);

}  // namespace dlc

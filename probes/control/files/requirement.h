#pragma once

#include <string>
#include <string_view>

#include "probes/observations/ray.h"

namespace dlc {

/// One line of a requirements list, as pip and uv read it: "name[extra]>=1,<2; marker",
/// "name @ URL", a URL or path (the name from #egg= or from a wheel's file name, where they tell),
/// or an option ("--extra-index-url X", "-r file", "-e ."). Text that is none of these keeps an
/// empty name. Credentials in URLs are removed from `text`.
RequestedPackage ParseRequirement(std::string_view line, std::string_view installer);

/// One entry of a conda environment's dependencies: "name=version=build", "name>=1",
/// "channel::name".
RequestedPackage ParseCondaDependency(std::string_view text);

}  // namespace dlc

#pragma once

#include <string>
#include <string_view>

#include "probes/documents/tree_builder.h"

namespace dlc {

/// Both feed `builder` until the end of `bytes` or the first problem, which is then in the builder.
/// Precondition: `bytes` is UTF-8 without byte order mark, NUL or other control characters.
void ReadJson(std::string_view bytes, TreeBuilder& builder);
void ReadYaml(std::string_view bytes, TreeBuilder& builder);

}  // namespace dlc

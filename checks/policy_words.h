#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/documents/strict_map.h"

namespace dlc {

/// A list of distinct words, each of them one that is known; an empty list is a mistake.
void ReadPolicyWords(StrictMap& map, std::string_view key, const std::vector<std::string>& allowed,
                     std::vector<std::string>& out);

}  // namespace dlc

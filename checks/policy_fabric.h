#pragma once

#include <string>

#include "checks/policy.h"
#include "probes/documents/node.h"

namespace dlc {

/// The policy's part `fabric`, strictly; `where` names it in messages ("fabric", "policy.fabric").
Result<void> ReadFabricPolicy(const std::string& file, const DocNode& node,
                              const std::string& where, FabricPolicy& fabric);

}  // namespace dlc

#pragma once

#include <string>

#include "checks/policy.h"
#include "probes/documents/node.h"

namespace dlc {

/// The policy's part `gpu`, strictly; `where` names it in messages ("gpu", "policy.gpu").
Result<void> ReadGpuPolicy(const std::string& file, const DocNode& node, const std::string& where,
                           GpuPolicy& gpu);

}  // namespace dlc

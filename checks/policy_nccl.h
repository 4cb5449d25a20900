#pragma once

#include <string>

#include "checks/policy.h"
#include "probes/documents/node.h"
#include "probes/observations/result.h"

namespace dlc {

/// The map at `nccl` of a policy; `where` names it in messages. Errors carry file and line.
Result<void> ReadNcclPolicy(const std::string& file, const DocNode& node, const std::string& where,
                            NcclPolicy& nccl);

}  // namespace dlc

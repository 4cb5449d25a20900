#pragma once

#include <string>

#include "checks/policy.h"
#include "probes/documents/node.h"
#include "probes/observations/result.h"

namespace dlc {

/// The map at `fsdp` of a policy; `where` names it in messages. Errors carry file and line.
Result<void> ReadFsdpPolicy(const std::string& file, const DocNode& node, const std::string& where,
                            FsdpPolicy& fsdp);
/// The same of the map at `checkpoint`: the models and the training are those.
Result<void> ReadCheckpointPolicy(const std::string& file, const DocNode& node,
                                  const std::string& where, CheckpointPolicy& checkpoint);

}  // namespace dlc

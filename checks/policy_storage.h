#pragma once

#include <string>

#include "checks/policy.h"
#include "probes/documents/node.h"
#include "probes/observations/result.h"

namespace dlc {

/// The map at `storage` of a policy; `where` names it in messages. Errors carry file and line.
Result<void> ReadStoragePolicy(const std::string& file, const DocNode& node,
                               const std::string& where, StoragePolicy& storage);

}  // namespace dlc

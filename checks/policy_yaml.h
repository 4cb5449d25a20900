#pragma once

#include <string>
#include <string_view>

#include "checks/policy.h"
#include "probes/documents/node.h"
#include "probes/observations/result.h"

namespace dlc {

/// Reads `kind: Policy`, or the `policy:` part of `kind: Config` (an absent part is the default
/// policy). Strict: unknown or duplicate keys, wrong types, unknown rule ids and impossible values
/// are kInvalidInput with file and line.
Result<Policy> ParsePolicy(std::string_view bytes, const std::string& file);
/// The body of a policy (everything below apiVersion/kind), for an inline `policy:`.
Result<Policy> ReadPolicyNode(const std::string& file, const DocNode& node);

/// The text of the policy that applies when none is given.
inline constexpr std::string_view kDefaultPolicyText = "apiVersion: dlc-check/v1\nkind: Policy\n";

}  // namespace dlc

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checks/policy.h"
#include "probes/documents/node.h"
#include "probes/observations/result.h"

namespace dlc {

/// Of policy and config files. Another version would be read by rules that are not ours to guess.
inline constexpr std::string_view kFileApiVersion = "dlc-check/v1";

/// The root of a file of ours: exactly one document, a map with `apiVersion: dlc-check/v1` and a
/// `kind` that is one of `kinds`. Its other keys are not looked at.
Result<DocNode> ParseVersionedFile(std::string_view bytes, const std::string& file,
                                   const std::vector<std::string>& kinds);

/// Reads `kind: Policy`, or the `policy:` part of `kind: Config` (an absent part is the default
/// policy). Strict: unknown or duplicate keys, wrong types, unknown rule ids and impossible values
/// are kInvalidInput with file and line.
Result<Policy> ParsePolicy(std::string_view bytes, const std::string& file);
/// The body of a policy (everything but apiVersion and kind), for an inline `policy:`. A null node
/// is the default policy.
Result<Policy> ReadPolicyNode(const std::string& file, const DocNode& node);

/// The text of the policy that applies when none is given.
inline constexpr std::string_view kDefaultPolicyText = "apiVersion: dlc-check/v1\nkind: Policy\n";

}  // namespace dlc

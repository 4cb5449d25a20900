#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dlc {

/// One challenge of a WWW-Authenticate header (RFC 9110, 11.6.1).
struct Challenge {
  std::string scheme;                             ///< lower case: "bearer", "basic"
  std::map<std::string, std::string> parameters;  ///< names in lower case, values unquoted

  /// Empty when absent.
  std::string Parameter(const std::string& name) const;

  bool operator==(const Challenge&) const = default;
};

/// All challenges of one header value, in order. Stops at the first malformed byte and returns what
/// stood before it.
std::vector<Challenge> ParseChallenges(std::string_view header);

}  // namespace dlc

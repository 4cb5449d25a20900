#pragma once

#include <string>
#include <string_view>

#include "probes/observations/result.h"

namespace dlc {

/// An absolute http or https URL.
struct Url {
  std::string text;    ///< whole, as sent. Its query may carry a signature: show ShownUrl instead
  std::string scheme;  ///< "http" or "https"
  std::string host;    ///< lower case; an IPv6 address without brackets; IPv4 in dotted form
  int port = 0;        ///< the scheme's own when the text names none

  bool operator==(const Url&) const = default;
};

/// kInvalidInput for other schemes, user names or passwords inside, blanks, or no host.
Result<Url> ParseUrl(std::string_view text);

/// `reference` (absolute or relative) as seen from `base`: the Location of a redirect.
Result<Url> ResolveUrl(const Url& base, std::string_view reference);

/// Appends "name=value", percent-encoded, to the query.
Result<Url> WithQuery(const Url& url, std::string_view name, std::string_view value);

/// Everything but letters, digits and "-._~" as %XX: one segment of a path, one value of a form.
std::string PercentEncode(std::string_view text);

/// A credential for one origin must not reach another: scheme, host and port.
bool SameOrigin(const Url& a, const Url& b);

/// 127.0.0.0/8, ::1 or "localhost" (which curl resolves to loopback without asking DNS).
bool IsLoopback(const Url& url);

/// For people and logs: no query, no fragment.
std::string ShownUrl(const Url& url);

}  // namespace dlc

#pragma once

#include <functional>
#include <string>

#include "probes/observations/deadline.h"
#include "probes/observations/observed.h"
#include "probes/observations/result.h"

namespace dlc {

/// Never logged, never part of an Error.
struct RayToken {
  std::string value;  ///< empty: there is none
  std::string where;  ///< "RAY_AUTH_TOKEN", "'FILE' (RAY_AUTH_TOKEN_PATH)"
};

/// Where Ray looks for its token; the caller reads the environment.
struct RayTokenSources {
  std::string token;       ///< $RAY_AUTH_TOKEN
  std::string token_path;  ///< $RAY_AUTH_TOKEN_PATH
  std::string home;        ///< $HOME
  /// Asked where none of these has one; may be empty. Not looked at: a right is missing.
  std::function<Observed<RayToken>(Deadline)> last_resort = nullptr;
};

/// `text` without blanks around it; an Error, which does not hold it, when it fits into no header.
Result<RayToken> CheckRayToken(const std::string& text, std::string where);

/// In Ray's own order: $RAY_AUTH_TOKEN, the file of $RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token. Blanks
/// around it are cut off. A file that was named and cannot be read, and a token that fits into no
/// header, are Errors (kPermissionDenied): to go on without would hide what the user meant.
Result<RayToken> FindRayToken(const RayTokenSources& sources);

}  // namespace dlc

#pragma once

#include <string>
#include <string_view>

#include "probes/observations/redaction.h"

namespace dlc {

/// TOKEN, SECRET, PASSWORD, KEY or CREDENTIAL is part of the name, in any case. Values of such
/// variables never reach the observations: they travel in evidence.
bool LooksSecret(std::string_view name);

/// `text` with the user part of every URL replaced: "https://user:pass@host" becomes
/// "https://(redacted)@host".
std::string WithoutUrlCredentials(std::string_view text);

}  // namespace dlc

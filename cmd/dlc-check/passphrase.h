#pragma once

#include <string>

#include "probes/observations/result.h"

namespace dlc {

/// Asks on the controlling terminal, without echo. kInvalidInput with a hint where there is none
/// (CI, cron).
Result<std::string> AskPassphraseOnTerminal(const std::string& key_name);

}  // namespace dlc

#pragma once

#include <string_view>

namespace dlc {

/// Whether to write colours to a stream. The first that speaks decides:
///   1. `flag`: "always" or "never" (any other text is "auto");
///   2. NO_COLOR, set and not empty: no (https://no-color.org);
///   3. CLICOLOR_FORCE, set, not empty and not "0": yes (https://bixense.com/clicolors);
///   4. FORCE_COLOR, set and not empty: "0" and "false" no, else yes;
///   5. a terminal whose TERM is set and not "dumb": yes; else no.
/// The last four arguments are values of environment variables, nullptr when unset.
bool UseColor(std::string_view flag, bool is_terminal, const char* no_color, const char* term,
              const char* clicolor_force, const char* force_color);

}  // namespace dlc

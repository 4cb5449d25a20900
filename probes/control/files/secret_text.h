#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/redaction.h"

namespace dlc {

/// TOKEN, SECRET, PASSWORD, KEY or CREDENTIAL is part of the name, in any case. Values of such
/// variables never reach the observations: they travel in evidence.
bool LooksSecret(std::string_view name);

/// Of an option ("--hf-token", "redis-password") or a variable: upper case names as LooksSecret,
/// others where one of their words is such a word: "--max-tokens" and "--tokenizer" are none.
bool NamesSecret(std::string_view name);

/// `text` with the user part and the query of every URL replaced: "https://user:pass@host/a?b=c"
/// becomes "https://(redacted)@host/a?(redacted)".
std::string WithoutUrlCredentials(std::string_view text);

/// A command line, or what else may hold one, without the values of options, assignments, headers
/// and JSON keys whose names look secret, and as WithoutUrlCredentials. References to variables
/// ("$HF_TOKEN") stay, and so does all that is no value: checks look for commands in it.
std::string WithoutSecrets(std::string_view text);

/// The arguments of one program: a value may be an argument of its own ("--token", "VALUE").
void RemoveSecrets(std::vector<std::string>& command, std::vector<std::string>& args);

}  // namespace dlc

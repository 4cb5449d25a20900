#pragma once

#include <string>
#include <string_view>

namespace dlc {

/// The same JSON document with every unsafe character that JSON lets stand (DEL, C1 controls,
/// bidirectional overrides) as \u escape: it parses to the same values and is safe to show.
std::string ShowableJson(std::string json);

/// Puts `spaces` blanks before every line but the first, to nest an indented document.
std::string IndentJson(std::string_view json, int spaces);

}  // namespace dlc

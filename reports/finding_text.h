#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "reports/render.h"
#include "reports/summary.h"

namespace dlc {

/// Subjects of a group that are named when not verbose.
inline constexpr std::size_t kNamedSubjects = 5;

/// "FAILED", "UNKNOWN", "WARN", "N/A", "PASSED".
std::string_view StandingWord(Standing standing);
/// The word, "\x1b[..m" around it when `color`.
std::string ColoredWord(Standing standing, std::string_view word, bool color);

/// Appends one group as lines: its word and rule, then subject, expected, actual, reason, hint and
/// notes, as far as it has them. Neutralised; ends with a newline.
void AppendGroup(std::string& out, const FindingGroup& group, const TextOptions& options);

/// Appends "  label     value", wrapped and neutralised; ends with a newline.
void AppendField(std::string& out, std::string_view label, std::string_view value, int width);

}  // namespace dlc

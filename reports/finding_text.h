#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "reports/render.h"
#include "reports/summary.h"

namespace dlc {

/// Subjects of a group that are named when not verbose.
inline constexpr std::size_t kNamedSubjects = 5;

/// "FAILED", "UNKNOWN", "WARN", "N/A", "PASS": "PASSED" is said of a whole run only.
std::string_view StandingWord(Standing standing);
/// `word`, "\x1b[..m" of the standing around it when `color`.
std::string ColoredWord(Standing standing, std::string_view word, bool color);
/// Appends the standing's word, and the title (ours or neutralised) where values start.
void AppendHeading(std::string& out, Standing standing, std::string_view title,
                   const TextOptions& options);

/// Appends one group as lines: its word and rule, then subject, expected, actual, reason, hint and
/// notes, as far as it has them. Neutralised; ends with a newline.
void AppendGroup(std::string& out, const FindingGroup& group, const TextOptions& options,
                 std::string_view how_to_see_all = "; -v shows all");

/// Appends "  label     value", wrapped and neutralised; ends with a newline.
void AppendField(std::string& out, std::string_view label, std::string_view value, int width);

}  // namespace dlc

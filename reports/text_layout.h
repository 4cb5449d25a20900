#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dlc {

/// Columns that a terminal gives to the text: 2 for East Asian wide characters and emoji, 0 for
/// combining marks. Precondition: PlainText.
int DisplayWidth(std::string_view text);

/// The start of `text` that fits into `width` columns; "..." at its end when something was cut.
std::string CutToWidth(std::string_view text, int width);

/// `text` and blanks up to `width` columns.
std::string PadToWidth(std::string_view text, int width);

/// Words of `text`; what stands between backticks is one word, so that a command can be copied.
std::vector<std::string> Words(std::string_view text);

/// Appends the words, with line breaks so that lines stay within `width` columns where words allow:
/// a word is never cut. The cursor stands at column `indent`, and so do the following lines. Ends
/// without a newline. width <= 0: one line.
void AppendWrapped(std::string& out, const std::vector<std::string>& words, int indent, int width);

}  // namespace dlc

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dlc {

/// One code point of UTF-8. Bytes that are none read as U+FFFD, one byte at a time.
struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;
  bool valid = true;
};
/// Precondition: at < text.size().
CodePoint CodePointAt(std::string_view text, std::size_t at);

/// True for what changes how its neighbours look or are read instead of being seen itself: control
/// characters (terminal escapes), bidirectional overrides, zero-width and tag characters, and
/// U+FFFE/U+FFFF, which XML forbids.
bool IsUnsafe(char32_t code);

/// Text from outside, on one line and fit to be shown: unsafe characters become visible escapes
/// ("\n", "\x1b", "\u202e"), invalid UTF-8 becomes U+FFFD. The result is valid UTF-8.
std::string PlainText(std::string_view untrusted);

}  // namespace dlc

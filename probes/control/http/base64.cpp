#include "probes/control/http/base64.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace dlc {

std::string Base64Encode(std::string_view bytes) {
  // EVP_EncodeBlock writes a zero byte after the text.
  std::vector<unsigned char> text((bytes.size() + 2) / 3 * 4 + 1);
  const std::vector<unsigned char> in(bytes.begin(), bytes.end());
  const int size = EVP_EncodeBlock(text.data(), in.data(), static_cast<int>(in.size()));
  return {text.begin(), text.begin() + size};
}

std::optional<std::string> Base64Decode(std::string_view text) {
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  // EVP_DecodeBlock would skip blanks at both ends and count padding as zero bytes.
  const bool clean =
      std::all_of(text.begin(), text.end() - static_cast<std::ptrdiff_t>(padding),
                  [](unsigned char c) { return std::isalnum(c) != 0 || c == '+' || c == '/'; });
  if (text.size() % 4 != 0 || !clean) {
    return std::nullopt;
  }
  const std::vector<unsigned char> in(text.begin(), text.end());
  std::vector<unsigned char> out(text.size() / 4 * 3);
  const int size = EVP_DecodeBlock(out.data(), in.data(), static_cast<int>(in.size()));
  if (size < 0) {
    return std::nullopt;
  }
  return std::string(out.begin(), out.begin() + size - static_cast<std::ptrdiff_t>(padding));
}

}  // namespace dlc

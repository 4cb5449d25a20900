#include "probes/observations/package_name.h"

namespace dlc {

std::string NormalizePackageName(std::string_view name) {
  std::string normal;
  normal.reserve(name.size());
  for (const char c : name) {
    if (c == '-' || c == '_' || c == '.') {
      if (!normal.ends_with('-')) {
        normal += '-';
      }
    } else {
      normal += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return normal;
}

}  // namespace dlc

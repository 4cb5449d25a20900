#include "checks/driver_version.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dlc {
namespace {

/// Empty when `text` is no version. Numbers have nine digits at most, so that they fit.
std::vector<long> DriverParts(std::string_view text) {
  std::vector<long> parts;
  while (true) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0 || digits > 9) {
      return {};
    }
    long number = 0;
    for (const char digit : text.substr(0, digits)) {
      number = number * 10 + (digit - '0');
    }
    parts.push_back(number);
    text.remove_prefix(digits);
    if (text.empty()) {
      return parts;
    }
    if (text.front() != '.') {
      return {};
    }
    text.remove_prefix(1);
  }
}

}  // namespace

bool IsDriverVersion(std::string_view text) {
  const std::size_t parts = DriverParts(text).size();
  return parts == 2 || parts == 3;
}

bool IsOlderDriver(std::string_view a, std::string_view b) {
  return DriverParts(a) < DriverParts(b);
}

}  // namespace dlc

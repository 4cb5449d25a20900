#include "checks/package_names.h"

#include <algorithm>
#include <array>

namespace dlc {
namespace {

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool IsSeparator(char c) {
  return c == '-' || c == '_' || c == '.';
}

bool IsNameChar(char c) {
  const char low = Lower(c);
  return (low >= 'a' && low <= 'z') || (low >= '0' && low <= '9') || IsSeparator(low);
}

bool IsName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsNameChar);
}

/// The distribution of "torch-2.13.0+cu130-cp313-cp313-linux_x86_64.whl": up to the first -, since
/// wheel names escape - to _.
std::optional<std::string> WheelName(std::string_view text) {
  const std::string_view path = text.substr(0, text.find_first_of("#?; "));
  if (!path.ends_with(".whl")) {
    return std::nullopt;
  }
  const auto slash = path.rfind('/');
  const std::string_view file = slash == std::string_view::npos ? path : path.substr(slash + 1);
  const std::string_view name = file.substr(0, file.find('-'));
  if (!IsName(name)) {
    return std::nullopt;
  }
  return NormalizePackageName(name);
}

std::optional<std::string> EggName(std::string_view text) {
  constexpr std::string_view kMark = "#egg=";
  const auto at = text.find(kMark);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view rest = text.substr(at + kMark.size());
  const std::string_view name = rest.substr(0, rest.find_first_of("&[; "));
  if (!IsName(name)) {
    return std::nullopt;
  }
  return NormalizePackageName(name);
}

}  // namespace

bool PackageNameMatches(std::string_view pattern, std::string_view name) {
  const std::string normal = NormalizePackageName(name);
  if (pattern.ends_with('*')) {
    return normal.starts_with(NormalizePackageName(pattern.substr(0, pattern.size() - 1)));
  }
  return normal == NormalizePackageName(pattern);
}

const std::string* FindPattern(const std::vector<std::string>& patterns, std::string_view name) {
  const auto it = std::find_if(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return PackageNameMatches(pattern, name);
  });
  return it == patterns.end() ? nullptr : &*it;
}

std::optional<std::string> InstalledName(const RequestedPackage& package) {
  if (package.is_option) {
    return std::nullopt;
  }
  if (!package.name.empty()) {
    return NormalizePackageName(package.name);
  }
  const auto wheel = WheelName(package.text);
  return wheel ? wheel : EggName(package.text);
}

bool IsDirectReference(const RequestedPackage& package) {
  const std::string& text = package.text;
  return package.name.empty() || text.find("://") != std::string::npos ||
         text.find('@') != std::string::npos || WheelName(text).has_value();
}

bool OptionBringsPackages(std::string_view option) {
  // "-rfile", "-r file", "--requirement=file": pip takes each of them.
  constexpr std::array<std::string_view, 2> kLongForms = {"--requirement", "--editable"};
  const bool is_long = std::any_of(kLongForms.begin(), kLongForms.end(),
                                   [&](std::string_view name) { return option.starts_with(name); });
  return is_long || option.starts_with("-r") || option.starts_with("-e");
}

std::string WithoutCredentials(std::string_view text) {
  std::string clean;
  std::size_t from = 0;
  for (auto scheme = text.find("://"); scheme != std::string_view::npos;
       scheme = text.find("://", from)) {
    const std::size_t authority = scheme + 3;
    const std::size_t end = std::min(text.find_first_of("/?# ", authority), text.size());
    const auto at = text.substr(authority, end - authority).rfind('@');
    clean += text.substr(from, authority - from);
    from = authority;
    if (at != std::string_view::npos) {
      clean += "***";
      from += at;
    }
  }
  clean += text.substr(from);
  return clean;
}

}  // namespace dlc

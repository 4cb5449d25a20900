#include "probes/control/files/requirement.h"

#include <algorithm>
#include <optional>

#include "probes/control/files/secret_text.h"
#include "probes/observations/package_name.h"

namespace dlc {
namespace {

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

std::string_view Trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string WithoutSpaces(std::string_view text) {
  std::string compact(text);
  std::erase_if(compact, [](char c) { return c == ' ' || c == '\t'; });
  return compact;
}

/// "name", and what follows it.
struct Named {
  std::string name;
  std::string_view rest;
};
std::optional<Named> LeadingName(std::string_view text) {
  const auto* const end = std::find_if_not(text.begin(), text.end(), IsNameChar);
  const auto length = static_cast<std::size_t>(end - text.begin());
  if (length == 0 || text[0] == '-' || text[0] == '.') {
    return std::nullopt;
  }
  return Named{NormalizePackageName(text.substr(0, length)), Trim(text.substr(length))};
}

bool IsLocation(std::string_view text) {
  return text.find("://") != std::string_view::npos || text.starts_with('.') ||
         text.starts_with('/') || text.starts_with('~') ||
         (text.ends_with(".whl") && text.find(' ') == std::string_view::npos);
}

/// #egg=NAME, or NAME-VERSION-... of a wheel's file name (PEP 427).
void NameFromLocation(std::string_view location, RequestedPackage& package) {
  const auto fragment = location.find('#');
  if (fragment != std::string_view::npos) {
    const auto egg = location.find("egg=", fragment);
    if (egg != std::string_view::npos) {
      if (const auto named = LeadingName(location.substr(egg + 4))) {
        package.name = named->name;
      }
      return;
    }
    location = location.substr(0, fragment);
  }
  location = location.substr(0, location.find('?'));
  const auto slash = location.rfind('/');
  const auto file = slash == std::string_view::npos ? location : location.substr(slash + 1);
  const auto dash = file.find('-');
  if (file.ends_with(".whl") && dash != std::string_view::npos) {
    package.name = NormalizePackageName(file.substr(0, dash));
    const auto version = file.substr(dash + 1, file.find('-', dash + 1) - dash - 1);
    package.specifier = "==" + std::string(version);
    // A local version is written torch-2.4.0%2Bcu121-... in URLs.
    if (const auto plus = package.specifier.find("%2B"); plus != std::string::npos) {
      package.specifier.replace(plus, 3, "+");
    }
  }
}

void ReadSpecifier(std::string_view rest, RequestedPackage& package) {
  if (rest.starts_with('[')) {
    const auto close = rest.find(']');
    rest = close == std::string_view::npos ? std::string_view() : Trim(rest.substr(close + 1));
  }
  if (rest.starts_with('@')) {
    package.specifier = "@ " + WithoutUrlCredentials(Trim(rest.substr(1, rest.find(" ;") - 1)));
    return;
  }
  rest = Trim(rest.substr(0, rest.find(';')));
  rest = Trim(rest.substr(0, rest.find(" --")));  // --hash=... and other per-requirement options
  if (rest.starts_with('(') && rest.ends_with(')')) {
    rest = rest.substr(1, rest.size() - 2);
  }
  package.specifier = WithoutSpaces(rest);
}

}  // namespace

RequestedPackage ParseRequirement(std::string_view line, std::string_view installer) {
  RequestedPackage package;
  package.installer = installer;
  std::string_view text = Trim(line);
  if (const auto comment = text.find(" #"); comment != std::string_view::npos) {
    text = Trim(text.substr(0, comment));
  }
  package.text = text.starts_with('-') ? WithoutSecrets(text) : WithoutUrlCredentials(text);
  if (text.starts_with('-')) {
    package.is_option = true;
    if (text.starts_with("-e") || text.starts_with("--editable")) {
      NameFromLocation(text, package);
    }
    return package;
  }
  const auto named = LeadingName(text);
  if (named && named->rest.starts_with('@')) {
    package.name = named->name;
    ReadSpecifier(named->rest, package);
  } else if (IsLocation(text)) {
    NameFromLocation(text, package);
  } else if (named) {
    const bool readable =
        named->rest.empty() ||
        std::string_view("[(<>=!~;@-").find(named->rest[0]) != std::string_view::npos;
    if (readable) {
      package.name = named->name;
      ReadSpecifier(named->rest, package);
    }
  }
  return package;
}

RequestedPackage ParseCondaDependency(std::string_view text) {
  RequestedPackage package;
  package.installer = "conda";
  text = Trim(text);
  package.text = WithoutUrlCredentials(text);
  if (const auto channel = text.find("::"); channel != std::string_view::npos) {
    text = text.substr(channel + 2);
  }
  if (const auto named = LeadingName(text)) {
    package.name = named->name;
    package.specifier = WithoutSpaces(named->rest);
  }
  return package;
}

}  // namespace dlc

#include "probes/control/ray/dashboard_address.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace dlc {
namespace {

constexpr std::string_view kClusterDomain = ".cluster.local";
constexpr std::string_view kService = ".svc";

Error NoDashboard(std::string message, std::string hint) {
  return {ErrorCode::kInvalidInput, std::move(message), std::move(hint)};
}

/// The host of "ray://HOST:10001/..." and "HOST:6379", or "HOST".
std::string HostOf(std::string_view text) {
  if (const auto scheme = text.find("://"); scheme != std::string_view::npos) {
    text.remove_prefix(scheme + 3);
  }
  text = text.substr(0, text.find_first_of("/?#"));
  const auto colon = text.rfind(':');
  const bool bracketed = text.ends_with(']');
  const std::string host(bracketed ? text : text.substr(0, colon));
  const bool plain = !host.empty() && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == '[' || c == ']' ||
           c == ':';
  });
  return plain ? host : "HOST";
}

std::string AskFor(std::string_view text) {
  return "give the dashboard's address: http://" + HostOf(text) + ":8265";
}

}  // namespace

Result<Url> ParseDashboardAddress(std::string_view text) {
  if (text == "auto" || text == "local") {
    return NoDashboard("'" + std::string(text) +
                           "' names a Ray of this host to Ray itself, and no "
                           "dashboard",
                       "give the dashboard's address: http://HOST:8265");
  }
  if (text.starts_with("ray://")) {
    return NoDashboard("a ray:// address is Ray Client's (port 10001), which is not spoken here",
                       AskFor(text));
  }
  if (text.find("://") == std::string_view::npos) {
    const std::string what = text.ends_with(":6379")
                                 ? "HOST:6379 is the address of Ray's GCS, which is not spoken here"
                                 : "an address without http:// or https:// is GCS' to Ray";
    return NoDashboard(what, AskFor(text));
  }
  // Not quoted where it is no good: it may hold a password.
  auto url = ParseUrl(text);
  if (!url) {
    return NoDashboard(url.error().message, AskFor("HOST"));
  }
  if (url->text.find_first_of("?#") != std::string::npos) {
    return NoDashboard("a dashboard's address has no query and no fragment", AskFor(text));
  }
  return url;
}

bool IsClusterDnsName(std::string_view host) {
  if (host.ends_with(kClusterDomain)) {
    host.remove_suffix(kClusterDomain.size());
  }
  if (!host.ends_with(kService)) {
    return false;
  }
  host.remove_suffix(kService.size());
  const auto dot = host.find('.');
  return dot != std::string_view::npos && dot > 0 && dot + 1 < host.size() &&
         host.find('.', dot + 1) == std::string_view::npos;
}

}  // namespace dlc

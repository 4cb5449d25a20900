#include "probes/control/ray/ray_token.h"

#include <algorithm>
#include <utility>

#include "probes/input/read_file.h"

namespace dlc {
namespace {

constexpr std::size_t kMaxTokenBytes = 64U << 10U;
constexpr const char* kBlanks = " \t\r\n";

std::string WithoutBlanks(const std::string& text) {
  const auto first = text.find_first_not_of(kBlanks);
  return first == std::string::npos
             ? std::string()
             : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace

Result<RayToken> CheckRayToken(const std::string& text, std::string where) {
  RayToken token{WithoutBlanks(text), std::move(where)};
  const bool fits =
      !token.value.empty() && std::all_of(token.value.begin(), token.value.end(),
                                          [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (!fits) {
    return Error{
        ErrorCode::kPermissionDenied,
        "the Ray token in " + token.where + " is " +
            (token.value.empty() ? "empty" : "none: it holds blanks or control characters"),
        "put the cluster's token there, or unset it"};
  }
  return token;
}

Result<RayToken> FindRayToken(const RayTokenSources& sources) {
  if (!sources.token.empty()) {
    return CheckRayToken(sources.token, "RAY_AUTH_TOKEN");
  }
  const bool named = !sources.token_path.empty();
  if (!named && sources.home.empty()) {
    return RayToken{};
  }
  const std::string path = named ? sources.token_path : sources.home + "/.ray/auth_token";
  const std::string where = "'" + path + "'" + (named ? " (RAY_AUTH_TOKEN_PATH)" : "");
  const auto bytes = ReadFileBytes(path, kMaxTokenBytes, PipeInput::kRefuse);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound && !named) {
    return RayToken{};
  }
  if (!bytes) {
    return Error{ErrorCode::kPermissionDenied,
                 "the Ray token in " + where + " cannot be read: " + bytes.error().message, ""};
  }
  return CheckRayToken(*bytes, where);
}

}  // namespace dlc

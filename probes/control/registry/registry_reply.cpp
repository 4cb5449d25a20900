#include "probes/control/registry/registry_reply.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "probes/control/process/run_process.h"
#include "probes/observations/strict_json.h"

namespace dlc {
namespace {

std::string Text(const nlohmann::ordered_json& object, const char* key) {
  const auto it = object.is_object() ? object.find(key) : object.end();
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

RegistryReply ParseRegistryReply(std::string_view body) {
  const auto document = ParseStrictJson(body, {1U << 20U, 32});
  if (!document || !document->is_object()) {
    return {};
  }
  const auto errors = document->find("errors");
  if (errors == document->end() || !errors->is_array() || errors->empty()) {
    return {};
  }
  const auto& first = errors->front();
  return {OneLine(Text(first, "code"), 60), OneLine(Text(first, "message"), 200)};
}

std::string DescribeFailure(const HttpResponse& response) {
  const RegistryReply reply = ParseRegistryReply(response.body);
  const std::string status = std::to_string(response.status);
  return reply.code.empty() ? status : status + " (" + reply.Shown() + ")";
}

Result<std::string> ParseToken(std::string_view body, const std::string& server) {
  const auto document = ParseStrictJson(body, {1U << 20U, 32});
  std::string token;
  if (document) {
    token = Text(*document, "token");
    if (token.empty()) {
      token = Text(*document, "access_token");
    }
  }
  const bool fits_header =
      std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (token.empty() || !fits_header) {
    return Error{ErrorCode::kUnavailable, server + " answers without a usable token", ""};
  }
  return token;
}

}  // namespace dlc

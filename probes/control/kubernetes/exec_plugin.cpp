#include "probes/control/kubernetes/exec_plugin.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "probes/control/process/run_process.h"
#include "probes/observations/strict_json.h"

namespace dlc {
namespace {

constexpr std::size_t kMaxAnswerBytes = 1U << 20U;

using Json = nlohmann::ordered_json;

std::string TextAt(const Json& object, const char* key) {
  const auto it = object.is_object() ? object.find(key) : object.end();
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

Error Denied(const ExecPlugin& plugin, const std::string& why, std::string hint = "") {
  return {ErrorCode::kPermissionDenied,
          plugin.where + ": the credential plugin '" + OneLine(plugin.command) + "' " + why,
          std::move(hint)};
}

Error NoCredential(const ExecPlugin& plugin, const std::string& why) {
  return Denied(plugin, "gave no usable credential: " + why,
                "run it by hand and look at its answer (it may hold a secret)");
}

/// Digits of exactly that many characters.
std::optional<int> Digits(std::string_view text, std::size_t at, std::size_t count) {
  int value = 0;
  if (text.size() < at + count) {
    return std::nullopt;
  }
  const char* begin = text.data() + at;
  const auto [end, status] = std::from_chars(begin, begin + count, value);
  const bool whole = status == std::errc() && end == begin + count && *begin != '-';
  return whole ? std::optional(value) : std::nullopt;
}

/// "Z", "+01:00", "-0230" as seconds east of Greenwich.
std::optional<int> Offset(std::string_view text) {
  if (text == "Z" || text == "z") {
    return 0;
  }
  const auto hours = Digits(text, 1, 2);
  const auto minutes = Digits(text, 4, 2);
  if (text.size() != 6 || text[3] != ':' || (text[0] != '+' && text[0] != '-') || !hours ||
      !minutes || *hours > 23 || *minutes > 59) {
    return std::nullopt;
  }
  const int seconds = *hours * 3600 + *minutes * 60;
  return text[0] == '+' ? seconds : -seconds;
}

}  // namespace

bool LooksLikeToken(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

std::optional<std::chrono::system_clock::time_point> ParseRfc3339(std::string_view text) {
  constexpr std::array<std::pair<std::size_t, std::size_t>, 6> kParts{
      {{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}}};
  std::array<int, 6> parts{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto part = Digits(text, kParts[i].first, kParts[i].second);
    if (!part) {
      return std::nullopt;
    }
    parts[i] = *part;
  }
  const bool separated = text[4] == '-' && text[7] == '-' && (text[10] == 'T' || text[10] == 't') &&
                         text[13] == ':' && text[16] == ':';
  std::string_view rest = text.substr(19);
  if (rest.starts_with('.')) {
    rest.remove_prefix(std::min(rest.find_first_not_of("0123456789", 1), rest.size()));
  }
  const auto offset = Offset(rest);
  const bool in_range = parts[1] >= 1 && parts[1] <= 12 && parts[2] >= 1 && parts[2] <= 31 &&
                        parts[3] <= 23 && parts[4] <= 59 && parts[5] <= 60;
  if (!separated || !offset || !in_range) {
    return std::nullopt;
  }
  std::tm utc{};
  utc.tm_year = parts[0] - 1900;
  utc.tm_mon = parts[1] - 1;
  utc.tm_mday = parts[2];
  utc.tm_hour = parts[3];
  utc.tm_min = parts[4];
  utc.tm_sec = parts[5];
  return std::chrono::system_clock::from_time_t(timegm(&utc) - *offset);
}

std::string ExecInfo(const ExecPlugin& plugin) {
  Json spec{{"interactive", false}};
  if (!plugin.cluster_json.empty()) {
    spec["cluster"] = Json::parse(plugin.cluster_json, nullptr, false);
  }
  return Json{{"kind", "ExecCredential"}, {"apiVersion", plugin.api_version}, {"spec", spec}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

Result<ExecCredential> ParseExecCredential(std::string_view json, const ExecPlugin& plugin) {
  const auto document = ParseStrictJson(json, {kMaxAnswerBytes, 32});
  if (!document) {
    return NoCredential(plugin, "its answer is no JSON");
  }
  if (TextAt(*document, "kind") != "ExecCredential") {
    return NoCredential(plugin, "its answer is no ExecCredential");
  }
  if (const std::string version = TextAt(*document, "apiVersion"); version != plugin.api_version) {
    return NoCredential(plugin, "it answers in '" + OneLine(version, 80) + "', and " +
                                    plugin.api_version + " was asked for");
  }
  const auto status = document->find("status");
  const Json nothing;
  const Json& given = status == document->end() ? nothing : *status;
  ExecCredential credential{
      TextAt(given, "token"),
      {TextAt(given, "clientCertificateData"), TextAt(given, "clientKeyData")},
      {}};
  const TlsIdentity& pair = credential.identity;
  if (pair.certificate_pem.empty() != pair.key_pem.empty()) {
    return NoCredential(plugin, "a client certificate or a client key alone");
  }
  if (credential.token.empty() && pair.empty()) {
    return NoCredential(plugin, "neither a token nor a client certificate");
  }
  if (!credential.token.empty() && !LooksLikeToken(credential.token)) {
    return NoCredential(plugin, "its token holds blanks or control characters");
  }
  if (const std::string expires = TextAt(given, "expirationTimestamp"); !expires.empty()) {
    credential.expires = ParseRfc3339(expires);
    if (!credential.expires) {
      return NoCredential(plugin, "its expirationTimestamp is no time (RFC 3339)");
    }
  }
  return credential;
}

Result<ExecCredential> RunExecPlugin(const ExecPlugin& plugin, Deadline deadline,
                                     const std::atomic<bool>* interrupted) {
  ProcessRequest request;
  request.argv = plugin.args;
  request.argv.insert(request.argv.begin(), plugin.command);
  request.extra_env = plugin.env;
  request.extra_env["KUBERNETES_EXEC_INFO"] = ExecInfo(plugin);
  request.max_stdout_bytes = kMaxAnswerBytes;
  request.interrupted = interrupted;
  const auto output = RunProcess(request, deadline.Within(timeouts::kExecPlugin));
  if (!output) {
    const Error& error = output.error();
    if (error.code == ErrorCode::kInterrupted || error.code == ErrorCode::kTimedOut) {
      return Error{error.code, plugin.where + ": credential plugin: " + error.message, error.hint};
    }
    return Denied(plugin, "cannot be run: " + error.message,
                  plugin.install_hint.empty() ? error.hint : plugin.install_hint);
  }
  if (output->exit_code != 0) {
    const std::string end = output->term_signal != 0
                                ? "was ended by signal " + std::to_string(output->term_signal)
                                : "ended with exit code " + std::to_string(output->exit_code);
    const std::string said = OneLine(output->stderr_bytes);
    return Denied(plugin, end + (said.empty() ? "" : ": " + said),
                  "run it by hand in this environment; it had no terminal to ask on");
  }
  return ParseExecCredential(output->stdout_bytes, plugin);
}

}  // namespace dlc

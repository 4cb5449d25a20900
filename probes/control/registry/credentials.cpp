#include "probes/control/registry/credentials.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "probes/control/process/run_process.h"
#include "probes/control/registry/ecr.h"
#include "probes/input/read_file.h"
#include "probes/observations/strict_json.h"

namespace dlc {
namespace {

// What a helper whose secret is an identity token gives as the user's name.
constexpr const char* kTokenUser = "<token>";
constexpr std::size_t kMaxDockerConfigBytes = 1U << 20U;

std::optional<std::string> TextField(const nlohmann::ordered_json& answer, const char* key) {
  const auto it = answer.is_object() ? answer.find(key) : answer.end();
  if (it == answer.end() || !it->is_string()) {
    return std::nullopt;
  }
  return it->get<std::string>();
}

Result<Credential> ParseAnswer(const std::string& program, const std::string& bytes) {
  const auto answer = ParseStrictJson(bytes, {1U << 20U, 8});
  const auto username = answer ? TextField(*answer, "Username") : std::nullopt;
  const auto secret = answer ? TextField(*answer, "Secret") : std::nullopt;
  if (!username || !secret) {
    // Not quoted: it may hold half a secret.
    return Error{ErrorCode::kUnavailable,
                 program + " did not answer with JSON that holds Username and Secret", ""};
  }
  if (*username == kTokenUser) {
    return Credential{"", "", *secret};
  }
  return Credential{*username, *secret, ""};
}

/// Helpers write their errors to stdout. "credentials not found in native keychain" with a failing
/// exit code is how all of docker's say that they have none.
Result<std::optional<Credential>> AskHelper(const std::string& program, const std::string& server,
                                            const std::string& config_file, Deadline deadline,
                                            const std::atomic<bool>* interrupted) {
  const ProcessRequest request{{program, "get"}, server, {}, 1U << 20U, interrupted};
  auto output = RunProcess(request, deadline.Within(timeouts::kCredentialHelper));
  if (!output) {
    Error error = std::move(output).error();
    error.hint = "'" + config_file + "' asks for this credential helper" +
                 (error.code == ErrorCode::kNotFound
                      ? ": install it, remove it from the file, or set DOCKER_CONFIG to another "
                        "folder"
                      : "");
    return error;
  }
  if (output->exit_code == 0) {
    auto credential = ParseAnswer(program, output->stdout_bytes);
    if (!credential) {
      return std::move(credential).error();
    }
    return std::optional<Credential>(std::move(*credential));
  }
  const std::string said = OneLine(output->stdout_bytes + "\n" + output->stderr_bytes);
  if (said.find("credentials not found") != std::string::npos) {
    return std::optional<Credential>();
  }
  const std::string ending = output->term_signal != 0
                                 ? "signal " + std::to_string(output->term_signal)
                                 : "exit code " + std::to_string(output->exit_code);
  // A failing helper's stdout is its message unless it is JSON, which could hold a secret.
  const std::string shown =
      output->stdout_bytes.find('{') == std::string::npos ? said : OneLine(output->stderr_bytes);
  return Error{
      ErrorCode::kUnavailable,
      program + " for '" + server + "' failed with " + ending + (shown.empty() ? "" : ": " + shown),
      "'" + config_file + "' asks for this credential helper"};
}

Result<CredentialSearch> AsDocker(const std::string& docker_config_dir, const std::string& registry,
                                  const std::string& repository, Deadline deadline,
                                  const std::atomic<bool>* interrupted) {
  const std::string file = docker_config_dir + "/config.json";
  const auto bytes = ReadFileBytes(file, kMaxDockerConfigBytes, PipeInput::kRefuse);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) {
    return CredentialSearch{std::nullopt, "'" + file + "' does not exist"};
  }
  if (!bytes) {
    return bytes.error();
  }
  const auto config = ParseDockerConfig(*bytes, file);
  if (!config) {
    return config.error();
  }
  std::string asked;
  if (const std::string helper = HelperFor(*config, registry); !helper.empty()) {
    const std::string program = "docker-credential-" + helper;
    auto credential = AskHelper(program, DockerServerName(registry), file, deadline, interrupted);
    if (!credential) {
      return std::move(credential).error();
    }
    if (*credential) {
      return CredentialSearch{std::move(*credential), program + " ('" + file + "')"};
    }
    asked = program + " has none and ";
  }
  if (auto credential = AuthFor(*config, registry, repository)) {
    return CredentialSearch{std::move(credential), "auths in '" + file + "'"};
  }
  return CredentialSearch{std::nullopt,
                          asked + "no entry for '" + registry + "' in '" + file + "'"};
}

}  // namespace

Result<CredentialSearch> FindCredential(const std::string& docker_config_dir,
                                        const std::string& registry, const std::string& repository,
                                        Deadline deadline, const std::atomic<bool>* interrupted) {
  if (docker_config_dir.empty()) {
    return CredentialSearch{std::nullopt, "none were looked for"};
  }
  auto found = AsDocker(docker_config_dir, registry, repository, deadline, interrupted);
  const std::string region = PrivateEcrRegion(registry);
  if (!found || found->credential || region.empty()) {
    return found;
  }
  auto login = LogInToEcr(region, deadline, interrupted);
  if (!login) {
    Error error = std::move(login).error();
    error.message += " (docker: " + found->where + ")";
    return error;
  }
  if (login->credential) {
    return CredentialSearch{std::move(login->credential), login->where};
  }
  return CredentialSearch{std::nullopt, found->where + ", and " + login->where};
}

}  // namespace dlc

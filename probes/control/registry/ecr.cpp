#include "probes/control/registry/ecr.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "probes/control/process/run_process.h"

namespace dlc {
namespace {

constexpr std::size_t kAccountDigits = 12;
constexpr std::array<std::string_view, 4> kServices = {".dkr.ecr.", ".dkr.ecr-fips.", ".dkr-ecr.",
                                                       ".dkr-ecr-fips."};
constexpr std::array<std::string_view, 9> kDomains = {".amazonaws.com",
                                                      ".amazonaws.com.cn",
                                                      ".amazonaws.eu",
                                                      ".on.aws",
                                                      ".on.amazonwebservices.com.cn",
                                                      ".sc2s.sgov.gov",
                                                      ".c2s.ic.gov",
                                                      ".cloud.adc-e.uk",
                                                      ".csp.hci.ic.gov"};
constexpr const char* kProgram = "aws ecr get-login-password";

bool IsAccount(std::string_view text) {
  return text.size() == kAccountDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// No dot: else "us-east-1.amazonaws.com.evil" would be one.
bool IsRegion(std::string_view text) {
  return !text.empty() && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-';
         });
}

Error NoLogin(ErrorCode code, std::string message, const std::string& region) {
  return {code, std::move(message),
          "renew the AWS credentials ('aws sts get-caller-identity --region " + region +
              "' shows whose they are), or set up docker-credential-ecr-login"};
}

std::string FirstLine(std::string_view text) {
  return std::string(text.substr(0, text.find_first_of("\r\n")));
}

bool IsPassword(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace

std::string PrivateEcrRegion(const std::string& host) {
  const std::string_view rest =
      std::string_view(host).substr(std::min(kAccountDigits, host.size()));
  if (!IsAccount(std::string_view(host).substr(0, kAccountDigits))) {
    return {};
  }
  for (const std::string_view service : kServices) {
    for (const std::string_view domain : kDomains) {
      if (rest.size() > service.size() + domain.size() && rest.starts_with(service) &&
          rest.ends_with(domain)) {
        const auto region =
            rest.substr(service.size(), rest.size() - service.size() - domain.size());
        if (IsRegion(region)) {
          return std::string(region);
        }
      }
    }
  }
  return {};
}

Result<EcrLogin> LogInToEcr(const std::string& region, Deadline deadline,
                            const std::atomic<bool>* interrupted) {
  ProcessRequest request;
  request.argv = {"aws", "ecr", "get-login-password", "--region", region};
  request.extra_env = {{"AWS_PAGER", ""}, {"AWS_CLI_AUTO_PROMPT", "off"}};
  request.interrupted = interrupted;
  const auto output = RunProcess(request, deadline.Within(timeouts::kCredentialHelper));
  if (!output && output.error().code == ErrorCode::kNotFound) {
    return EcrLogin{std::nullopt, "'aws' is not in PATH"};
  }
  if (!output) {
    return output.error();
  }
  if (output->exit_code != 0) {
    const std::string ending = output->term_signal != 0
                                   ? "signal " + std::to_string(output->term_signal)
                                   : "exit code " + std::to_string(output->exit_code);
    const std::string said = OneLine(output->stderr_bytes);
    return NoLogin(ErrorCode::kPermissionDenied,
                   std::string("'") + kProgram + " --region " + region + "' failed with " + ending +
                       (said.empty() ? "" : ": " + said),
                   region);
  }
  const std::string password = FirstLine(output->stdout_bytes);
  if (!IsPassword(password)) {
    // Not quoted: it may hold half a secret.
    return NoLogin(ErrorCode::kUnavailable,
                   std::string("'") + kProgram + " --region " + region + "' gave no password",
                   region);
  }
  return EcrLogin{Credential{"AWS", password, ""}, kProgram};
}

}  // namespace dlc

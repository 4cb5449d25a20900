#include "probes/control/launcher/env_launcher.h"

#include <openssl/sha.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "probes/observations/digest.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

std::string Variable(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing of ours changes the environment
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<int> NumberIn(const char* name) {
  const std::string text = Variable(name);
  int number = -1;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || status != std::errc() || end != text.data() + text.size() || number < 0) {
    return Error{ErrorCode::kInvalidInput,
                 text.empty() ? std::string(name) + " is not set"
                              : std::string(name) + " is '" + text + "', not a whole number",
                 "target `env` needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun "
                 "sets them, and DLC_CHECK_RUN_SECRET"};
  }
  return number;
}

/// 16 hex digits that say nothing about the secret.
std::string RunIdOf(const std::string& secret) {
  const std::string text = "dlc-check run id of " + secret;
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): OpenSSL takes bytes
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return HexText({hash.data(), 8});
}

}  // namespace

Result<void> EnvLauncher::Start(const LaunchRequest& request, Deadline /*deadline*/) {
  const auto size = NumberIn("WORLD_SIZE");
  const auto rank = NumberIn("RANK");
  if (!size || !rank) {
    return size ? rank.error() : size.error();
  }
  if (request.ranks != 0 && request.ranks != *size) {
    return Error{ErrorCode::kInvalidInput,
                 "WORLD_SIZE is " + std::to_string(*size) + ", the config says " +
                     std::to_string(request.ranks) + " ranks",
                 ""};
  }
  const std::string secret = Variable("DLC_CHECK_RUN_SECRET");
  if (secret.empty()) {
    return Error{ErrorCode::kInvalidInput, "DLC_CHECK_RUN_SECRET is not set",
                 "give every rank the same random text, e.g. $(openssl rand -hex 32)"};
  }
  const auto program = FindProbe(probe_);
  if (!program) {
    return program.error();
  }
  request_ = request;
  request_.plan.gather = true;
  request_.plan.run_id = RunIdOf(secret);
  for (std::string& directory : request_.run_directories) {
    directory =
        (std::filesystem::path(directory).parent_path() / (".dlc-check-" + request_.plan.run_id))
            .string();
  }
  size_ = *size;
  rank_ = *rank;
  ProbeStart start;
  start.program = *program;
  start.rank = rank_;
  start.plan_json = RankPlanToJson(request_.plan);
  auto process = ProbeProcess::Start(start);
  if (!process) {
    return process.error();
  }
  ranks_.push_back({rank_, std::move(process).value()});
  return {};
}

}  // namespace dlc

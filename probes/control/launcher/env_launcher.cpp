#include "probes/control/launcher/env_launcher.h"

#include <openssl/sha.h>

#include <algorithm>
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

/// Empty: MASTER_PORT as it is.
Result<std::string> PortOverride() {
  constexpr int kMostPort = 65'535;
  if (const std::string own = Variable("DLC_CHECK_MASTER_PORT"); !own.empty()) {
    return own;
  }
  if (Variable("TORCHELASTIC_USE_AGENT_STORE") != "True") {
    return std::string();
  }
  const auto port = NumberIn("MASTER_PORT");
  if (!port) {
    return port.error();
  }
  return std::to_string(*port < kMostPort ? *port + 1 : *port - 1);
}

}  // namespace

Result<EnvRank> EnvRankOf() {
  const auto size = NumberIn("WORLD_SIZE");
  const auto rank = NumberIn("RANK");
  if (!size || !rank) {
    return size ? rank.error() : size.error();
  }
  if (*rank >= *size) {
    return Error{
        ErrorCode::kInvalidInput,
        "RANK " + std::to_string(*rank) + " is not below WORLD_SIZE " + std::to_string(*size),
        "ranks count from 0"};
  }
  const std::string secret = Variable("DLC_CHECK_RUN_SECRET");
  if (secret.empty()) {
    return Error{ErrorCode::kInvalidInput, "DLC_CHECK_RUN_SECRET is not set",
                 "give every rank the same random text, e.g. $(openssl rand -hex 32)"};
  }
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
    if (Variable(name).empty()) {
      return Error{ErrorCode::kInvalidInput, std::string(name) + " is not set",
                   "it is where rank 0 listens, the same for every rank"};
    }
  }
  return EnvRank{*rank, *size, RunIdOf(secret)};
}

Result<void> EnvLauncher::Start(const LaunchRequest& request, Deadline /*deadline*/) {
  const auto me = EnvRankOf();
  if (!me) {
    return me.error();
  }
  if (request.ranks != 0 && request.ranks != me->ranks) {
    return Error{ErrorCode::kInvalidInput,
                 "WORLD_SIZE is " + std::to_string(me->ranks) + ", the config says " +
                     std::to_string(request.ranks) + " ranks",
                 ""};
  }
  const auto program = FindProbe(probe_);
  if (!program) {
    return program.error();
  }
  const auto port = PortOverride();
  if (!port) {
    return port.error();
  }
  request_ = request;
  request_.plan.gather = true;
  request_.plan.run_id = me->run_id;
  for (std::string& directory : request_.run_directories) {
    directory =
        (std::filesystem::path(directory).parent_path() / (".dlc-check-" + request_.plan.run_id))
            .string();
  }
  size_ = me->ranks;
  rank_ = me->rank;
  ProbeStart start;
  start.program = *program;
  start.rank = rank_;
  start.plan_json = RankPlanToJson(request_.plan);
  if (!port->empty()) {
    start.environment["MASTER_PORT"] = *port;
  }
  auto process = ProbeProcess::Start(start);
  if (!process) {
    return process.error();
  }
  ranks_.push_back({rank_, std::move(process).value()});
  return {};
}

std::vector<std::string> EnvLauncher::CleanUp(Deadline deadline) {
  const bool sure = std::all_of(ranks_.begin(), ranks_.end(), [](const RunningRank& one) {
    return one.process.Document().has_value();
  });
  if (rank_ != 0 && sure) {
    request_.run_directories.clear();
  }
  return ProcessLauncher::CleanUp(deadline);
}

}  // namespace dlc

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cmd/dlc-probe/faults.h"
#include "cmd/dlc-probe/leash.h"
#include "cmd/dlc-probe/run_plan.h"
#include "cmd/dlc-probe/steps.h"
#include "kernels/cuda_device.h"
#include "probes/node/sha256/sha256.h"
#include "probes/node/unique_fd.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

constexpr std::string_view kUsage =
    "usage: dlc-probe run [--leashed] --plan FILE|-\n"
    "       dlc-probe --version   and what it has of CUDA\n"
    "\n"
    "One rank of a dlc-check run. Takes RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT\n"
    "from the environment, as torchrun sets them, and the run's secret from DLC_CHECK_RUN_SECRET "
    "or\n"
    "the descriptor DLC_CHECK_RUN_SECRET_FD. Writes JSON lines to stdout: events, then one "
    "document.\n"
    "--leashed: in a process of its own, which cleans up when this one is killed.\n"
    "\n"
    "exit codes: 0 document written; 2 usage, plan or environment; 3 document written, but the "
    "ranks\n"
    "did not meet; 128 + signal when interrupted, with what was seen until then\n";

int Complain(const Error& error) {
  std::cerr << "dlc-probe: " << error.message << "\n";
  if (!error.hint.empty()) {
    std::cerr << "hint: " << error.hint << "\n";
  }
  return error.code == ErrorCode::kInvalidInput ? kExitUsage : 1;
}

Result<std::string> ReadPlanText(const std::string& file) {
  constexpr std::size_t kMaxPlanBytes = 1U << 20U;
  const UniqueFd opened(file == "-" ? -1 : open(file.c_str(), O_RDONLY | O_CLOEXEC));
  const int fd = file == "-" ? STDIN_FILENO : opened.get();
  std::string text;
  char chunk[65'536];
  ssize_t count = fd < 0 ? -1 : 1;
  while (count > 0 && text.size() <= kMaxPlanBytes) {
    count = read(fd, chunk, sizeof chunk);
    text.append(chunk, count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  if (count < 0) {
    return Error{ErrorCode::kInvalidInput,
                 "cannot read plan '" + file + "': " + strerrordesc_np(errno), ""};
  }
  if (text.size() > kMaxPlanBytes) {
    return Error{ErrorCode::kInvalidInput, "plan '" + file + "' is larger than 1 MiB", ""};
  }
  return text;
}

Result<RankPlan> ReadPlan(const std::string& text) {
  auto plan = ParseRankPlan(text);
  if (!plan) {
    return plan;
  }
  for (const PlanStep& step : plan->steps) {
    const StepKind* kind = FindStepKind(step.kind);
    if (kind == nullptr) {
      return Error{
          ErrorCode::kInvalidInput,
          "step '" + step.name + "': this dlc-probe has no steps of kind '" + step.kind + "'",
          "use dlc-check and dlc-probe of the same release"};
    }
    if (const auto good = kind->check(step.parameters); !good) {
      return Error{ErrorCode::kInvalidInput,
                   "parameters of step '" + step.name + "': " + good.error().message, ""};
    }
  }
  if (const auto good = CheckFaults(*plan); !good) {
    return good.error();
  }
  return plan;
}

int Run(const std::string& plan_file) {
  RankInvocation invocation;
  const auto text = ReadPlanText(plan_file);
  if (!text) {
    return Complain(text.error());
  }
  auto plan = ReadPlan(*text);
  if (!plan) {
    return Complain(plan.error());
  }
  const auto identity = RankIdentityFromEnvironment();
  if (!identity) {
    return Complain(identity.error());
  }
  auto secret = TakeRunSecret();
  if (!secret) {
    return Complain(secret.error());
  }
  const auto listen_fd = InheritedListenFd();
  if (!listen_fd) {
    return Complain(listen_fd.error());
  }
  // Blocked and read through a descriptor: every wait ends at once, and no handler can interrupt
  // the clean-up.
  sigset_t stops;
  sigemptyset(&stops);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    sigaddset(&stops, signal);
  }
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const UniqueFd stop(signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK));
  Sha256 hash;
  hash.Add(*text);
  invocation.plan_digest = hash.FinishDigest().hex;
  invocation.plan = std::move(plan).value();
  invocation.identity = *identity;
  invocation.secret = std::move(secret).value();
  invocation.listen_fd = *listen_fd;
  invocation.stop_fd = stop.get();
  const int code = RunPlan(invocation);
  signalfd_siginfo arrived{};
  if (code == kExitInterrupted && read(stop.get(), &arrived, sizeof arrived) == sizeof arrived) {
    return 128 + static_cast<int>(arrived.ssi_signo);
  }
  return code;
}

std::string CudaText() {
  const int version = CudaRuntimeVersion();
  return version == 0 ? "without CUDA: GPUs are listed, and do not compute"
                      : "with CUDA runtime " + std::to_string(version / 1000) + "." +
                            std::to_string(version % 1000 / 10) + " for " + CudaArchitectures();
}

int Main(std::span<char* const> arguments) {
  const std::string_view first = arguments.size() > 1 ? arguments[1] : "";
  if (first == "--version" && arguments.size() == 2) {
    std::cout << "dlc-probe " << DLC_VERSION << "\n" << CudaText() << "\n";
    return 0;
  }
  if (first == "--help" && arguments.size() == 2) {
    std::cout << kUsage;
    return 0;
  }
  const bool leashed =
      first == "run" && arguments.size() == 5 && std::string_view(arguments[2]) == "--leashed";
  const std::span<char* const> rest =
      arguments.subspan(std::min(leashed ? 3UL : 2UL, arguments.size()));
  if (first == "run" && rest.size() == 2 && std::string_view(rest[0]) == "--plan") {
    const std::string plan = rest[1];
    return leashed ? RunLeashed([&plan] { return Run(plan); }) : Run(plan);
  }
  std::cerr << kUsage;
  return kExitUsage;
}

}  // namespace
}  // namespace dlc

int main(int argc, char** argv) {
  try {
    return dlc::Main({argv, static_cast<std::size_t>(argc)});
  } catch (const std::exception& e) {
    std::cerr << "dlc-probe: bug: uncaught exception: " << e.what() << "\n";
    return 1;
  }
}

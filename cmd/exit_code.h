#pragma once

#include <cstdint>
#include <string_view>

#include "checks/finding.h"
#include "probes/observations/result.h"

namespace dlc {

/// The contract with scripts: the only exit codes, and (below) the only mapping to them. CLI11's
/// own never leak.
///
/// Streams: stdout carries the result alone (report, verification, generated text); stderr carries
/// progress, warnings and errors ("dlc-check: MESSAGE", then "hint: WHAT TO DO"). With --format
/// json the last error is a JSON object on stderr.
enum class ExitCode : std::uint8_t {
  kOk = 0,      ///< run: every required check passed; verify: genuine and PASSED
  kFailed = 1,  ///< run: a required check failed; verify: genuine and FAILED
  kUsage = 2,   ///< bad flag, config, policy, key or input file: nothing ran, nothing was written
  kIncomplete = 3,  ///< something required was not seen; verify: genuine but incomplete or too old
  kNotTrustworthy =
      4,  ///< verify: signature, key, schema or subject is wrong, or the report contradicts itself
  kNotWritten = 5,     ///< the evidence could not be signed or written (wins over 0, 1 and 3)
  kLeftovers = 6,      ///< otherwise 0, but something this run created is still there
  kInterrupted = 130,  ///< SIGINT: partial evidence written, outcome INCOMPLETE
  kTerminated = 143,   ///< SIGTERM: the same
};

/// How a run ended, apart from its outcome.
struct RunEnd {
  Outcome outcome = Outcome::kIncomplete;
  int signal = 0;                ///< SIGINT or SIGTERM if one arrived, else 0
  bool evidence_written = true;  ///< false: signing or writing failed
  bool leftovers = false;        ///< clean-up left something behind
};

constexpr ExitCode ExitCodeOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return ExitCode::kOk;
    case Outcome::kFailed:
      return ExitCode::kFailed;
    case Outcome::kIncomplete:
      return ExitCode::kIncomplete;
  }
  return ExitCode::kIncomplete;
}

constexpr ExitCode ExitCodeOf(const RunEnd& end) {
  constexpr int kSigInt = 2;
  constexpr int kSigTerm = 15;
  if (end.signal == kSigInt) {
    return ExitCode::kInterrupted;
  }
  if (end.signal == kSigTerm) {
    return ExitCode::kTerminated;
  }
  if (!end.evidence_written) {
    return ExitCode::kNotWritten;
  }
  const ExitCode code = ExitCodeOf(end.outcome);
  return code == ExitCode::kOk && end.leftovers ? ExitCode::kLeftovers : code;
}

/// The end of every help text of a command that runs checks or judges.
inline constexpr std::string_view kRunExitCodesHelp =
    "Exit codes:\n"
    "  0    every required check passed\n"
    "  1    a required check failed\n"
    "  2    usage, config or policy error: nothing ran\n"
    "  3    incomplete: something required was not seen\n"
    "  5    the evidence could not be signed or written\n"
    "  6    otherwise 0, but something this run created is still there\n"
    "  130  interrupted (143: terminated); partial evidence written, outcome INCOMPLETE\n";
inline constexpr std::string_view kJudgeExitCodesHelp =
    "Exit codes:\n"
    "  0    every required check passed\n"
    "  1    a required check failed\n"
    "  2    usage, policy or input error\n"
    "  3    incomplete: something required was not seen\n";
inline constexpr std::string_view kVerifyExitCodesHelp =
    "Exit codes:\n"
    "  0    genuine and PASSED\n"
    "  1    genuine and FAILED\n"
    "  2    usage error: a file or key cannot be read\n"
    "  3    genuine but incomplete or too old\n"
    "  4    not trustworthy: signature, key, schema, subject, or it contradicts itself\n";
inline constexpr std::string_view kPlainExitCodesHelp =
    "Exit codes:\n"
    "  0    done\n"
    "  2    usage or input error\n";

}  // namespace dlc

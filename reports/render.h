#pragma once

#include <span>
#include <string>
#include <string_view>

#include "reports/report.h"

namespace dlc {

/// Every renderer neutralises text from outside (pod names, registry messages, log lines): no
/// control character, terminal escape or markup of theirs takes effect where the report is shown.

struct TextOptions {
  bool color = false;    ///< decided by the caller: UseColor in reports/color.h
  bool verbose = false;  ///< every subject, pass and not applicable one by one instead of a count
  int width = 100;       ///< columns to wrap at; digests, names and `commands` are never cut
};

/// For a person at a terminal. What was looked at; then worst first: failed, unknown, warned, not
/// applicable (a count), passed (a count per check); then the outcome line, why it is not PASSED,
/// what the run does not establish and whether the evidence is signed.
std::string RenderText(const Report& report, const TextOptions& options);
/// {"apiVersion":"dlc-check/report/v1","run":..,"image":..,"outcome":..,"counts":..,
/// "findings":[..],"signature":..,"policy":..}; 2-space indent, keys in this order, ends with a
/// newline. `run` is as in the observations document, `findings` as FindingsToJson writes them.
std::string RenderJson(const Report& report);
/// One testsuite per check; fail -> <failure>, unknown -> <error>, not applicable and warnings ->
/// <skipped> (a warning seen or unseen is not a pass, and must not break the build); a last case
/// `preflight.verdict` fails unless PASSED, because CI systems paint skipped as green.
std::string RenderJUnit(const Report& report);
/// CTRF 1.0.0 (https://ctrf.io): unknown and warnings -> "other", own data only under `extra`; last
/// test `preflight.verdict` as in JUnit.
std::string RenderCtrf(const Report& report);
/// For a pull request comment: outcome, table of what is not a pass, folded details. At most 60,000
/// bytes (GitHub takes 65,536 characters); what is left out is counted.
std::string RenderMarkdown(const Report& report);

/// A row of `--format`. Another renderer is one file and one row in render.cpp.
struct Renderer {
  std::string_view format;  ///< "text", "json", "junit", "ctrf", "markdown"
  std::string (*render)(const Report&, const TextOptions&);
};
std::span<const Renderer> AllRenderers();
/// nullptr for a format that is none.
const Renderer* FindRenderer(std::string_view format);

}  // namespace dlc

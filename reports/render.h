#pragma once

#include <string>

#include "reports/report.h"

namespace dlc {

struct TextOptions {
  bool color = false;    ///< decided by the caller from --color, NO_COLOR, TERM and the terminal
  bool verbose = false;  ///< passes one by one instead of a count
  int width = 100;       ///< columns to wrap long texts at; digests and names are never cut
};

/// Worst first: failed, unknown, warned, then not applicable, then passed (a count unless verbose).
/// The word stands beside the colour. Ends with the outcome line and what the run does not
/// establish.
std::string RenderText(const Report& report, const TextOptions& options);
/// {"apiVersion":"dlc-check/report/v1","outcome":..,"findings":[..],..}; 2-space indent, ends with
/// a newline.
std::string RenderJson(const Report& report);
/// The findings alone: the bytes that `judge` must reproduce.
std::string RenderFindingsJson(const std::vector<Finding>& findings, int indent);
/// One testsuite per check; fail -> <failure>, unknown -> <error>, not applicable -> <skipped>;
/// warnings pass and say so in system-out; a last case `preflight.verdict` fails unless PASSED,
/// because CI systems paint skipped as green.
std::string RenderJUnit(const Report& report);
/// CTRF 1.0.0 (https://ctrf.io): own data only under `extra`.
std::string RenderCtrf(const Report& report);
/// For a pull request: outcome, table of what is not a pass, folded list of passes.
std::string RenderMarkdown(const Report& report);

}  // namespace dlc

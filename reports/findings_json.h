#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checks/finding.h"
#include "probes/observations/result.h"

namespace dlc {

class JsonWriter;

/// A JSON list of findings, every key always present, in declaration order: the same findings give
/// the same bytes. `holds` of an assertion is what Holds() says. Invalid UTF-8 becomes U+FFFD;
/// numbers that JSON does not have become the texts "NaN", "Infinity", "-Infinity", which no
/// ordering accepts when they are read back. indent < 0: one line.
std::string FindingsToJson(const std::vector<Finding>& findings, int indent);
/// The same as a part of a larger document.
void WriteFindings(JsonWriter& out, const std::vector<Finding>& findings);

/// Strict: unknown, missing and duplicate keys, wrong types, and a `holds` that the comparison does
/// not bear out are kInvalidInput naming the JSON path.
Result<std::vector<Finding>> ParseFindings(std::string_view json);

}  // namespace dlc

#include "probes/observations/json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "reports/findings_json.h"
#include "reports/json_writer.h"
#include "reports/render.h"

namespace dlc {
namespace {

constexpr int kIndent = 2;

/// The run facts in the one wire form that they have.
std::string RunToJson(const RunFacts& run) {
  Observations only_run;
  only_run.run = run;
  return nlohmann::ordered_json::parse(ObservationsToJson(only_run, -1)).at("run").dump(kIndent);
}

/// Three states, as in the observations document; there the whole image is.
void WriteImage(JsonWriter& out, const Observed<ServedImage>& image) {
  out.BeginObject();
  if (image.failed()) {
    out.Text("state", "error");
    out.Text("code", ErrorCodeName(image.error().code));
    out.Text("message", image.error().message);
  } else if (image.not_looked_at()) {
    out.Text("state", "not_looked_at");
    out.Text("reason", image.why_not().reason);
    out.Text("blockedBy", image.why_not().blocked_by);
  } else {
    out.Text("state", "seen");
    out.Text("reference", image.value().reference);
    out.Text("digest", image.value().digest.ToString());
    out.Text("source", image.value().source);
  }
  out.EndObject();
}

void WriteCounts(JsonWriter& out, const FindingCounts& counts) {
  out.BeginObject();
  out.Number("passed", counts.passed);
  out.Number("failed", counts.failed);
  out.Number("unknown", counts.unknown);
  out.Number("warned", counts.warned);
  out.Number("notApplicable", counts.not_applicable);
  out.EndObject();
}

}  // namespace

std::string RenderJson(const Report& report) {
  JsonWriter out(kIndent, JsonWriter::Unsafe::kEscaped);
  out.Reserve(4096 + report.findings.size() * 1500);
  out.BeginObject();
  out.Text("apiVersion", "dlc-check/report/v1");
  out.Key("run");
  out.Nested(RunToJson(report.observations.run));
  out.Key("image");
  WriteImage(out, report.observations.served_image);
  out.Text("outcome", OutcomeName(report.outcome));
  out.Key("counts");
  WriteCounts(out, CountFindings(report.findings));
  out.Key("findings");
  WriteFindings(out, report.findings);
  out.Text("signature", report.signature);
  out.Key("policy");
  out.BeginObject();
  out.Text("name", report.policy_name);
  out.Text("origin", report.policy_source.origin);
  out.Text("file", report.policy_source.name);
  out.EndObject();
  out.EndObject();
  return out.Take() + "\n";
}

}  // namespace dlc

#include "probes/observations/json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "reports/findings_json.h"
#include "reports/json_text.h"
#include "reports/render.h"

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;

/// The run facts in the one wire form that they have.
Json RunToJson(const RunFacts& run) {
  Observations only_run;
  only_run.run = run;
  return Json::parse(ObservationsToJson(only_run, -1)).at("run");
}

/// Three states, as in the observations document; the whole image is there.
Json ImageToJson(const Observed<ServedImage>& image) {
  if (image.failed()) {
    return {{"state", "error"},
            {"code", ErrorCodeName(image.error().code)},
            {"message", image.error().message}};
  }
  if (image.not_looked_at()) {
    return {{"state", "not_looked_at"},
            {"reason", image.why_not().reason},
            {"blockedBy", image.why_not().blocked_by}};
  }
  return {{"state", "seen"},
          {"reference", image.value().reference},
          {"digest", image.value().digest.ToString()},
          {"source", image.value().source}};
}

Json CountsToJson(const FindingCounts& counts) {
  return {{"passed", counts.passed},
          {"failed", counts.failed},
          {"unknown", counts.unknown},
          {"warned", counts.warned},
          {"notApplicable", counts.not_applicable}};
}

}  // namespace

std::string RenderJson(const Report& report) {
  constexpr int kIndent = 2;
  std::string out = "{";
  auto add = [&, first = true](const char* key, const std::string& value) mutable {
    out += first ? "\n  \"" : ",\n  \"";
    first = false;
    out += key;
    out += "\": ";
    out += IndentJson(value, kIndent);
  };
  const auto text = [](const Json& json) {
    return json.dump(kIndent, ' ', false, Json::error_handler_t::replace);
  };
  add("apiVersion", "\"dlc-check/report/v1\"");
  add("run", text(RunToJson(report.observations.run)));
  add("image", text(ImageToJson(report.observations.served_image)));
  add("outcome", text(OutcomeName(report.outcome)));
  add("counts", text(CountsToJson(CountFindings(report.findings))));
  add("findings", FindingsToJson(report.findings, kIndent));
  add("signature", text(report.signature));
  add("policy", text({{"name", report.policy_name},
                      {"origin", report.policy_source.origin},
                      {"file", report.policy_source.name}}));
  out += "\n}\n";
  return ShowableJson(std::move(out));
}

}  // namespace dlc

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>
#include <vector>

#include "reports/findings_json.h"
#include "reports/json_writer.h"
#include "reports/render.h"
#include "tests/reports/sample_reports.h"

namespace dlc {
namespace {

using Json = nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

class CtrfSchema {
 public:
  CtrfSchema() {
    std::ifstream file(DLC_TESTDATA "/reports/ctrf.schema.json");
    REQUIRE(file.good());
    const Json document = Json::parse(file);
    valijson::SchemaParser(valijson::SchemaParser::kDraft7)
        .populateSchema(Adapter(document), schema_);
  }
  bool Accepts(const Json& document) const {
    valijson::Validator validator;
    return validator.validate(schema_, Adapter(document), nullptr);
  }

 private:
  valijson::Schema schema_;
};

Json CtrfOf(const Report& report) {
  return Json::parse(RenderCtrf(report));
}

TEST_CASE("each sample report is valid CTRF by the published schema") {
  const CtrfSchema schema;
  for (const auto& [name, report] : SampleReports()) {
    CAPTURE(name);
    CHECK(schema.Accepts(CtrfOf(report)));
  }
}

TEST_CASE("the CTRF schema refuses planted faults") {
  const CtrfSchema schema;
  const auto refused = [&](auto plant) {
    Json document = CtrfOf(WorstFirst());
    REQUIRE(schema.Accepts(document));
    plant(document);
    return !schema.Accepts(document);
  };
  CHECK(refused([](Json& d) { d["results"]["tests"][3]["status"] = "unknown"; }));
  CHECK(refused([](Json& d) { d["results"]["tests"][3].erase("duration"); }));
  CHECK(refused([](Json& d) { d["results"]["tests"][3]["severity"] = "required"; }));
  CHECK(refused([](Json& d) { d["results"]["tests"][3]["suite"] = "image-digest"; }));
  CHECK(refused([](Json& d) { d["results"]["summary"].erase("start"); }));
  CHECK(refused([](Json& d) { d["results"]["summary"]["unknown"] = 2; }));
  CHECK(refused([](Json& d) { d["specVersion"] = "1.0"; }));
  CHECK(refused([](Json& d) { d["reportFormat"] = "ctrf"; }));
  CHECK(refused([](Json& d) { d["outcome"] = "FAILED"; }));
}

TEST_CASE("CTRF counts its tests, and calls nothing passed that is not") {
  for (const auto& [name, report] : SampleReports()) {
    CAPTURE(name);
    const Json results = CtrfOf(report)["results"];
    std::map<std::string, int> counted;
    for (const Json& test : results["tests"]) {
      ++counted[test["status"]];
      CHECK((test["status"] == "passed") ==
            (test["rawStatus"] == "pass" || test["rawStatus"] == "PASSED"));
    }
    for (const char* status : {"passed", "failed", "skipped", "pending", "other"}) {
      CAPTURE(status);
      CHECK(results["summary"][status] == counted[status]);
    }
    CHECK(results["summary"]["tests"] == results["tests"].size());
    const Json& last = results["tests"].back();
    CHECK(last["name"] == "preflight.verdict");
    CHECK(last["status"] == (report.outcome == Outcome::kPassed ? "passed" : "failed"));
  }
}

TEST_CASE("CTRF times are milliseconds since 1970") {
  const Json summary = CtrfOf(AllPass())["results"]["summary"];
  CHECK(summary["start"] == 1767323045000);
  CHECK(summary["stop"] == 1767323135000);
}

TEST_CASE("the JSON report holds the findings as they are, and reads back to them") {
  for (const auto& [name, report] : SampleReports()) {
    if (name == "hostile_names") {
      continue;  // invalid UTF-8 does not survive JSON
    }
    CAPTURE(name);
    const Json document = Json::parse(RenderJson(report));
    const auto findings = ParseFindings(document["findings"].dump());
    REQUIRE(findings.has_value());
    CHECK(*findings == report.findings);
  }
}

TEST_CASE("the JSON report has its keys in the promised order") {
  const auto document = nlohmann::ordered_json::parse(RenderJson(WorstFirst()));
  std::vector<std::string> keys;
  for (const auto& [key, value] : document.items()) {
    keys.push_back(key);
  }
  CHECK(keys == std::vector<std::string>{"apiVersion", "run", "image", "outcome", "counts",
                                         "findings", "signature", "policy"});
  CHECK(document["apiVersion"] == "dlc-check/report/v1");
  CHECK(document["outcome"] == "FAILED");
  CHECK(document["signature"] == "unsigned");
  CHECK(document["counts"]["warned"] == 2);
  CHECK(document["image"]["state"] == "seen");
}

TEST_CASE("an image that was not seen is told apart from one not looked at") {
  CHECK(Json::parse(RenderJson(Interrupted()))["image"]["state"] == "error");
  CHECK(Json::parse(RenderJson(NothingJudged()))["image"]["state"] == "not_looked_at");
}

TEST_CASE("the JSON report is indented as one document") {
  const std::string text = RenderJson(WorstFirst());
  CHECK(text == nlohmann::ordered_json::parse(text).dump(2) + "\n");
}

/// The same tree through the writer.
void WriteTree(JsonWriter& out, const nlohmann::ordered_json& tree) {
  if (tree.is_object()) {
    out.BeginObject();
    for (const auto& [key, value] : tree.items()) {
      out.Key(key);
      WriteTree(out, value);
    }
    out.EndObject();
  } else if (tree.is_array()) {
    out.BeginArray();
    for (const auto& value : tree) {
      WriteTree(out, value);
    }
    out.EndArray();
  } else if (tree.is_string()) {
    out.Text(tree.get_ref<const std::string&>());
  } else if (tree.is_number_float()) {
    out.Number(tree.get<double>());
  } else if (tree.is_number()) {
    out.Number(tree.get<std::int64_t>());
  } else if (tree.is_boolean()) {
    out.Bool(tree.get<bool>());
  } else {
    out.Null();
  }
}

TEST_CASE("the writer gives the bytes of nlohmann's dump") {
  const nlohmann::ordered_json trees[] = {
      nullptr,
      nlohmann::ordered_json::array(),
      {{"b", nlohmann::ordered_json::object()}, {"a", {1, -2, true, false, nullptr}}},
      {{{"x", {{"y", {{"z", nlohmann::ordered_json::array({nlohmann::ordered_json::array()})}}}}}}},
      {0.1, 3.0, 1e22, -1.5e-300, 9007199254740993, std::numeric_limits<std::int64_t>::min()},
      {"", "plain", "\"quoted\" \\ /", "a\nb\t\x01", "\x7f\xC2\x9B\xE2\x80\xAE", "\xE6\xBC\xA2"},
      {"\xFF", "\xE2\x82", "\xE2\x82(", "\xC0\xAF", "\xED\xA0\x80", "\xF0\x9F\x9A",
       "a\xF0\x9F\x9A\xF0"},
  };
  for (const auto& tree : trees) {
    for (const int indent : {-1, 0, 2}) {
      JsonWriter out(indent);
      WriteTree(out, tree);
      CHECK(out.Take() == tree.dump(indent, ' ', false, Json::error_handler_t::replace));
    }
  }
}

TEST_CASE("a nested document is indented like the rest, at line starts only") {
  JsonWriter out(2);
  out.BeginObject();
  out.Key("a");
  out.Nested("{\n  \"b\": [\n    1\n  ]\n}");
  out.Texts("c", std::vector<std::string>{"\n"});
  out.EndObject();
  CHECK(out.Take() == Json::parse(R"({"a": {"b": [1]}, "c": ["\n"]})").dump(2));
}

TEST_CASE("numbers that JSON does not have become texts") {
  JsonWriter out(-1);
  out.BeginArray();
  out.Number(std::nan(""));
  out.Number(std::numeric_limits<double>::infinity());
  out.Number(-std::numeric_limits<double>::infinity());
  out.EndArray();
  CHECK(out.Take() == R"(["NaN","Infinity","-Infinity"])");
}

TEST_CASE("escaped unsafe characters parse to the same values") {
  const std::string value = "\x7f\xC2\x9B\xE2\x80\xAE\xF3\xA0\x81\x81 \xE6\xBC\xA2 \x1b \\u0041";
  JsonWriter out(-1, JsonWriter::Unsafe::kEscaped);
  out.BeginArray();
  out.Text(value);
  out.Nested(Json(value).dump());
  out.EndArray();
  const std::string shown = out.Take();
  CHECK(Json::parse(shown) == Json::array({value, value}));
  CHECK(shown.rfind("[\"\\u007f\\u009b\\u202e\\udb40\\udc41 \xE6\xBC\xA2 \\u001b", 0) == 0);
}

TEST_CASE("thirty thousand findings are rendered in every format") {
  const Report large = LargeReport(30'000);
  for (const Renderer& renderer : AllRenderers()) {
    CAPTURE(std::string(renderer.format));
    CHECK_FALSE(renderer.render(large, {}).empty());
  }
}

}  // namespace
}  // namespace dlc

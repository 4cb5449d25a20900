#include "reports/findings_json.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace dlc {
namespace {

Finding Passing() {
  Finding finding;
  finding.check = "image-digest";
  finding.rule = "image-digest/pod-runs-policy-digest";
  finding.verdict = Verdict::kPass;
  finding.severity = Severity::kWarn;
  finding.subject = {"pod", "train/head"};
  finding.expected = "digest sha256:1";
  finding.actual = "sha256:1";
  finding.assertions = {
      {"digest", Op::kEq, std::string("a"), std::string("a"), "", "policy:image.digest"},
      {"gpus", Op::kGe, std::int64_t{4}, std::int64_t{4}, "gpu", "policy:gpu.total"},
      {"fraction", Op::kGe, 0.5, 3.0, "", "policy:x"},
      {"whole", Op::kEq, 3.0, std::int64_t{3}, "", "policy:x"},
      {"flag", Op::kEq, true, true, "", "constant"},
      {"label", Op::kAbsent, std::monostate{}, std::monostate{}, "", "constant"},
      {"names", Op::kSubset, std::vector<std::string>{"a", "b"}, std::vector<std::string>{"a"}, "",
       "constant"}};
  finding.establishes = {"e"};
  finding.does_not_establish = {"d"};
  finding.notes = {"n"};
  return finding;
}

Finding Unseen() {
  Finding finding;
  finding.check = "ray-version";
  finding.rule = "ray-version/same-everywhere";
  finding.reason = {"timeout", "no answer", "image-digest/pod-runs-policy-digest pod train/head"};
  finding.does_not_establish = {"d"};
  finding.hint = "look again";
  return finding;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

TEST_CASE("findings: written and read back are equal, for every kind of value") {
  const std::vector<Finding> findings = {Passing(), Unseen()};
  for (const int indent : {-1, 2}) {
    const std::string json = FindingsToJson(findings, indent);
    const auto read = ParseFindings(json);
    REQUIRE_MESSAGE(read.has_value(), read.error().message);
    CHECK(*read == findings);
    CHECK(FindingsToJson(*read, indent) == json);
  }
}

TEST_CASE("findings: whole and real numbers stay apart on the wire") {
  const std::string json = FindingsToJson({Passing()}, -1);
  CHECK(json.find(R"("limit":4,"observed":4)") != std::string::npos);
  CHECK(json.find(R"("limit":0.5,"observed":3.0)") != std::string::npos);
}

TEST_CASE("findings: every key is there even when empty") {
  const std::string json = FindingsToJson({Finding{}}, -1);
  for (const char* key : {"check", "rule", "verdict", "severity", "subject", "kind", "name",
                          "expected", "actual", "assertions", "reason", "code", "message",
                          "blockedBy", "establishes", "doesNotEstablish", "hint", "notes"}) {
    CAPTURE(key);
    CHECK(json.find("\"" + std::string(key) + "\":") != std::string::npos);
  }
}

TEST_CASE("findings: what is not JSON, or not exactly a finding, is refused with its path") {
  const std::string good = FindingsToJson({Passing(), Unseen()}, -1);
  struct Row {
    const char* name;
    std::string json;
    const char* message;
  };
  const Row rows[] = {
      {"truncated", good.substr(0, good.size() - 1), ""},
      {"not a list", "{}", "expected a list"},
      {"missing key", Replaced(good, R"("hint":"",)", ""), "$[0]: missing key 'hint'"},
      {"unknown key", Replaced(good, R"("hint":"")", R"("hint":"","more":1)"),
       "$[0]: unknown key 'more'"},
      {"duplicate key", Replaced(good, R"("hint":"")", R"("hint":"","hint":"")"), ""},
      {"unknown verdict", Replaced(good, R"("pass")", R"("passed")"), "$[0].verdict"},
      {"unknown severity", Replaced(good, R"("warn")", R"("warning")"), "$[0].severity"},
      {"verdict is a number", Replaced(good, R"("verdict":"pass")", R"("verdict":0)"),
       "$[0].verdict"},
      {"unknown operator", Replaced(good, R"("op":"eq")", R"("op":"approximately")"),
       "$[0].assertions[0].op"},
      {"limit is an object", Replaced(good, R"("limit":"a")", R"("limit":{})"),
       "$[0].assertions[0].limit"},
      {"limit is a list of numbers", Replaced(good, R"("limit":"a")", R"("limit":[1])"),
       "$[0].assertions[0].limit[0]"},
      {"limit beyond int64", Replaced(good, R"("limit":4)", R"("limit":9223372036854775808)"),
       "$[0].assertions[1].limit"},
      {"holds is edited", Replaced(good, R"("holds":true)", R"("holds":false)"),
       "$[0].assertions[0]: says holds false"},
      {"limit is edited", Replaced(good, R"("limit":4)", R"("limit":5)"),
       "$[0].assertions[1]: says holds true"}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const auto read = ParseFindings(row.json);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().code == ErrorCode::kInvalidInput);
    CHECK_MESSAGE(read.error().message.find(row.message) != std::string::npos,
                  read.error().message);
  }
}

TEST_CASE("findings: a number that JSON lacks cannot come back as an absent value that holds") {
  Finding finding = Passing();
  finding.assertions = {{"speed", Op::kAbsent, std::monostate{}, std::nan(""), "", "constant"},
                        {"speed", Op::kGe, 1.0, -std::numeric_limits<double>::infinity(), "", ""}};
  const std::string json = FindingsToJson({finding}, -1);
  CHECK(json.find(R"("observed":"NaN")") != std::string::npos);
  CHECK(json.find(R"("observed":"-Infinity")") != std::string::npos);
  const auto read = ParseFindings(json);
  REQUIRE_MESSAGE(read.has_value(), read.error().message);
  CHECK_FALSE(Holds((*read)[0].assertions[0]));
}

TEST_CASE("findings: invalid UTF-8 from a log becomes the replacement character") {
  Finding finding = Unseen();
  finding.reason.message = "bad \xff byte";
  const auto read = ParseFindings(FindingsToJson({finding}, -1));
  REQUIRE(read.has_value());
  CHECK((*read)[0].reason.message == "bad \xEF\xBF\xBD byte");
}

}  // namespace
}  // namespace dlc

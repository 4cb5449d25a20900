#include "probes/observations/strict_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace dlc {
namespace {

TEST_CASE("strict JSON: reads what is well formed, in order") {
  const auto document = ParseStrictJson(R"({"b": [1, 2.5, true, null], "a": {"x": "y"}})");
  REQUIRE(document.has_value());
  CHECK(document->dump() == R"({"b":[1,2.5,true,null],"a":{"x":"y"}})");
  const std::string nested =
      R"({"z":[[],[{}],{"y":[{"c":-1,"b":[2,[3]]},"t"],"a":{}}],"k":{"l":{"m":18446744073709551615}},"e":""})";
  REQUIRE(ParseStrictJson(nested).has_value());
  CHECK(ParseStrictJson(nested)->dump() == nested);
  CHECK(ParseStrictJson("7")->dump() == "7");
}

TEST_CASE("strict JSON: refuses what readers disagree about") {
  struct Row {
    std::string text;
    const char* message;
  };
  const Row rows[] = {
      {R"({"a": 1, "a": 2})", "duplicate key 'a'"},
      {R"([{"x": {"b": 1, "b": 1}}])", "duplicate key 'b'"},
      {"{} {}", "parse error"},
      {"\xEF\xBB\xBF{}", "byte order mark"},
      {"{\"a\": \"\xFF\"}", "UTF-8"},
      {R"(["\ud800"])", "surrogate"},
      {"[1e400]", "number overflow"},
      {"[NaN]", "parse error"},
      {"", "parse error"},
      {std::string(70, '[') + std::string(70, ']'), "nested deeper than 64"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto document = ParseStrictJson(row.text);
    REQUIRE_FALSE(document.has_value());
    CHECK(document.error().message.find(row.message) != std::string::npos);
    CAPTURE(document.error().message);
  }
  CHECK_FALSE(ParseStrictJson("[1,2,3]", {4, 64}).has_value());
}

TEST_CASE("strict JSON: a duplicate is found in an object of any size") {
  for (const int size : {1, 31, 32, 33, 500}) {
    CAPTURE(size);
    std::string text = "{";
    for (int i = 0; i < size; ++i) {
      text += "\"key" + std::to_string(i) + "\": 1, ";
    }
    CHECK(ParseStrictJson(text + "\"new\": 1}").has_value());
    CHECK_FALSE(ParseStrictJson(text + "\"key0\": 1}").has_value());
    CHECK_FALSE(ParseStrictJson(text + "\"key" + std::to_string(size - 1) + "\": 1}").has_value());
  }
}

TEST_CASE("strict JSON: keys of one object are bounded, at the limit and one beyond") {
  const auto object = [](std::size_t keys) {
    std::string text = "{";
    for (std::size_t i = 0; i < keys; ++i) {
      text += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":" + std::to_string(i);
    }
    return text + "}";
  };
  const auto full = ParseStrictJson(object(kMaxKeysPerObject));
  REQUIRE(full.has_value());
  CHECK(full->size() == kMaxKeysPerObject);
  CHECK(full->dump() == object(kMaxKeysPerObject));
  const auto over = ParseStrictJson("[" + object(kMaxKeysPerObject + 1) + "]");
  REQUIRE_FALSE(over.has_value());
  CHECK(over.error() == Error{ErrorCode::kInvalidInput,
                              "more than 10000 keys in one object, the next is 'k10000'", ""});
  // The bound is of an object, not of a document.
  CHECK(ParseStrictJson("[" + object(6000) + "," + object(6000) + "]").has_value());
}

TEST_CASE("strict JSON: the same key in two objects is no duplicate") {
  CHECK(ParseStrictJson(R"([{"a": {"a": 1}}, {"a": 1}])").has_value());
}

}  // namespace
}  // namespace dlc

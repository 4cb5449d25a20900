#include "probes/control/kubernetes/list_page.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/kubernetes/scratch.h"

namespace dlc {
namespace {

TEST_CASE("list page: items are cut out whole, whatever they hold") {
  const std::string body =
      R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"tok\"en"},)"
      R"("items":[ {"a":"}]\"{\\"}, {"metadata":{"continue":"no"},"b":[1,{"c":[]}]} ,{}]})"
      "\n";
  const auto page = SplitListPage(body);
  REQUIRE(page.has_value());
  CHECK(page->kind == "PodList");
  CHECK(page->resource_version == "7");
  CHECK(page->continue_token == "tok\"en");
  REQUIRE(page->items.size() == 3);
  CHECK(page->items[0] == R"({"a":"}]\"{\\"})");
  CHECK(page->items[1] == R"({"metadata":{"continue":"no"},"b":[1,{"c":[]}]})");
  CHECK(page->items[2] == "{}");
}

TEST_CASE("list page: any order of keys, and an empty list in both spellings") {
  const auto any = SplitListPage(
      R"({"items":[{}],"extra":[{"x":1.5e3},null,true],"metadata":{"continue":"c"},"kind":"NodeList"})");
  REQUIRE(any.has_value());
  CHECK(any->continue_token == "c");
  CHECK(any->items.size() == 1);
  CHECK(SplitListPage(R"({"kind":"NodeList","metadata":{},"items":[]})")->items.empty());
  CHECK(SplitListPage(R"({"kind":"NodeList","metadata":{},"items":null})")->items.empty());
}

TEST_CASE("list page: a text cut anywhere is broken, never a shorter list") {
  const std::string whole =
      R"({"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"a":"b"},{"c":[1]}]})";
  REQUIRE(SplitListPage(whole).has_value());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    const auto page = SplitListPage(std::string_view(whole).substr(0, length));
    REQUIRE_FALSE(page.has_value());
    CHECK(page.error().code == ErrorCode::kUnavailable);
  }
}

TEST_CASE("list page: what is no list is said to be none") {
  for (const char* body :
       {"", "<html>", "[]", "null", "{}", R"({"kind":"Pod","metadata":{},"items":[]})",
        R"({"kind":"PodList","metadata":{}})", R"({"kind":"PodList","metadata":{},"items":{}})",
        R"({"kind":"PodList","metadata":{},"items":[1]})",
        R"({"kind":"PodList","metadata":[],"items":[]})",
        R"({"kind":"PodList","metadata":{},"items":[{}],"items":[]})",
        R"({"kind":"PodList","metadata":{},"items":[{}{}]})",
        R"({"kind":"PodList","metadata":{},"items":[]} x)", R"({"kind":"PodList" "items":[]})"}) {
    CAPTURE(body);
    CHECK_FALSE(SplitListPage(body).has_value());
  }
}

}  // namespace
}  // namespace dlc

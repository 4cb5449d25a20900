#include "probes/documents/strict_map.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace dlc {
namespace {

struct Settings {
  std::string text = "default";
  bool flag = false;
  int count = -1;
  double share = -1;
  std::vector<std::string> list = {"default"};
  std::map<std::string, std::string> map = {{"default", ""}};
  std::string choice = "default";
  std::vector<std::string> items;
  std::int64_t whole = -1;
  std::string demand = "default";
};

Result<Settings> ReadSettings(const std::string& yaml, const std::string& where) {
  const auto document = ParseDocument(yaml, "f.yaml");
  REQUIRE(document.has_value());
  REQUIRE(document->roots.size() == 1);
  Settings settings;
  StrictMap map("f.yaml", document->roots[0], where);
  map.Text("text", settings.text);
  map.Bool("flag", settings.flag);
  map.Int("count", settings.count, 0, 100);
  map.Double("share", settings.share, 0, 1.5);
  map.TextList("list", settings.list);
  map.TextMap("map", settings.map);
  map.Choice("choice", settings.choice, {"required", "warn", "off"});
  map.Items("items", [&](const DocNode& node) -> Result<void> {
    if (node.text == "bad") {
      return Error{ErrorCode::kInvalidInput, "'bad' is not good", "be good"};
    }
    if (node.text == "placed") {
      return map.At(node, "found by itself", "");
    }
    if (node.text == "must") {
      return Error{ErrorCode::kInvalidInput, "must be something else", ""};
    }
    settings.items.push_back(node.text);
    return {};
  });
  map.Each("each", [](const DocNode& node) -> Result<void> {
    return node.IsNull() ? Result<void>() : Error{ErrorCode::kNotFound, "cannot be this", "go"};
  });
  map.Whole("whole", settings.whole, 0, 1'000'000'000'000'000'000);
  map.Demand("demand", settings.demand);
  if (const auto done = map.Finish(); !done) {
    return done.error();
  }
  return settings;
}

std::string Problem(const std::string& yaml, const std::string& where = "") {
  const auto settings = ReadSettings(yaml, where);
  if (settings) {
    return "ok";
  }
  CHECK(settings.error().code == ErrorCode::kInvalidInput);
  return settings.error().message +
         (settings.error().hint.empty() ? "" : " (" + settings.error().hint + ")");
}

TEST_CASE("strict map: reads each kind of value") {
  const auto settings = ReadSettings(
      "text: 2.58\nflag: true\ncount: 100\nshare: 1.5\nlist: [a, 1]\nmap: {a: 1}\nchoice: off\n"
      "items: [x, y]\neach:\n",
      "");
  REQUIRE(settings.has_value());
  CHECK(settings->text == "2.58");
  CHECK(settings->flag);
  CHECK(settings->count == 100);
  CHECK(settings->share == 1.5);
  CHECK(settings->list == std::vector<std::string>{"a", "1"});
  CHECK(settings->map == std::map<std::string, std::string>{{"a", "1"}});
  CHECK(settings->choice == "off");
  CHECK(settings->items == std::vector<std::string>{"x", "y"});
  CHECK(ReadSettings("list: one\n", "")->list == std::vector<std::string>{"one"});
}

TEST_CASE("strict map: whole numbers may be written with an exponent") {
  CHECK(ReadSettings("whole: 2.0e+9\n", "")->whole == 2'000'000'000);
  CHECK(ReadSettings("whole: 9007199254740993\n", "")->whole == 9'007'199'254'740'993);
  CHECK(ReadSettings("whole: 1e18\n", "")->whole == 1'000'000'000'000'000'000);
  CHECK(ReadSettings("demand: efa\n", "")->demand == "efa");
}

TEST_CASE("strict map: absent keys leave the defaults") {
  const auto settings = ReadSettings("{}", "");
  REQUIRE(settings.has_value());
  CHECK(settings->text == "default");
  CHECK(settings->count == -1);
  CHECK(settings->list == std::vector<std::string>{"default"});
  CHECK(settings->map.count("default") == 1);
  CHECK(settings->choice == "default");
}

TEST_CASE("strict map: a null counts as an empty map, another kind does not") {
  const DocNode null;
  StrictMap map("f.yaml", null, "image");
  CHECK(map.Finish().has_value());
  CHECK(Problem("[1]") == "f.yaml: line 1: the document must be a map, not a list");
  CHECK(Problem("x", "image") == "f.yaml: line 1: 'image' must be a map, not 'x'");
}

TEST_CASE("strict map: what is wrong is said with line, key and hint") {
  struct Row {
    const char* yaml;
    const char* problem;
  };
  const Row rows[] = {
      {"text: a\ncuont: 1\n",
       "f.yaml: line 2: unknown key 'cuont' in 'image' (did you mean 'count'?)"},
      {"zzzzzz: 1\n",
       "f.yaml: line 1: unknown key 'zzzzzz' in 'image' (known keys: text, flag, count, share, "
       "list, "
       "map, choice, items, each, whole, demand)"},
      {"text: [a]\n", "f.yaml: line 1: 'image.text' must be text, not a list"},
      {"text:\n",
       "f.yaml: line 1: 'image.text' must be text, not nothing (give it a value or remove the "
       "key)"},
      {"flag: yes\n", "f.yaml: line 1: 'image.flag' must be true or false, not 'yes' (write true)"},
      {"count: four\n", "f.yaml: line 1: 'image.count' must be a whole number, not 'four'"},
      {"count: 101\n",
       "f.yaml: line 1: 'image.count' must be a whole number from 0 to 100, not '101'"},
      {"count: -1\n",
       "f.yaml: line 1: 'image.count' must be a whole number from 0 to 100, not '-1'"},
      {"count: 4294967296\n",
       "f.yaml: line 1: 'image.count' must be a whole number from 0 to 100, not '4294967296'"},
      {"share: 1.6\n", "f.yaml: line 1: 'image.share' must be a number from 0 to 1.5, not '1.6'"},
      {"share: x\n", "f.yaml: line 1: 'image.share' must be a number, not 'x'"},
      {"list: {a: 1}\n", "f.yaml: line 1: 'image.list' must be a list of texts, not a map"},
      {"list:\n- a\n- [b]\n", "f.yaml: line 3: 'image.list[1]' must be text, not a list"},
      {"list: [a, , b]\n",
       "f.yaml: line 1: 'image.list[1]' must be text, not nothing (give it a value or remove the "
       "key)"},
      {"map: [a]\n", "f.yaml: line 1: 'image.map' must be a map of texts, not a list"},
      {"map:\n  a: {}\n", "f.yaml: line 2: 'image.map.a' must be text, not a map"},
      {"choice: warm\n",
       "f.yaml: line 1: 'image.choice' must be one of required, warn, off, not 'warm' (did you "
       "mean "
       "'warn'?)"},
      {"choice: [off]\n",
       "f.yaml: line 1: 'image.choice' must be one of required, warn, off, not a list"},
      {"items: x\n", "f.yaml: line 1: 'image.items' must be a list, not 'x'"},
      {"items:\n",
       "f.yaml: line 1: 'image.items' must be a list, not nothing (give it a value or remove the "
       "key)"},
      {"items:\n- x\n- bad\n", "f.yaml: line 3: 'image.items[1]': 'bad' is not good (be good)"},
      {"items:\n- must\n", "f.yaml: line 2: 'image.items[0]' must be something else"},
      {"items:\n- placed\n", "f.yaml: line 2: found by itself"},
      {"whole: 0.5\n", "f.yaml: line 1: 'image.whole' must be a whole number, not '0.5'"},
      {"whole: 2000000000.5\n",
       "f.yaml: line 1: 'image.whole' must be a whole number, not '2000000000.5'"},
      {"whole: -1\n", "f.yaml: line 1: 'image.whole' must be a number from 0 to 1e+18, not '-1'"},
      {"whole: 1.1e18\n",
       "f.yaml: line 1: 'image.whole' must be a number from 0 to 1e+18, not '1.1e18'"},
      {"whole: x\n", "f.yaml: line 1: 'image.whole' must be a number, not 'x'"},
      {"demand: ''\n",
       "f.yaml: line 1: 'image.demand' must not be empty (remove the key to demand nothing)"},
      {"demand:\n",
       "f.yaml: line 1: 'image.demand' must be text, not nothing (give it a value or remove the "
       "key)"},
      {"each: 1\n", "f.yaml: line 1: 'image.each' cannot be this (go)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.yaml);
    CHECK(Problem(row.yaml, "image") == row.problem);
  }
}

TEST_CASE("strict map: the first error is the one that is told") {
  CHECK(Problem("unknown: 1\ncount: x\ntext: []\n") ==
        "f.yaml: line 3: 'text' must be text, not a list");
}

TEST_CASE("strict map: a mandatory key is missed by name") {
  DocNode node;
  node.kind = DocNode::Kind::kMap;
  node.line = 7;
  StrictMap map("f.yaml", node, "target");
  map.Require("type");
  CHECK(map.Finish().error().message == "f.yaml: line 7: key 'type' is missing in 'target'");
}

}  // namespace
}  // namespace dlc

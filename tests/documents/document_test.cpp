#include <doctest/doctest.h>

#include <string>

#include "probes/documents/node.h"

namespace dlc {
namespace {

std::string Dump(const DocNode& node) {
  switch (node.kind) {
    case DocNode::Kind::kNull:
      return "null";
    case DocNode::Kind::kScalar:
      return node.plain ? node.text : "\"" + node.text + "\"";
    case DocNode::Kind::kSequence: {
      std::string text = "[";
      for (const DocNode& item : node.items) {
        text += (text.size() > 1 ? "," : "") + Dump(item);
      }
      return text + "]";
    }
    case DocNode::Kind::kMap: {
      std::string text = "{";
      for (const DocNode::Entry& entry : node.entries) {
        text += (text.size() > 1 ? "," : "") + entry.key + "@" + std::to_string(entry.line) + ":" +
                Dump(entry.value);
      }
      return text + "}";
    }
  }
  return "";
}

std::string Read(const std::string& bytes, const std::string& file = "f.yaml") {
  const auto document = ParseDocument(bytes, file);
  if (!document) {
    return "error: " + document.error().message + " (" + document.error().hint + ")";
  }
  std::string text;
  for (const DocNode& root : document->roots) {
    text += (text.empty() ? "" : " ") + Dump(root);
  }
  return text;
}

/// "message (hint)" of the error, or what was read.
std::string Problem(const std::string& bytes, const DocumentLimits& limits = {},
                    const std::string& file = "f.yaml") {
  const auto document = ParseDocument(bytes, file, limits);
  if (document) {
    return "read: " + Read(bytes, file);
  }
  CHECK(document.error().code == ErrorCode::kInvalidInput);
  const std::string& hint = document.error().hint;
  return document.error().message + (hint.empty() ? "" : " (" + hint + ")");
}

std::string Repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) {
    all += text;
  }
  return all;
}

TEST_CASE("documents: YAML and JSON become the same tree") {
  CHECK(Read("a: 1\nb: [x, 'y', null]\nc:\n  d: true\n") ==
        "{a@1:1,b@2:[x,\"y\",null],c@3:{d@4:true}}");
  CHECK(Read("{\n \"a\": 1,\n \"b\": [\"x\", 2.50\n],\n \"c\": {}}") ==
        "{a@2:1,b@3:[\"x\",2.50],c@5:{}}");
}

TEST_CASE("documents: nodes know their line") {
  const auto yaml = ParseDocument("# c\na:\n  - 1\n  - b: 2\n", "f.yaml");
  REQUIRE(yaml.has_value());
  const DocNode& list = *yaml->roots[0].Find("a");
  CHECK(list.items[0].line == 3);
  CHECK(list.items[0].column == 5);
  CHECK(list.items[1].Find("b")->line == 4);

  // A number is known to have ended by the byte after it.
  const auto json = ParseDocument("{\n\"a\": [1\n,\n-2.5\n\n,true\n,\"x\"\n]}\n", "f.json");
  REQUIRE(json.has_value());
  const DocNode& numbers = *json->roots[0].Find("a");
  CHECK(numbers.line == 2);
  CHECK(numbers.items[0].line == 2);
  CHECK(numbers.items[1].line == 4);
  CHECK(numbers.items[2].line == 6);
  CHECK(numbers.items[3].line == 7);
}

TEST_CASE("documents: a value that is not there has the line of its key") {
  const auto document = ParseDocument("a:\n\n# c\n\nb:\n", "f.yaml");
  REQUIRE(document.has_value());
  CHECK(document->roots[0].Find("a")->IsNull());
  CHECK(document->roots[0].Find("a")->line == 1);
  CHECK(document->roots[0].Find("b")->line == 5);
}

TEST_CASE("documents: plain text keeps what was written, quoted text is no number") {
  CHECK(Read("a: 3.10\nb: 2.58\nc: \"1\"\nd: !!str 1\ne: ! 1\nf: yes\ng: 0x1F\n") ==
        "{a@1:3.10,b@2:2.58,c@3:\"1\",d@4:\"1\",e@5:\"1\",f@6:yes,g@7:0x1F}");
  CHECK(Read("a: |\n  x\n  \ty\nb: >-\n  x\n  y\n") == "{a@1:\"x\n\ty\n\",b@4:\"x y\"}");
  CHECK(Read("[1e3, -0.5, 18446744073709551615]", "f.json") == "[1e3,-0.5,18446744073709551615]");
}

TEST_CASE("documents: byte order mark, CRLF and several documents are read") {
  CHECK(Read("\xEF\xBB\xBF"
             "a: 1\n") == "{a@1:1}");
  CHECK(Read("\xEF\xBB\xBF{\"a\": 1}", "f.json") == "{a@1:1}");
  CHECK(Read("a: 1\r\nb: |\r\n  x\r\nc: 2\r\n") == "{a@1:1,b@2:\"x\n\",c@4:2}");
  CHECK(Read("{\r\n\"a\": 1,\r\n\"b\": 2}\r\n", "f.json") == "{a@2:1,b@3:2}");
  CHECK(Read("a: 1\n---\nb: 2\n--- c\n---\n# none\n---\nnull\n...\nd\n") == "{a@1:1} {b@3:2} c d");
  CHECK(Read("") == "");
  CHECK(Read("# nothing\n---\n") == "");
}

TEST_CASE("documents: flow style is YAML unless the file is named .json") {
  CHECK(Read("{a: 1, b: [x]}") == "{a@1:1,b@1:[x]}");
  CHECK(Read("{\"a\": 1, # why\n}") == "{a@1:1}");
  CHECK(Problem("{\"a\": 1, # why\n}", {}, "f.json") ==
        "f.json: line 1: invalid literal; expected string literal");
  // Neither: the message is the reader's that came further.
  CHECK(Problem("{\"a\": 1,\n\"b\": \"x\n y\\q\"\n}") ==
        "f.yaml: line 3: unknown escape character: q");
  CHECK(Problem("{\"a\": [\"b\": 1}") == "f.yaml: line 1: unexpected closing bracket");
}

TEST_CASE("documents: aliases repeat the anchored node") {
  CHECK(Read("a: &x {b: 1}\nc: *x\nd: [*x, *x]\n") ==
        "{a@1:{b@1:1},c@2:{b@1:1},d@3:[{b@1:1},{b@1:1}]}");
  CHECK(Read("a: &x\nb: *x\nc: &x 2\nd: *x\n") == "{a@1:null,b@2:null,c@3:2,d@4:2}");
}

TEST_CASE("documents: what is wrong is said with its line") {
  struct Row {
    std::string bytes;
    const char* problem;
  };
  const Row rows[] = {
      {"a: 1\nb: 2\na: 3\n",
       "f.yaml: line 3: duplicate key 'a' (it is first given on line 1; keep one)"},
      {"{\"a\": {\"b\": 1,\n\"b\": 1}}",
       "f.yaml: line 2: duplicate key 'b' (it is first given on line 1; keep one)"},
      {"a: *x\n",
       "f.yaml: line 1: alias to an anchor that is not defined above (quote a text that begins "
       "with "
       "*)"},
      {"a: &x 1\n---\nb: *x\n",
       "f.yaml: line 3: alias to an anchor that is not defined above (quote a text that begins "
       "with "
       "*)"},
      {"a: &x [1, *x]\n",
       "f.yaml: line 1: alias to a node that contains it (write the values out)"},
      {"a: &x 1\n---\nb: &y [*y]\n",
       "f.yaml: line 3: alias to a node that contains it (write the values out)"},
      {"a: &x {b: 1}\nc:\n  <<: *x\n",
       "f.yaml: line 3: merge key '<<' is not supported (write the merged keys out)"},
      {"&x a: 1\n", "f.yaml: line 1: a key cannot have an anchor (remove it)"},
      {"a: &x 1\n*x : 2\n", "f.yaml: line 2: a key must be text, not an alias"},
      {"? [a]\n: 1\n", "f.yaml: line 1: a key must be text, not a list"},
      {"? {a: 1}\n: 1\n", "f.yaml: line 1: a key must be text, not a map"},
      {"null: 1\n", "f.yaml: line 1: a key must be text, not nothing"},
      {"a: 1\nb: !!binary aGk=\n",
       "f.yaml: line 2: tag '!!binary' is not supported (remove the tag)"},
      {"a: !mine {}\n", "f.yaml: line 1: tag '!mine' is not supported (remove the tag)"},
      {"a: !!map 1\n", "f.yaml: line 1: tag '!!map' is not supported (remove the tag)"},
      {"a:\n\tb: 1\n", "f.yaml: line 2: tab in the indentation (indent with spaces)"},
      {"a: |\n  x\n\ty\n", "f.yaml: line 3: tab in the indentation (indent with spaces)"},
      {"a: b: c\n",
       "f.yaml: line 1: unexpected ':' (mend the indentation, or quote the text that holds ': ')"},
      {"a:\n  b: 1\n c: 2\n",
       "f.yaml: line 3: does not continue what the lines above begin (mend the indentation)"},
      // yaml-cpp alone reads each of the next three as two documents.
      {"- a\nb: 1\n",
       "f.yaml: line 2: does not continue what the lines above begin (mend the indentation, or put "
       "'---' between two documents)"},
      {"{a: 1}\n{b: 2}\n",
       "f.yaml: line 2: does not continue what the lines above begin (mend the indentation, or put "
       "'---' between two documents)"},
      {"---\n\"a\" \"b\"\n",
       "f.yaml: line 2: does not continue what the lines above begin (mend the indentation, or put "
       "'---' between two documents)"},
      // yaml-cpp alone reads each of the next three as closed at the end of the file.
      {"a: 1\nb: 'it''s\nc: 2\n", "f.yaml: line 2: quote is not closed (add the missing ')"},
      {"a: 1\nb: \"x\\\"\n", "f.yaml: line 2: quote is not closed (add the missing \")"},
      {"a: &x !!str # c\n  \"x\n", "f.yaml: line 2: quote is not closed (add the missing \")"},
      {"a: [1, 2\n", "f.yaml: line 2: '[' is not closed (add the missing ] or ,)"},
      {"a: {b: 1\n", "f.yaml: line 2: '{' is not closed (add the missing } or ,)"},
      {"a: @x\n", "f.yaml: line 1: unexpected character (quote a text that begins with @, % or `)"},
      {"a: 1\n]\n", "f.yaml: line 2: unexpected closing bracket"},
      {"%YAML 3.0\n---\na: 1\n", "f.yaml: line 1: YAML major version too large"},
      {std::string("a: 1\nb: \0", 9),
       "f.yaml: line 2: NUL byte: not a text file (save the file as UTF-8)"},
      {"a: 1\nb: \"\\x00\"\n",
       "f.yaml: line 2: text with a NUL character (remove the escape \\0, \\x00 or \\u0000)"},
      {"{\n\"a\\u0000\": 1}",
       "f.yaml: line 2: text with a NUL character (remove the escape \\0, \\x00 or \\u0000)"},
      {"a: 1\nb: \xFF\n", "f.yaml: line 2: not UTF-8 (save the file as UTF-8)"},
      {"\xFF\xFE"
       "a",
       "f.yaml: line 1: not UTF-8 (save the file as UTF-8)"},
      {"a: \xC0\xAF\n", "f.yaml: line 1: not UTF-8 (save the file as UTF-8)"},
      {"a: \xED\xA0\x80\n", "f.yaml: line 1: not UTF-8 (save the file as UTF-8)"},
      {"a: \xF4\x90\x80\x80\n", "f.yaml: line 1: not UTF-8 (save the file as UTF-8)"},
      {"a: \xE2\x82", "f.yaml: line 1: not UTF-8 (save the file as UTF-8)"},
      {"a: 1\n\x04",
       "f.yaml: line 2: control character 0x04 (remove it, or write it as an escape in double "
       "quotes)"},
      {"a: 1\rb: 2\n",
       "f.yaml: line 1: carriage return without line feed (end lines with LF or CRLF)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.bytes);
    CHECK(Problem(row.bytes) == row.problem);
  }
}

TEST_CASE("documents: a character is not completed by what lies behind the text") {
  const std::string euro = "a: \xE2\x82\xAC";
  CHECK(ParseDocument(euro, "f.yaml").has_value());
  CHECK_FALSE(ParseDocument(std::string_view(euro).substr(0, 5), "f.yaml").has_value());
}

TEST_CASE("documents: JSON errors are said without the parser's own preamble") {
  struct Row {
    std::string bytes;
    const char* problem;
  };
  const Row rows[] = {
      {"{\"a\": 1,\n\"b\": }", "f.json: line 2: unexpected '}'; expected '[', '{', or a literal"},
      {"{\"a\": 1\n", "f.json: line 1: unexpected end of input; expected '}'"},
      {"[1]\n[2]", "f.json: line 2: unexpected '['; expected end of input"},
      {"[\n1e999]", "f.json: line 2: number overflow parsing '1e999'"},
      {"[\"\\ud800\"]",
       "f.json: line 1: invalid string: surrogate U+D800..U+DBFF must be followed by "
       "U+DC00..U+DFFF"},
      {"[NaN]", "f.json: line 1: invalid literal"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.bytes);
    CHECK(Problem(row.bytes, {}, "f.json") == row.problem);
  }
}

TEST_CASE("documents: depth is bounded in both syntaxes, at the limit and one beyond") {
  const DocumentLimits limits{1U << 24U, 10'000'000, 10};
  CHECK(Problem(Repeat("[", 10) + Repeat("]", 10), limits).starts_with("read: "));
  CHECK(Problem(Repeat("[", 11) + Repeat("]", 11), limits) ==
        "f.yaml: line 1: nested deeper than 10 levels");
  CHECK(Problem("a: " + Repeat("[", 9) + Repeat("]", 9), limits).starts_with("read: "));
  CHECK(Problem("a: " + Repeat("[", 10) + Repeat("]", 10), limits) ==
        "f.yaml: line 1: nested deeper than 10 levels");
  const std::string alias = "a: &x " + Repeat("[", 5) + Repeat("]", 5) + "\nb: ";
  CHECK(Problem(alias + Repeat("[", 4) + "*x" + Repeat("]", 4), limits).starts_with("read: "));
  CHECK(Problem(alias + Repeat("[", 5) + "*x" + Repeat("]", 5), limits) ==
        "f.yaml: line 2: nested deeper than 10 levels, aliases expanded");
}

TEST_CASE("documents: hostile nesting ends in an error, not in a crash") {
  const DocumentLimits deepest{1U << 24U, 10'000'000, 256};
  for (const char* piece : {"[", "- ", "[a, ", "- - ", "{", "? ", "{a: ", "[{", "{? "}) {
    CAPTURE(std::string(piece));
    CHECK(Problem(Repeat(piece, 50'000), deepest).starts_with("f.yaml: line "));
    CHECK(Problem("x: " + Repeat(piece, 50'000), deepest).starts_with("f.yaml: line "));
  }
  CHECK(Problem(Repeat("- ", 50'000), deepest) == "f.yaml: line 1: nested deeper than 256 levels");
  CHECK(Problem("a: " + Repeat("[", 300) + Repeat("]", 300), deepest) ==
        "f.yaml: line 1: nested deeper than 256 levels");
  CHECK(Problem(Repeat("{a: ", 300) + Repeat("}", 300), deepest) ==
        "f.yaml: line 1: nested deeper than 256 levels");
  CHECK(Problem(Repeat("[", 2'000'000), deepest, "f.json") ==
        "f.json: line 1: nested deeper than 256 levels");
}

TEST_CASE("documents: yaml-cpp may not read megabytes ahead into memory") {
  CHECK(Problem("a: " + Repeat("[a, ", 1'000'000), {1U << 24U, 10'000'000, 64}) ==
        "f.yaml: one [..] or {..} is too large (save it as JSON)");
  // Neither a long file nor a text of the size that Kubernetes stores at most is such a thing.
  CHECK(Problem(Repeat("- " + std::string(998, 'x') + "\n", 3'000), {1U << 24U, 10'000, 64})
            .starts_with("read: "));
  CHECK(Problem("a: \"" + Repeat("x", 1'500'000) + "\"\n", {1U << 24U, 100, 64})
            .starts_with("read: "));
}

TEST_CASE("documents: the number of values is bounded after aliases are expanded") {
  const DocumentLimits limits{1U << 20U, 8, 64};
  CHECK(Problem("a: &x [1, 2]\nb: [3]\n", {1U << 20U, 9, 64}).starts_with("read: "));
  CHECK(Problem("[1, 2, 3, 4, 5, 6, 7]", limits).starts_with("read: "));
  CHECK(
      Problem("[1, 2, 3, 4, 5, 6, 7,\n8]", limits) ==
      "f.yaml: line 2: more than 8 values, aliases expanded (split the file or use fewer aliases)");
  CHECK(
      Problem("a: &x [1, 2]\nb:\n- *x\n", limits) ==
      "f.yaml: line 3: more than 8 values, aliases expanded (split the file or use fewer aliases)");
}

TEST_CASE("documents: an anchor bomb ends at the limit") {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before +
            Repeat(", " + before, 8) + "]\n";
  }
  CHECK(Problem(bomb).find("more than 100000 values, aliases expanded") != std::string::npos);
  const std::string text = "a: &x " + Repeat("x", 600'000) + "\nb: [*x, *x, *x, *x]\n";
  CHECK(Problem(text) ==
        "f.yaml: line 2: aliases repeat more than 1048576 bytes (use fewer aliases)");
}

TEST_CASE("documents: a map of very many keys is checked for twins in time") {
  std::string map;
  for (int i = 0; i < 90'000; ++i) {
    map += "k" + std::to_string(i) + ": 1\n";
  }
  CHECK(Problem(map + "k77: 1\n") ==
        "f.yaml: line 90001: duplicate key 'k77' (it is first given on line 78; keep one)");
}

TEST_CASE("documents: a text over the limit is refused before it is parsed") {
  CHECK(Problem("a: 1\n", {5, 100, 64}).starts_with("read: "));
  CHECK(Problem("a: 1\n ", {5, 100, 64}) == "f.yaml: larger than 5 bytes");
}

TEST_CASE("documents: lookups chain over absent parts") {
  const auto document = ParseDocument("a: {b: {c: x}, d: [1]}\n", "f.yaml");
  REQUIRE(document.has_value());
  const DocNode& root = document->roots[0];
  CHECK(root.Find({"a", "b", "c"})->text == "x");
  CHECK(root.Find({"a", "x", "c"}) == nullptr);
  CHECK(root.Find({"a", "d", "c"}) == nullptr);
  CHECK(root.Find({"a", "b"})->TextOf("c") == "x");
  CHECK(root.Find({"a"})->TextOf("b").empty());
  const DocNode copy = root;
  CHECK(Dump(copy) == Dump(root));
  CHECK(copy.Find("a") != root.Find("a"));
}

template <class T>
std::string Outcome(const Result<T>& result) {
  if (result) {
    return "ok";
  }
  return result.error().message +
         (result.error().hint.empty() ? "" : " (" + result.error().hint + ")");
}

TEST_CASE("documents: scalars as bool, whole number and number") {
  const auto node = [](const std::string& text) {
    const auto document = ParseDocument("[" + text + "]", "f.yaml");
    REQUIRE(document.has_value());
    return document->roots[0].items[0];
  };
  CHECK(node("true").AsBool().value());
  CHECK_FALSE(node("False").AsBool().value());
  CHECK(Outcome(node("yes").AsBool()) == "must be true or false, not 'yes' (write true)");
  CHECK(Outcome(node("Off").AsBool()) == "must be true or false, not 'Off' (write false)");
  CHECK(Outcome(node("'true'").AsBool()) ==
        "must be true or false, not 'true' (remove the quotes)");
  CHECK(Outcome(node("tRUE").AsBool()) ==
        "must be true or false, not 'tRUE' (write it in lower case)");
  CHECK(Outcome(node("1").AsBool()) == "must be true or false, not '1'");
  CHECK(Outcome(node("~").AsBool()) == "must be true or false, not nothing");

  CHECK(node("-7").AsInt().value() == -7);
  CHECK(node("0").AsInt().value() == 0);
  CHECK(node("9223372036854775807").AsInt().value() == INT64_MAX);
  CHECK(Outcome(node("9223372036854775808").AsInt()) ==
        "must be a whole number of 64 bits, not '9223372036854775808'");
  CHECK(Outcome(node("010").AsInt()) ==
        "must be a whole number, not '010' (write it in decimal, without leading zeros)");
  CHECK(Outcome(node("0x1f").AsInt()) ==
        "must be a whole number, not '0x1f' (write it in decimal, without leading zeros)");
  CHECK(Outcome(node("'4'").AsInt()) == "must be a whole number, not '4' (remove the quotes)");
  for (const char* text : {"4.0", "1e3", "1_000", "+4", "-", "4 5", "12:30:45"}) {
    CHECK(Outcome(node(text).AsInt()) == std::string("must be a whole number, not '") + text + "'");
  }

  CHECK(node("0.85").AsDouble().value() == 0.85);
  CHECK(node("-2e-3").AsDouble().value() == -0.002);
  CHECK(node("3").AsDouble().value() == 3.0);
  for (const char* text : {".inf", "nan", "inf", "1.2.3", "5%", "-", "."}) {
    CHECK(Outcome(node(text).AsDouble()) == std::string("must be a number, not '") + text + "'");
  }
  CHECK(Outcome(node("1e999").AsDouble()) ==
        "must be a number that a double can hold, not '1e999'");
  CHECK(Outcome(node("{}").AsDouble()) == "must be a number, not a map");
}

TEST_CASE("documents: a long text is shortened in messages, between characters") {
  DocNode node;
  node.kind = DocNode::Kind::kScalar;
  node.text = std::string(59, 'x') + "\xC3\xA9" + std::string(50, 'y');
  CHECK(node.Describe() == "'" + std::string(59, 'x') + "...'");
}

TEST_CASE("documents: the nearest name is suggested, a far one is not") {
  const std::vector<std::string> names = {"digest", "digests", "platform", "containerType", "gpu"};
  CHECK(NearestName("digset", names) == "digest");
  CHECK(NearestName("container_type", names) == "containerType");
  CHECK(NearestName("PLATFORM", names) == "platform");
  CHECK(NearestName("gpus", names) == "gpu");
  CHECK(NearestName("gp", names).empty());
  CHECK(NearestName("gpux", names) == "gpu");
  CHECK(NearestName("gxyz", names).empty());
  CHECK(NearestName("plate", names).empty());
  CHECK(NearestName("", names).empty());
  CHECK(NearestName(std::string(1'000'000, 'x'), names).empty());
}

TEST_CASE("documents: errors name file and line, and only the file without one") {
  CHECK(DocumentError("f", 3, "m", "h") == Error{ErrorCode::kInvalidInput, "f: line 3: m", "h"});
  CHECK(DocumentError("f", 0, "m").message == "f: m");
}

}  // namespace
}  // namespace dlc

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "reports/plain_text.h"
#include "reports/render.h"
#include "reports/text_layout.h"
#include "tests/reports/sample_reports.h"

namespace dlc {
namespace {

bool Contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// All that a renderer may have written itself besides printable text is a newline.
bool IsShowable(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint code = CodePointAt(text, at);
    if (!code.valid || (IsUnsafe(code.value) && text[at] != '\n')) {
      return false;
    }
    at += code.bytes;
  }
  return true;
}

TEST_CASE("no renderer lets a control character, escape or broken UTF-8 from outside through") {
  REQUIRE_FALSE(IsShowable("\x1b[31m"));
  REQUIRE_FALSE(IsShowable("\xC2\x9B"));
  REQUIRE_FALSE(IsShowable("\xFF"));
  for (const Renderer& renderer : AllRenderers()) {
    CAPTURE(renderer.format);
    CHECK(IsShowable(renderer.render(HostileNames(), {})));
    CHECK(IsShowable(renderer.render(HostileNames(), {.verbose = true, .width = 0})));
  }
}

TEST_CASE("a name cannot forge the outcome line of the text") {
  for (const std::string& line : Lines(RenderText(HostileNames(), {.verbose = true}))) {
    CHECK(line.rfind("PASSED", 0) == std::string::npos);
  }
}

TEST_CASE("every non-pass is shown worst first, and the outcome last") {
  const std::string text = RenderText(WorstFirst(), {});
  std::size_t last = 0;
  for (const char* part :
       {"\nFAILED       image-digest/", "\nFAILED       gpu-allocation/", "\nUNKNOWN      ",
        "\nUNKNOWN      gpu-visible/", "\nWARN         image-release/",
        "\nWARN         ray-version/", "\nN/A          2 not applicable, 1 of them switched off",
        "\nPASS         3 passed", "\nFAILED: 9 failed, 2 unknown, 2 warned,", "\n  because ",
        "\nThis run does not establish:", "\nevidence: unsigned\n"}) {
    CAPTURE(part);
    const std::size_t at = text.find(part, last);
    REQUIRE(at != std::string::npos);
    last = at;
  }
}

TEST_CASE("colour changes nothing but the colour") {
  std::string colored = RenderText(WorstFirst(), {.color = true});
  CHECK(colored != RenderText(WorstFirst(), {}));
  for (std::size_t at = 0; (at = colored.find('\x1b')) != std::string::npos;) {
    colored.erase(at, colored.find('m', at) - at + 1);
  }
  CHECK(colored == RenderText(WorstFirst(), {}));
}

TEST_CASE("8000 pods that fail alike are one block with five names, all of them when verbose") {
  Report report;
  for (int i = 0; i < 8000; ++i) {
    report.findings.push_back(SampleFail("a/b", {"pod", "worker-" + std::to_string(i)}));
  }
  const std::string text = RenderText(report, {});
  CHECK(Contains(text, "worker-4 and 7995 more; -v shows all"));
  CHECK_FALSE(Contains(text, "worker-5"));
  CHECK(Lines(text).size() < 40);
  const std::string all = RenderText(report, {.verbose = true});
  CHECK(Contains(all, "worker-7999"));
  CHECK_FALSE(Contains(all, "more;"));
}

TEST_CASE("reasons that differ from pod to pod are folded after five blocks of a rule") {
  Report report;
  for (int i = 0; i < 20; ++i) {
    Finding finding = SampleUnknown("a/b", {"pod", "worker-" + std::to_string(i)});
    finding.reason.message += std::to_string(i);
    report.findings.push_back(finding);
  }
  report.findings.push_back(SampleUnknown("a/other", {"pod", "worker-0"}));
  const std::string text = RenderText(report, {});
  CHECK(Contains(text, "UNKNOWN      and 15 more of a/b; -v shows all"));
  CHECK(Contains(text, "UNKNOWN      a/other"));
  CHECK(Contains(RenderText(report, {.verbose = true}), "worker-19"));
}

TEST_CASE("lines stay within the width, but digests, names and commands are never cut") {
  for (const int width : {60, 80, 100, 140}) {
    CAPTURE(width);
    const std::string text = RenderText(WorstFirst(), {.verbose = true, .width = width});
    CHECK(Contains(text, "sha256:" + std::string(64, 'b')));
    CHECK(Contains(text, "`kubectl -n ml rollout restart deployment/train`"));
    for (const std::string& line : Lines(text)) {
      // A longer line holds one word, or one command, that has no place to break.
      const std::size_t start = std::min(line.find_first_not_of(' '), line.size());
      const std::string rest = line.substr(start);
      const bool labelled = start == 2 && rest.find("  ") != std::string::npos;
      // The outcome line is one line, for grep.
      const bool fits = DisplayWidth(line) <= width || line.rfind("FAILED: ", 0) == 0;
      CHECK_MESSAGE((fits || Words(rest).size() == 1 || labelled), line);
    }
  }
  const std::string one_line = RenderText(WorstFirst(), {.width = 0});
  CHECK(Contains(one_line, "expected   image_id digest one of sha256:"));
}

TEST_CASE("words are split at blanks outside backticks") {
  CHECK(Words("") == std::vector<std::string>{});
  CHECK(Words("  a  b ") == std::vector<std::string>{"a", "b"});
  CHECK(Words("run `a b c`, then d") == std::vector<std::string>{"run", "`a b c`,", "then", "d"});
  CHECK(Words("one ` tick") == std::vector<std::string>{"one", "`", "tick"});
  CHECK(Words("`a b` and ` c") == std::vector<std::string>{"`a b`", "and", "`", "c"});
}

TEST_CASE("wrapping breaks exactly beyond the width") {
  const auto wrapped = [](int width) {
    std::string out = "--";
    AppendWrapped(out, {"ab", "cd", "efghij"}, 2, width);
    return out;
  };
  CHECK(wrapped(7) == "--ab cd\n  efghij");
  CHECK(wrapped(6) == "--ab\n  cd\n  efghij");
  CHECK(wrapped(14) == "--ab cd efghij");
  CHECK(wrapped(0) == "--ab cd efghij");
  CHECK(wrapped(1) == "--ab\n  cd\n  efghij");
}

TEST_CASE("width counts columns, not bytes") {
  CHECK(DisplayWidth("abc") == 3);
  CHECK(DisplayWidth("\xC3\xA9") == 1);
  CHECK(DisplayWidth("e\xCC\x81") == 1);
  CHECK(DisplayWidth("\xE6\xBC\xA2\xE5\xAD\x97") == 4);
  CHECK(DisplayWidth("\xF0\x9F\x9A\x80") == 2);
  CHECK(DisplayWidth("\xE2\x94\x82") == 1);
  CHECK(PadToWidth("\xE6\xBC\xA2", 4) == "\xE6\xBC\xA2  ");
  CHECK(CutToWidth("abcdef", 6) == "abcdef");
  CHECK(CutToWidth("abcdefg", 6) == "abc...");
  CHECK(CutToWidth("\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2", 5) == "\xE6\xBC\xA2...");
  CHECK(CutToWidth("abc", 2) == "..");
  CHECK(CutToWidth("abc", 0).empty());
}

TEST_CASE("the table of wide characters is sorted, so that each range is found") {
  for (const char* wide :
       {"\xE1\x84\x80", "\xE2\x8C\x9A", "\xE2\xAD\x95", "\xE3\x81\x82", "\xED\x9E\xA3",
        "\xEF\xBC\x81", "\xF0\x9F\xAB\xBF", "\xF0\xA0\x80\x80"}) {
    CAPTURE(wide);
    CHECK(DisplayWidth(wide) == 2);
  }
}

TEST_CASE("unsafe characters become visible escapes, the rest stays") {
  struct Row {
    std::string in;
    std::string out;
  };
  const Row rows[] = {
      {"plain-name_1.2", "plain-name_1.2"},
      {"\x1b[31m", "\\x1b[31m"},
      {"a\nb\rc\td", "a\\nb\\rc\\td"},
      {std::string("\0", 1), "\\x00"},
      {"\x7f", "\\x7f"},
      {"\xC2\x9B", "\\x9b"},
      {"\xC2\xA0", "\xC2\xA0"},
      {"\xC2\xAD", "\\xad"},
      {"\xE2\x80\xAE", "\\u202e"},
      {"\xE2\x80\x8B", "\\u200b"},
      {"\xEF\xBF\xBF", "\\uffff"},
      {"\xF3\xA0\x81\x81", "\\U000e0041"},
      {"\xF0\x9F\x9A\x80", "\xF0\x9F\x9A\x80"},
      {"\xFF", "\xEF\xBF\xBD"},
      {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xE2\x82", "\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xE2(a)", "\xEF\xBF\xBD(a)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.out);
    CHECK(PlainText(row.in) == row.out);
  }
}

}  // namespace
}  // namespace dlc

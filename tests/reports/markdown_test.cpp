#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "reports/render.h"
#include "tests/reports/sample_reports.h"

namespace dlc {
namespace {

std::size_t TicksAt(const std::string& line, std::size_t at) {
  return std::min(line.find_first_not_of('`', at), line.size()) - at;
}

/// Where the run of exactly `ticks` backticks is that closes a span; npos if none does.
std::size_t ClosingTicks(const std::string& line, std::size_t from, std::size_t ticks) {
  for (std::size_t at = line.find('`', from); at != std::string::npos;) {
    const std::size_t length = TicksAt(line, at);
    if (length == ticks) {
      return at;
    }
    at = line.find('`', at + length);
  }
  return std::string::npos;
}

/// A line without its code spans, by CommonMark's rule; an unmatched run of backticks is text.
std::string OutsideSpans(const std::string& line) {
  std::string prose;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t ticks = TicksAt(line, at);
    const std::size_t close =
        ticks == 0 ? std::string::npos : ClosingTicks(line, at + ticks, ticks);
    if (close != std::string::npos) {
      at = close + ticks;
    } else {
      prose += line.substr(at, std::max<std::size_t>(ticks, 1));
      at += std::max<std::size_t>(ticks, 1);
    }
  }
  return prose;
}

/// What GitHub would read as markup: fenced blocks and code spans taken out.
std::string OutsideCode(const std::string& markdown) {
  std::string prose;
  std::size_t fence = 0;
  std::istringstream in(markdown);
  for (std::string line; std::getline(in, line);) {
    const std::size_t ticks = TicksAt(line, 0);
    if (fence > 0) {
      fence = ticks >= fence && ticks == line.size() ? 0 : fence;
    } else if (ticks >= 3 && line.find('`', ticks) == std::string::npos) {
      fence = ticks;
    } else {
      prose += OutsideSpans(line) + '\n';
    }
  }
  return prose;
}

TEST_CASE("nothing from outside stands outside code in the Markdown") {
  REQUIRE(OutsideCode("a `@b` c\n```text\n@d\n```\ne ``f`@g`` h") == "a  c\ne  h\n");
  REQUIRE(OutsideCode("a `b ``c @d") == "a `b ``c @d\n");
  const std::string prose = OutsideCode(RenderMarkdown(HostileNames()));
  for (const char* evil : {"@", "<script>", "<h1>", "<b>", "<!--", "javascript:", "http", "#1",
                           "PASSED: 9", "fence", "~~~", "quoted", "`"}) {
    CAPTURE(evil);
    CHECK(prose.find(evil) == std::string::npos);
  }
}

TEST_CASE("a pipe from outside does not split a table row") {
  std::istringstream in(RenderMarkdown(HostileNames()));
  int rows = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("| **FAILED**", 0) == 0) {
      ++rows;
      CHECK(std::count(line.begin(), line.end(), '|') == 6);
    }
  }
  CHECK(rows == 11);
}

TEST_CASE("a comment stays below what GitHub takes and counts what it leaves out") {
  Report report = LargeReport(3000);
  for (int i = 0; i < 300; ++i) {
    Finding& finding = report.findings[static_cast<std::size_t>(i)];
    finding.reason.message = std::string(100'000, 'x') + std::to_string(i);
    finding.does_not_establish.push_back(std::string(5000, '`') + std::to_string(i));
    finding.check = std::string(2000, '`') + std::to_string(i);
  }
  const std::string text = RenderMarkdown(report);
  CHECK(text.size() < 60'000);
  CHECK(text.find("more kinds of finding; the report has all.") != std::string::npos);
  CHECK(text.rfind("## dlc-check: FAILED\n", 0) == 0);
}

TEST_CASE("the Markdown says first how the run ended and why") {
  const std::string text = RenderMarkdown(NothingJudged());
  CHECK(text.rfind("## dlc-check: INCOMPLETE\n", 0) == 0);
  CHECK(text.find("Not PASSED: nothing was judged") != std::string::npos);
  CHECK(text.find("| evidence | `unsigned` |") != std::string::npos);
  CHECK(RenderMarkdown(AllPass()).find("Not PASSED") == std::string::npos);
}

}  // namespace
}  // namespace dlc

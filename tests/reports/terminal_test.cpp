#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "reports/color.h"
#include "reports/progress.h"

namespace dlc {
namespace {

TEST_CASE("who decides about colour, in order") {
  struct Row {
    const char* name;
    const char* flag;
    bool terminal;
    const char* no_color;
    const char* term;
    const char* clicolor_force;
    const char* force_color;
    bool color;
  };
  const Row rows[] = {
      {"terminal", "auto", true, nullptr, "xterm", nullptr, nullptr, true},
      {"pipe", "auto", false, nullptr, "xterm", nullptr, nullptr, false},
      {"dumb terminal", "auto", true, nullptr, "dumb", nullptr, nullptr, false},
      {"terminal without TERM", "auto", true, nullptr, nullptr, nullptr, nullptr, false},
      {"always beats NO_COLOR", "always", false, "1", "dumb", nullptr, nullptr, true},
      {"never beats force", "never", true, nullptr, "xterm", "1", "1", false},
      {"NO_COLOR", "auto", true, "1", "xterm", nullptr, nullptr, false},
      {"NO_COLOR is any text", "auto", true, "0", "xterm", nullptr, nullptr, false},
      {"empty NO_COLOR is none", "auto", true, "", "xterm", nullptr, nullptr, true},
      {"NO_COLOR beats both forces", "auto", true, "1", "xterm", "1", "1", false},
      {"CLICOLOR_FORCE", "auto", false, nullptr, nullptr, "1", nullptr, true},
      {"CLICOLOR_FORCE=0 is silent", "auto", true, nullptr, "xterm", "0", nullptr, true},
      {"CLICOLOR_FORCE=0 forces nothing", "auto", false, nullptr, "xterm", "0", nullptr, false},
      {"empty CLICOLOR_FORCE", "auto", false, nullptr, "xterm", "", nullptr, false},
      {"CLICOLOR_FORCE beats FORCE_COLOR", "auto", false, nullptr, "dumb", "1", "0", true},
      {"FORCE_COLOR", "auto", false, nullptr, "dumb", nullptr, "1", true},
      {"FORCE_COLOR=0", "auto", true, nullptr, "xterm", nullptr, "0", false},
      {"FORCE_COLOR=false", "auto", true, nullptr, "xterm", nullptr, "false", false},
      {"empty FORCE_COLOR", "auto", false, nullptr, "xterm", nullptr, "", false},
      {"no flag is auto", "", true, nullptr, "xterm", nullptr, nullptr, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(UseColor(row.flag, row.terminal, row.no_color, row.term, row.clicolor_force,
                   row.force_color) == row.color);
  }
}

void RunSteps(Progress& progress) {
  progress.Stage("image");
  progress.Step("reading the manifest");
  progress.Step("reading the manifest");
  progress.Warn("no policy");
  progress.Stage("gpu");
  progress.Done();
}

TEST_CASE("progress on a terminal is one line that is overwritten and erased") {
  std::ostringstream out;
  Progress progress(out, {.is_terminal = true});
  RunSteps(progress);
  CHECK(out.str() ==
        "\r\x1b[Kimage"
        "\r\x1b[Kimage: reading the manifest"
        "\r\x1b[Kdlc-check: warning: no policy\n"
        "\r\x1b[Kimage: reading the manifest"
        "\r\x1b[Kgpu"
        "\r\x1b[K");
}

TEST_CASE("progress elsewhere is plain lines") {
  std::ostringstream out;
  Progress progress(out, {});
  RunSteps(progress);
  CHECK(out.str() == "image\nimage: reading the manifest\ndlc-check: warning: no policy\ngpu\n");
}

TEST_CASE("verbose progress keeps its lines on a terminal too") {
  std::ostringstream out;
  Progress progress(out, {.is_terminal = true, .verbose = true});
  RunSteps(progress);
  CHECK(out.str().find('\x1b') == std::string::npos);
  CHECK(out.str().find("image: reading the manifest\n") != std::string::npos);
}

TEST_CASE("quiet progress says warnings only") {
  for (const bool terminal : {false, true}) {
    std::ostringstream out;
    Progress progress(out, {.is_terminal = terminal, .quiet = true, .verbose = true});
    RunSteps(progress);
    CHECK(out.str() == "dlc-check: warning: no policy\n");
  }
}

TEST_CASE("a live line never reaches the terminal's last column") {
  std::ostringstream out;
  Progress progress(out, {.is_terminal = true, .width = 20});
  progress.Stage("image");
  progress.Step(std::string(100, 'x'));
  CHECK(out.str() == "\r\x1b[Kimage\r\x1b[Kimage: xxxxxxxxx...");
}

TEST_CASE("progress that goes out of scope leaves no line behind") {
  std::ostringstream out;
  {
    Progress progress(out, {.is_terminal = true});
    progress.Stage("image");
  }
  CHECK(out.str() == "\r\x1b[Kimage\r\x1b[K");
}

TEST_CASE("names in progress and warnings cannot steer the terminal") {
  std::ostringstream out;
  Progress progress(out, {});
  progress.Stage("a\x1b[2J");
  progress.Step("b\rc");
  progress.Warn("d\ne");
  CHECK(out.str() == "a\\x1b[2J\na\\x1b[2J: b\\rc\ndlc-check: warning: d\\ne\n");
}

}  // namespace
}  // namespace dlc

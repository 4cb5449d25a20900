#include "probes/control/ray_ranks/job_frames.h"

#include <doctest/doctest.h>

#include "tests/ray_ranks/frames.h"

namespace dlc {
namespace {

const std::vector<std::string> kPieces = {"{\"a\":1}\n{\"b\"", ":2}\n", "{\"c\":3}\n"};

std::string Problem(const std::string& log) {
  JobFrames frames;
  const auto lines = frames.Read(log);
  CHECK_FALSE(frames.closed());
  if (lines) {
    return "ok";
  }
  // And nothing is taken after it.
  CHECK_FALSE(frames.Read(log + ClosedLog({})).has_value());
  return lines.error().message;
}

TEST_CASE("frames: a log that grows byte by byte gives each line once") {
  const std::string log = "Running entrypoint\n" + ClosedLog(kPieces) + "the end\n";
  JobFrames frames;
  std::vector<std::string> lines;
  for (std::size_t size = 0; size <= log.size(); ++size) {
    const auto more = frames.Read(std::string_view(log).substr(0, size));
    REQUIRE(more.has_value());
    lines.insert(lines.end(), more->begin(), more->end());
  }
  CHECK(lines == std::vector<std::string>{"{\"a\":1}", "{\"b\":2}", "{\"c\":3}"});
  CHECK(frames.closed());
  CHECK(frames.others() == "Running entrypoint\nthe end\n");
}

TEST_CASE("frames: one that is missing, double, damaged or forged is refused") {
  const std::string zero = Frame(0, kPieces[0]);
  CHECK(Problem(zero + Frame(2, kPieces[2])).find("frame 2 stands where frame 1 belongs") !=
        std::string::npos);
  CHECK(Problem(Frame(1, kPieces[1])).find("frame 1 stands where frame 0 belongs") !=
        std::string::npos);
  CHECK(Problem(zero + zero).find("frame 0 stands where frame 1 belongs") != std::string::npos);
  for (std::size_t at = 12; at + 1 < zero.size(); ++at) {
    std::string damaged = zero;
    damaged[at] = damaged[at] == 'x' ? 'y' : 'x';
    CHECK_MESSAGE(Problem(damaged).find("did not arrive whole") != std::string::npos, at);
  }
  CHECK(Problem(zero.substr(0, 60) + "\n").find("did not arrive whole") != std::string::npos);
}

TEST_CASE("frames: the end must fit what came before it") {
  CHECK(Problem(Frame(0, "{\"event\": \"end\", \"frames\": 1, \"sha256\": \"\"}\n"))
            .find("the closing sums differ") != std::string::npos);
  const std::string other = ClosedLog({"{}\n"});
  const std::string end = other.substr(other.rfind("\n@") + 1);
  CHECK(Problem(Frame(0, "{ }\n") + end).find("the closing sums differ") != std::string::npos);
  CHECK(Problem(ClosedLog({"no whole line"})).find("did not arrive whole") != std::string::npos);
  JobFrames frames;
  REQUIRE(frames.Read(other).has_value());
  CHECK_FALSE(frames.Read(other + Frame(2, "{}\n")).has_value());
}

TEST_CASE("frames: a log that got shorter is refused, and one without an end is not closed") {
  const std::string log = Frame(0, kPieces[0]);
  JobFrames frames;
  REQUIRE(frames.Read(log).has_value());
  CHECK_FALSE(frames.closed());
  CHECK(frames.Read("x").error().message.find("the end is gone") != std::string::npos);
}

}  // namespace
}  // namespace dlc

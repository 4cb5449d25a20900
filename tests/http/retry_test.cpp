#include "probes/control/http/retry.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>

namespace dlc {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

// 1994-11-06T08:49:37Z, the date of RFC 9110's examples.
const auto kNow = std::chrono::system_clock::from_time_t(784111777);

TEST_CASE("Retry-After: seconds") {
  CHECK(ParseRetryAfter("120", kNow) == seconds(120));
  CHECK(ParseRetryAfter(" 0 ", kNow) == seconds(0));
  CHECK(ParseRetryAfter("99999999999999999999999", kNow) == hours(24));
}

TEST_CASE("Retry-After: the three forms of an HTTP date") {
  CHECK(ParseRetryAfter("Sun, 06 Nov 1994 08:49:47 GMT", kNow) == seconds(10));
  CHECK(ParseRetryAfter("Sunday, 06-Nov-94 08:49:47 GMT", kNow) == seconds(10));
  CHECK(ParseRetryAfter("Sun Nov  6 08:49:47 1994", kNow) == seconds(10));
  CHECK(ParseRetryAfter("Sun, 06 Nov 1994 08:00:00 GMT", kNow) == seconds(0));
  CHECK(ParseRetryAfter("Sun, 06 Nov 2094 08:00:00 GMT", kNow) == hours(24));
}

TEST_CASE("Retry-After: nonsense is nothing") {
  for (const char* text : {"", "  ", "-1", "1.5", "soon", "12 seconds", "0x10"}) {
    CAPTURE(text);
    CHECK(ParseRetryAfter(text, kNow) == std::nullopt);
  }
}

TEST_CASE("backoff: doubles up to a limit, jitter takes away at most half") {
  CHECK(Backoff(1, 0) == milliseconds(300));
  CHECK(Backoff(2, 0) == milliseconds(600));
  CHECK(Backoff(3, 1) == milliseconds(600));
  CHECK(Backoff(100, 0) == seconds(8));
  CHECK(Backoff(100, 5) == seconds(4));
}

}  // namespace
}  // namespace dlc

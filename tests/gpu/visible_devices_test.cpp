#include "probes/node/gpu/visible_devices.h"

#include <doctest/doctest.h>

#include <string>

namespace dlc {
namespace {

const std::vector<std::string> kThree = {"GPU-aa-1", "GPU-aa-2", "GPU-bb-3"};

CudaVisibleDevices Parse(const std::string& text) {
  return ParseCudaVisibleDevices({true, text}, kThree);
}

int Expected(const std::string& text) {
  return Parse(text).expected.value_or(-1);
}

}  // namespace

TEST_CASE("unset shows every device, set and empty shows none") {
  CHECK(ParseCudaVisibleDevices({}, kThree).expected == 3);
  CHECK(ParseCudaVisibleDevices({}, kThree).problem.empty());
  CHECK(Expected("") == 0);
  CHECK(Parse("").problem == "it is set and empty: every device is hidden");
}

TEST_CASE("numbers are taken up to the first bad one") {
  CHECK(Expected("0") == 1);
  CHECK(Expected("2,0") == 2);
  CHECK(Expected("0,1,2") == 3);
  CHECK(Expected("0,3,1") == 1);
  CHECK(Expected("-1") == 0);
  CHECK(Expected("0,-1,1") == 1);
  CHECK(Expected("void") == 0);
  CHECK(Expected("1x,0") == 2);  // leading digits, as strtoul takes them
  CHECK(Expected(" 1, 0") == 2);
  CHECK(Expected("0,") == 1);
  CHECK(Expected(",0") == 0);
  CHECK(Expected("99999999999999999999") == 0);
  CHECK(Expected("00,01") == 2);
}

// Seen on an H200, driver 580.159.04: cuInit gives CUDA_ERROR_INVALID_DEVICE (101) for a number or
// a uuid twice.
TEST_CASE("a repeated device leaves none") {
  CHECK(Expected("0,0") == 0);
  CHECK(Expected("GPU-bb-3,GPU-bb-3") == 0);
  CHECK(Expected("GPU-bb-3,GPU-BB-3") == 0);
  CHECK(Expected("1,01") == 0);
  CHECK(Parse("0,1,1").problem ==
        "entry 3 '1' repeats an earlier entry: CUDA then refuses to start, or shows no device");
}

TEST_CASE("uuids are taken, also cut short where one GPU fits") {
  CHECK(Expected("GPU-bb-3") == 1);
  CHECK(Expected("GPU-b") == 1);
  CHECK(Expected("GPU-bb-3,GPU-aa-1") == 2);
  CHECK(Expected("GPU-a") == 0);
  CHECK(Parse("GPU-a").problem ==
        "entry 1 'GPU-a' fits several GPUs: it and the 0 after it are hidden");
  CHECK(Expected("GPU-none,GPU-aa-1") == 0);
  CHECK(Expected("GPU-aa-1,0") == 1);
}

// Seen on an H200, driver 580.159.04.
TEST_CASE("letters of a uuid may be upper case") {
  CHECK(Expected("GPU-BB-3") == 1);
  CHECK(Expected("GPU-B") == 1);
  CHECK(Expected("GPU-BB-3-and-more") == 0);
}

// Seen on an H200, driver 580.159.04: 'MIG-0' gives CUDA_ERROR_NO_DEVICE.
TEST_CASE("a slice hides every device where no GPU is in MIG mode") {
  CHECK(Expected("MIG-0") == 0);
  CHECK(Parse("MIG-0,MIG-1").problem ==
        "entry 1 'MIG-0' names a MIG slice, and no GPU of this process is in MIG mode: it and the "
        "1 after it are hidden");
}

TEST_CASE("each bad entry is told with how many it hides") {
  const auto seen = Parse("0,7,1,2");
  REQUIRE(seen.entries.size() == 2);  // what is hidden was not read
  CHECK(seen.entries[0].problem.empty());
  CHECK(seen.entries[1].problem == "is out of range: there are 3 GPUs");
  CHECK(seen.problem ==
        "entry 2 '7' is out of range: there are 3 GPUs: it and the 2 after it are hidden");
}

TEST_CASE("without the list of GPUs only a certain nothing is told") {
  CHECK_FALSE(ParseCudaVisibleDevices({}, std::nullopt).expected.has_value());
  CHECK_FALSE(ParseCudaVisibleDevices({true, "0,1"}, std::nullopt).expected.has_value());
  CHECK(ParseCudaVisibleDevices({true, ""}, std::nullopt).expected == 0);
  CHECK(ParseCudaVisibleDevices({true, "x"}, std::nullopt).expected == 0);
  CHECK_FALSE(ParseCudaVisibleDevices({true, "MIG-1234"}, std::nullopt).expected.has_value());
}

}  // namespace dlc

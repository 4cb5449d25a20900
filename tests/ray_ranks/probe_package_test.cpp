#include "probes/control/ray_ranks/probe_package.h"

#include <doctest/doctest.h>

#include "probes/control/ray_ranks/driver_text.h"
#include "probes/control/sha256/sha256.h"

namespace dlc {
namespace {

TEST_CASE("zip: stored members with their sizes and sums, and a directory of them") {
  const std::string zip = MakeZip({{"a", "123456789"}, {"empty", ""}});
  // Of "123456789": the check value of CRC-32.
  const std::string header(
      "PK\x03\x04\x14\0\0\0\0\0\0\0\x21\0\x26\x39\xF4\xCB\x09\0\0\0\x09\0\0\0\x01\0\0\0", 30);
  CHECK(zip.substr(0, 40) == header + "a123456789");
  const auto central = zip.find("PK\x01\x02");
  REQUIRE(central != std::string::npos);
  const auto end = zip.find(std::string("PK\x05\x06\0\0\0\0\x02\0\x02\0", 12));
  REQUIRE(end != std::string::npos);
  CHECK(zip.size() == end + 22);
  const auto at = [&](std::size_t place) {
    return static_cast<std::size_t>(static_cast<unsigned char>(zip[place]));
  };
  CHECK(at(end + 12) == end - central);
  CHECK(at(end + 16) == central);
  CHECK(zip == MakeZip({{"a", "123456789"}, {"empty", ""}}));
}

TEST_CASE("package: named by what is in it, with the driver") {
  const std::string own = "/bin/sh";  // any file: one of ours is too large with sanitizers
  const auto package = MakeProbePackage(own);
  REQUIRE(package.has_value());
  CHECK(package->name == "dlc-check-" + Sha256Of(package->bytes).hex + ".zip");
  CHECK(package->bytes.find("dlc_check_driver.py") != std::string::npos);
  for (const std::string_view text : {kDriverText, kTrainerText, kFitText, kFrameworkText}) {
    CHECK(text.size() > 1000);
    CHECK(package->bytes.find(std::string(text)) != std::string::npos);
  }
  CHECK(kDriverText.find("@dlc-check") != std::string_view::npos);
  CHECK(MakeProbePackage("/nonexistent/dlc-probe").error().message.find("/nonexistent/dlc-probe") !=
        std::string::npos);
}

}  // namespace
}  // namespace dlc

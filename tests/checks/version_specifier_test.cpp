#include "checks/version_specifier.h"

#include <doctest/doctest.h>

#include <optional>

namespace dlc {
namespace {

struct Row {
  const char* specifier;
  const char* version;
  std::optional<bool> admits;
};

TEST_CASE("version specifier: PEP 440's operators") {
  const Row rows[] = {
      {"", "1.0", true},
      {"==1.0", "1.0.0", true},
      {"==1.0.0", "1.0", true},
      {"==1.0", "1.0+cu130", true},
      {"==1.0+cu128", "1.0+cu130", false},
      {"==1.0+cu.130", "1.0+CU-130", true},
      {"==1.0+cu130", "1.0", false},
      {"==1.1.*", "1.1.9", true},
      {"==1.1.*", "1.10", false},
      {"==1.1.*", "1.1", true},
      {"==1.1.*", "1.1a1", true},
      {"!=1.1.*", "1.1.9", false},
      {"!=1.0", "1.0.1", true},
      {"~=2.2", "2.9", true},
      {"~=2.2", "3.0", false},
      {"~=2.2.0", "2.3", false},
      {"~=2.2.5", "2.2.4", false},
      {"~=2.2.5", "2.2.6", true},
      {"~=2", "2.0", std::nullopt},
      {">=2,<3", "2.58.0", true},
      {">=2,<3", "3", false},
      {" >= 2 , < 3 ,", "2.58.0", true},
      {"(>=2)", "2", true},
      {"===1.0", "1.0", true},
      {"===1.0", "1.0.0", false},
      {"=5.13", "5.13.2", true},
      {"=5.13", "5.14", false},
      {">=1.0", "1.0+local", true},
      {">1.0", "1.0+local", false},
      {">1.0", "1.0.post1", false},
      {">1.0", "1.0.1", true},
      {">1.0.post1", "1.0.post2", true},
      {"<1.0", "1.0rc1", false},
      {"<1.0rc2", "1.0rc1", true},
      {"<1.0", "0.9", true},
      {"<=1.0", "1.0", true},
      {"<=1.0", "1!0.1", false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.specifier);
    CAPTURE(row.version);
    CHECK(SpecifierAdmits(row.specifier, row.version) == row.admits);
  }
}

TEST_CASE("version specifier: versions order as PEP 440 says") {
  // Rising.
  const char* const order[] = {"1.0.dev1",     "1.0a1.dev1", "1.0a1", "1.0.alpha.2",    "1.0b1",
                               "1.0-preview3", "1.0rc4",     "v1.0",  "1.0.post1.dev2", "1.0-1",
                               "1.0.r2",       "1.0.1",      "1.2",   "1.10",           "1!0.1"};
  for (std::size_t i = 0; i + 1 < std::size(order); ++i) {
    const std::string above = std::string(">=") + order[i + 1];
    const std::string below = std::string("<=") + order[i + 1];
    CAPTURE(above);
    CAPTURE(order[i]);
    CHECK(SpecifierAdmits(above, order[i]) == std::optional(false));
    CHECK(SpecifierAdmits(below, order[i]) == std::optional(true));
  }
}

TEST_CASE("version specifier: what cannot be read is told, not guessed") {
  for (const char* specifier : {"1.0", "==", "==x", ">=1.*", "==1.0a1.*", "==1.0+l.*", "=>1",
                                "==1..0", "==1.0+", "==1!", "==99999999999999999999"}) {
    CAPTURE(specifier);
    CHECK(SpecifierAdmits(specifier, "1.0") == std::nullopt);
  }
  for (const char* version : {"", "unknown", "1.0 beta", "1.0+", "-1"}) {
    CAPTURE(version);
    CHECK(SpecifierAdmits(">=1", version) == std::nullopt);
  }
}

TEST_CASE("version specifier: the version of a lone pin") {
  CHECK(PinnedVersion("==4.46.3") == "4.46.3");
  CHECK(PinnedVersion(" == 4.46.3 ") == "4.46.3");
  for (const char* other : {"", "==4.*", "===4", ">=4", "==4,!=5"}) {
    CAPTURE(other);
    CHECK(PinnedVersion(other).empty());
  }
}

}  // namespace
}  // namespace dlc

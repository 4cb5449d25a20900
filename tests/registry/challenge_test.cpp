#include "probes/control/registry/challenge.h"

#include <doctest/doctest.h>

namespace dlc {
namespace {

TEST_CASE("challenge: as docker-registry, ECR and Docker Hub write them") {
  CHECK(
      ParseChallenges(
          R"(Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/ubuntu:pull")") ==
      std::vector<Challenge>{{"bearer",
                              {{"realm", "https://auth.docker.io/token"},
                               {"service", "registry.docker.io"},
                               {"scope", "repository:library/ubuntu:pull"}}}});
  CHECK(
      ParseChallenges(
          R"(Basic realm="https://763104351884.dkr.ecr.us-east-1.amazonaws.com/",service="ecr.amazonaws.com")") ==
      std::vector<Challenge>{{"basic",
                              {{"realm", "https://763104351884.dkr.ecr.us-east-1.amazonaws.com/"},
                               {"service", "ecr.amazonaws.com"}}}});
}

TEST_CASE("challenge: names in any case, blanks, commas and quotes inside quotes") {
  CHECK(ParseChallenges(
            R"( BEARER  Scope = "repository:a:pull,push" ,REALM="a \"b\" \\c", x=tok3n ,,)") ==
        std::vector<Challenge>{
            {"bearer",
             {{"scope", "repository:a:pull,push"}, {"realm", R"(a "b" \c)"}, {"x", "tok3n"}}}});
}

TEST_CASE("challenge: several in one header, with and without parameters") {
  const auto several =
      ParseChallenges(R"(Negotiate, NTLM abc/de==, Basic realm="x", Digest, Bearer realm="y",a=b)");
  REQUIRE(several.size() == 5);
  CHECK(several[0] == Challenge{"negotiate", {}});
  CHECK(several[1].scheme == "ntlm");
  CHECK(several[2] == Challenge{"basic", {{"realm", "x"}}});
  CHECK(several[3] == Challenge{"digest", {}});
  CHECK(several[4] == Challenge{"bearer", {{"realm", "y"}, {"a", "b"}}});
}

TEST_CASE("challenge: the first of two equal parameters counts") {
  CHECK(ParseChallenges("Bearer realm=a, realm=b").front().Parameter("realm") == "a");
}

TEST_CASE("challenge: nonsense ends the reading, not the program") {
  CHECK(ParseChallenges("").empty());
  CHECK(ParseChallenges(" , ,").empty());
  CHECK(ParseChallenges("=").empty());
  CHECK(ParseChallenges("realm=\"x\"").empty());
  CHECK(ParseChallenges("Bearer realm=\"never closed").front().Parameter("realm").empty());
  CHECK(ParseChallenges("Bearer realm=\"x\\").front().Parameter("realm").empty());
  CHECK(ParseChallenges("Basic realm=\"x\" \x01 Bearer").size() == 1);
}

}  // namespace
}  // namespace dlc

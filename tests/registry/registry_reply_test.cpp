#include "probes/control/registry/registry_reply.h"

#include <doctest/doctest.h>

#include <string>

namespace dlc {
namespace {

TEST_CASE("registry reply: the first error, in one line") {
  const auto reply = ParseRegistryReply(
      R"({"errors": [{"code": "DENIED", "message": "no\n\u001b[31maccess", "detail": {}}, {}]})");
  CHECK(reply.Shown() == "DENIED: no [31maccess");
  for (const char* body : {"", "<html>", "{}", R"({"errors": []})", R"({"errors": [1]})"}) {
    CHECK(ParseRegistryReply(body).code.empty());
  }
}

TEST_CASE("registry reply: a token is printable and in one of two fields") {
  CHECK(*ParseToken(R"({"token": "a.b"})", "s") == "a.b");
  CHECK(*ParseToken(R"({"access_token": "a.b", "token": ""})", "s") == "a.b");
  for (const char* body :
       {"", "{}", R"({"token": "a\r\nX: y"})", R"({"token": "a b"})", R"({"token": 1})", "[]"}) {
    CAPTURE(body);
    CHECK_FALSE(ParseToken(body, "s").has_value());
  }
}

}  // namespace
}  // namespace dlc

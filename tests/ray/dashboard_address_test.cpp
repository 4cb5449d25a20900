#include "probes/control/ray/dashboard_address.h"

#include <doctest/doctest.h>

#include <string>

namespace dlc {
namespace {

TEST_CASE("dashboard address: http and https, with a path or without") {
  for (const char* text : {"http://127.0.0.1:8265", "https://ray.example", "http://[::1]:8265/",
                           "https://gateway.example/ray/cluster-1"}) {
    CHECK_MESSAGE(ParseDashboardAddress(text).has_value(), text);
  }
  CHECK(ParseDashboardAddress("http://head:8265")->port == 8265);
}

TEST_CASE("dashboard address: Ray's other addresses are refused, with the one to give") {
  struct Row {
    const char* text;
    const char* why;
    const char* hint;
  };
  const Row rows[] = {
      {"ray://head.example:10001", "Ray Client", "http://head.example:8265"},
      {"ray://head/?x=1", "Ray Client", "http://head:8265"},
      {"head.example:6379", "GCS", "http://head.example:8265"},
      {"127.0.0.1:6379", "GCS", "http://127.0.0.1:8265"},
      {"[::1]:6379", "GCS", "http://[::1]:8265"},
      {"head.example:8265", "http://", "http://head.example:8265"},
      {"head.example", "http://", "http://head.example:8265"},
      {"auto", "this host", "http://HOST:8265"},
      {"local", "this host", "http://HOST:8265"},
      {"ftp://head:8265", "not an http", "http://HOST:8265"},
      {"http://head:8265?token=x", "no query", "http://head:8265"},
      {"http://head:8265/#/jobs", "no fragment", "http://head:8265"},
      {"http://", "not a", "http://HOST:8265"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto url = ParseDashboardAddress(row.text);
    REQUIRE_FALSE(url.has_value());
    CHECK(url.error().code == ErrorCode::kInvalidInput);
    CHECK(url.error().message.find(row.why) != std::string::npos);
    CHECK(url.error().hint.find(row.hint) != std::string::npos);
  }
}

TEST_CASE("dashboard address: a password is never repeated") {
  for (const char* text : {"http://user:hush-hush@head:8265", "ray://user:hush-hush@head:10001",
                           "user:hush-hush@head:6379", "http://user:hush-hush@"}) {
    CAPTURE(text);
    const auto url = ParseDashboardAddress(text);
    REQUIRE_FALSE(url.has_value());
    CHECK((url.error().message + url.error().hint).find("hush-hush") == std::string::npos);
  }
}

TEST_CASE("cluster dns: only names that end inside a cluster") {
  for (const char* name : {"head-svc.ray-train.svc", "head-svc.ray-train.svc.cluster.local"}) {
    CHECK_MESSAGE(IsClusterDnsName(name), name);
  }
  for (const char* name :
       {"svc", "ray-train.svc", ".ray-train.svc", "head..svc", "head.ns.svc.example",
        "head.ns.svc.", "a.head.ns.svc", "head.ns.svc.cluster.local.example",
        "head.ns.cluster.local", "127.0.0.1"}) {
    CHECK_FALSE_MESSAGE(IsClusterDnsName(name), name);
  }
}

}  // namespace
}  // namespace dlc

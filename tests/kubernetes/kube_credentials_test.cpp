#include "probes/control/kubernetes/kube_credentials.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "tests/kubernetes/scratch.h"

namespace dlc {
namespace {

using std::chrono::seconds;

Deadline Soon() {
  return Deadline::After(seconds(20));
}

/// Counts its runs in a file and gives "token-N", good until the second `expires`.
KubeUser PluginUser(const KubeScratch& scratch, const std::string& expires) {
  KubeUser user;
  user.exec.emplace();
  user.exec->command = scratch.Script(
      "plugin",
      "echo x >> " + scratch.Path() + "/runs\nn=$(wc -l < " + scratch.Path() +
          "/runs | tr -d ' ')\n"
          R"(printf '{"kind":"ExecCredential","apiVersion":"v","status":{"token":"token-%s")" +
          std::string(expires.empty() ? "" : R"(,"expirationTimestamp":")" + expires + R"(")") +
          R"(}}' "$n")");
  user.exec->api_version = "v";
  return user;
}

std::string Authorization(KubeCredentials& credentials) {
  const auto credential = credentials.Get(Soon());
  REQUIRE(credential.has_value());
  return credential->authorization;
}

TEST_CASE("kube credentials: a token and a certificate stay what they are") {
  KubeUser user;
  user.token = "t";
  user.identity = {"c", "k"};
  KubeCredentials credentials(user);
  const auto credential = credentials.Get(Soon());
  REQUIRE(credential.has_value());
  CHECK(*credential == KubeCredential{"Bearer t", {"c", "k"}});
  CHECK_FALSE(credentials.Renew(*credential, Soon())->has_value());
}

TEST_CASE("kube credentials: a token file is read again each time, and its last good value kept") {
  const KubeScratch scratch;
  KubeUser user;
  user.token_file = scratch.Write("token", "one\n");
  KubeCredentials credentials(user);
  CHECK(Authorization(credentials) == "Bearer one");
  const auto old = *credentials.Get(Soon());
  CHECK_FALSE(credentials.Renew(old, Soon())->has_value());
  scratch.Write("token", "two\n");
  CHECK((*credentials.Renew(old, Soon()))->authorization == "Bearer two");
  CHECK(Authorization(credentials) == "Bearer two");
  std::filesystem::remove(user.token_file);
  CHECK(Authorization(credentials) == "Bearer two");
}

TEST_CASE("kube credentials: a token file that never held one names itself") {
  const KubeScratch scratch;
  KubeUser user;
  user.where = "config: line 3: user 'u'";
  user.token_file = scratch.Write("token", "a b\n");
  KubeCredentials without(user);
  const auto nothing = without.Get(Soon());
  REQUIRE_FALSE(nothing.has_value());
  CHECK(Has(nothing.error().message, user.where));
  CHECK(Has(nothing.error().message, "holds no token"));
  user.token = "spare";
  KubeCredentials with_spare(user);
  CHECK(Authorization(with_spare) == "Bearer spare");
}

TEST_CASE("kube credentials: a plugin runs once until its credential runs out") {
  const KubeScratch scratch;
  auto now = std::chrono::system_clock::from_time_t(0);
  KubeCredentials credentials(PluginUser(scratch, "1970-01-01T00:01:00Z"), nullptr,
                              [&now] { return now; });
  CHECK(Authorization(credentials) == "Bearer token-1");
  now += seconds(59);
  CHECK(Authorization(credentials) == "Bearer token-1");
  now += seconds(1);
  CHECK(Authorization(credentials) == "Bearer token-2");
}

TEST_CASE("kube credentials: a refused one is renewed once for all who held it") {
  const KubeScratch scratch;
  KubeCredentials credentials(PluginUser(scratch, ""));
  const auto first = *credentials.Get(Soon());
  const auto second = *credentials.Renew(first, Soon());
  REQUIRE(second.has_value());
  CHECK(second->authorization == "Bearer token-2");
  // Another thread was refused with the first one, too.
  CHECK((*credentials.Renew(first, Soon()))->authorization == "Bearer token-2");
  CHECK(Authorization(credentials) == "Bearer token-2");
}

TEST_CASE("kube credentials: a plugin that gives the same again gives nothing to try") {
  const KubeScratch scratch;
  KubeUser user;
  user.exec.emplace();
  user.exec->api_version = "v";
  user.exec->command = scratch.Script(
      "p", R"(printf '{"kind":"ExecCredential","apiVersion":"v","status":{"token":"t"}}')");
  KubeCredentials credentials(user);
  const auto first = *credentials.Get(Soon());
  const auto again = credentials.Renew(first, Soon());
  REQUIRE(again.has_value());
  CHECK_FALSE(again->has_value());
}

}  // namespace
}  // namespace dlc

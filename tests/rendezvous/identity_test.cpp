#include "probes/node/rendezvous/identity.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

namespace dlc {
namespace {

using Values = std::map<std::string, std::string>;

/// Sets variables for one scope; all others that the identity reads are unset.
class Environment {
 public:
  explicit Environment(const Values& values) {
    Clear();
    for (const auto& [name, value] : values) {
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Environment() { Clear(); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static void Clear() {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT",
                             kSecretVariable, kSecretFdVariable, kListenFdVariable}) {
      unsetenv(name);
    }
  }
};

const Values kGood = {{"RANK", "2"},
                      {"WORLD_SIZE", "4"},
                      {"LOCAL_RANK", "1"},
                      {"MASTER_ADDR", "[fd00::1]"},
                      {"MASTER_PORT", "29500"}};

TEST_CASE("identity: as torchrun gives it") {
  const Environment environment(kGood);
  const auto identity = RankIdentityFromEnvironment();
  REQUIRE(identity.has_value());
  CHECK(identity->rank == 2);
  CHECK(identity->size == 4);
  CHECK(identity->local_rank == 1);
  CHECK(identity->master_address == "fd00::1");
  CHECK(identity->master_port == 29500);
}

TEST_CASE("identity: what is wrong is named") {
  struct Row {
    const char* name;
    const char* value;  // nullptr: unset
    const char* message;
  };
  const Row rows[] = {
      {"RANK", nullptr, "RANK is not set"},
      {"WORLD_SIZE", nullptr, "WORLD_SIZE is not set"},
      {"MASTER_ADDR", nullptr, "MASTER_ADDR is not set"},
      {"MASTER_PORT", nullptr, "MASTER_PORT is not set"},
      {"MASTER_ADDR", "", "MASTER_ADDR is not set"},
      {"RANK", "4", "RANK 4 is not below WORLD_SIZE 4"},
      {"RANK", "-1", "RANK is '-1', not a whole number from 0 to 65535"},
      {"RANK", "2x", "RANK is '2x', not a whole number from 0 to 65535"},
      {"RANK", "", "RANK is '', not a whole number from 0 to 65535"},
      {"WORLD_SIZE", "0", "WORLD_SIZE is '0', not a whole number from 1 to 65536"},
      {"MASTER_PORT", "0", "MASTER_PORT is '0', not a whole number from 1 to 65535"},
      {"MASTER_PORT", "70000", "MASTER_PORT is '70000', not a whole number from 1 to 65535"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.message);
    Values values = kGood;
    values.erase(row.name);
    if (row.value != nullptr) {
      values[row.name] = row.value;
    }
    const Environment environment(values);
    const auto identity = RankIdentityFromEnvironment();
    REQUIRE_FALSE(identity.has_value());
    CHECK(identity.error().message == row.message);
    CHECK(identity.error().code == ErrorCode::kInvalidInput);
  }
}

TEST_CASE("secret: taken from the environment and gone from it") {
  const Environment environment(Values{{kSecretVariable, "0123456789abcdef\n"}});
  CHECK(TakeRunSecret().value() == "0123456789abcdef");
  CHECK(std::getenv(kSecretVariable) == nullptr);
  CHECK(TakeRunSecret().error().message == "DLC_CHECK_RUN_SECRET is not set");
}

TEST_CASE("secret: taken from an inherited descriptor, which is closed") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  CHECK(write(ends[1], "0123456789abcdef", 16) == 16);
  close(ends[1]);
  const Environment environment(Values{{kSecretFdVariable, std::to_string(ends[0])}});
  CHECK(TakeRunSecret().value() == "0123456789abcdef");
  CHECK(close(ends[0]) == -1);
}

TEST_CASE("secret: a short one is refused, and no error quotes it") {
  const Environment environment(Values{{kSecretVariable, "hunter2"}});
  const auto secret = TakeRunSecret();
  REQUIRE_FALSE(secret.has_value());
  CHECK(secret.error().message.find("hunter2") == std::string::npos);
  CHECK(secret.error().message == "the run's secret has 7 bytes, fewer than 16");
}

TEST_CASE("identity: an inherited descriptor that does not listen is refused") {
  const Environment environment(Values{{kListenFdVariable, "0"}});
  CHECK(InheritedListenFd().error().message == "DLC_CHECK_LISTEN_FD 0 is not a listening socket");
}

}  // namespace
}  // namespace dlc

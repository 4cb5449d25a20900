#include "probes/node/net_dev.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

TEST_CASE("interfaces: of /proc/net/dev") {
  const TemporaryDirectory tree;
  const std::string dev = tree.Write(
      "dev",
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
      "    lo:  1000 10    0    0    0     0          0         0     2000 20  0 0 0 0 0 0\n"
      "  eth0:9007199254740993 1 2 3 4 5 6 7 8 9 0 0 0 0 0 0\n"
      "broken: 1 2 3\n");
  const auto interfaces = ReadNetDev(dev);
  REQUIRE(interfaces.has_value());
  CHECK(*interfaces ==
        std::vector<InterfaceBytes>{{"eth0", 9007199254740993, 8}, {"lo", 1000, 2000}});
  CHECK_FALSE(ReadNetDev(tree / "absent").has_value());
  CHECK(ReadNetDev().has_value());
}

TEST_CASE("interfaces: of this process's network namespace, whoever mounted /sys") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::string text = "not run";
    if (unshare(CLONE_NEWNET) == 0) {
      text = "unread";
      if (const auto interfaces = ReadNetDev()) {
        text = "";
        for (const InterfaceBytes& one : *interfaces) {
          text += one.name + " ";
        }
      }
    }
    _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::array<char, 256> text{};
  const ssize_t size = read(ends[0], text.data(), text.size());
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  REQUIRE(size >= 0);
  const std::string names(text.data(), static_cast<std::size_t>(size));
  if (names == "not run") {
    MESSAGE("not run: no right to make network namespaces");
    return;
  }
  CHECK(names == "lo ");
}

}  // namespace
}  // namespace dlc

#include "probes/node/storage/mountinfo.h"

#include <doctest/doctest.h>

#include <string>

namespace dlc {
namespace {

constexpr const char* kText =
    "21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
    "36 21 0:52 / /fsx rw,relatime shared:9 master:3 - lustre 10.0.0.1@tcp:/abc12bmv rw,flock\n"
    "37 21 0:53 /sub /mnt/with\\040blank\\134and\\011tab ro,noatime - nfs4 "
    "fs-0123.efs.eu-west-1.amazonaws.com:/ rw,vers=4.1\n"
    "38 21 0:54 / /mnt rw - tmpfs  rw,size=1024k\n"
    "39 38 0:55 / /mnt rw - overlay overlay ro,lowerdir=/l,upperdir=/u\n";

TEST_CASE("mountinfo: fields, escapes, empty sources and optional fields") {
  const auto mounts = ParseMountInfo(kText);
  REQUIRE(mounts.has_value());
  REQUIRE(mounts->size() == 5);
  CHECK((*mounts)[1] == MountFacts{"/fsx", "10.0.0.1@tcp:/abc12bmv", "lustre", "/",
                                   "rw,relatime,rw,flock", "0:52", false});
  CHECK((*mounts)[2].mount_point == "/mnt/with blank\\and\ttab");
  CHECK((*mounts)[2].root == "/sub");
  CHECK((*mounts)[3].source.empty());
  CHECK((*mounts)[3].filesystem == "tmpfs");
}

TEST_CASE("mountinfo: read-only by the mount or by the file system") {
  const auto mounts = ParseMountInfo(kText);
  CHECK_FALSE((*mounts)[0].read_only);
  CHECK((*mounts)[2].read_only);
  CHECK((*mounts)[4].read_only);
}

TEST_CASE("mountinfo: the deepest mount counts, and of two on one place the later") {
  const auto mounts = ParseMountInfo(kText);
  const auto on = [&](const char* path) { return MountOf(*mounts, path)->filesystem; };
  CHECK(on("/fsx") == "lustre");
  CHECK(on("/fsx/a/b") == "lustre");
  CHECK(on("/fsxother") == "ext4");
  CHECK(on("/mnt/x") == "overlay");
  CHECK(on("/mnt/with blank\\and\ttab/x") == "nfs4");
  CHECK(on("/") == "ext4");
  CHECK(MountOf({}, "/x") == nullptr);
}

TEST_CASE("mountinfo: what is no such line is an error that quotes it") {
  for (const char* line : {"garbage", "21 1 254:1 / / rw", "21 1 254:1 / / rw - ext4", "- - -"}) {
    CAPTURE(line);
    const auto mounts = ParseMountInfo(line);
    REQUIRE_FALSE(mounts.has_value());
    CHECK(mounts.error().message.find(line) != std::string::npos);
  }
  CHECK(ParseMountInfo("").value().empty());
}

TEST_CASE("mountinfo: this process's own") {
  const auto proc = ObserveMount("/proc/self");
  REQUIRE(proc.has_value());
  CHECK(proc->filesystem == "proc");
  CHECK(ObserveMount("/no/such/path").error().code == ErrorCode::kNotFound);
}

}  // namespace
}  // namespace dlc

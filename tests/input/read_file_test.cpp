#include "probes/input/read_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

/// Root may read everything: become nobody for a while.
class WithoutPrivileges {
 public:
  WithoutPrivileges() {
    if (::geteuid() == 0) {
      changed_ = ::seteuid(65534) == 0;
    }
  }
  WithoutPrivileges(const WithoutPrivileges&) = delete;
  WithoutPrivileges& operator=(const WithoutPrivileges&) = delete;
  ~WithoutPrivileges() {
    if (changed_ && ::seteuid(0) != 0) {
      std::abort();
    }
  }

 private:
  bool changed_ = false;
};

constexpr std::size_t kLimit = 1U << 20U;

TEST_CASE("read file: all bytes, up to the limit and not one beyond") {
  const TemporaryDirectory directory;
  const std::string path = directory.Write("f", std::string("a\0b", 3));
  CHECK(ReadFileBytes(path, 3).value() == std::string("a\0b", 3));
  const auto over = ReadFileBytes(path, 2);
  REQUIRE_FALSE(over.has_value());
  CHECK(over.error() ==
        Error{ErrorCode::kInvalidInput, path + ": larger than 2 bytes", "is this the right file?"});
  CHECK(ReadFileBytes(directory.Write("empty", ""), 3).value().empty());
  const std::string large(300'000, 'x');
  CHECK(ReadFileBytes(directory.Write("large", large), kLimit).value() == large);
}

TEST_CASE("read file: 100 MB are refused by their size") {
  const TemporaryDirectory directory;
  const std::string path = directory.Write("f.yaml", "");
  REQUIRE(::truncate(path.c_str(), 100'000'000) == 0);
  const auto bytes = ReadFileBytes(path, kLimit);
  REQUIRE_FALSE(bytes.has_value());
  CHECK(bytes.error().message == path + ": larger than 1 MiB");
}

TEST_CASE("read file: what is no readable file is named, with the code that fits") {
  const TemporaryDirectory directory;
  const auto error = [](const std::string& path) {
    const auto bytes = ReadFileBytes(path, kLimit);
    REQUIRE_FALSE(bytes.has_value());
    return bytes.error();
  };
  const std::string missing = directory / "missing";
  CHECK(error(missing) == Error{ErrorCode::kNotFound, missing + ": no such file", ""});
  CHECK(error(directory.Write("f", "x") + "/g").code == ErrorCode::kNotFound);
  CHECK(error(directory / "") ==
        Error{ErrorCode::kInvalidInput, directory / "" + ": is a directory", "name a file in it"});
  CHECK(error("/dev/zero") ==
        Error{ErrorCode::kInvalidInput, "/dev/zero: is not a regular file or a pipe", ""});
  // Opens like a file; a read at 0 fails with EIO.
  CHECK(error("/proc/self/mem") ==
        Error{ErrorCode::kUnavailable, "/proc/self/mem: cannot be read: Input/output error", ""});
  const std::string secret = directory.Write("secret", "x");
  REQUIRE(::chmod(secret.c_str(), 0) == 0);
  REQUIRE(::chmod((directory / "").c_str(), 0755) == 0);
  const WithoutPrivileges nobody;
  CHECK(error(secret) == Error{ErrorCode::kPermissionDenied, secret + ": permission denied", ""});
}

TEST_CASE("read file: files that tell no size are read too") {
  CHECK(ReadFileBytes("/proc/self/status", kLimit).value().starts_with("Name:"));
  CHECK_FALSE(ReadFileBytes("/proc/self/status", 10).has_value());
}

TEST_CASE("read file: a pipe is read to its end and bounded") {
  const TemporaryDirectory directory;
  const std::string path = directory / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const std::string sent = "a: " + std::string(200'000, 'x') + "\n";
  const auto feed = [&](const std::string& bytes) {
    std::ofstream out(path, std::ios::binary);  // waits for the reader
    out << bytes;
  };
  {
    std::thread writer(feed, sent);
    const auto bytes = ReadFileBytes(path, kLimit);
    writer.join();
    REQUIRE(bytes.has_value());
    CHECK(*bytes == sent);
  }
  // Less than a pipe holds: the writer is done before the reader gives up.
  std::thread writer(feed, std::string(2000, 'x'));
  const auto over = ReadFileBytes(path, 1000);
  writer.join();
  REQUIRE_FALSE(over.has_value());
  CHECK(over.error().message == path + ": larger than 1000 bytes");
}

TEST_CASE("read file: a pipe that is refused is not waited for") {
  const TemporaryDirectory directory;
  const std::string path = directory / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const auto refused = ReadFileBytes(path, kLimit, PipeInput::kRefuse);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error() ==
        Error{ErrorCode::kInvalidInput, path + ": is a pipe, not a regular file", ""});
  CHECK(ReadFileBytes(directory.Write("f", "x"), kLimit, PipeInput::kRefuse).value() == "x");
}

}  // namespace
}  // namespace dlc

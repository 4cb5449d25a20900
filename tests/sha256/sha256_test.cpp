#include "probes/control/sha256/sha256.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace dlc {
namespace {

TEST_CASE("sha256: the test vectors of FIPS 180") {
  CHECK(Sha256Of("").hex == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(Sha256Of("abc").hex == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(Sha256Of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").hex ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(Sha256Of(std::string(1'000'000, 'a')).hex ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256: a zero byte does not end the text") {
  CHECK(Sha256Of(std::string("a\0b", 3)) != Sha256Of("a"));
}

/// A file of these bytes, without a name: read through /proc.
class UnnamedFile {
 public:
  explicit UnnamedFile(const std::string& bytes) : file_(std::tmpfile()) {
    REQUIRE(file_ != nullptr);
    REQUIRE(std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size());
    REQUIRE(std::fflush(file_) == 0);
  }
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;
  ~UnnamedFile() { static_cast<void>(std::fclose(file_)); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(::fileno(file_)); }

 private:
  std::FILE* file_;
};

TEST_CASE("sha256: a file has the digest of its bytes, whole pieces or not") {
  for (const std::size_t size : {0, 3, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5'000'000}) {
    std::string bytes(size, 'a');
    if (size > 0) {
      bytes.back() = 'z';
    }
    const UnnamedFile file(bytes);
    const auto digest = Sha256OfFile(file.path());
    REQUIRE(digest);
    CHECK(*digest == Sha256Of(bytes));
  }
}

TEST_CASE("sha256: what cannot be read has no digest, and is named") {
  for (const char* path : {"/nowhere/at-all", "/tmp"}) {
    const auto digest = Sha256OfFile(path);
    REQUIRE_FALSE(digest);
    CHECK(digest.error().code == ErrorCode::kUnavailable);
    CHECK(digest.error().message.find(path) == 0);
  }
}

}  // namespace
}  // namespace dlc

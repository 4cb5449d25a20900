#include "probes/control/sha256/sha256.h"

#include <doctest/doctest.h>

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

}  // namespace
}  // namespace dlc

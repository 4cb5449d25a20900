#include "probes/node/sha256/sha256.h"

#include <doctest/doctest.h>

#include <string>

namespace dlc {
namespace {

std::string Hex(const Sha256Bytes& bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4U];
    text += "0123456789abcdef"[byte & 15U];
  }
  return text;
}

TEST_CASE("sha256: the examples of FIPS 180") {
  struct Row {
    std::string message;
    const char* digest;
  };
  const Row rows[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(1'000'000, 'a'),
       "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  };
  for (const Row& row : rows) {
    Sha256 whole;
    whole.Add(row.message);
    CHECK(whole.FinishDigest().hex == row.digest);
    Sha256 pieces;
    for (std::size_t i = 0; i < row.message.size(); i += 997) {
      pieces.Add(std::string_view(row.message).substr(i, 997));
    }
    CHECK(Hex(pieces.Finish()) == row.digest);
  }
}

TEST_CASE("hmac: the vectors of RFC 4231") {
  struct Row {
    std::string key;
    std::string data;
    const char* mac;
  };
  const Row rows[] = {
      {std::string(20, '\x0b'), "Hi There",
       "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
      {"Jefe", "what do ya want for nothing?",
       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
      {std::string(20, '\xaa'), std::string(50, '\xdd'),
       "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
      {"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16"
       "\x17\x18\x19",
       std::string(50, '\xcd'), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
      {std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
      {std::string(131, '\xaa'),
       "This is a test using a larger than block-size key and a larger than block-size data. The "
       "key needs to be hashed before being used by the HMAC algorithm.",
       "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
  };
  for (const Row& row : rows) {
    CHECK(Hex(HmacSha256(row.key, {row.data})) == row.mac);
    const std::string_view data = row.data;
    CHECK(Hex(HmacSha256(row.key, {data.substr(0, 3), data.substr(3)})) == row.mac);
  }
}

TEST_CASE("equal in constant time: is equality") {
  CHECK(EqualInConstantTime("abc", "abc"));
  CHECK(EqualInConstantTime("", ""));
  CHECK_FALSE(EqualInConstantTime("abc", "abd"));
  CHECK_FALSE(EqualInConstantTime("abc", "ab"));
}

}  // namespace
}  // namespace dlc

#include "probes/control/sha256/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <cstdlib>

namespace dlc {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

}  // namespace

Digest Sha256Of(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), hash.data(), &size, EVP_sha256(), nullptr) != 1 ||
      size != 32) {
    std::abort();
  }
  Digest digest;
  digest.hex.reserve(64);
  for (unsigned int i = 0; i < size; ++i) {
    digest.hex += kHexDigits[hash[i] >> 4U];
    digest.hex += kHexDigits[hash[i] & 0xFU];
  }
  return digest;
}

}  // namespace dlc

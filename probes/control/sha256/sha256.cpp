#include "probes/control/sha256/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <cstdlib>

namespace dlc {

Digest Sha256Of(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), hash.data(), &size, EVP_sha256(), nullptr) != 1 ||
      size != 32) {
    std::abort();
  }
  return {HexText({hash.data(), size})};
}

}  // namespace dlc

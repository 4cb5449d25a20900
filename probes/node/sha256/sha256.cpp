// OpenSSL's low-level SHA-256, linked statically: three object files, 20 KB, no symbol above
// GLIBC_2.34, and its SHA-NI and AVX2 code. The EVP interface that OpenSSL 3 prefers would pull in
// providers, configuration files and some MB, and dlc-probe may need nothing but libc.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "probes/node/sha256/sha256.h"

#include <openssl/sha.h>

#include <string>

namespace dlc {

struct Sha256::State {
  SHA256_CTX context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  SHA256_Init(&state_->context);
}

Sha256::~Sha256() = default;

void Sha256::Add(std::string_view bytes) {
  SHA256_Update(&state_->context, bytes.data(), bytes.size());
}

Sha256Bytes Sha256::Finish() {
  Sha256Bytes bytes{};
  SHA256_Final(bytes.data(), &state_->context);
  return bytes;
}

Digest Sha256::FinishDigest() {
  return {HexText(Finish())};
}

Sha256Bytes HmacSha256(std::string_view key, std::initializer_list<std::string_view> parts) {
  constexpr std::size_t kBlockBytes = 64;
  std::string block(key);
  if (block.size() > kBlockBytes) {
    Sha256 shorter;
    shorter.Add(key);
    block = AsText(shorter.Finish());
  }
  block.resize(kBlockBytes, '\0');
  const auto padded = [&](unsigned char pad) {
    std::string mixed = block;
    for (char& c : mixed) {
      c = static_cast<char>(static_cast<unsigned char>(c) ^ pad);
    }
    return mixed;
  };
  Sha256 inner;
  inner.Add(padded(0x36));
  for (const std::string_view part : parts) {
    inner.Add(part);
  }
  Sha256 outer;
  outer.Add(padded(0x5c));
  outer.Add(AsText(inner.Finish()));
  return outer.Finish();
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) {
    return false;
  }
  unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(
        difference | (static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i])));
  }
  return difference == 0;
}

}  // namespace dlc

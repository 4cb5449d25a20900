#pragma once

#include <string>

#include "probes/observations/result.h"
#include "reports/evidence/openssl_handles.h"
#include "reports/evidence/public_key.h"

namespace dlc::openssl {

/// The public half, or kUnsupported with the reason. `name` is for messages.
Result<PublicKey> PublicHalf(EVP_PKEY* pkey, const std::string& name);

/// Digest for EVP_DigestSign and EVP_DigestVerify: Ed25519 hashes by itself and wants none.
const EVP_MD* MessageDigest(KeyType type);

}  // namespace dlc::openssl

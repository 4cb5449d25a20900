#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "probes/observations/deadline.h"
#include "reports/evidence/signer.h"

namespace dlc {

/// Path of a file with the 32 bytes of the digest, for commands that read a file.
inline constexpr const char* kDigestFileVariable = "DLC_CHECK_DIGEST_FILE";

struct SignCommand {
  std::string command;  ///< --sign-cmd: a line for /bin/sh, so that $DLC_CHECK_DIGEST_FILE expands
  PublicKey key;        ///< --sign-pub
  std::chrono::milliseconds timeout = timeouts::kSignCommand;
  const std::atomic<bool>* interrupted = nullptr;  ///< may be null
};

/// Signs with a program that holds, or reaches, the key (a KMS, an HSM, an agent): it gets the
/// sha256 of the pre-authentication encoding on stdin and in a file, and prints an ECDSA signature,
/// DER raw or in base64. What it prints is verified against the public key. P-256 only: Ed25519
/// signs the message, not a digest, and a KMS takes no message of this size. kUnsupported.
Result<std::unique_ptr<Signer>> MakeCommandSigner(SignCommand command);

}  // namespace dlc

#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "probes/observations/result.h"
#include "reports/evidence/signer.h"

namespace dlc {

/// Signs through a command that can reach a key which this program must not see (a KMS, an HSM). P-256 only. `command` is
/// run by /bin/sh; it gets the 32-byte SHA-256 of what is to be signed on stdin and in the file $DLC_CHECK_DIGEST_FILE,
/// and prints the DER signature, raw or in base64. Errors: a key that is not P-256 or cannot be read (now), a command that
/// fails, takes too long or answers nothing (on Sign). MakeEvidence verifies the answer with the public key.
Result<std::unique_ptr<Signer>> MakeCommandSigner(const std::string& command, const std::string& public_key_file,
                                                  const std::atomic<bool>& interrupted);

}  // namespace dlc

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/digest.h"
#include "probes/observations/result.h"

namespace dlc {

/// A file of a zip archive, at its top.
struct ZipMember {
  std::string name;
  std::string_view bytes;
};

/// A zip archive without compression, the same bytes for the same members. Precondition: less than
/// 4 GiB.
std::string MakeZip(const std::vector<ZipMember>& members);

/// What a job's working_dir is made of.
struct ProbePackage {
  std::string name;     ///< "dlc-check-<sha256>.zip": nodes keep packages by their names alone
  std::string bytes;    ///< a zip archive
  Digest probe_digest;  ///< of dlc-probe
};

/// dlc-probe, the driver, and what Ray Train needs. Errors: a file that cannot be read, or is
/// larger than what a dashboard takes (100 MiB).
Result<ProbePackage> MakeProbePackage(const std::string& probe);

}  // namespace dlc

#pragma once

#include <string>
#include <vector>

#include "probes/observations/digest.h"
#include "probes/observations/observations.h"
#include "probes/observations/result.h"
#include "reports/evidence/signer.h"
#include "reports/report.h"

namespace dlc {

inline constexpr const char* kRunFileNames[] = {"evidence.sigstore.json",
                                                "evidence.dsse.json",
                                                "evidence.statement.json",
                                                "junit.xml",
                                                "ctrf.json",
                                                "observations.json"};

/// Signs, and writes evidence, junit.xml and ctrf.json into `directory`: all or none. Sets
/// report.signature. `signer` may be null. Errors: the signer's, or what the file system says.
Result<void> WriteRunFiles(const std::string& directory, Report& report,
                           const std::vector<Digest>& policy_digests, Signer* signer);

/// observations.json; gives its path.
Result<std::string> WriteObservations(const std::string& directory,
                                      const Observations& observations);

}  // namespace dlc

#include "cmd/dlc-check/run_files.h"

#include <utility>

#include "probes/observations/json.h"
#include "reports/evidence/new_files.h"
#include "reports/evidence/write_evidence.h"
#include "reports/render.h"

namespace dlc {

Result<void> WriteRunFiles(const std::string& directory, Report& report,
                           const std::vector<Digest>& policy_digests, Signer* signer) {
  auto evidence = MakeEvidence(report, policy_digests, signer);
  if (!evidence) {
    return evidence.error();
  }
  if (!evidence->key_fingerprint.empty()) {
    report.signature = evidence->key_fingerprint;
  }
  std::vector<NewFile> files = EvidenceFiles(std::move(evidence).value());
  files.push_back({"junit.xml", RenderJUnit(report)});
  files.push_back({"ctrf.json", RenderCtrf(report)});
  return WriteNewFiles(directory, files);
}

Result<std::string> WriteObservations(const std::string& directory,
                                      const Observations& observations) {
  const NewFile file{"observations.json", ObservationsToJson(observations, 2) + "\n"};
  if (auto written = WriteNewFiles(directory, {file}); !written) {
    return written.error();
  }
  return directory + "/" + file.name;
}

}  // namespace dlc

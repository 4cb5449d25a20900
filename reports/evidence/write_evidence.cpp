#include "reports/evidence/write_evidence.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "probes/observations/strict_json.h"
#include "reports/evidence/consistency.h"
#include "reports/evidence/contents.h"
#include "reports/evidence/envelope.h"
#include "reports/evidence/new_files.h"
#include "reports/evidence/preflight_schema.h"
#include "reports/evidence/statement.h"

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;

/// The policy travels byte for byte or not at all: a replacement character would be another policy.
Result<void> CheckPolicyText(const PolicySource& policy) {
  try {
    static_cast<void>(Json(policy.text).dump());
    return {};
  } catch (const Json::exception&) {
    return Error{ErrorCode::kInvalidInput,
                 "policy '" + policy.name + "' is not UTF-8, so it cannot travel in the evidence",
                 "save it as UTF-8"};
  }
}

/// A verifier will do the same: better no evidence than one that contradicts itself.
Result<void> ReadBack(const std::string& payload, const std::vector<Digest>& policy_digests) {
  const auto read = ReadEvidence(payload);
  if (!read) {
    return Error{ErrorCode::kInternal, "the evidence would not verify: " + read.error().message,
                 ""};
  }
  const auto statement = ParseStrictJson(payload, {kMaxEvidenceBytes, JsonLimits{}.max_depth});
  const auto same = consistency::CheckSummaries(*statement, *read, &policy_digests, true);
  if (!same) {
    return Error{ErrorCode::kInternal, "the evidence would not verify: " + same.error().message,
                 ""};
  }
  return {};
}

bool Exists(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0;
}

}  // namespace

Result<Evidence> MakeEvidence(const Report& report, const std::vector<Digest>& policy_digests,
                              Signer* signer) {
  if (auto text = CheckPolicyText(report.policy_source); !text) {
    return text.error();
  }
  Evidence evidence;
  evidence.statement = BuildStatement({report.observations, report.policy_source, report.findings,
                                       report.outcome, policy_digests})
                           .dump(2, ' ', false, Json::error_handler_t::replace) +
                       "\n";
  if (auto back = ReadBack(evidence.statement, policy_digests); !back) {
    return back.error();
  }
  if (signer == nullptr) {
    return evidence;
  }
  const std::string pae = PreAuthenticationEncoding(kPayloadType, evidence.statement);
  auto signature = signer->Sign(pae);
  if (!signature) {
    return std::move(signature).error();
  }
  const PublicKey& key = signer->Key();
  if (!SignatureVerifies(key, pae, *signature)) {
    return Error{ErrorCode::kInvalidInput,
                 "what the signer returned is no signature of key " + key.fingerprint,
                 "the public key must be the other half of the signing key"};
  }
  evidence.key_fingerprint = key.fingerprint;
  evidence.envelope = EnvelopeJson(evidence.statement, {key.fingerprint, *signature});
  evidence.bundle = BundleJson(evidence.statement, {key.fingerprint, *signature});
  if (evidence.bundle.size() > kMaxEvidenceBytes) {
    return Error{ErrorCode::kInvalidInput,
                 "evidence of " + std::to_string(evidence.bundle.size()) +
                     " bytes is over the limit of " + std::to_string(kMaxEvidenceBytes) +
                     " that verifiers keep",
                 "select fewer stages, or a smaller namespace"};
  }
  return evidence;
}

std::vector<NewFile> EvidenceFiles(const Evidence& evidence) {
  std::vector<NewFile> files;
  if (!evidence.bundle.empty()) {
    files.push_back({kBundleFileName, evidence.bundle, 0644});
    files.push_back({kEnvelopeFileName, evidence.envelope, 0644});
  }
  files.push_back({kStatementFileName, evidence.statement, 0644});
  return files;
}

Result<std::vector<std::string>> WriteEvidence(const std::string& directory,
                                               const Evidence& evidence) {
  for (const char* name : {kBundleFileName, kEnvelopeFileName, kStatementFileName}) {
    const std::string path = directory + "/" + name;
    if (Exists(path)) {
      return Error{ErrorCode::kInvalidInput, "'" + path + "' is there already",
                   "it is another run's evidence: choose another --out directory"};
    }
  }
  const std::vector<NewFile> files = EvidenceFiles(evidence);
  if (auto written = WriteNewFiles(directory, files); !written) {
    return written.error();
  }
  std::vector<std::string> paths;
  paths.reserve(files.size());
  for (const NewFile& file : files) {
    paths.push_back(directory + "/" + file.name);
  }
  return paths;
}

}  // namespace dlc

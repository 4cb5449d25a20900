#pragma once

#include <string>
#include <vector>

#include "reports/evidence/verify_evidence.h"
#include "reports/report.h"

namespace dlc::sample {

inline constexpr const char* kIndexHex =
    "1111111111111111111111111111111111111111111111111111111111111111";
inline constexpr const char* kManifestHex =
    "2222222222222222222222222222222222222222222222222222222222222222";
inline constexpr const char* kFinishedAt = "2026-03-01T12:04:00Z";
inline constexpr const char* kToolVersion = "0.1.0";

/// A run over an image index that meets PolicyDemanding(kIndexHex, 8). Its digest is `index_hex`.
Observations Seen(const std::string& index_hex = kIndexHex);

/// Policy text that Judge() reads: "digest: sha256:<hex>" (more than one line: any of them) and
/// "workers: N".
std::string PolicyDemanding(const std::string& hex, int workers);

/// A judge for tests, so that they stand apart from the real checks: pure, and as strict.
Result<Rejudged> Judge(const Observations& observations, const PolicySource& policy);

/// Judged and aggregated. Precondition: the policy text is one that Judge() reads.
Report ReportOf(const Observations& observations, const std::string& policy_text);
std::vector<Digest> PolicyDigests(const Report& report);

/// kFinishedAt plus this much.
std::chrono::system_clock::time_point After(std::chrono::seconds span);

}  // namespace dlc::sample

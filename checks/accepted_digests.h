#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checks/policy.h"
#include "probes/observations/observations.h"

namespace dlc {

/// A container's imageID, taken apart.
struct RunningImage {
  Digest digest;           ///< empty: none was reported, or it is no sha256
  std::string repository;  ///< "host/path" before the @; empty for the bare form
  /// "sha256:..." alone: containerd's and Docker's form for an image without a repository digest.
  /// The digest is then the config's.
  bool bare = false;
};
RunningImage ParseImageId(std::string_view image_id);

/// "linux/arm64/v8" -> "linux/arm64": members are not told apart by variant.
std::string PlatformWithoutVariant(const std::string& platform);

/// Every digest that names what was served, on one platform: the index, its runnable members of the
/// platform, their configs; or the manifest and its config (Kubernetes issues 108689 and 115199,
/// containerd 8408 show why one digest is not enough).
class ServedDigests {
 public:
  ServedDigests(const ServedImage& image, const std::string& platform);

  /// "the index", "the linux/amd64 member of index sha256:..", ...; "" when it names nothing of it.
  std::string FormOf(const Digest& digest) const;
  /// What else of the index it is, that can not be what runs: "the linux/arm64 member ..", "an
  /// attestation ..". "" when it is no such part.
  std::string RefusalOf(const Digest& digest) const;
  const std::vector<std::string>& Texts() const { return texts_; }
  /// Platforms that can run: {"linux/amd64"}. Empty when a lone manifest's config was not seen.
  const std::vector<std::string>& Platforms() const { return platforms_; }
  /// False when a config digest is missing, so that a bare imageID cannot be told.
  bool ConfigsComplete() const { return configs_complete_; }
  const Digest& Root() const { return root_; }

 private:
  void Accept(const Digest& digest, const std::string& form);
  void AddMember(const IndexMember& member, const ServedImage& image, const std::string& platform);
  void AddManifest(const ServedImage& image, const std::string& platform);

  Digest root_;
  std::map<Digest, std::string> forms_;
  std::map<Digest, std::string> refusals_;
  std::vector<std::string> texts_;
  std::vector<std::string> platforms_;
  bool configs_complete_ = true;
};

/// Which digests a pod may run, from the policy and from what the registry serves. Both parts may
/// be missing.
class DigestDemand {
 public:
  enum class Match {
    kAccepted,
    kRejected,
    kUnresolved,  ///< neither could be shown
  };
  struct Answer {
    Match match = Match::kUnresolved;
    std::string text;  ///< accepted: what it matched; rejected: what it is; unresolved: why
  };

  DigestDemand(const Observations& observations, const Policy& policy);

  Answer Judge(const RunningImage& image) const;
  /// Digests that are right, for an assertion. Empty when nothing says what is right.
  const std::vector<std::string>& Accepted() const { return accepted_; }
  /// Where `accepted` comes from, for an assertion.
  std::string Source() const;
  /// nullptr unless the registry's answer was seen.
  const ServedDigests* Served() const { return served_.empty() ? nullptr : &served_.front(); }
  /// One of the policy's digests is the served image's.
  bool PolicyIsServed() const { return policy_is_served_; }

  /// Digests of one image have one key: all forms of the served image share one.
  Digest ContentKey(const Digest& digest) const;

 private:
  const Policy& policy_;
  std::vector<ServedDigests> served_;  // none or one
  std::vector<std::string> accepted_;
  std::vector<Digest> unresolved_;  // policy digests whose members are not known
  bool policy_is_served_ = false;
};

/// The release that a digest belongs to, or nullptr. A member or config of the served index counts
/// as the index's release.
const KnownRelease* ReleaseOf(const Digest& digest, const DigestDemand& demand,
                              const Policy& policy);
/// " (v1.1)", or "" for an unknown release.
std::string ReleaseRemark(const KnownRelease* release);
/// "v1.0 and v1.1 differ in efa-installer (1.47.0, 1.49.0) and agree in ray (2.58.0)"; "" when
/// nothing is known to differ.
std::string CompareReleases(const KnownRelease& a, const KnownRelease& b);

}  // namespace dlc

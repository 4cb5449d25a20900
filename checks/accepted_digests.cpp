#include "checks/accepted_digests.h"

#include <algorithm>

#include "checks/wording.h"

namespace dlc {
namespace {

std::string PlatformText(const std::string& os, const std::string& architecture) {
  return os + "/" + architecture;
}

bool Contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

std::string PlatformWithoutVariant(const std::string& platform) {
  const auto first = platform.find('/');
  const auto second = first == std::string::npos ? first : platform.find('/', first + 1);
  return platform.substr(0, second);
}

RunningImage ParseImageId(std::string_view image_id) {
  RunningImage image;
  if (auto digest = DigestOfImageId(image_id)) {
    image.digest = *std::move(digest);
  }
  if (const auto scheme = image_id.find("://"); scheme != std::string_view::npos) {
    image_id.remove_prefix(scheme + 3);
  }
  const auto at = image_id.rfind('@');
  image.bare = !image.digest.empty() && at == std::string_view::npos;
  if (at != std::string_view::npos) {
    const auto reference = ImageReference::Parse(image_id.substr(0, at));
    image.repository = reference ? reference->Name() : std::string(image_id.substr(0, at));
  }
  return image;
}

ServedDigests::ServedDigests(const ServedImage& image, const std::string& platform)
    : root_(image.digest) {
  const std::string wanted = PlatformWithoutVariant(platform);
  if (!image.is_index) {
    AddManifest(image, wanted);
    return;
  }
  Accept(root_, "the index " + ShortDigest(root_));
  for (const IndexMember& member : image.members) {
    AddMember(member, image, wanted);
  }
}

void ServedDigests::Accept(const Digest& digest, const std::string& form) {
  if (!digest.empty() && forms_.emplace(digest, form).second) {
    texts_.push_back(digest.ToString());
  }
}

void ServedDigests::AddManifest(const ServedImage& image, const std::string& platform) {
  const ImageConfig* config = image.config.get();
  if (config == nullptr) {
    configs_complete_ = false;
    Accept(root_, "the manifest " + ShortDigest(root_));
    return;
  }
  const std::string own = PlatformText(config->os, config->architecture);
  platforms_.push_back(own);
  if (own != platform) {
    refusals_[root_] = "the served image, which is for " + own + ", not " + platform;
    refusals_[config->digest] = refusals_[root_];
    return;
  }
  Accept(root_, "the manifest " + ShortDigest(root_));
  Accept(config->digest, "the config of manifest " + ShortDigest(root_));
}

void ServedDigests::AddMember(const IndexMember& member, const ServedImage& image,
                              const std::string& platform) {
  const std::string own = PlatformText(member.os, member.architecture);
  const std::string of_index = " of index " + ShortDigest(root_);
  if (!member.runnable) {
    refusals_[member.digest] =
        "an entry" + of_index + " that cannot run (an attestation or other artifact)";
    return;
  }
  if (!Contains(platforms_, own)) {
    platforms_.push_back(own);
  }
  const Digest* config = member.config_digest.get();
  if (own != platform) {
    refusals_[member.digest] = "the " + own + " member" + of_index + ", not the " + platform;
    if (config != nullptr) {
      refusals_[*config] = "the config of the " + own + " member" + of_index;
    }
    return;
  }
  Accept(member.digest, "the " + own + " member" + of_index);
  // The config blob that was fetched is this member's: the probe takes linux/amd64's.
  const ImageConfig* fetched = own == "linux/amd64" ? image.config.get() : nullptr;
  if (config == nullptr && fetched != nullptr) {
    config = &fetched->digest;
  }
  if (config == nullptr) {
    configs_complete_ = false;
    return;
  }
  Accept(*config, "the config of the " + own + " member" + of_index);
}

std::string ServedDigests::FormOf(const Digest& digest) const {
  const auto it = forms_.find(digest);
  return it == forms_.end() ? std::string() : it->second;
}

std::string ServedDigests::RefusalOf(const Digest& digest) const {
  const auto it = refusals_.find(digest);
  return it == refusals_.end() ? std::string() : it->second;
}

DigestDemand::DigestDemand(const Observations& observations, const Policy& policy)
    : policy_(policy) {
  if (const ServedImage* image = observations.served_image.get()) {
    served_.emplace_back(*image, policy.image.platform);
  }
  for (const Digest& digest : policy.image.digests) {
    accepted_.push_back(digest.ToString());
    if (Served() != nullptr && !Served()->FormOf(digest).empty()) {
      policy_is_served_ = true;
    } else {
      unresolved_.push_back(digest);
    }
  }
  if (Served() != nullptr && (policy_is_served_ || policy.image.digests.empty())) {
    for (const std::string& text : Served()->Texts()) {
      if (!Contains(accepted_, text)) {
        accepted_.push_back(text);
      }
    }
  }
}

std::string DigestDemand::Source() const {
  std::string observed = "observation:servedImage";
  if (policy_.image.digests.empty()) {
    return observed;
  }
  return policy_is_served_ ? "policy:image.digests, " + observed : "policy:image.digests";
}

DigestDemand::Answer DigestDemand::Judge(const RunningImage& image) const {
  const std::string form = Served() == nullptr ? "" : Served()->FormOf(image.digest);
  if (Contains(accepted_, image.digest.ToString())) {
    return {Match::kAccepted, form.empty() ? "a digest of the policy" : form};
  }
  const std::string refusal = Served() == nullptr ? "" : Served()->RefusalOf(image.digest);
  if (!refusal.empty()) {
    return {Match::kRejected, refusal};
  }
  if (!form.empty()) {
    return {Match::kRejected, form + ", which the policy does not name"};
  }
  const KnownRelease* release = ReleaseOf(image.digest, *this, policy_);
  if (release != nullptr) {
    const auto other_release = [&](const Digest& digest) {
      const KnownRelease* pinned = ReleaseOf(digest, *this, policy_);
      return pinned != nullptr && pinned->name != release->name;
    };
    if (!unresolved_.empty() &&
        std::all_of(unresolved_.begin(), unresolved_.end(), other_release)) {
      return {Match::kRejected, "not a release that the policy pins"};
    }
  }
  if (Served() == nullptr) {
    return {Match::kUnresolved,
            "the registry's answer is needed to tell an index from its members"};
  }
  if (!unresolved_.empty()) {
    return {Match::kUnresolved, "the registry serves another image than " +
                                    ShortDigest(unresolved_.front()) +
                                    " of the policy, so the members of that one are not known"};
  }
  if (image.bare && !Served()->ConfigsComplete()) {
    return {Match::kUnresolved, "it is a config digest, and the image's config was not seen"};
  }
  return {Match::kRejected, "no digest of the image that is served"};
}

Digest DigestDemand::ContentKey(const Digest& digest) const {
  return Served() != nullptr && !Served()->FormOf(digest).empty() ? Served()->Root() : digest;
}

const KnownRelease* ReleaseOf(const Digest& digest, const DigestDemand& demand,
                              const Policy& policy) {
  const Digest key = demand.ContentKey(digest);
  const auto& releases = policy.image.releases;
  const auto it = std::find_if(releases.begin(), releases.end(), [&](const KnownRelease& release) {
    return demand.ContentKey(release.digest) == key;
  });
  return it == releases.end() ? nullptr : &*it;
}

std::string ReleaseRemark(const KnownRelease* release) {
  return release == nullptr ? std::string() : " (" + release->name + ")";
}

std::string CompareReleases(const KnownRelease& a, const KnownRelease& b) {
  std::string differ;
  std::string agree;
  for (const auto& [part, version] : a.contents) {
    const auto other = b.contents.find(part);
    if (other == b.contents.end()) {
      continue;
    }
    const bool same = version == other->second;
    std::string& list = same ? agree : differ;
    list.append(list.empty() ? "" : ", ").append(part).append(" (").append(version);
    list.append(same ? "" : ", " + other->second).append(")");
  }
  if (differ.empty()) {
    return {};
  }
  return a.name + " and " + b.name + " differ in " + differ +
         (agree.empty() ? "" : " and agree in " + agree);
}

}  // namespace dlc

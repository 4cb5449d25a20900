#include "checks/running_images.h"

#include <algorithm>
#include <map>
#include <set>

#include "checks/wording.h"

namespace dlc {

RunningContents GroupByContent(const std::vector<const Pod*>& pods, const DigestDemand& demand,
                               const PodSubjects& subjects) {
  RunningContents result;
  std::map<Digest, std::size_t> index;
  for (const Pod* pod : pods) {
    const ContainerStatus* status = RayStatus(*pod);
    RunningImage image = ParseImageId(status == nullptr ? "" : status->image_id);
    if (image.digest.empty()) {
      result.without_digest.push_back(subjects.NameOf(*pod));
      continue;
    }
    const auto [it, is_new] =
        index.emplace(demand.ContentKey(image.digest), result.contents.size());
    const std::string digest = ShortDigest(image.digest);
    if (is_new) {
      result.contents.push_back({std::move(image), {}, {}});
    }
    RunningContent& content = result.contents[it->second];
    if (std::find(content.digests.begin(), content.digests.end(), digest) ==
        content.digests.end()) {
      content.digests.push_back(digest);
    }
    content.pods.push_back(subjects.NameOf(*pod));
  }
  return result;
}

std::size_t ShownImages(const std::vector<RunningContent>& contents, const DigestDemand& demand,
                        const Policy& policy) {
  const ServedDigests* served = demand.Served();
  std::set<std::string> identities;
  bool served_runs = false;
  bool stranger_runs = false;
  for (const RunningContent& content : contents) {
    const Digest& digest = content.image.digest;
    const bool of_served = served != nullptr && !served->FormOf(digest).empty();
    const bool refused = served != nullptr && !served->RefusalOf(digest).empty();
    const KnownRelease* release = ReleaseOf(digest, demand, policy);
    served_runs = served_runs || of_served;
    if (release != nullptr) {
      identities.insert("release " + release->name);
    } else if (of_served || refused) {
      identities.insert(demand.ContentKey(digest).hex);
    }
    const bool may_be_config =
        content.image.bare && served != nullptr && !served->ConfigsComplete();
    stranger_runs = stranger_runs || (!of_served && !refused && !may_be_config);
  }
  return std::max<std::size_t>(identities.size(), served_runs && stranger_runs ? 2 : 1);
}

std::string ContentText(const RunningContent& content, const DigestDemand& demand,
                        const Policy& policy) {
  const std::string also =
      content.digests.size() > 1 ? ", reported as " + NameSome(content.digests) : std::string();
  return content.image.digest.ToString() +
         ReleaseRemark(ReleaseOf(content.image.digest, demand, policy)) + " on " +
         Count(content.pods.size(), "pod") + ": " + NameSome(content.pods) + also;
}

}  // namespace dlc

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "checks/accepted_digests.h"
#include "checks/ray_pods.h"

namespace dlc {

/// One image that runs, and the pods that run it.
struct RunningContent {
  RunningImage image;                ///< as the first of the pods reports it
  std::vector<std::string> digests;  ///< all forms that were reported, short
  std::vector<std::string> pods;
};

struct RunningContents {
  std::vector<RunningContent> contents;
  std::vector<std::string> without_digest;  ///< pods whose imageID is empty or unreadable
};

/// Pods by what they run. All forms of the served image are one content; of any other image each
/// digest stands alone, since its members are not known.
RunningContents GroupByContent(const std::vector<const Pod*>& pods, const DigestDemand& demand,
                               const PodSubjects& subjects);

/// How many different images these are at least. Digests that are not known may be members or
/// configs of one another; known releases, the served image and refused members of it are told
/// apart, and a digest that is no part of the served image counts as another image.
std::size_t ShownImages(const std::vector<RunningContent>& contents, const DigestDemand& demand,
                        const Policy& policy);

/// "sha256:... (v1.1) on 3 pods: a, b, c".
std::string ContentText(const RunningContent& content, const DigestDemand& demand,
                        const Policy& policy);

}  // namespace dlc

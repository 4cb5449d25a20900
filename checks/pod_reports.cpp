#include "checks/pod_reports.h"

#include <algorithm>
#include <unordered_map>

#include "checks/wording.h"

namespace dlc {

std::vector<PodReports> CollectReports(const RayPods& pods,
                                       const std::vector<PodVersions>& versions) {
  std::unordered_map<std::string, const PodVersions*> by_pod;
  for (const PodVersions& one : versions) {
    by_pod.emplace(one.pod, &one);
  }
  const auto add = [](const std::string& version, const std::string& pod, PodsByVersion& known,
                      std::vector<std::string>& missing) {
    (version.empty() ? missing : known[version]).push_back(pod);
  };
  std::vector<PodReports> all;
  for (const RayPodGroup& group : pods.groups) {
    PodReports& reports = all.emplace_back();
    for (const Pod* pod : group.pods) {
      const auto it = by_pod.find(pod->name);
      const PodVersions found = it == by_pod.end() ? PodVersions{} : *it->second;
      add(found.ray, pod->name, reports.ray, reports.ray_missing);
      add(found.python, pod->name, reports.python, reports.python_missing);
    }
  }
  return all;
}

std::vector<std::string> Versions(const PodsByVersion& pods) {
  std::vector<std::string> versions;
  for (const auto& [version, some] : pods) {
    versions.push_back(version);
  }
  return versions;
}

std::string CommonestVersion(const PodsByVersion& pods) {
  const auto it = std::max_element(pods.begin(), pods.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  return it == pods.end() ? std::string() : it->first;
}

std::vector<std::string> WithoutPatchLevel(const PodReports& reports) {
  std::vector<std::string> pods;
  for (const auto& [version, some] : reports.python) {
    if (CountParts(version) < 3) {
      pods.insert(pods.end(), some.begin(), some.end());
    }
  }
  return pods;
}

void AddVersionTable(const char* what, const PodsByVersion& pods, Finding& finding) {
  for (const auto& [version, some] : pods) {
    finding.notes.push_back(what + (" " + version) + " on " + Count(some.size(), "pod") + ": " +
                            NameSome(some));
  }
}

std::string FirstParts(const std::string& version, std::size_t parts) {
  std::size_t end = 0;
  for (; parts > 0 && end != std::string::npos; --parts) {
    end = version.find('.', end == 0 ? 0 : end + 1);
  }
  return version.substr(0, end);
}

std::size_t CountParts(const std::string& version) {
  return static_cast<std::size_t>(std::count(version.begin(), version.end(), '.')) + 1;
}

}  // namespace dlc

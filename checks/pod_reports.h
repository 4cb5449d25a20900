#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "checks/finding.h"
#include "checks/ray_pods.h"
#include "probes/observations/ray.h"

namespace dlc {

/// Pods by the version that they report.
using PodsByVersion = std::map<std::string, std::vector<std::string>>;

/// What the pods of one RayCluster report of their Ray and Python.
struct PodReports {
  PodsByVersion ray;
  PodsByVersion python;
  std::vector<std::string> ray_missing;     ///< pods that report no Ray
  std::vector<std::string> python_missing;  ///< pods that report no Python
};

/// One for each group, in order.
std::vector<PodReports> CollectReports(const RayPods& pods,
                                       const std::vector<PodVersions>& versions);

std::vector<std::string> Versions(const PodsByVersion& pods);
/// The version that most pods report, "" without any: the others are what a reader looks for.
std::string CommonestVersion(const PodsByVersion& pods);
/// Pods whose Python lacks the patch level, which Ray compares too.
std::vector<std::string> WithoutPatchLevel(const PodReports& reports);
/// Notes, a line a version: "Ray 2.57.0 on 1 pod: worker-1".
void AddVersionTable(const char* what, const PodsByVersion& pods, Finding& finding);

/// The first `parts` dot-separated parts of a version: ("3.13.2", 2) -> "3.13".
std::string FirstParts(const std::string& version, std::size_t parts);
std::size_t CountParts(const std::string& version);

}  // namespace dlc

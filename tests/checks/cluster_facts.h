#pragma once

#include <string>

#include "checks/check.h"
#include "probes/observations/observations.h"

namespace dlc::testing {

/// The shape of AWS's sample: a head without GPUs and two workers with four GPUs and one EFA
/// interface each, on two g6.12xlarge nodes in one zone. Tests bend one thing at a time.
PodSpec HeadSpec();
PodSpec WorkerSpec();
Pod RayPod(const std::string& name, const std::string& type, const std::string& node,
           const std::string& ip);
Node GpuNode(const std::string& name);
RayNode RayNodeAt(const std::string& ip, bool head, double gpus);
RayCluster SampleCluster();
/// Everything seen: RayCluster, three pods, three nodes, three Ray nodes.
Observations SampleObservations();

/// Findings of one rule ("gpu-allocation/worker-total") for one subject name ("" for all).
std::vector<Finding> Of(const std::vector<Finding>& findings, std::string_view rule,
                        std::string_view subject = "");
/// The single finding of a rule and subject; fails the test when there is another number.
Finding Only(const std::vector<Finding>& findings, std::string_view rule,
             std::string_view subject = "");

}  // namespace dlc::testing

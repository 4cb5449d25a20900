#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/control/files/fields.h"
#include "probes/observations/ray.h"
#include "probes/observations/result.h"

namespace dlc {

/// Saved answers of Ray's dashboard and state API, and what else tells of a job. `name` is used in
/// messages and sources. Errors are kInvalidInput with file, line and path.

/// GET /api/version.
Result<RayVersionAnswer> ParseRayVersion(std::string_view bytes, const std::string& name);

/// GET /api/v0/nodes?detail=1, or `ray list nodes --detail --format json`: the envelope or the bare
/// list. An answer that was cut short, or a live node without resources_total, is an error: what is
/// missing would count as zero.
Result<std::vector<RayNode>> ParseRayNodes(std::string_view bytes, const std::string& name);

/// GET /api/jobs/ (a list), GET /api/jobs/{id}, a RayJob manifest, or a bare runtime_env as given
/// to `ray job submit --runtime-env-json` or --runtime-env.
Result<std::vector<RayJob>> ParseRayJobs(std::string_view bytes, const std::string& name);

/// kind RayJob. Errors also go to the reading of `object`.
Result<RayJob> ReadRayJobObject(const Fields& object);

/// Our own format: a list of {pod, ray, python, torch, nccl, efaInstaller}, JSON or YAML; unknown
/// keys are errors.
Result<std::vector<PodVersions>> ParsePodVersions(std::string_view bytes, const std::string& name);

/// The same from disk.
Result<RayVersionAnswer> ReadRayVersionFile(const std::string& path);
Result<std::vector<RayNode>> ReadRayNodesFile(const std::string& path);
Result<std::vector<RayJob>> ReadRayJobsFile(const std::string& path);
Result<std::vector<PodVersions>> ReadPodVersionsFile(const std::string& path);

}  // namespace dlc

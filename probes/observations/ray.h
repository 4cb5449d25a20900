#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "probes/observations/cluster.h"
#include "probes/observations/observed.h"

namespace dlc {

/// GET /api/version of the dashboard. `version` there is the Jobs API's and is kept apart.
struct RayVersionAnswer {
  std::string ray_version;
  std::string ray_commit;
  std::string jobs_api_version;
  std::string session_name;

  bool operator==(const RayVersionAnswer&) const = default;
};

/// One node of GET /api/v0/nodes. Resources are what `ray start` was told, not what the pod can
/// see.
struct RayNode {
  std::string node_id;
  std::string node_ip;
  std::string node_name;
  bool is_head = false;
  bool alive = false;  ///< DEAD nodes stay listed
  std::map<std::string, double> resources;

  bool operator==(const RayNode&) const = default;
};

/// Versions read inside one pod's Ray container. Empty text: not reported.
struct PodVersions {
  std::string pod;
  std::string ray;
  std::string python;  ///< all three parts: Ray compares the patch level too
  std::string torch;
  std::string nccl;
  std::string efa_installer;  ///< from /opt/amazon/efa_installed_packages
  Source source;

  bool operator==(const PodVersions&) const = default;
};

/// One thing that a runtime_env asks an installer for.
struct RequestedPackage {
  std::string installer;   ///< "pip", "uv", "conda", "conda-pip"
  std::string text;        ///< as written, without the credentials of URLs
  std::string name;        ///< normalised by PEP 503 (lower case, runs of -_. to one -); of a URL,
                           ///< path or -e only where #egg= or a wheel's name tells; else empty
  std::string specifier;   ///< "==4.46.3", ">=2", "" ; version part of the requirement
  bool is_option = false;  ///< "--extra-index-url ...", "-r file": changes where packages come from

  bool operator==(const RequestedPackage&) const = default;
};

struct RuntimeEnv {
  std::vector<RequestedPackage> packages;
  std::string py_executable;  ///< "uv run" here swaps the whole environment
  std::string image_uri;      ///< container.image or image_uri: the job leaves the image under test
  std::string conda_env;      ///< a named conda environment
  std::string working_dir;
  std::map<std::string, std::string> env_vars;

  bool operator==(const RuntimeEnv&) const = default;
};

struct RayJob {
  std::string submission_id;
  std::string status;
  std::string entrypoint;
  RuntimeEnv runtime_env;
  Source source;

  bool operator==(const RayJob&) const = default;
};

/// The dashboard that was asked, once it answered.
struct RayDashboardFacts {
  std::string address;
  std::string route;           ///< "address", "cluster-dns", "service-proxy" (of the API server)
  std::string authentication;  ///< "disabled", "token"; empty: Ray before 2.52, which has none

  bool operator==(const RayDashboardFacts&) const = default;
};

struct RayFacts {
  Observed<RayVersionAnswer> version;
  Observed<std::vector<RayNode>> nodes;
  Observed<std::vector<PodVersions>> pod_versions;
  Observed<std::vector<RayJob>> jobs;
  /// RayJob objects of the API server: jobs that were submitted in another way are not among them.
  /// Absent: no API server was asked.
  std::optional<Observed<std::vector<RayJob>>> job_objects;
  std::optional<RayDashboardFacts> dashboard;  ///< absent: version, nodes and jobs are from files

  bool operator==(const RayFacts&) const = default;
};

}  // namespace dlc

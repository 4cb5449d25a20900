#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checks/policy.h"
#include "cmd/dlc-check/checkpoint_import.h"
#include "cmd/dlc-check/config.h"
#include "cmd/dlc-check/live_cluster.h"
#include "cmd/dlc-check/nccl_import.h"
#include "cmd/dlc-check/rank_stage.h"
#include "cmd/dlc-check/ray_dashboard.h"
#include "probes/control/registry/observe_image.h"
#include "probes/observations/observations.h"
#include "reports/evidence/signer.h"
#include "reports/report.h"

namespace dlc {

struct SignOptions {
  std::string key;         ///< --sign-key: a file, or "env:NAME"
  std::string command;     ///< --sign-cmd
  std::string public_key;  ///< --sign-pub
  bool none = false;       ///< --no-sign
};

/// The flags of a command that runs checks.
struct RunOptions {
  std::string config_file;
  std::string policy_file;
  std::string image;               ///< --image: instead of the config's image.reference
  std::vector<std::string> files;  ///< -f: more manifests and saved kubectl output
  ClusterFlags cluster;            ///< --kubeconfig, --context, --namespace, --ray-cluster
  std::string ray_address;         ///< --ray-address: instead of the config's and RAY_ADDRESS
  std::vector<std::string> only;   ///< --only; empty: `stages`, else the policy's, else all
  std::vector<Stage> stages;       ///< of the command itself ("dlc-check gpu"); empty for `cluster`
  NcclImports imports;             ///< of an earlier run: then no ranks run
  CheckpointImports checkpoints;   ///< same
  int workers = 0;                 ///< --workers: instead of the config's workload.workers
  std::string out_dir;
  SignOptions sign;
};

/// A run that can start: everything that may turn out to be a usage error has been read and
/// checked, and nothing has been written yet.
struct Plan {
  Policy policy;
  PolicySource policy_source;
  std::optional<ImageReference> image;
  std::optional<LiveCluster> live;  ///< absent: cluster facts are from files
  RayDashboard ray;
  RegistryOptions registry;
  std::chrono::milliseconds registry_timeout = timeouts::kRegistry;
  Observations observations;       ///< run facts, and what the files say
  std::unique_ptr<Signer> signer;  ///< null: unsigned
  RankSetup ranks;
  std::string out_dir;  ///< of a rank that takes part only, unused
  /// Of such a rank, filled when it has: whether rank 0 has all of it.
  std::optional<bool> took_part;
  std::vector<std::string> warnings;
  std::vector<std::string>
      leftovers;  ///< filled by Observe: what this run created and could not remove
};

/// Errors are the user's to mend: exit code 2.
Result<Plan> MakePlan(const RunOptions& options, const std::vector<std::string>& argv);

/// Where neither flag nor config names an image: the one that all Ray containers ask for. Also
/// after a live look, which brings them.
Result<void> ChooseImageOfCluster(Plan& plan);

/// RunFacts::id.
std::string NewRunId();

/// RFC 3339, UTC, whole seconds.
std::string TimestampNow();

/// `text` is a policy file, an inline policy's config file, or the built-in one.
Result<Policy> ReadPolicySource(const PolicySource& source);
/// Reads --policy FILE, else the config's inline policy, else the built-in one.
Result<PolicySource> ChoosePolicySource(const std::string& policy_file, const Config* config);

}  // namespace dlc

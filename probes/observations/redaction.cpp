#include "probes/observations/redaction.h"

#include <map>

namespace dlc {
namespace {

class Tally {
 public:
  void Add(const std::string& what, std::string_view value) {
    if (value.find(kRedacted) != std::string_view::npos) {
      ++counts_[what];
    }
  }
  void Add(const ContainerSpec& container) {
    for (const EnvVar& variable : container.env) {
      Add("environment variable " + variable.name, variable.value);
    }
    for (const auto* list : {&container.command, &container.args}) {
      for (const std::string& argument : *list) {
        Add("credentials in a container's command", argument);
      }
    }
  }
  void Add(const PodSpec& pod) {
    for (const ContainerSpec& container : pod.containers) {
      Add(container);
    }
    for (const ContainerSpec& container : pod.init_containers) {
      Add(container);
    }
  }
  void Add(const RayGroup& group) {
    Add(group.pod);
    for (const auto& [name, value] : group.ray_start_params) {
      Add("rayStartParams " + name, value);
    }
  }
  void Add(const Pod& pod) {
    Add(pod.spec);
    for (const auto* statuses : {&pod.statuses, &pod.init_statuses}) {
      for (const ContainerStatus& status : *statuses) {
        Add("credentials in a container's message", status.message);
      }
    }
  }
  void Add(const RayJob& job) {
    Add("credentials in a job's entrypoint", job.entrypoint);
    for (const auto& [name, value] : job.runtime_env.env_vars) {
      Add("runtime_env variable " + name, value);
    }
    for (const RequestedPackage& package : job.runtime_env.packages) {
      Add("credentials in a requested package", package.text);
    }
    for (const std::string* text : {&job.runtime_env.py_executable, &job.runtime_env.image_uri,
                                    &job.runtime_env.working_dir}) {
      Add("credentials in a job's runtime_env", *text);
    }
  }
  std::vector<std::string> Take() const {
    std::vector<std::string> list;
    for (const auto& [what, count] : counts_) {
      list.push_back(what + " (" + std::to_string(count) + (count == 1 ? " value)" : " values)"));
    }
    return list;
  }

 private:
  std::map<std::string, int> counts_;
};

}  // namespace

std::vector<std::string> RedactionsOf(const Observations& observations) {
  Tally tally;
  if (const auto* clusters = observations.cluster.ray_clusters.get()) {
    for (const RayCluster& cluster : *clusters) {
      tally.Add(cluster.head);
      for (const RayGroup& group : cluster.workers) {
        tally.Add(group);
      }
    }
  }
  if (const auto* pods = observations.cluster.pods.get()) {
    for (const Pod& pod : *pods) {
      tally.Add(pod);
    }
  }
  const auto add_jobs = [&](const Observed<std::vector<RayJob>>& jobs) {
    if (const auto* seen = jobs.get()) {
      for (const RayJob& job : *seen) {
        tally.Add(job);
      }
    }
  };
  add_jobs(observations.ray.jobs);
  if (observations.ray.job_objects) {
    add_jobs(*observations.ray.job_objects);
  }
  return tally.Take();
}

}  // namespace dlc

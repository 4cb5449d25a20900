#pragma once

#include <memory>
#include <optional>
#include <string>

#include "probes/control/ray/ray_client.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

struct RayJobRequest {
  std::string submission_id;
  std::string entrypoint;
  std::string package;  ///< of the working_dir
  std::string run_id;   ///< into the metadata, for whoever meets the job
};

struct RayJobState {
  std::string status;   ///< "PENDING", "RUNNING", "SUCCEEDED", ...
  std::string message;  ///< one line

  bool Ended() const;
};

/// Ray's Jobs API (2.40 and newer), over a client that has logged in. Every call ends by its
/// deadline; one request takes no longer than a minute, an upload excepted.
class RayJobs {
 public:
  explicit RayJobs(std::shared_ptr<RayClient> client) : client_(std::move(client)) {}

  /// Asking keeps the package for ten minutes more.
  Result<bool> HasPackage(const std::string& name, Deadline deadline);
  /// Overwrites one of that name.
  Result<void> PutPackage(const std::string& name, const std::string& bytes, Deadline deadline);
  /// Tries again while the head takes no jobs yet; never makes two of it.
  Result<void> Submit(const RayJobRequest& job, Deadline deadline);
  /// nullopt: there is no such job.
  Result<std::optional<RayJobState>> State(const std::string& submission_id, Deadline deadline);
  /// All that the driver has written.
  Result<std::string> Log(const std::string& submission_id, Deadline deadline);
  /// Ray asks the driver to end and kills it some seconds later.
  Result<void> Stop(const std::string& submission_id, Deadline deadline);
  /// Of a job that has ended; one that is not there is gone already.
  Result<void> Delete(const std::string& submission_id, Deadline deadline);

  RayClient& Client() { return *client_; }

 private:
  Result<HttpResponse> Send(RayRequest request, Deadline deadline);

  std::shared_ptr<RayClient> client_;
};

}  // namespace dlc

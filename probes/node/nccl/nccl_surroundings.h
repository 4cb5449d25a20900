#pragma once

#include <string>
#include <vector>

#include "probes/node/unique_fd.h"
#include "probes/observations/digest.h"
#include "probes/observations/fabric.h"
#include "probes/observations/nccl.h"
#include "probes/observations/observed.h"

namespace dlc {

/// The log of NCCL of this process, in memory: a process that dies leaves no file behind.
class NcclLogCapture {
 public:
  /// Sets NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE for the process. Before NCCL is loaded,
  /// and before there is a second thread.
  static Result<NcclLogCapture> Start();
  /// Sets nothing: for a child that keeps Descriptor() open, under the same number, and has
  /// Settings().
  static Result<NcclLogCapture> ForChild();

  struct Seen {
    Observed<NcclLog> log;
    Digest digest;  ///< of the raw log
  };
  /// What NCCL has written so far.
  Seen Read() const;
  /// Copies the raw log to a new file: one that is there already is an error.
  Result<void> Keep(const std::string& path) const;
  /// What Start has set, or a child is to have.
  std::vector<NcclSetting> Settings() const;
  int Descriptor() const { return file_.get(); }

 private:
  explicit NcclLogCapture(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

/// NCCL_*, OFI_NCCL_* and FI_* of the environment, and NCCL's of its configuration files where the
/// environment does not have them, sorted by name; whose they are, nobody here knows. `files` in
/// order of precedence.
std::vector<NcclSetting> NcclSettings(const char* const* environment,
                                      const std::vector<std::string>& files);
/// Where NCCL looks: NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf.
std::vector<std::string> NcclConfigurationFiles();

/// Files mapped into this process that NCCL's traffic may go through, sorted.
std::vector<std::string> MappedNcclLibraries(const std::string& maps = "/proc/self/maps");

/// This process: host name, boot id, network namespace, CPUs. `host` and `boot_id` as the rank
/// knows them.
FabricRank NcclPlace(const std::string& host, const std::string& boot_id);

}  // namespace dlc

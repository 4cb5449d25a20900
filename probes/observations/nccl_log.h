#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "probes/observations/nccl.h"

namespace dlc {

/// Reads what NCCL (2.18 to 2.30) and aws-ofi-nccl (1.7 to 1.22) write with NCCL_DEBUG=INFO: a file
/// of NCCL_DEBUG_FILE or a log collected by mpirun, Ray or a container runtime, whose prefixes are
/// passed over. Takes the log in pieces of any size and keeps little of it. Never fails: whatever
/// it cannot read is counted, so that a damaged log is not taken for a good one.
///
/// The lines: NCCL's src/debug.cc, src/init.cc, src/transport/{net,p2p,shm,coll_net}.cc at v2.18.5,
/// v2.22.3, v2.26.5, v2.28.9 and v2.29.7; aws-ofi-nccl's src/nccl_ofi_net.cpp.
class NcclLogReader {
 public:
  void Feed(std::string_view piece);
  /// What was read. The reader is used up.
  NcclLog Finish();

 private:
  void TakeLine(std::string_view line);

  NcclLog log_;
  std::string pending_;    ///< the line that has no end yet
  bool overlong_ = false;  ///< the rest of pending_'s line is being passed over
};

NcclLog ReadNcclLog(std::string_view text);

/// Of "Using network" and connection lines: plugins from 1.13 on call themselves "Libfabric", those
/// before "AWS Libfabric"; newer ones do too where NCCL_NET says so.
bool IsLibfabric(std::string_view network);

/// Of `settings`, those that must be the same on all ranks, as one text: "NCCL_ALGO=Ring ...".
std::string SharedNcclSettings(const std::vector<NcclSetting>& settings);

}  // namespace dlc

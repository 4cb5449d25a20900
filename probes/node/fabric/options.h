#pragma once

#include <string>

namespace dlc {

/// Which way to the fabric. All empty is right on AWS: the EFA installer's library, efa first.
struct FabricOptions {
  std::string library_path;
  /// Exactly this provider ("net", "tcp;ofi_rxm", "shm"). Empty: efa, then those over TCP; any that
  /// FI_PROVIDER lets through when that is set.
  std::string provider;
  std::string domain;          ///< "rdmap0s6-rdm", "eth0"; empty for any
  std::string source_address;  ///< numeric local IP address; empty for any
};

}  // namespace dlc

#pragma once

#include <functional>
#include <string>

#include "probes/node/exchange.h"
#include "probes/node/fsdp/train_and_compare.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// What a rank trains with.
struct TrainingSide {
  std::string provider;           ///< of libfabric; empty: chosen
  std::string library;            ///< of NCCL; empty: the copy that torch of this image uses
  bool host_id_per_rank = false;  ///< of NCCL
  std::string machine;            ///< whose memory the CPU's is: ranks with the same one share it
  std::function<void(const std::string&)> say;
};

/// What came of that.
struct TrainingPlace {
  std::string backend;    ///< "cpu", "cuda"
  std::string device;     ///< the GPU's name
  std::string transport;  ///< "libfabric tcp;ofi_rxm", "NCCL 2.28.9"; empty with one rank
};

/// Whether it came to its end, with all ranks still there.
using TrainingBody = std::function<bool(const TrainingPlace&, const TrainingRanks&)>;

}  // namespace dlc

#pragma once

#include <cstdint>
#include <string>

#include "kernels/training/training_backend.h"
#include "probes/node/fsdp/training_options.h"

namespace dlc {

/// Bytes of one rank's device.
struct TrainingBytes {
  std::int64_t states = 0;       ///< parameters, gradients, moments, the copy to be gathered
  std::int64_t gathered = 0;     ///< two layers, the root, and the buffer that a gather fills
  std::int64_t gradients = 0;    ///< of two layers and the root, and buffers of the reduction
  std::int64_t activations = 0;  ///< as the backend says
  std::int64_t unsharded = 0;    ///< of the unsharded model, which is trained afterwards

  /// To train, and to compare with what was expected.
  std::int64_t Sharded() const;
};
/// Of the rank with the largest share.
TrainingBytes EstimateTraining(const TrainingBackend& backend, const TrainingOptions& options,
                               int ranks);

/// "needs 28.1 GiB on this rank's device, has 22.4 GiB free; would fit with 4 ranks". `sharers`
/// ranks take from the same memory.
std::string TooLittleMemory(const TrainingBackend& backend, const TrainingOptions& options,
                            int ranks, int sharers, std::int64_t free_bytes);

}  // namespace dlc

#pragma once

#include <memory>
#include <string>

#include "kernels/training/training_backend.h"

namespace dlc {

/// What is not as the device and the image have it.
struct CudaTrainingOptions {
  std::string cublas_path;  ///< of libcublasLt; empty: looked for
  /// Attention takes no more shared memory in a block than this many bytes, where the device has
  /// more: an A10G or L4 has 101376, an H200 232448. 0: none at all, and no tensor cores.
  int most_shared_bytes = 1 << 30;
};

/// Trains on a CUDA device. The matrix products are those of the image's own libcublasLt, found at
/// run time: by the loader, else beside the torch of the Python that PATH finds (VIRTUAL_ENV and
/// PYTHONPATH before it). nullptr with `status` where the device or the library cannot be had; a
/// library that is missing is named.
std::unique_ptr<TrainingBackend> OpenCudaTrainingBackend(int device, DeviceStatus& status,
                                                         const CudaTrainingOptions& options = {});

}  // namespace dlc

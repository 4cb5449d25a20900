#pragma once

#include <memory>
#include <string>

#include "kernels/training/training_backend.h"

namespace dlc {

/// Trains on a CUDA device. The matrix products are those of the image's own libcublasLt, found at
/// run time: by the loader, else beside the torch of the Python that PATH finds (VIRTUAL_ENV and
/// PYTHONPATH before it); `cublas_path`, if not empty, alone. nullptr with `status` where the device
/// or the library cannot be had; a library that is missing is named.
std::unique_ptr<TrainingBackend> OpenCudaTrainingBackend(int device, DeviceStatus& status,
                                                         const std::string& cublas_path = "");

}  // namespace dlc

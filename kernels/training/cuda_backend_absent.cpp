// In place of the CUDA sources where the build found no CUDA toolkit.
#include "kernels/training/cuda_backend.h"

namespace dlc {

std::unique_ptr<TrainingBackend> OpenCudaTrainingBackend(int /*device*/, DeviceStatus& status,
                                                         const std::string& /*cublas_path*/) {
  status = {-1, "built without CUDA", "this build has no CUDA code", "CUDA"};
  return nullptr;
}

}  // namespace dlc

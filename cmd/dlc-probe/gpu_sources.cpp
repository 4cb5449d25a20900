#include "cmd/dlc-probe/gpu_sources.h"

namespace dlc {

std::string GpuNodeRoot() {
  return "/";
}

ComputeSource GpuComputeSource() {
  return CudaSource();
}

}  // namespace dlc

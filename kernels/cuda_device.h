#pragma once

#include <memory>

#include "kernels/compute_device.h"

namespace dlc {

/// The CUDA runtime that is linked in, as 1000 * major + 10 * minor; 0: built without CUDA.
int CudaRuntimeVersion();
/// "sm_75 sm_80 ...", what device code is inside; "" when built without CUDA.
const char* CudaArchitectures();

/// How many devices CUDA shows this process. Fails with cudaErrorNoDevice (100) rather than giving
/// 0, as CUDA does.
DeviceStatus CountCudaDevices(int& count);

/// Makes the device current in the whole process and its context real: what a broken device
/// refuses, it refuses here. nullptr with `status` unless it worked. One at a time.
std::unique_ptr<ComputeDevice> OpenCudaDevice(int index, DeviceStatus& status);

}  // namespace dlc

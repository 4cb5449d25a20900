#pragma once

#include <string>

#include "probes/observations/gpu.h"

namespace dlc {

/// What a code of the CUDA driver or runtime (they share the numbers) usually comes from, and what
/// to do; empty for codes that tell nothing about the node.
std::string CudaMeaning(int code);

/// The failure in one line: "cuInit: CUDA_ERROR_SYSTEM_NOT_READY (802): system not yet
/// initialized".
std::string CudaFailureText(const CudaFailure& failure);

}  // namespace dlc

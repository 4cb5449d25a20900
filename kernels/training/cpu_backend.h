#pragma once

#include <memory>

#include "kernels/training/training_backend.h"

namespace dlc {

/// The twin of the CUDA backend in plain C++, by one thread: the reference for it, and what trains
/// small models where there is no GPU. The same bits in every run on one machine.
///
/// With kBfloat16 as `compute`, values are rounded to bfloat16 where PyTorch with compiled layers
/// holds a tensor: results of matrix products, norms, turned q and k, attention, the products of
/// the MLP, both sums with the residual, logits, and the gradients of all these. In between, and
/// inside of attention, everything is float32.
///
/// Memory that the machine or a control group's limit does not leave is refused rather than taken,
/// as kernels/training/cpu_memory.h says.
std::unique_ptr<TrainingBackend> OpenCpuTrainingBackend();

}  // namespace dlc

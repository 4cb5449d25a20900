#include "probes/node/gpu/cuda_meaning.h"

#include <algorithm>
#include <iterator>

namespace dlc {
namespace {

struct Meaning {
  int code;
  const char* text;
};

// cuda.h and driver_types.h of CUDA 13.0, and what people met: see the sources of each check.
constexpr Meaning kMeanings[] = {
    {2, "no memory left on the GPU: another process holds it"},
    {34, "the libcuda.so of the toolkit's stubs folder was loaded: take it off LD_LIBRARY_PATH"},
    {35,
     "the driver is older than the CUDA runtime, or there is no libcuda.so.1 at all: update "
     "the node's driver, or give the pod a GPU"},
    {46, "the GPU is taken: compute mode is prohibited, or exclusive and in use"},
    {100, "CUDA finds no GPU: none was given to the container, or CUDA_VISIBLE_DEVICES hides all"},
    {101, "CUDA_VISIBLE_DEVICES or the caller names a GPU that is not there"},
    {209, "no device code for this GPU in dlc-probe"},
    {214, "memory of the GPU has an error that ECC could not correct: drain the node"},
    {226, "the GPU contained a memory error and ended the process: drain the node"},
    {304, "a call of the operating system failed: device files or their permissions are missing"},
    {700,
     "device code reached for memory that is not there: with tested code a sign of bad "
     "hardware"},
    {719, "device code stopped: with tested code a sign of bad hardware"},
    {801, "this GPU or driver does not support what was asked"},
    {802,
     "the NVSwitch fabric is not up: start nvidia-fabricmanager, of the driver's exact "
     "version, on the node. nvidia-smi lists the GPUs nevertheless"},
    {803,
     "libcuda and the kernel module are of different versions: the driver was changed under "
     "running containers, or a copy of libcuda in the image hides the node's"},
    {804,
     "forward compatibility was tried on a GPU that does not have it: take "
     "/usr/local/cuda/compat off LD_LIBRARY_PATH, and update the driver"},
    {999,
     "CUDA does not know either. Often: the device files vanished from the running container "
     "(recreate the pod), or the nvidia-uvm module is not loaded"},
};

}  // namespace

std::string CudaMeaning(int code) {
  const auto* it = std::find_if(std::begin(kMeanings), std::end(kMeanings),
                                [&](const Meaning& meaning) { return meaning.code == code; });
  return it == std::end(kMeanings) ? "" : it->text;
}

std::string CudaFailureText(const CudaFailure& failure) {
  return failure.call + ": " + failure.name + " (" + std::to_string(failure.code) + ")" +
         (failure.text.empty() ? "" : ": " + failure.text);
}

}  // namespace dlc

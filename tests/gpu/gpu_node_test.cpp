#include "probes/node/gpu/gpu_node.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "probes/node/gpu/cuda_meaning.h"
#include "tests/support/temporary_directory.h"

namespace dlc {
namespace {

namespace fs = std::filesystem;

Observed<std::string> KernelModule(const std::string& line) {
  const TemporaryDirectory root;
  root.Write("proc/driver/nvidia/version", line + "\nGCC version:  gcc version 11.4.1\n");
  return ObserveGpuNode(root.Path()).kernel_module;
}

}  // namespace

TEST_CASE("device files are listed by number, control files too, and nothing else") {
  const TemporaryDirectory root;
  for (const char* name : {"nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia-modeset",
                           "nvidia-caps", "nvme0", "nvidiaX"}) {
    root.Write(std::string("dev/") + name, "");
  }
  const GpuNode node = ObserveGpuNode(root.Path());
  REQUIRE(node.device_files.seen());
  std::string paths;
  for (const GpuDeviceFile& file : node.device_files.value()) {
    paths += file.path + (file.number ? "#" + std::to_string(*file.number) : "") + " ";
    CHECK(file.usable);
  }
  CHECK(paths == "/dev/nvidia2#2 /dev/nvidia10#10 /dev/nvidiactl /dev/nvidia-uvm ");
}

TEST_CASE("a device file that does not open is there, and not usable") {
  const TemporaryDirectory root;
  root.Write("dev/none", "");
  fs::create_directory(root / "dev/nvidia0");  // refuses even root
  const GpuNode node = ObserveGpuNode(root.Path());
  REQUIRE(node.device_files.seen());
  REQUIRE(node.device_files.value().size() == 1);
  CHECK_FALSE(node.device_files.value()[0].usable);
  CHECK(node.device_files.value()[0].error == "EISDIR");
}

TEST_CASE("a node whose /dev cannot be listed is an error, not a node without GPUs") {
  CHECK(ObserveGpuNode("/nowhere").device_files.failed());
}

TEST_CASE("the kernel module's version is read from either flavour's line") {
  CHECK(KernelModule("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 "
                     "19:39:15 UTC 2024")
            .value() == "535.183.01");
  CHECK(KernelModule("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release "
                     "Build  (x@y)  Tue Sep 23")
            .value() == "580.95.05");
  CHECK(KernelModule("something else").failed());
  CHECK(ObserveGpuNode("/nowhere").kernel_module.error().code == ErrorCode::kNotFound);
}

TEST_CASE("the compat copy of libcuda is told by the version in its file's name") {
  const TemporaryDirectory root;
  root.Write("usr/local/cuda/compat/libcuda.so.580.95.05", "");
  CHECK(ObserveGpuNode(root.Path()).cuda.compat_file.failed());
  fs::create_symlink("libcuda.so.580.95.05", root / "usr/local/cuda/compat/libcuda.so.1");
  CHECK(ObserveGpuNode(root.Path()).cuda.compat_file.value() == "580.95.05");
}

TEST_CASE("the codes that people meet have a meaning, and no other has one made up") {
  for (const int code : {2, 35, 46, 100, 214, 802, 803, 804, 999}) {
    CAPTURE(code);
    CHECK_FALSE(CudaMeaning(code).empty());
  }
  CHECK(CudaMeaning(0).empty());
  CHECK(CudaMeaning(12345).empty());
  CHECK(CudaFailureText({802, "CUDA_ERROR_SYSTEM_NOT_READY", "cuInit", "not yet", ""}) ==
        "cuInit: CUDA_ERROR_SYSTEM_NOT_READY (802): not yet");
}

}  // namespace dlc

#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "probes/node/dynamic_library.h"
#include "probes/node/nccl/nccl_abi.h"
#include "probes/observations/result.h"

namespace dlc {

/// The GPU that a rank's communicator is on and one stream of it, through libcuda. Its context is
/// the one that CUDA's runtime, and so NCCL, uses. For one thread.
class RankGpu {
 public:
  /// Of what CUDA shows this process, the device local_rank modulo their number.
  static Result<std::unique_ptr<RankGpu>> Open(int local_rank);

  const std::string& Name() const { return name_; }
  /// "0000:53:00.0"
  const std::string& PciAddress() const { return pci_address_; }
  nccl_abi::Stream Stream() const { return stream_; }

  Result<void*> Allocate(std::size_t bytes);
  void Free(void* memory);
  /// In the stream's order, so that what is started next finds the bytes. Host memory may be reused
  /// at once; CopyOut's holds them at once, and so must only be asked for when the stream is idle.
  Result<void> CopyIn(void* to, const void* from, std::size_t bytes);
  Result<void> CopyOut(void* to, const void* from, std::size_t bytes);
  /// Whether all that was put into the stream has ended.
  Result<bool> Idle();

 private:
  explicit RankGpu(DynamicLibrary library) : library_(std::move(library)) {}
  Result<void> Bind();
  Result<void> Start(int local_rank);
  Result<void> Check(int code, const char* call) const;

  DynamicLibrary library_;
  std::string name_;
  std::string pci_address_;
  nccl_abi::Stream stream_ = nullptr;

  int (*init_)(unsigned) = nullptr;
  int (*device_count_)(int*) = nullptr;
  int (*device_get_)(int*, int) = nullptr;
  int (*device_name_)(char*, int, int) = nullptr;
  int (*device_pci_)(char*, int, int) = nullptr;
  int (*retain_)(void**, int) = nullptr;
  int (*set_current_)(void*) = nullptr;
  int (*stream_create_)(void**, unsigned) = nullptr;
  int (*stream_query_)(void*) = nullptr;
  int (*allocate_)(unsigned long long*, std::size_t) = nullptr;
  int (*free_)(unsigned long long) = nullptr;
  int (*copy_in_)(unsigned long long, const void*, std::size_t, void*) = nullptr;
  int (*copy_out_)(void*, unsigned long long, std::size_t, void*) = nullptr;
  int (*error_text_)(int, const char**) = nullptr;
};

}  // namespace dlc

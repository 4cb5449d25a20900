#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "probes/node/dynamic_library.h"
#include "probes/node/nccl/nccl_abi.h"
#include "probes/observations/nccl.h"

namespace dlc {

/// One copy of NCCL, by its symbols. Visible to libraries loaded later: aws-ofi-nccl asks the
/// process for ncclGetVersion, and without an answer leaves out its work-arounds.
struct NcclApi {
  DynamicLibrary library;
  std::string found_by;
  int version_code = 0;  ///< 22809 of 2.28.9

  int (*get_version)(int*) = nullptr;
  const char* (*get_error_string)(int) = nullptr;
  const char* (*get_last_error)(nccl_abi::Comm) = nullptr;
  int (*get_unique_id)(nccl_abi::UniqueId*) = nullptr;
  int (*init_rank)(nccl_abi::Comm*, int, nccl_abi::UniqueId, int, nccl_abi::Config*) = nullptr;
  int (*get_async_error)(nccl_abi::Comm, int*) = nullptr;
  int (*finalize)(nccl_abi::Comm) = nullptr;
  int (*destroy)(nccl_abi::Comm) = nullptr;
  int (*abort)(nccl_abi::Comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, std::size_t, int, int, nccl_abi::Comm,
                    nccl_abi::Stream) = nullptr;
  int (*all_gather)(const void*, void*, std::size_t, int, nccl_abi::Comm,
                    nccl_abi::Stream) = nullptr;
  int (*reduce_scatter)(const void*, void*, std::size_t, int, int, nccl_abi::Comm,
                        nccl_abi::Stream) = nullptr;
  int (*broadcast)(const void*, void*, std::size_t, int, int, nccl_abi::Comm,
                   nccl_abi::Stream) = nullptr;
  int (*send)(const void*, std::size_t, int, int, nccl_abi::Comm, nccl_abi::Stream) = nullptr;
  int (*receive)(void*, std::size_t, int, int, nccl_abi::Comm, nccl_abi::Stream) = nullptr;
  /// nullptr before 2.19.
  int (*mem_alloc)(void**, std::size_t) = nullptr;
  int (*mem_free)(void*) = nullptr;

  /// `path`, or when empty the copy that torch of this image uses; see NcclCandidates. kUnsupported
  /// before 2.18.
  static Result<std::shared_ptr<const NcclApi>> Load(const std::string& path);

  /// Reads the whole file for its digest.
  NcclLibrary Describe() const;
  /// NCCL's words for a result; with a communicator, its last error's too.
  std::string Text(int code, nccl_abi::Comm comm = nullptr) const;
};

/// "2.28.9" of 22809.
std::string NcclVersionText(int code);

}  // namespace dlc

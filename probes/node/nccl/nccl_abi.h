#pragma once

#include <climits>
#include <cstddef>

/// What is needed of NCCL's nccl.h, 2.18 to 2.30: numbers and layouts that its ABI keeps.
namespace dlc::nccl_abi {

inline constexpr int kSuccess = 0;
inline constexpr int kInProgress = 7;

inline constexpr int kInt8 = 0;
inline constexpr int kInt32 = 2;
inline constexpr int kInt64 = 4;
inline constexpr int kFloat32 = 7;
inline constexpr int kFloat64 = 8;
inline constexpr int kBfloat16 = 9;
inline constexpr int kSum = 0;
inline constexpr int kMax = 2;
inline constexpr int kAvg = 4;

struct UniqueId {
  char internal[128];
};

using Comm = void*;    // ncclComm_t
using Stream = void*;  // cudaStream_t, which is CUstream

/// ncclConfig_t of 2.28. A library takes as much of it as it knows, and fills in what it knows
/// beyond it (src/init.cc, parseCommConfig).
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 22800;
  int blocking = INT_MIN;  ///< INT_MIN: not set
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
  int traffic_class = INT_MIN;
  const char* comm_name = nullptr;
  int collnet_enable = INT_MIN;
  int cta_policy = INT_MIN;
  int shrink_share = INT_MIN;
  int nvls_ctas = INT_MIN;
  int channels_per_net_peer = INT_MIN;
  int nvlink_centric_sched = INT_MIN;
};
static_assert(sizeof(Config) == 80);

}  // namespace dlc::nccl_abi

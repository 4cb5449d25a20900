#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace dlc {

/// GPUDirect RDMA: may the NIC read GPU memory. kUnknown where the plugin does not demand it and
/// nothing published says more.
enum class GpuDirect : std::uint8_t { kNo, kYes, kUnknown };

/// What AWS promises of an EC2 instance type.
struct InstanceType {
  std::string_view name;
  int gpus;
  std::string_view gpu_model;
  double gpu_memory_gib;  ///< of each GPU; G types as the driver reports it, P types nominal
  double line_rate_gbps;  ///< EC2's network figure; the baseline where the type bursts; 0: none
                          ///< published in the source
  int efa_interfaces;     ///< schedulable as vpc.amazonaws.com/efa
  GpuDirect gpu_direct;
  bool calibrated;  ///< a published multi-node all-reduce bandwidth backs a threshold
};

/// nullptr for a type that the table does not hold: unknown, not wrong.
const InstanceType* FindInstanceType(std::string_view name);
std::span<const InstanceType> AllInstanceTypes();

}  // namespace dlc

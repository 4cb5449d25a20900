#include "checks/instance_types.h"

#include <algorithm>
#include <iterator>

namespace dlc {
namespace {

constexpr GpuDirect kNo = GpuDirect::kNo;
constexpr GpuDirect kYes = GpuDirect::kYes;
constexpr GpuDirect kUnknown = GpuDirect::kUnknown;

// GPUs, EFA interfaces and Gbps: Karpenter's generated tables
// (github.com/aws/karpenter-provider-aws, website/content/en/preview/reference/instance-types.md,
// commit 1d927085d of 2026-08-21; types without EFA: commit 002856721). GPU memory of P types: the
// vendor's figure. GPUDirect: `gdr_required` of aws-ofi-nccl's platform table, and its issue 547
// for G types. Calibrated: published nccl-tests results of awsome-distributed-training for p4de, p5
// and p5en, NVIDIA/nccl issue 527 for p4d.
constexpr InstanceType kTypes[] = {
    {"g5.4xlarge", 1, "A10G", 22.4, 10, 0, kNo, false},
    {"g5.8xlarge", 1, "A10G", 22.4, 25, 1, kNo, false},
    {"g5.12xlarge", 4, "A10G", 22.4, 40, 1, kNo, false},
    {"g5.16xlarge", 1, "A10G", 22.4, 25, 1, kNo, false},
    {"g5.24xlarge", 4, "A10G", 22.4, 50, 1, kNo, false},
    {"g5.48xlarge", 8, "A10G", 22.4, 100, 1, kNo, false},
    {"g6.xlarge", 1, "L4", 22.4, 2.5, 0, kNo, false},
    {"g6.2xlarge", 1, "L4", 22.4, 5, 0, kNo, false},
    {"g6.4xlarge", 1, "L4", 22.4, 10, 0, kNo, false},
    {"g6.8xlarge", 1, "L4", 22.4, 25, 1, kNo, false},
    {"g6.12xlarge", 4, "L4", 22.4, 40, 1, kNo, false},
    {"g6.16xlarge", 1, "L4", 22.4, 25, 1, kNo, false},
    {"g6.24xlarge", 4, "L4", 22.4, 50, 1, kNo, false},
    {"g6.48xlarge", 8, "L4", 22.4, 100, 1, kNo, false},
    {"g6e.xlarge", 1, "L40S", 44.7, 0, 0, kNo, false},
    {"g6e.2xlarge", 1, "L40S", 44.7, 0, 0, kNo, false},
    {"g6e.4xlarge", 1, "L40S", 44.7, 0, 0, kNo, false},
    {"g6e.8xlarge", 1, "L40S", 44.7, 25, 1, kNo, false},
    {"g6e.12xlarge", 4, "L40S", 44.7, 100, 1, kNo, false},
    {"g6e.16xlarge", 1, "L40S", 44.7, 0, 1, kNo, false},
    {"g6e.24xlarge", 4, "L40S", 44.7, 200, 2, kNo, false},
    {"g6e.48xlarge", 8, "L40S", 44.7, 400, 4, kNo, false},
    {"g7.12xlarge", 2, "RTX PRO 4500", 32, 175, 1, kUnknown, false},
    {"g7.24xlarge", 4, "RTX PRO 4500", 32, 350, 1, kUnknown, false},
    {"g7.48xlarge", 8, "RTX PRO 4500", 32, 700, 2, kUnknown, false},
    {"g7e.8xlarge", 1, "RTX PRO 6000", 96, 100, 1, kUnknown, false},
    {"g7e.12xlarge", 2, "RTX PRO 6000", 96, 400, 1, kYes, false},
    {"g7e.24xlarge", 4, "RTX PRO 6000", 96, 800, 2, kYes, false},
    {"g7e.48xlarge", 8, "RTX PRO 6000", 96, 1600, 4, kYes, false},
    {"p4d.24xlarge", 8, "A100", 40, 400, 4, kYes, true},
    {"p4de.24xlarge", 8, "A100", 80, 400, 4, kYes, true},
    {"p5.4xlarge", 1, "H100", 80, 100, 1, kUnknown, false},
    {"p5.48xlarge", 8, "H100", 80, 3200, 32, kYes, true},
    {"p5e.48xlarge", 8, "H200", 141, 3200, 32, kYes, false},
    {"p5en.48xlarge", 8, "H200", 141, 3200, 16, kYes, true},
    {"p6-b200.48xlarge", 8, "B200", 180, 3200, 8, kYes, false},
    {"p6-b300.48xlarge", 8, "B300", 270, 6400, 16, kYes, false},
};

}  // namespace

const InstanceType* FindInstanceType(std::string_view name) {
  const auto* it = std::find_if(std::begin(kTypes), std::end(kTypes),
                                [&](const InstanceType& type) { return type.name == name; });
  return it == std::end(kTypes) ? nullptr : it;
}

std::span<const InstanceType> AllInstanceTypes() {
  return kTypes;
}

}  // namespace dlc

#pragma once

#include <string_view>
#include <vector>

#include "checks/nccl_levels.h"

namespace dlc {

/// Rule of nccl-transport about ranks that share a node.
inline constexpr std::string_view kInsideNodeRule = "nccl-transport/inside-node";

/// By what the ranks of one node reach each other: one finding, held against nccl.insideNode.
/// `subject`: the step.
void JudgeInsideNode(const std::vector<RankTransport>& ranks, const Policy& policy,
                     const Subject& subject, Judge& judge);

}  // namespace dlc

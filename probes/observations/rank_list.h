#pragma once

#include <string>
#include <vector>

namespace dlc {

/// "rank 2", "ranks 2 and 3", "ranks 1, 2 and 3"; of many the first eight, "and 9 more".
std::string RankList(const std::vector<int>& ranks);

}  // namespace dlc

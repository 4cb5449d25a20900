#include "probes/observations/rank_list.h"

namespace dlc {

std::string RankList(const std::vector<int>& ranks) {
  constexpr std::size_t kNamed = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == kNamed && ranks.size() > kNamed + 1) {
      return text + " and " + std::to_string(ranks.size() - i) + " more";
    }
    const bool last = i + 1 == ranks.size();
    text += (i == 0 ? "" : last ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace dlc

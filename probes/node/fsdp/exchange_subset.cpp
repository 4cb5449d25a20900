#include "probes/node/fsdp/exchange_subset.h"

#include <algorithm>

namespace dlc {

ExchangeSubset::ExchangeSubset(Exchange& all, std::vector<int> members)
    : all_(all), members_(std::move(members)) {
  const auto me = std::find(members_.begin(), members_.end(), all_.rank());
  rank_ = static_cast<int>(me - members_.begin());
}

Result<std::vector<std::string>> ExchangeSubset::AllGather(std::string_view mine,
                                                           Deadline deadline) {
  auto all = all_.AllGather(mine, deadline);
  if (!all) {
    return std::move(all).error();
  }
  std::vector<std::string> some;
  some.reserve(members_.size());
  for (const int member : members_) {
    some.push_back(std::move((*all)[static_cast<std::size_t>(member)]));
  }
  return some;
}

std::string ExchangeSubset::Name() const {
  std::string ranks;
  for (const int member : members_) {
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(member);
  }
  return "of ranks " + ranks + ", which count from 0 among themselves";
}

}  // namespace dlc

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "probes/node/exchange.h"

namespace dlc {

/// The same ranks under other numbers: rank r is (r + shift) % size here. What a run saved as one
/// rank, another process loads, and goes on as that rank, in every collective.
class RotatedExchange : public Exchange {
 public:
  RotatedExchange(Exchange& inner, int shift) : inner_(inner), shift_(shift) {}

  int rank() const override { return (inner_.rank() + shift_) % inner_.size(); }
  int size() const override { return inner_.size(); }

  Result<std::vector<std::string>> AllGather(std::string_view mine, Deadline deadline) override {
    auto all = inner_.AllGather(mine, deadline);
    if (!all) {
      return all;
    }
    std::vector<std::string> rotated(all->size());
    for (std::size_t rank = 0; rank < all->size(); ++rank) {
      rotated[(rank + static_cast<std::size_t>(shift_)) % all->size()] = std::move((*all)[rank]);
    }
    return rotated;
  }
  Result<void> Barrier(Deadline deadline) override { return inner_.Barrier(deadline); }
  Result<void> LookForLost(Deadline deadline) override { return inner_.LookForLost(deadline); }
  void TellStopped(std::string_view why, Deadline deadline) override {
    inner_.TellStopped(why, deadline);
  }

 private:
  Exchange& inner_;
  int shift_;
};

/// The smallest shift with which most ranks take over a file of another node; at least 1 where
/// there is more than one rank. `nodes` by rank.
inline int RotationOf(const std::vector<std::string>& nodes) {
  int best = 0;
  int most = -1;
  const auto size = static_cast<int>(nodes.size());
  for (int shift = size > 1 ? 1 : 0; shift < size; ++shift) {
    int elsewhere = 0;
    for (int rank = 0; rank < size; ++rank) {
      elsewhere += nodes[static_cast<std::size_t>(rank)] !=
                           nodes[static_cast<std::size_t>((rank + shift) % size)]
                       ? 1
                       : 0;
    }
    if (elsewhere > most) {
      most = elsewhere;
      best = shift;
    }
  }
  return best;
}

}  // namespace dlc

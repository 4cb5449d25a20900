#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "probes/node/exchange.h"

namespace dlc {

/// The exchange of some ranks of a run, numbered from 0 in the order given. All ranks of the run
/// make the same calls, each in a subset of its own; the subsets have nothing else in common. The
/// exchange below outlives it.
class ExchangeSubset : public Exchange {
 public:
  /// `members` hold the rank of `all` that calls.
  ExchangeSubset(Exchange& all, std::vector<int> members);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  Result<std::vector<std::string>> AllGather(std::string_view mine, Deadline deadline) override;
  Result<void> Barrier(Deadline deadline) override { return all_.Barrier(deadline); }
  Result<void> LookForLost(Deadline deadline) override { return all_.LookForLost(deadline); }
  void TellStopped(std::string_view why, Deadline deadline) override {
    all_.TellStopped(why, deadline);
  }

  /// "of ranks 1 and 3, which count from 0 among themselves": for errors of what was made with it.
  std::string Name() const;

 private:
  Exchange& all_;
  std::vector<int> members_;
  int rank_ = 0;
};

}  // namespace dlc

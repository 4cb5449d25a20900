#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// What the ranks of a run need of each other before, between and after their experiments. Every
/// rank makes the same calls in the same order.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Every rank's bytes, by rank. An error names the rank that was lost or late.
  virtual Result<std::vector<std::string>> AllGather(std::string_view mine, Deadline deadline) = 0;
  /// Returns once every rank has called it.
  virtual Result<void> Barrier(Deadline deadline) = 0;

  // Unlike the calls above, for any rank by itself.

  /// An error names a rank that was lost, or that told why it stopped; none: not that anybody knew
  /// by the deadline.
  virtual Result<void> LookForLost(Deadline /*deadline*/) { return {}; }
  /// The same of what is known now: it waits for the answer alone, and the deadline is that one's.
  virtual Result<void> LostSoFar(Deadline /*deadline*/) { return {}; }
  /// For the others' LookForLost and LostSoFar, before this rank leaves.
  virtual void TellStopped(std::string_view /*why*/, Deadline /*deadline*/) {}
};

}  // namespace dlc

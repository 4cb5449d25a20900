#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "probes/node/exchange.h"

namespace dlc {

/// How a forked rank ended.
struct RankOutcome {
  bool exited = false;  ///< by itself, with exit_code; else killed by the harness or a signal
  int exit_code = -1;
  std::string text;  ///< what the body returned; "" is success
};

/// Runs `body` in `size` child processes, joined by an Exchange over socket pairs (rank 0 is the
/// middle of a star). Children that are alive after `limit` are killed.
std::vector<RankOutcome> RunRanks(int size, const std::function<std::string(Exchange&)>& body,
                                  std::chrono::milliseconds limit = std::chrono::seconds(60));

/// The first rank's trouble in words, or "" when every rank returned "".
std::string Trouble(const std::vector<RankOutcome>& outcomes);

}  // namespace dlc

#pragma once

#include <string>

#include "probes/observations/cluster.h"

namespace dlc {

/// How far a pod's Ray container came.
struct ContainerStart {
  enum class State {
    kStarted,
    kFailed,   ///< kubelet says why it cannot start
    kPending,  ///< not yet, or nothing is said
  };
  State state = State::kPending;
  std::string container;  ///< the init container's name when that one is the obstacle
  std::string reason;     ///< kubelet's: "ImagePullBackOff"; or "not scheduled", "no status"
  std::string message;    ///< kubelet's words
  /// "auth", "not found", "platform", "damaged content", "rate limit", or "" when the message does
  /// not tell.
  std::string cause;
};
ContainerStart ClassifyStart(const Pod& pod);

/// What to do about a cause; "" for none.
const char* StartHint(const std::string& cause);

}  // namespace dlc

#pragma once

#include <functional>

namespace dlc {

/// Runs `body` in a process of its own and session, and returns its exit code, or 128 + the signal
/// that ended it. SIGTERM, SIGINT and SIGHUP are passed on to it; when this process ends, however
/// it ends, `body` gets SIGTERM. For parents that kill their children without asking, as Ray's
/// workers do when they end: what the children of those started may still clean up.
int RunLeashed(const std::function<int()>& body);

}  // namespace dlc

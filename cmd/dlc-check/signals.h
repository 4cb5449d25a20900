#pragma once

#include <atomic>

namespace dlc {

/// SIGINT and SIGTERM set `Interrupted()` and are remembered; a second one, unless expected again,
/// ends the program at once. SIGPIPE is ignored: a closed pipe (`| head`) must not kill a run
/// before its evidence is written.
void InstallSignalHandlers();

/// After the looking: takes `Interrupted()` back, so that an interruption of the looking does not
/// end the signing of what was seen, and lets the next signal end that. `ReceivedSignal()` stays.
void ExpectSignalAgain();

/// What every wait of a run looks at beside its deadline.
const std::atomic<bool>& Interrupted();

/// SIGINT, SIGTERM, or 0.
int ReceivedSignal();

}  // namespace dlc

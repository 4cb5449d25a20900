#pragma once

#include <string>

#include "probes/observations/observed.h"

namespace dlc {

/// The error's message, or why nobody looked. Precondition: !observed.seen().
template <class T>
std::string WhyUnseen(const Observed<T>& observed) {
  return observed.failed() ? observed.error().message : observed.why_not().reason;
}

}  // namespace dlc

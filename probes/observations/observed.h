#pragma once

#include <string>
#include <utility>
#include <variant>

#include "probes/observations/result.h"

namespace dlc {

/// Nobody tried. `blocked_by` names the finding ("gpu-allocation/limit-matches-ray worker
/// gpu-workers") that took the ground away; empty when it was simply not asked for.
struct NotLookedAt {
  std::string reason;
  std::string blocked_by;

  bool operator==(const NotLookedAt&) const = default;
};

/// Not looked at (the default) | tried and could not see | seen. A check must say what it makes of
/// each of the three.
template <class T>
class Observed {
 public:
  Observed() : state_(std::in_place_index<0>, NotLookedAt{"not asked for", ""}) {}
  // NOLINTBEGIN(google-explicit-constructor): assignment from each of the three is the point
  Observed(NotLookedAt why) : state_(std::in_place_index<0>, std::move(why)) {}
  Observed(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  Observed(T value) : state_(std::in_place_index<2>, std::move(value)) {}
  Observed(Result<T> result) : Observed() {
    if (result) {
      state_.template emplace<2>(std::move(result).value());
    } else {
      state_.template emplace<1>(std::move(result).error());
    }
  }
  // NOLINTEND(google-explicit-constructor)

  bool not_looked_at() const { return state_.index() == 0; }
  bool failed() const { return state_.index() == 1; }
  bool seen() const { return state_.index() == 2; }

  /// Each with the precondition that its name says.
  const NotLookedAt& why_not() const { return std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }
  const T& value() const { return std::get<2>(state_); }
  T& value() { return std::get<2>(state_); }

  /// The value, or nullptr unless seen.
  const T* get() const { return std::get_if<2>(&state_); }

  bool operator==(const Observed&) const = default;

 private:
  std::variant<NotLookedAt, Error, T> state_;
};

/// Why `observed` was not seen, for what would have been read from it. Precondition:
/// !observed.seen().
template <class T, class U>
Observed<T> UnseenAs(const Observed<U>& observed) {
  return observed.failed() ? Observed<T>(observed.error()) : Observed<T>(observed.why_not());
}

}  // namespace dlc

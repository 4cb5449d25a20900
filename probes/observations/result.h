#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace dlc {

/// Chosen by what the caller should do, not by where it happened.
enum class ErrorCode : std::uint8_t {
  kInvalidInput,      ///< the user's file, flag or reference is wrong: exit code 2, nothing ran
  kNotFound,          ///< the thing asked for is not there; asking again gives the same answer
  kPermissionDenied,  ///< credentials or rights are missing: name them
  kTimedOut,          ///< a deadline passed
  kUnavailable,       ///< network, server or device does not answer: may work later
  kUnsupported,       ///< this build, version or platform cannot do it
  kInterrupted,       ///< SIGINT or SIGTERM arrived
  kInternal,          ///< a bug of ours
};

/// What went wrong, for a person: lower case, no full stop, names the thing. `hint` says what to do
/// and may be empty.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string hint;

  bool operator==(const Error&) const = default;
};

/// A value or the Error that prevented it. Same member names as std::expected (C++23), so that it
/// can become an alias.
template <class T>
class [[nodiscard]] Result {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): `return value;` is the point
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  // NOLINTNEXTLINE(google-explicit-constructor): `return Error{...};` is the point
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  /// Precondition of value, * and ->: has_value(). Of error: not.
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): `return Error{...};` is the point
  Result(Error error) : error_(std::move(error)), failed_(true) {}

  bool has_value() const { return !failed_; }
  explicit operator bool() const { return has_value(); }
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }

 private:
  Error error_;
  bool failed_ = false;
};

/// "invalid_input", "not_found", ...: the wire name, stable.
const char* ErrorCodeName(ErrorCode code);

}  // namespace dlc

#pragma once

#include <algorithm>
#include <chrono>

namespace dlc {

/// A moment on the monotonic clock that a wait may not pass. Nested waits share the caller's
/// Deadline, so that retries cannot add up to more than what was promised.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline After(std::chrono::milliseconds span) { return Deadline(Clock::now() + span); }

  bool Passed() const { return Clock::now() >= at_; }
  /// Never negative.
  std::chrono::milliseconds Remaining() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(at_ - Clock::now());
    return std::max(left, std::chrono::milliseconds::zero());
  }
  /// The earlier of this one and `span` from now.
  Deadline Within(std::chrono::milliseconds span) const {
    return Deadline(std::min(at_, Clock::now() + span));
  }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

/// Defaults of every wait, in one place. Config and policy may shorten or lengthen those that a
/// user can meet.
namespace timeouts {
inline constexpr std::chrono::milliseconds kConnect{10'000};  ///< TCP and TLS
inline constexpr std::chrono::milliseconds kHttpRequest{
    30'000};  ///< one request, redirects included
inline constexpr std::chrono::milliseconds kRegistry{
    60'000};  ///< all requests for one image, retries included
inline constexpr std::chrono::milliseconds kCredentialHelper{20'000};  ///< docker-credential-*
inline constexpr std::chrono::milliseconds kExecPlugin{60'000};        ///< of a kubeconfig
inline constexpr std::chrono::milliseconds kKubernetes{
    300'000};  ///< all requests to the API server for one look, retries included
inline constexpr std::chrono::milliseconds kRay{
    60'000};  ///< all requests to Ray's dashboard for one look, retries included
inline constexpr std::chrono::milliseconds kSignCommand{60'000};  ///< --sign-cmd
inline constexpr std::chrono::milliseconds kCheckpointView{
    120'000};  ///< one directory of --from-checkpoint
inline constexpr std::chrono::milliseconds kInputPipe{60'000};  ///< an input file that is a pipe
}  // namespace timeouts

}  // namespace dlc

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "probes/node/exchange.h"
#include "probes/node/unique_fd.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// Where and as whom to join.
struct JoinOptions {
  std::string address;  ///< rank 0's host: name, IPv4 or IPv6
  int port = 0;
  std::string secret;
  int rank = 0;
  int size = 1;
  std::string host;           ///< our name, for the others' messages
  std::string group = "run";  ///< "run" for the rank itself; each experiment has its own
  int stop_fd = -1;           ///< readable: every wait ends with kInterrupted
};

/// A member of a group of ranks. One call at a time. Errors name who was lost, late, double or
/// foreign, and come before the call's deadline passes.
class Rendezvous : public Exchange {
 public:
  /// Returns once all `size` ranks are there. A run has one meeting after the other at one address:
  /// where this rank has been and has left it waits for the next.
  static Result<std::unique_ptr<Rendezvous>> Join(const JoinOptions& options, Deadline deadline);
  /// Leaves with a goodbye: to the others we are finished, not lost.
  ~Rendezvous() override;
  /// False once rank 0's server is lost, or the stream to it has lost its meaning.
  bool connected() const { return static_cast<bool>(fd_); }
  /// Closes the connection without a goodbye, as a death would.
  void Abandon() { fd_.Reset(); }
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  /// By rank, as each gave it.
  const std::vector<std::string>& hosts() const { return hosts_; }

  Result<std::vector<std::string>> AllGather(std::string_view mine, Deadline deadline) override;
  Result<void> Barrier(Deadline deadline) override;
  Result<void> LookForLost(Deadline deadline) override;
  Result<void> LostSoFar(Deadline deadline) override;
  void TellStopped(std::string_view why, Deadline deadline) override;

  /// Key-value: each rank writes its own values, all read them. At most 16 MiB each.
  Result<void> Put(std::string_view key, std::string_view value, Deadline deadline);
  /// Waits until that rank has put it; an error at once when it is lost.
  Result<std::string> Get(int rank, std::string_view key, Deadline deadline);

 private:
  Rendezvous(JoinOptions options, UniqueFd fd) : options_(std::move(options)), fd_(std::move(fd)) {}

  struct Reply;
  Result<void> Authenticate(Deadline deadline);
  Result<void> SendBytes(std::string_view bytes, Deadline deadline);
  Result<std::string> ReceiveBytes(std::size_t count, Deadline deadline);
  Result<std::string> Ask(std::string_view frame, std::uint8_t expected_kind, Deadline deadline);
  Result<std::vector<std::string>> Gather(std::string_view what, std::string_view mine,
                                          Deadline deadline);
  Result<std::string> Wish(int rank, std::string_view key, std::uint32_t server_wait_ms,
                           Deadline deadline);
  Result<void> LostOf(const Result<std::string>& nobody) const;
  Error Lost(const std::string& what) const;

  JoinOptions options_;
  UniqueFd fd_;
  std::vector<std::string> hosts_;
  std::uint32_t sequence_ = 0;
  bool may_come_again_ = false;  ///< this was not the meeting that we mean
};

}  // namespace dlc

#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "probes/node/rendezvous/rendezvous.h"
#include "probes/node/rendezvous/server.h"
#include "probes/node/rendezvous/socket.h"

namespace dlc {

inline constexpr const char* kSecret = "0123456789abcdef0123456789abcdef";

/// A server on a fresh port in a thread of this test.
class MeetingPoint {
 public:
  /// `port`: 0, or that of a point that was stopped.
  explicit MeetingPoint(int size, std::chrono::milliseconds patience = kHandshakePatience,
                        int port = 0)
      : size_(size) {
    auto listener = ListenTcp(port);
    REQUIRE(listener.has_value());
    port_ = PortOf(listener->get());
    REQUIRE(pipe(stop_) == 0);
    server_ = std::make_unique<RendezvousServer>(std::move(*listener), size, kSecret, patience);
    thread_ = std::thread([this] { server_->Serve(stop_[0]); });
  }
  ~MeetingPoint() {
    Stop();
    close(stop_[0]);
    close(stop_[1]);
  }
  MeetingPoint(const MeetingPoint&) = delete;
  MeetingPoint& operator=(const MeetingPoint&) = delete;

  /// The server ends and closes every connection.
  void Stop() {
    if (thread_.joinable()) {
      CHECK(write(stop_[1], "x", 1) == 1);
      thread_.join();
      server_.reset();
    }
  }

  int port() const { return port_; }
  JoinOptions As(int rank, const std::string& host = "") const {
    JoinOptions options;
    options.address = "127.0.0.1";
    options.port = port_;
    options.secret = kSecret;
    options.rank = rank;
    options.size = size_;
    options.host = host.empty() ? "host-" + std::to_string(rank) : host;
    return options;
  }

 private:
  int size_;
  int port_ = 0;
  int stop_[2] = {-1, -1};
  std::unique_ptr<RendezvousServer> server_;
  std::thread thread_;
};

using Member = std::unique_ptr<Rendezvous>;

/// Calls `body` for each of the listed ranks at the same time and returns what each came to.
template <class T>
std::vector<T> InParallel(const std::vector<int>& ranks, const std::function<T(int)>& body) {
  std::vector<std::future<T>> futures;
  futures.reserve(ranks.size());
  for (const int rank : ranks) {
    futures.push_back(std::async(std::launch::async, body, rank));
  }
  std::vector<T> results;
  results.reserve(ranks.size());
  for (auto& future : futures) {
    results.push_back(future.get());
  }
  return results;
}

/// "" when it joined.
inline std::string JoinError(const JoinOptions& options, std::chrono::milliseconds patience) {
  const auto member = Rendezvous::Join(options, Deadline::After(patience));
  return member ? "" : member.error().message;
}

}  // namespace dlc

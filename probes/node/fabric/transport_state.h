#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "probes/node/fabric/endpoint.h"
#include "probes/node/fabric/place.h"
#include "probes/node/fabric/transport.h"

namespace dlc {

/// Tags: the sending rank and its running number towards the receiver; bit 63 and the rank alone
/// for notices.
inline constexpr int kRankShift = 44;
inline std::uint64_t NoticeTag(int from) {
  return (std::uint64_t{1} << 63) | (static_cast<std::uint64_t>(from) << kRankShift);
}
inline std::uint64_t DataTag(int from, std::uint64_t number) {
  return (static_cast<std::uint64_t>(from) << kRankShift) | number;
}

/// Told to all other ranks when a wait is about to run out (kWaiting), has failed (kFailed) or was
/// aborted (kAborted).
struct Notice {
  enum Kind : std::int32_t { kNone, kWaiting, kFailed, kAborted };
  std::int32_t kind = kNone;
  std::int32_t from = 0;
  std::int32_t about = 0;  ///< the rank waited for, found guilty, or that aborted
};

/// Shares of a call's time kept at its end: to find out who is guilty, and to tell the others.
inline constexpr std::chrono::milliseconds kMaxInquiry{500};
inline constexpr std::chrono::milliseconds kMaxFarewell{100};

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};

/// What is under way, and how ranks tell each other of failures: see FabricTransport.
struct FabricTransport::State {
  int rank = 0;
  int size = 1;
  std::vector<FabricRank> ranks;
  LoadedLibrary library;
  bool crowded = false;  ///< more ranks on this machine than CPUs: do not spin

  std::vector<std::uint64_t> sent;      ///< messages, by peer
  std::vector<std::uint64_t> received;  ///< receives started, by peer
  std::int64_t sent_bytes = 0;          ///< payload, to all
  std::deque<FabricRequest> requests;   ///< stable addresses: the provider holds them
  std::vector<FabricRequest*> free_requests;
  std::unique_ptr<std::byte, FreeMemory> scratch;
  std::size_t scratch_bytes = 0;
  std::uint64_t scratch_region = 0;

  std::string what;
  Deadline deadline = Deadline::After(std::chrono::milliseconds::zero());
  std::chrono::milliseconds inquiry{0};
  std::chrono::milliseconds farewell{0};
  std::chrono::milliseconds total{0};
  std::vector<std::uint64_t> used_regions;
  int idle_steps = 0;

  std::atomic<bool> abort{false};
  std::optional<Error> failure;  ///< of this operation or, once closed, of all
  int guilty = -1;               ///< -1 while unknown
  bool aborted = false;          ///< by `guilty`, on purpose

  std::vector<Notice> notices;  ///< outgoing by peer, then incoming by peer
  std::vector<FabricRequest*> notice_sends;
  std::vector<bool> notice_due;
  bool inquiring = false;
  int announced = -1;          ///< the rank that the last kWaiting was about
  std::vector<int> waits_for;  ///< by rank, as told; -1 unknown

  /// Null once closed. Last, so that it goes first: closing may still write into posted buffers.
  std::unique_ptr<FabricEndpoint> endpoint;

  std::size_t Incoming(int peer) const {
    return static_cast<std::size_t>(size) + static_cast<std::size_t>(peer);
  }
  static std::string Name(int rank) { return "rank " + std::to_string(rank); }
  static std::string LookAt(int rank) {
    return "look at " + Name(rank) + ": its log, its process and its node";
  }
  FabricRequest* NewRequest(FabricRequest::Kind kind, int peer, void* memory, std::size_t bytes);
  void Fail(Error error, int guilty_rank);
  void ReceiveNotice(int peer);
  void HandleNotice(int peer);
  void HandleCompletion(const FabricEndpoint::Completion& completion);
  std::size_t Poll();
  std::size_t PollPatiently();
  void Idle();
  void Announce(Notice::Kind kind, int about);
  void PumpNotices();
  void TimeOut(int waiting_for);
  void TellFailure();
  void Close();
  Result<void> Prepare(const std::vector<FabricIntroduction>& introductions);
};

}  // namespace dlc

#include "probes/node/fabric/transport_state.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

namespace dlc {
namespace {

using std::chrono::milliseconds;

static_assert(sizeof(FabricRequest::context) >= sizeof(fi_context2));
static_assert(offsetof(FabricRequest, context) == 0);

/// What an early failure may spend on telling the others, who know nothing yet: over TCP that can
/// take a connection to each.
constexpr milliseconds kMaxEarlyFarewell{2000};

/// Idle steps before the CPU is given away, and before sleeping.
constexpr int kSpins = 200;
constexpr int kYields = 2000;
/// rxm looks at connection requests only every 128th time its queue is read: once there is nothing
/// to receive, reading it in bursts is what lets peers connect.
constexpr int kBurst = 64;

}  // namespace

FabricRequest* FabricTransport::State::NewRequest(FabricRequest::Kind kind, int peer, void* memory,
                                                  std::size_t bytes) {
  if (free_requests.empty()) {
    free_requests.push_back(&requests.emplace_back());
  }
  FabricRequest* request = free_requests.back();
  free_requests.pop_back();
  request->memory = memory;
  request->bytes = bytes;
  request->peer = peer;
  request->kind = kind;
  request->done = false;
  return request;
}

void FabricTransport::State::Fail(Error error, int guilty_rank) {
  if (!failure) {
    failure = std::move(error);
    guilty = guilty_rank;
  }
}

/// One receive for each peer: the net provider of 1.17 reads no further from a peer whose next
/// message nobody has asked for.
void FabricTransport::State::ReceiveNotice(int peer) {
  Notice* notice = &notices[Incoming(peer)];
  FabricRequest* request =
      NewRequest(FabricRequest::Kind::kNoticeReceive, peer, notice, sizeof(Notice));
  const std::int64_t code =
      endpoint->Receive(notice, sizeof(Notice), endpoint->Descriptor(notice, sizeof(Notice)),
                        NoticeTag(peer), 0, request);
  if (code != 0) {
    free_requests.push_back(request);  // notices only better the error texts: do without
  }
}

void FabricTransport::State::HandleNotice(int peer) {
  const Notice notice = notices[Incoming(peer)];
  ReceiveNotice(peer);
  if (notice.from < 0 || notice.from >= size || notice.about < 0 || notice.about >= size) {
    return;
  }
  if (notice.kind == Notice::kWaiting) {
    waits_for[static_cast<std::size_t>(notice.from)] = notice.about;
    inquiring = true;
    return;
  }
  if (failure) {
    return;
  }
  aborted = notice.kind == Notice::kAborted;
  const std::string text = aborted ? Name(notice.about) + " aborted"
                                   : Name(notice.about) + " did not answer " + Name(notice.from);
  Fail(Error{aborted ? ErrorCode::kInterrupted : ErrorCode::kTimedOut, text + " (" + what + ")",
             LookAt(notice.about)},
       notice.about);
}

void FabricTransport::State::HandleCompletion(const FabricEndpoint::Completion& completion) {
  auto* request = static_cast<FabricRequest*>(completion.context);
  if (request == nullptr) {
    return;
  }
  request->done = true;
  switch (request->kind) {
    case FabricRequest::Kind::kNotice:
      return;
    case FabricRequest::Kind::kNoticeReceive:
      free_requests.push_back(request);
      if (!completion.failed) {
        HandleNotice(request->peer);
      }
      return;
    case FabricRequest::Kind::kSend:
    case FabricRequest::Kind::kReceive:
      break;
  }
  const bool sending = request->kind == FabricRequest::Kind::kSend;
  if (completion.failed) {
    Fail(Error{ErrorCode::kUnavailable,
               std::string(sending ? "sending to " : "receiving from ") + Name(request->peer) +
                   " failed: " + completion.reason + " (" + what + ")",
               LookAt(request->peer)},
         request->peer);
  } else if (!sending && completion.bytes != request->bytes) {
    Fail(Error{ErrorCode::kInternal,
               Name(request->peer) + " sent " + std::to_string(completion.bytes) + " bytes where " +
                   std::to_string(request->bytes) + " were expected (" + what + ")",
               "all ranks must make the same calls with the same counts"},
         request->peer);
  }
}

std::size_t FabricTransport::State::Poll() {
  std::array<FabricEndpoint::Completion, 16> completions;
  auto count = endpoint->Poll(completions.data(), completions.size());
  if (!count) {
    Fail(std::move(count).error(), rank);
    return 0;
  }
  for (std::size_t i = 0; i < *count; ++i) {
    HandleCompletion(completions[i]);
  }
  return *count;
}

void FabricTransport::State::Idle() {
  ++idle_steps;
  if (idle_steps <= kSpins && !crowded) {
    return;
  }
  if (idle_steps <= kSpins + kYields || inquiring) {
    sched_yield();
    return;
  }
  // Long waits leave the CPU to those who work.
  const bool very_long = idle_steps > kSpins + 2 * kYields;
  std::this_thread::sleep_for(std::chrono::microseconds(very_long ? 500 : 50));
}

std::size_t FabricTransport::State::PollPatiently() {
  const int polls = inquiring || idle_steps > kSpins ? kBurst : 1;
  for (int i = 0; i < polls; ++i) {
    if (const std::size_t count = Poll(); count > 0) {
      return count;
    }
  }
  return 0;
}

void FabricTransport::State::Announce(Notice::Kind kind, int about) {
  announced = about;
  for (int peer = 0; peer < size; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    if (peer != rank && (notice_sends[at] == nullptr || notice_sends[at]->done)) {
      notices[at] = Notice{kind, rank, about};
      notice_due[at] = true;
    }
  }
}

void FabricTransport::State::PumpNotices() {
  for (int peer = 0; peer < size; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    if (!notice_due[at]) {
      continue;
    }
    if (notice_sends[at] != nullptr) {
      free_requests.push_back(notice_sends[at]);
    }
    Notice* notice = &notices[at];
    notice_sends[at] = NewRequest(FabricRequest::Kind::kNotice, peer, notice, sizeof(Notice));
    const std::int64_t code =
        endpoint->Send(peer, notice, sizeof(Notice), endpoint->Descriptor(notice, sizeof(Notice)),
                       NoticeTag(rank), notice_sends[at]);
    if (code != 0) {
      free_requests.push_back(notice_sends[at]);
      notice_sends[at] = nullptr;
    }
    notice_due[at] = code == -FI_EAGAIN;
  }
}

void FabricTransport::State::TimeOut(int waiting_for) {
  // From the rank waited for along what the ranks told, to the first that told nothing.
  std::string chain;
  int last = waiting_for;
  std::vector<bool> visited(static_cast<std::size_t>(size), false);
  visited[static_cast<std::size_t>(rank)] = true;
  for (;;) {
    visited[static_cast<std::size_t>(last)] = true;
    const int next = waits_for[static_cast<std::size_t>(last)];
    if (next < 0 || visited[static_cast<std::size_t>(next)]) {
      break;
    }
    chain += (chain.empty() ? "; " + Name(rank) + " waited for " : ", that one for ") + Name(last);
    last = next;
  }
  Fail(Error{ErrorCode::kTimedOut,
             Name(last) + " did not answer within " +
                 std::to_string(static_cast<double>(total.count()) / 1000).substr(0, 5) + " s (" +
                 what + chain + (chain.empty() ? ")" : ", that one for " + Name(last) + ")"),
             LookAt(last)},
       last);
}

/// A failure's last act: tells all but the guilty rank, which may never take it.
void FabricTransport::State::TellFailure() {
  const milliseconds left = deadline.Remaining();
  const Deadline end =
      Deadline::After(std::clamp(left, farewell, std::max(farewell, kMaxEarlyFarewell)));
  Announce(aborted ? Notice::kAborted : Notice::kFailed, guilty);
  const auto pending = [this] {
    for (int peer = 0; peer < size; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      if (peer != guilty &&
          (notice_due[at] || (notice_sends[at] != nullptr && !notice_sends[at]->done))) {
        return true;
      }
    }
    return false;
  };
  do {
    PumpNotices();
    PollPatiently();
    sched_yield();
  } while (pending() && !end.Passed());
}

/// From here on the provider touches no buffer.
void FabricTransport::State::Close() {
  if (endpoint) {
    TellFailure();
    endpoint.reset();
  }
}

Result<void> FabricTransport::State::Prepare(const std::vector<FabricIntroduction>& introductions) {
  library = endpoint->Api().Describe();
  std::vector<std::string> addresses;
  for (const FabricIntroduction& introduction : introductions) {
    addresses.push_back(introduction.address);
    ranks.push_back(introduction.place);
    ranks.back().rank = static_cast<int>(ranks.size()) - 1;
  }
  const FabricRank& mine = ranks[static_cast<std::size_t>(rank)];
  const auto here = std::count_if(ranks.begin(), ranks.end(), [&](const FabricRank& other) {
    return other.boot_id == mine.boot_id;
  });
  crowded = here > mine.usable_cpus;
  if (auto inserted = endpoint->InsertPeers(addresses); !inserted) {
    return inserted;
  }
  const std::size_t count = ranks.size();
  sent.assign(count, 0);
  received.assign(count, 0);
  notices.resize(2 * count);
  notice_sends.assign(count, nullptr);
  notice_due.assign(count, false);
  waits_for.assign(count, -1);
  if (auto region = endpoint->Register(notices.data(), notices.size() * sizeof(Notice)); !region) {
    return std::move(region).error();
  }
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) {
      ReceiveNotice(peer);
    }
  }
  return {};
}

}  // namespace dlc

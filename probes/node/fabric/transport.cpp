#include "probes/node/fabric/transport.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "probes/node/fabric/endpoint.h"
#include "probes/node/fabric/place.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

static_assert(sizeof(FabricRequest::context) >= sizeof(fi_context2));
static_assert(offsetof(FabricRequest, context) == 0);

/// Tags: the sending rank and its running number towards the receiver; bit 63 and the rank alone
/// for notices.
constexpr int kRankShift = 44;
std::uint64_t NoticeTag(int from) {
  return (std::uint64_t{1} << 63) | (static_cast<std::uint64_t>(from) << kRankShift);
}
std::uint64_t DataTag(int from, std::uint64_t number) {
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
constexpr milliseconds kMaxInquiry{500};
constexpr milliseconds kMaxFarewell{100};
/// What an early failure may spend on telling the others, who know nothing yet: over TCP that can
/// take a connection to each.
constexpr milliseconds kMaxEarlyFarewell{2000};

/// Idle steps before the CPU is given away, and before sleeping.
constexpr int kSpins = 200;
constexpr int kYields = 2000;
/// rxm looks at connection requests only every 128th time its queue is read: once there is nothing
/// to receive, reading it in bursts is what lets peers connect.
constexpr int kBurst = 64;
constexpr std::size_t kPage = 4096;

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};

std::string Rank(int rank) {
  return "rank " + std::to_string(rank);
}
std::string LookAt(int rank) {
  return "look at " + Rank(rank) + ": its log, its process and its node";
}

FabricIntroduction Introduce(const Result<std::unique_ptr<FabricEndpoint>>& endpoint) {
  FabricIntroduction mine;
  mine.place = ObservePlace();
  if (!endpoint) {
    mine.error = endpoint.error();
    return mine;
  }
  mine.dialect = (*endpoint)->Dialect();
  mine.place.provider = (*endpoint)->Provider();
  auto name = (*endpoint)->Name();
  if (name) {
    mine.address = std::move(name).value();
  } else {
    mine.error = std::move(name).error();
  }
  return mine;
}

/// Also the error of the first rank that cannot take part.
Result<std::vector<FabricIntroduction>> SwapIntroductions(const FabricIntroduction& mine,
                                                          Exchange& exchange, Deadline deadline) {
  auto packed = exchange.AllGather(mine.Pack(), deadline);
  if (!packed) {
    return std::move(packed).error();
  }
  std::vector<FabricIntroduction> introductions;
  for (const std::string& one : *packed) {
    auto introduction = FabricIntroduction::Unpack(one);
    if (!introduction) {
      return std::move(introduction).error();
    }
    introductions.push_back(std::move(introduction).value());
  }
  if (auto checked = CheckIntroductions(introductions); !checked) {
    return std::move(checked).error();
  }
  return introductions;
}

}  // namespace

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
  Deadline deadline = Deadline::After(milliseconds::zero());
  milliseconds inquiry{0};
  milliseconds farewell{0};
  milliseconds total{0};
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
  const std::string text = aborted ? Rank(notice.about) + " aborted"
                                   : Rank(notice.about) + " did not answer " + Rank(notice.from);
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
               std::string(sending ? "sending to " : "receiving from ") + Rank(request->peer) +
                   " failed: " + completion.reason + " (" + what + ")",
               LookAt(request->peer)},
         request->peer);
  } else if (!sending && completion.bytes != request->bytes) {
    Fail(Error{ErrorCode::kInternal,
               Rank(request->peer) + " sent " + std::to_string(completion.bytes) + " bytes where " +
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
    chain += (chain.empty() ? "; " + Rank(rank) + " waited for " : ", that one for ") + Rank(last);
    last = next;
  }
  Fail(Error{ErrorCode::kTimedOut,
             Rank(last) + " did not answer within " +
                 std::to_string(static_cast<double>(total.count()) / 1000).substr(0, 5) + " s (" +
                 what + chain + (chain.empty() ? ")" : ", that one for " + Rank(last) + ")"),
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

FabricTransport::FabricTransport(std::unique_ptr<State> state) : state_(std::move(state)) {}
FabricTransport::~FabricTransport() = default;

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

Result<std::unique_ptr<FabricTransport>> FabricTransport::Open(const FabricOptions& options,
                                                               Exchange& exchange,
                                                               Deadline deadline) {
  auto endpoint = FabricEndpoint::Open(options);
  auto introductions = SwapIntroductions(Introduce(endpoint), exchange, deadline);
  if (!introductions) {
    return std::move(introductions).error();
  }
  if (!endpoint) {  // not reached: the introductions would have told
    return std::move(endpoint).error();
  }
  auto state = std::make_unique<State>();
  state->rank = exchange.rank();
  state->size = exchange.size();
  state->endpoint = std::move(endpoint).value();
  if (auto prepared = state->Prepare(*introductions); !prepared) {
    return prepared.error();
  }
  std::unique_ptr<FabricTransport> transport(new FabricTransport(std::move(state)));
  if (auto begun = transport->Begin("first contact", deadline); !begun) {
    return begun.error();
  }
  if (auto met = transport->End(transport->GreetAll()); !met) {
    return met.error();
  }
  return transport;
}

Result<void> FabricTransport::GreetAll() {
  const int count = size();
  for (int step = 1; step < count; ++step) {
    auto incoming = StartReceive((rank() + count - step) % count, nullptr, 0);
    if (!incoming) {
      return std::move(incoming).error();
    }
    auto outgoing = StartSend((rank() + step) % count, nullptr, 0);
    if (!outgoing) {
      return std::move(outgoing).error();
    }
    for (FabricRequest* request : {*incoming, *outgoing}) {
      if (auto done = WaitAndRelease(request); !done) {
        return done;
      }
    }
  }
  return {};
}

int FabricTransport::rank() const {
  return state_->rank;
}
int FabricTransport::size() const {
  return state_->size;
}
const std::vector<FabricRank>& FabricTransport::Ranks() const {
  return state_->ranks;
}
const LoadedLibrary& FabricTransport::Library() const {
  return state_->library;
}

bool FabricTransport::SameMachine(int a, int b) const {
  const std::string& boot_id = state_->ranks[static_cast<std::size_t>(a)].boot_id;
  return !boot_id.empty() && boot_id == state_->ranks[static_cast<std::size_t>(b)].boot_id;
}

std::int64_t FabricTransport::SentBytes() const {
  return state_->sent_bytes;
}

Result<void> FabricTransport::Begin(std::string what, Deadline deadline) {
  State& s = *state_;
  if (s.failure) {
    return *s.failure;
  }
  s.what = std::move(what);
  s.deadline = deadline;
  s.total = deadline.Remaining();
  s.inquiry = std::min(kMaxInquiry, s.total / 5);
  s.farewell = std::min(kMaxFarewell, s.total / 20);
  s.inquiring = false;
  s.announced = -1;
  s.idle_steps = 0;
  std::fill(s.waits_for.begin(), s.waits_for.end(), -1);
  return {};
}

Result<void> FabricTransport::End(Result<void> result) {
  State& s = *state_;
  if (!result) {
    s.Fail(result.error(), s.rank);
    s.Close();
    s.used_regions.clear();
    return *s.failure;
  }
  for (const std::uint64_t region : s.used_regions) {
    Unregister(region);
  }
  s.used_regions.clear();
  return result;
}

Result<void> FabricTransport::Use(const void* memory, std::size_t bytes) {
  State& s = *state_;
  if (s.endpoint->Descriptor(memory, bytes) != nullptr) {
    return {};
  }
  auto region = s.endpoint->Register(memory, bytes);
  if (!region) {
    return std::move(region).error();
  }
  if (*region != 0) {
    s.used_regions.push_back(*region);
  }
  return {};
}

Result<std::uint64_t> FabricTransport::Register(void* memory, std::size_t bytes) {
  if (state_->failure) {
    return *state_->failure;
  }
  return state_->endpoint->Register(memory, bytes);
}

void FabricTransport::Unregister(std::uint64_t id) {
  if (state_->endpoint && id != 0) {
    state_->endpoint->Unregister(id);
  }
}

Result<std::byte*> FabricTransport::Scratch(std::size_t bytes) {
  State& s = *state_;
  if (bytes <= s.scratch_bytes) {
    return s.scratch.get();
  }
  const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  Unregister(std::exchange(s.scratch_region, 0));
  s.scratch_bytes = 0;
  s.scratch.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, rounded)));
  if (!s.scratch) {
    return Error{ErrorCode::kUnavailable,
                 "no memory for " + std::to_string(rounded) + " bytes of scratch", ""};
  }
  s.scratch_bytes = rounded;
  auto region = s.endpoint->Register(s.scratch.get(), rounded);
  if (!region) {
    return std::move(region).error();
  }
  s.scratch_region = *region;
  return s.scratch.get();
}

Result<FabricRequest*> FabricTransport::StartSend(int peer, const void* memory, std::size_t bytes) {
  State& s = *state_;
  // Never written through: the pointer type is shared with receives.
  FabricRequest* request =
      s.NewRequest(FabricRequest::Kind::kSend, peer, const_cast<void*>(memory), bytes);
  const std::uint64_t tag = DataTag(s.rank, s.sent[static_cast<std::size_t>(peer)]);
  void* descriptor = s.endpoint->Descriptor(memory, bytes);
  for (;;) {
    const std::int64_t code = s.endpoint->Send(peer, memory, bytes, descriptor, tag, request);
    if (code == 0) {
      ++s.sent[static_cast<std::size_t>(peer)];
      s.sent_bytes += static_cast<std::int64_t>(bytes);
      return request;
    }
    if (code != -FI_EAGAIN) {
      Release(request);
      s.Fail(Error{ErrorCode::kUnavailable,
                   "sending to " + Rank(peer) + " failed: " + s.endpoint->Api().Text(code) + " (" +
                       s.what + ")",
                   LookAt(peer)},
             peer);
      return *s.failure;
    }
    if (auto step = Step(peer); !step) {
      Release(request);
      return step.error();
    }
  }
}

Result<FabricRequest*> FabricTransport::StartReceive(int peer, void* memory, std::size_t bytes) {
  State& s = *state_;
  FabricRequest* request = s.NewRequest(FabricRequest::Kind::kReceive, peer, memory, bytes);
  const std::uint64_t tag = DataTag(peer, s.received[static_cast<std::size_t>(peer)]);
  void* descriptor = s.endpoint->Descriptor(memory, bytes);
  for (;;) {
    const std::int64_t code = s.endpoint->Receive(memory, bytes, descriptor, tag, 0, request);
    if (code == 0) {
      ++s.received[static_cast<std::size_t>(peer)];
      return request;
    }
    if (code != -FI_EAGAIN) {
      Release(request);
      s.Fail(Error{ErrorCode::kUnavailable,
                   "cannot receive from " + Rank(peer) + ": " + s.endpoint->Api().Text(code) +
                       " (" + s.what + ")",
                   ""},
             s.rank);
      return *s.failure;
    }
    if (auto step = Step(peer); !step) {
      Release(request);
      return step.error();
    }
  }
}

void FabricTransport::Release(FabricRequest* request) {
  state_->free_requests.push_back(request);
}

Result<void> FabricTransport::Step(int waiting_for) {
  State& s = *state_;
  if (s.PollPatiently() > 0) {
    s.idle_steps = 0;
  } else {
    s.Idle();
  }
  if (s.abort.load(std::memory_order_relaxed) && !s.failure) {
    s.aborted = true;
    s.Fail(Error{ErrorCode::kInterrupted, Rank(s.rank) + " aborted (" + s.what + ")", ""}, s.rank);
  }
  const milliseconds left = s.deadline.Remaining();
  if (left <= s.farewell) {
    s.TimeOut(waiting_for);
  }
  if (s.failure) {
    return *s.failure;
  }
  s.inquiring = s.inquiring || left <= s.farewell + s.inquiry;
  if (s.inquiring) {
    if (s.announced != waiting_for) {
      s.Announce(Notice::kWaiting, waiting_for);
    }
    s.PumpNotices();
  }
  return {};
}

Result<void> FabricTransport::WaitAndRelease(FabricRequest* request) {
  while (!request->done) {
    if (auto step = Step(request->peer); !step) {
      return step;
    }
  }
  Release(request);
  return {};
}

void FabricTransport::Abort() {
  state_->abort.store(true, std::memory_order_relaxed);
}

}  // namespace dlc

#include "probes/node/fabric/transport.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "probes/node/fabric/transport_state.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPage = 4096;

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

FabricTransport::FabricTransport(std::unique_ptr<State> state) : state_(std::move(state)) {}
FabricTransport::~FabricTransport() = default;

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
                   "sending to " + State::Name(peer) + " failed: " + s.endpoint->Api().Text(code) +
                       " (" + s.what + ")",
                   State::LookAt(peer)},
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
                   "cannot receive from " + State::Name(peer) + ": " +
                       s.endpoint->Api().Text(code) + " (" + s.what + ")",
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
    s.Fail(Error{ErrorCode::kInterrupted, State::Name(s.rank) + " aborted (" + s.what + ")", ""},
           s.rank);
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

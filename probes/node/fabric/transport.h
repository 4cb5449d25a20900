#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "probes/node/exchange.h"
#include "probes/node/fabric/options.h"
#include "probes/observations/fabric.h"

namespace dlc {

/// One tagged message on its way. Owned by the transport.
struct FabricRequest {
  alignas(16) void* context[8];  ///< libfabric's (fi_context2), first: completions point here
  void* memory;
  std::size_t bytes;
  int peer;
  enum class Kind : std::uint8_t { kSend, kReceive, kNotice, kNoticeReceive } kind;
  bool done;
};

/// Messages between ranks over one libfabric RDM endpoint, in host memory. The n-th message that a
/// rank sends to another is what the other's n-th receive from it gets.
///
/// Used by one thread. Between Begin and End everything makes progress inside Step, which also
/// keeps the deadline. A rank whose wait is about to run out tells the others whom it waits for, so
/// that each can follow the chain to the rank that does not answer; a rank that fails tells the
/// others why. After a failure the endpoint is closed (no buffer is touched any more) and Begin
/// returns that error.
class FabricTransport {
 public:
  /// All ranks together. A rank that cannot open its side is named on every rank. Each pair swaps
  /// an empty message: unreachable pairs show here, and the time to connect is in no measurement.
  static Result<std::unique_ptr<FabricTransport>> Open(const FabricOptions& options,
                                                       Exchange& exchange, Deadline deadline);
  ~FabricTransport();
  FabricTransport(const FabricTransport&) = delete;
  FabricTransport& operator=(const FabricTransport&) = delete;

  int rank() const;
  int size() const;
  const std::vector<FabricRank>& Ranks() const;
  const LoadedLibrary& Library() const;
  bool SameMachine(int a, int b) const;
  /// Payload of all messages that were started, since Open. A collective's algorithm is in it, a
  /// provider's headers and repetitions are not.
  std::int64_t SentBytes() const;

  /// `what` names the operation in errors: "all-reduce of 4096 bytes".
  Result<void> Begin(std::string what, Deadline deadline);
  /// Returns `result` after having told the others and closed the endpoint if it is an error.
  Result<void> End(Result<void> result);

  /// The memory of a user's call, before messages from or to parts of it; until End. Does something
  /// only where the provider wants local memory registered.
  Result<void> Use(const void* memory, std::size_t bytes);
  /// The same for longer; 0 where nothing had to be done.
  Result<std::uint64_t> Register(void* memory, std::size_t bytes);
  void Unregister(std::uint64_t id);
  /// At least `bytes` of registered memory, contents undefined, valid until the next call.
  Result<std::byte*> Scratch(std::size_t bytes);

  /// Start a message; Step until (*request).done, then Release. 0 bytes are sent too.
  Result<FabricRequest*> StartSend(int peer, const void* memory, std::size_t bytes);
  Result<FabricRequest*> StartReceive(int peer, void* memory, std::size_t bytes);
  void Release(FabricRequest* request);

  /// Makes progress once, and is idle for a moment when there was none. `waiting_for` is the rank
  /// blamed when the deadline passes.
  Result<void> Step(int waiting_for);
  Result<void> WaitAndRelease(FabricRequest* request);

  /// From any thread: see Communicator::Abort.
  void Abort();

 private:
  struct State;
  explicit FabricTransport(std::unique_ptr<State> state);
  Result<void> GreetAll();
  std::unique_ptr<State> state_;
};

}  // namespace dlc

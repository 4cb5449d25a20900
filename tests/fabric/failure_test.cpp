#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "probes/node/fabric/fabric_communicator.h"
#include "tests/fabric/forked_ranks.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

Deadline Soon() {
  return Deadline::After(std::chrono::seconds(30));
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// "" when `done` is an error that names `culprit` and came within `limit` of `start`.
std::string ExpectBlame(const Result<void>& done, const std::string& culprit,
                        Clock::time_point start, milliseconds limit) {
  const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
  if (done) {
    return "no error";
  }
  if (!Contains(done.error().message, culprit)) {
    return "does not name " + culprit + ": " + done.error().message;
  }
  if (took > limit) {
    return "took " + std::to_string(took.count()) + " ms";
  }
  return "";
}

constexpr int kCulprit = 2;
constexpr milliseconds kPatience{3000};
/// For what always takes all of it.
constexpr milliseconds kShortPatience{1500};
/// Of a busy machine. Less than Soon(): a call that waited for its own deadline is told from one
/// that was ended.
constexpr milliseconds kSlack{15'000};
constexpr std::size_t kElements = 300'000;

FabricOptions Provider(const std::string& name) {
  FabricOptions options;
  options.provider = name;
  return options;
}

/// Ranks work together once; then rank 2 goes away as `leave` does, and the others must blame it.
std::vector<RankOutcome> RunWithoutCulprit(const std::string& provider, int size, std::size_t count,
                                           milliseconds patience,
                                           const std::function<void(Exchange&)>& leave) {
  return RunRanks(size, [&](Exchange& exchange) -> std::string {
    auto comm = FabricCommunicator::Open(Provider(provider), exchange, Soon());
    if (!comm) {
      return comm.error().message;
    }
    std::vector<float> values(count, 1.0F);
    const auto all_reduce = [&](Deadline deadline) {
      return (*comm)->AllReduce(values.data(), values.data(), count, DataType::kFloat32,
                                ReduceOp::kSum, deadline);
    };
    if (auto warm = all_reduce(Soon()); !warm) {
      return warm.error().message;
    }
    // A rank's part may be sent for it after its own call is done: who leaves then, leaves in the
    // middle of the others' first one.
    if (auto all = exchange.Barrier(Soon()); !all) {
      return all.error().message;
    }
    if (exchange.rank() == kCulprit) {
      leave(exchange);
      return "";
    }
    const auto start = Clock::now();
    Result<void> done = all_reduce(Deadline::After(patience));
    // Small messages may still get through on ranks that need nothing from the culprit.
    for (int i = 0; done && i < 3; ++i) {
      done = all_reduce(Deadline::After(patience));
    }
    std::string bad = ExpectBlame(done, "rank 2", start, patience + kSlack);
    if (bad.empty()) {
      const auto begun = Clock::now();
      const auto again = all_reduce(Soon());
      bad = ExpectBlame(again, "rank 2", begun, kSlack);
    }
    (void)exchange.Barrier(Deadline::After(milliseconds(2000)));
    return bad;
  });
}

}  // namespace

TEST_CASE("a rank that exits is named by all others before the deadline") {
  for (const std::string provider : {"tcp;ofi_rxm", "net"}) {
    for (const std::size_t count : {std::size_t{1}, kElements}) {
      for (const int size : {3, 5}) {
        CAPTURE(provider);
        CAPTURE(count);
        CAPTURE(size);
        CHECK(Trouble(RunWithoutCulprit(provider, size, count, kPatience,
                                        [](Exchange& /*exchange*/) { _exit(0); })) == "");
      }
    }
  }
}

TEST_CASE("a rank that hangs is named by all others before the deadline") {
  for (const std::string provider : {"tcp;ofi_rxm", "net"}) {
    for (const std::size_t count : {std::size_t{1}, kElements}) {
      for (const int size : {3, 5}) {
        CAPTURE(provider);
        CAPTURE(count);
        CAPTURE(size);
        // Waits for the others where no fabric progress is made.
        CHECK(Trouble(
                  RunWithoutCulprit(provider, size, count, kShortPatience, [](Exchange& exchange) {
                    (void)exchange.Barrier(Deadline::After(milliseconds(20'000)));
                  })) == "");
      }
    }
  }
}

TEST_CASE("an abort from another thread ends the call here and on the other ranks") {
  const auto body = [](Exchange& exchange) -> std::string {
    auto comm = FabricCommunicator::Open({}, exchange, Soon());
    if (!comm) {
      return comm.error().message;
    }
    if (auto met = (*comm)->Barrier(Soon()); !met) {
      return met.error().message;
    }
    // Nobody aborts while another rank is still in that barrier.
    (void)exchange.Barrier(Soon());
    if (exchange.rank() == 0) {  // nobody's partner: the others wait for it in vain
      (void)exchange.Barrier(Soon());
      return "";
    }
    const auto start = Clock::now();
    std::thread watchdog;
    if (exchange.rank() == 1) {
      watchdog = std::thread([&] { (*comm)->Abort(); });
    }
    const auto done = (*comm)->Barrier(Soon());
    const std::string bad = ExpectBlame(done, "rank 1 aborted", start, milliseconds(5000));
    if (watchdog.joinable()) {
      watchdog.join();
    }
    (void)exchange.Barrier(Soon());
    return bad;
  };
  CHECK(Trouble(RunRanks(4, body)) == "");
}

TEST_CASE("ranks that disagree on the count get an error and no wrong result") {
  const auto body = [](Exchange& exchange) -> std::string {
    auto comm = FabricCommunicator::Open({}, exchange, Soon());
    if (!comm) {
      return comm.error().message;
    }
    std::vector<std::int32_t> values(100);
    const std::size_t count = exchange.rank() == 1 ? 60 : 100;
    const auto done = (*comm)->AllReduce(values.data(), values.data(), count, DataType::kInt32,
                                         ReduceOp::kSum, Deadline::After(milliseconds(3000)));
    (void)exchange.Barrier(Soon());
    return done ? "no error" : "";
  };
  CHECK(Trouble(RunRanks(2, body)) == "");
}

TEST_CASE("a rank that cannot open its side is named on every rank") {
  const auto body = [](Exchange& exchange) -> std::string {
    const FabricOptions options = Provider(exchange.rank() == 1 ? "no-such-provider" : "net");
    auto comm = FabricCommunicator::Open(options, exchange, Soon());
    if (comm) {
      return "opened";
    }
    return Contains(comm.error().message, "rank 1 cannot join the fabric") &&
                   Contains(comm.error().message, "no-such-provider")
               ? ""
               : comm.error().message;
  };
  CHECK(Trouble(RunRanks(3, body)) == "");
}

TEST_CASE("ranks that chose different providers are told so") {
  const auto body = [](Exchange& exchange) -> std::string {
    auto comm = FabricCommunicator::Open(Provider(exchange.rank() == 2 ? "net" : "tcp;ofi_rxm"),
                                         exchange, Soon());
    if (comm) {
      return "opened";
    }
    return Contains(comm.error().message, "rank 2 speaks net") ? "" : comm.error().message;
  };
  CHECK(Trouble(RunRanks(3, body)) == "");
}

TEST_CASE("a peer that is no rank is refused before anything is sent") {
  const auto body = [](Exchange& exchange) -> std::string {
    auto comm = FabricCommunicator::Open({}, exchange, Soon());
    if (!comm) {
      return comm.error().message;
    }
    int value = 0;
    for (const int peer : {-1, 1, 0}) {
      const auto done = (*comm)->Send(&value, 1, DataType::kInt32, peer, Soon());
      if (done || done.error().code != ErrorCode::kInvalidInput) {
        return "accepted peer " + std::to_string(peer);
      }
    }
    return "";
  };
  CHECK(Trouble(RunRanks(1, body)) == "");
}

TEST_CASE("an error completion is told with the provider's text and the peer") {
  const auto body = [](Exchange& exchange) -> std::string {
    FabricOptions options = Provider("net");
    if (exchange.rank() == 0) {
      options.library_path = DLC_FAKE_FABRIC_STRICT;
      setenv("DLC_FAKE_FAIL_AFTER", "5", 1);
    }
    auto comm = FabricCommunicator::Open(options, exchange, Soon());
    if (!comm) {
      return comm.error().message;
    }
    std::vector<float> values(kElements, 1.0F);
    const auto done = (*comm)->AllReduce(values.data(), values.data(), kElements,
                                         DataType::kFloat32, ReduceOp::kSum, Soon());
    (void)exchange.Barrier(Soon());
    if (done) {
      return "no error";
    }
    if (exchange.rank() != 0) {
      return "";
    }
    return Contains(done.error().message, "planted by the fake") &&
                   Contains(done.error().message, "rank 1")
               ? ""
               : done.error().message;
  };
  CHECK(Trouble(RunRanks(2, body)) == "");
}

}  // namespace dlc

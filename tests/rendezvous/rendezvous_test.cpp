#include "probes/node/rendezvous/rendezvous.h"

#include <sys/socket.h>

#include "tests/rendezvous/meeting_point.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kPlenty{20'000};
constexpr milliseconds kShort{1'500};

std::vector<Member> JoinAll(const MeetingPoint& point, const std::vector<int>& ranks) {
  return InParallel<Member>(ranks, [&](int rank) {
    auto member = Rendezvous::Join(point.As(rank), Deadline::After(kPlenty));
    return member ? std::move(*member) : nullptr;
  });
}

TEST_CASE("rendezvous: every rank gets every rank's bytes, by rank, any number of times") {
  for (const int size : {1, 2, 3, 7}) {
    CAPTURE(size);
    const MeetingPoint point(size);
    std::vector<int> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.push_back(rank);
    }
    const auto members = JoinAll(point, ranks);
    const auto good = InParallel<bool>(ranks, [&](int rank) {
      Rendezvous& me = *members[static_cast<std::size_t>(rank)];
      bool all = static_cast<int>(me.hosts().size()) == size && me.hosts()[0] == "host-0";
      for (int round = 0; round < 20; ++round) {
        const auto texts = me.AllGather("r" + std::to_string(rank) + "." + std::to_string(round),
                                        Deadline::After(kPlenty));
        all = all && texts.has_value();
        for (int other = 0; all && other < size; ++other) {
          all = (*texts)[static_cast<std::size_t>(other)] ==
                "r" + std::to_string(other) + "." + std::to_string(round);
        }
        all = all && me.Barrier(Deadline::After(kPlenty)).has_value();
      }
      return all;
    });
    for (const bool one : good) {
      CHECK(one);
    }
  }
}

TEST_CASE("rendezvous: works over IPv6 and by name") {
  const MeetingPoint point(1);
  for (const char* address : {"::1", "127.0.0.1", "localhost"}) {
    CAPTURE(address);
    JoinOptions options = point.As(0);
    options.address = address;
    options.group = std::string("over ") + address;
    CHECK(JoinError(options, kPlenty).empty());
  }
}

TEST_CASE("rendezvous: messages up to the limit travel, bigger ones are refused by name") {
  const MeetingPoint point(2);
  const auto members = JoinAll(point, {0, 1});
  const auto sizes = InParallel<std::size_t>({0, 1}, [&](int rank) {
    const auto all = members[static_cast<std::size_t>(rank)]->AllGather(
        std::string(rank == 0 ? 16U << 20U : 0U, 'x'), Deadline::After(kPlenty));
    return all ? (*all)[0].size() : 0;
  });
  CHECK(sizes[0] == 16U << 20U);
  CHECK(sizes[1] == 16U << 20U);
  const auto refused =
      members[0]->AllGather(std::string((16U << 20U) + 1, 'x'), Deadline::After(kPlenty));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("over the limit") != std::string::npos);
}

TEST_CASE("rendezvous: values are written by their rank and read by all, before or after") {
  const MeetingPoint point(2);
  const auto members = JoinAll(point, {0, 1});
  auto early = std::async(std::launch::async,
                          [&] { return members[0]->Get(1, "document", Deadline::After(kPlenty)); });
  CHECK(members[1]->Put("document", "from one", Deadline::After(kPlenty)).has_value());
  CHECK(early.get().value() == "from one");
  CHECK(members[1]->Get(1, "document", Deadline::After(kPlenty)).value() == "from one");
  const auto never = members[0]->Get(1, "other", Deadline::After(kShort));
  REQUIRE_FALSE(never.has_value());
  CHECK(never.error().message == "rank 1 of 2 on host-1 did not give its other in time");
}

TEST_CASE("rendezvous: a missing rank is named on every rank, before the deadline") {
  const MeetingPoint point(4);
  const auto start = Deadline::Clock::now();
  const auto errors = InParallel<std::string>(
      {0, 1, 3}, [&](int rank) { return JoinError(point.As(rank), kShort); });
  CHECK(Deadline::Clock::now() - start < kShort + milliseconds(200));
  for (const std::string& error : errors) {
    CHECK(error == "rank 2 of 4 never arrived");
  }
  // Who comes later learns the same.
  CHECK(JoinError(point.As(2), kPlenty) == "rank 2 of 4 never arrived");
}

TEST_CASE("rendezvous: several missing ranks are named") {
  const MeetingPoint point(4);
  CHECK(JoinError(point.As(1), kShort) == "ranks 0, 2 and 3 of 4 never arrived");
}

TEST_CASE("rendezvous: a rank that arrives twice is named with both places") {
  const MeetingPoint point(3);
  auto errors = InParallel<std::string>({0, 1, 1}, [&](int rank) {
    return JoinError(point.As(rank, rank == 1 ? "twin" : ""), kPlenty);
  });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.starts_with("rank 1 arrived twice (from twin at 127.0.0.1:"));
    CHECK(error.find(" and from twin at 127.0.0.1:") != std::string::npos);
  }
}

TEST_CASE("rendezvous: a double of a rank that is already at work does not stop the work") {
  const MeetingPoint point(1);
  const auto members = JoinAll(point, {0});
  CHECK(JoinError(point.As(0, "late twin"), kPlenty).starts_with("rank 0 arrived twice"));
  CHECK(members[0]->Barrier(Deadline::After(kPlenty)).has_value());
}

TEST_CASE("rendezvous: a rank that has left waits for the next meeting at the address") {
  // As target env has one meeting a stage: rank 1 is through with the first before rank 0 ends it.
  MeetingPoint first(2);
  auto members = JoinAll(first, {0, 1});
  const JoinOptions again = first.As(1);
  members[1].reset();
  Result<std::unique_ptr<Rendezvous>> late = Error{ErrorCode::kInternal, "not joined", ""};
  std::thread rank_1([&] { late = Rendezvous::Join(again, Deadline::After(kPlenty)); });
  CHECK(JoinError(again, kShort).find("has left") != std::string::npos);
  CHECK(members[0]->connected());
  first.Stop();
  const MeetingPoint second(2, kHandshakePatience, first.port());
  auto rank_0 = Rendezvous::Join(second.As(0), Deadline::After(kPlenty));
  rank_1.join();
  CHECK(rank_0.has_value());
  REQUIRE_MESSAGE(late.has_value(), late.error().message);
}

TEST_CASE("rendezvous: a rank that has left, and no next meeting: what it met is told") {
  const MeetingPoint point(1);
  JoinAll(point, {0}).clear();
  CHECK(JoinError(point.As(0), kShort).find("is of a meeting that this rank has left") !=
        std::string::npos);
}

TEST_CASE("rendezvous: another world size is named on every rank") {
  const MeetingPoint point(2);
  const auto errors = InParallel<std::string>({0, 1}, [&](int rank) {
    JoinOptions options = point.As(rank);
    options.size = rank == 1 ? 3 : 2;
    return JoinError(options, kPlenty);
  });
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.starts_with("rank 1 (host-1 at 127.0.0.1:"));
    CHECK(error.ends_with("says WORLD_SIZE 3, the rendezvous expects 2"));
  }
}

TEST_CASE("rendezvous: a rank that dies later is named to those who wait and to those who come") {
  const MeetingPoint point(3);
  auto members = JoinAll(point, {0, 1, 2});
  auto waiting =
      std::async(std::launch::async, [&] { return members[0]->Barrier(Deadline::After(kPlenty)); });
  JoinOptions step = point.As(1);
  step.group = "step 1";
  auto joining = std::async(std::launch::async, [&] { return JoinError(step, kPlenty); });
  // Death without goodbye: the socket just closes, as the kernel does for a killed process.
  members[2]->Abandon();
  CHECK(waiting.get().error().message == "rank 2 on host-2 was lost");
  CHECK(joining.get() == "rank 2 on host-2 was lost (step 1)");
  CHECK(members[1]->Barrier(Deadline::After(kPlenty)).error().message ==
        "rank 2 on host-2 was lost");
  CHECK(members[1]->Get(2, "document", Deadline::After(kPlenty)).error().message ==
        "rank 2 on host-2 was lost before it gave its document");
  // What does not need it goes on.
  CHECK(members[1]->Put("k", "v", Deadline::After(kPlenty)).has_value());
  CHECK(members[0]->Get(1, "k", Deadline::After(kPlenty)).value() == "v");
}

TEST_CASE("rendezvous: whoever asks is told who was lost") {
  const MeetingPoint point(4);
  auto members = JoinAll(point, {0, 1, 2, 3});
  CHECK(members[0]->LookForLost(Deadline::After(std::chrono::milliseconds(50))).has_value());
  members[1].reset();  // with a goodbye
  CHECK(members[0]->LookForLost(Deadline::After(std::chrono::milliseconds(50))).has_value());
  CHECK(members[0]->LostSoFar(Deadline::After(kPlenty)).has_value());
  auto waiting = std::async(std::launch::async,
                            [&] { return members[0]->LookForLost(Deadline::After(kPlenty)); });
  members[3]->TellStopped("no " + std::string(2'000, 'x'), Deadline::After(kPlenty));
  CHECK(waiting.get().error().message == "rank 3 on host-3 stopped: no " + std::string(1'021, 'x'));
  CHECK(members[0]
            ->LostSoFar(Deadline::After(kPlenty))
            .error()
            .message.starts_with("rank 3 on host-3 stopped: no "));
  CHECK(members[3]->LookForLost(Deadline::After(std::chrono::milliseconds(50))).has_value());
  members[2]->Abandon();
  // A loss explains more than an end that was told.
  CHECK(members[3]->LookForLost(Deadline::After(kPlenty)).error().message ==
        "rank 2 on host-2 was lost");
  CHECK(members[0]->LookForLost(Deadline::After(kPlenty)).error().message ==
        "rank 2 on host-2 was lost");
  CHECK(members[0]->connected());
}

TEST_CASE("rendezvous: a rank that said goodbye is told apart from a lost one") {
  const MeetingPoint point(2);
  auto members = JoinAll(point, {0, 1});
  members[1].reset();
  CHECK(members[0]->Barrier(Deadline::After(kPlenty)).error().message ==
        "rank 1 on host-1 had already finished");
}

TEST_CASE("rendezvous: a rank that is late for a barrier is named") {
  const MeetingPoint point(3);
  auto members = JoinAll(point, {0, 1, 2});
  const auto errors = InParallel<std::string>({0, 2}, [&](int rank) {
    return members[static_cast<std::size_t>(rank)]
        ->Barrier(Deadline::After(kShort))
        .error()
        .message;
  });
  for (const std::string& error : errors) {
    CHECK(error == "rank 1 of 3 on host-1 did not come to barrier 0 of run in time");
  }
}

TEST_CASE("rendezvous: ranks that do different things are told so") {
  const MeetingPoint point(2);
  auto members = JoinAll(point, {0, 1});
  const auto errors = InParallel<std::string>({0, 1}, [&](int rank) {
    if (rank == 0) {
      return members[0]->Barrier(Deadline::After(kPlenty)).error().message;
    }
    return members[1]->AllGather("x", Deadline::After(kPlenty)).error().message;
  });
  for (const std::string& error : errors) {
    CHECK(error.find("while others called") != std::string::npos);
  }
}

TEST_CASE("rendezvous: the loss of rank 0's server is an error at once") {
  MeetingPoint point(2);
  auto members = JoinAll(point, {0, 1});
  auto waiting =
      std::async(std::launch::async, [&] { return members[1]->Barrier(Deadline::After(kPlenty)); });
  point.Stop();
  const auto result = waiting.get();
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().message.starts_with("the rendezvous of rank 0 at 127.0.0.1:"));
}

TEST_CASE("rendezvous: nobody there is an error that names the address") {
  auto listener = ListenTcp(0);
  REQUIRE(listener.has_value());
  const int port = PortOf(listener->get());
  listener->Reset();
  JoinOptions options;
  options.address = "127.0.0.1";
  options.port = port;
  options.secret = kSecret;
  const std::string error = JoinError(options, kShort);
  CAPTURE(error);
  CHECK(error.starts_with("rank 0 at 127.0.0.1:" + std::to_string(port) + " never answered: "));
}

TEST_CASE("rendezvous: a stop ends a wait as interrupted") {
  const MeetingPoint point(2);
  int stop[2];
  REQUIRE(pipe(stop) == 0);
  JoinOptions options = point.As(0);
  options.stop_fd = stop[0];
  auto joining = std::async(std::launch::async, [&] {
    return Rendezvous::Join(options, Deadline::After(kPlenty)).error().code;
  });
  CHECK(write(stop[1], "x", 1) == 1);
  CHECK(joining.get() == ErrorCode::kInterrupted);
  close(stop[0]);
  close(stop[1]);
}

}  // namespace
}  // namespace dlc

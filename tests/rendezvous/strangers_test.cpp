// Peers that are no ranks of the run.
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "probes/node/bytes.h"
#include "probes/node/rendezvous/protocol.h"
#include "probes/node/sha256/sha256.h"
#include "tests/rendezvous/meeting_point.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kPlenty{20'000};
constexpr milliseconds kShort{1'500};

UniqueFd Connect(int port) {
  auto fd = ConnectTcp("127.0.0.1", port, Deadline::After(kPlenty), -1);
  REQUIRE(fd.has_value());
  return std::move(*fd);
}

void Send(const UniqueFd& fd, const std::string& bytes) {
  CHECK(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
        static_cast<ssize_t>(bytes.size()));
}

std::string Receive(const UniqueFd& fd, std::size_t count) {
  std::string bytes;
  char byte = 0;
  while (bytes.size() < count &&
         WaitForFd(fd.get(), POLLIN, Deadline::After(kPlenty), -1) == Waited::kReady &&
         recv(fd.get(), &byte, 1, 0) == 1) {
    bytes += byte;
  }
  return bytes;
}

/// Waits until the server hangs up on us.
bool HungUp(const UniqueFd& fd) {
  char byte = 0;
  while (WaitForFd(fd.get(), POLLIN, Deadline::After(kPlenty), -1) == Waited::kReady) {
    if (recv(fd.get(), &byte, 1, 0) <= 0) {
      return true;
    }
  }
  return false;
}

TEST_CASE("rendezvous: a peer with another secret is refused, and named to the ranks that wait") {
  const MeetingPoint point(2);
  JoinOptions foreign = point.As(1);
  foreign.secret = "another secret of 32 characters.";
  const auto refused = Rendezvous::Join(foreign, Deadline::After(kPlenty));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kPermissionDenied);
  CHECK(refused.error().message == "the rendezvous at 127.0.0.1:" + std::to_string(point.port()) +
                                       " does not know our secret");
  const std::string error = JoinError(point.As(0), kShort);
  CAPTURE(error);
  CHECK(error.starts_with("rank 1 of 2 never arrived; a peer from 127.0.0.1:"));
  CHECK(error.ends_with(" did not know the secret"));
}

TEST_CASE("rendezvous: a forged proof is refused by the server too") {
  const MeetingPoint point(2);
  const UniqueFd fd = Connect(point.port());
  Send(fd, std::string(rendezvous::kMagic) + std::string(32, 'n'));
  const rendezvous::JoinRequest request{"run", 2, 1, "forger", 1000};
  Send(fd, rendezvous::Frame(rendezvous::Kind::kJoin,
                             std::string(32, 'm') + rendezvous::WriteJoin(request)));
  CHECK(HungUp(fd));
  CHECK(JoinError(point.As(0), kShort).ends_with("did not know the secret"));
}

TEST_CASE("rendezvous: another run's proof cannot be played back") {
  const MeetingPoint point(1);
  const rendezvous::JoinRequest request{"run", 1, 0, "replayer", 1000};
  const std::string body = rendezvous::WriteJoin(request);
  // A proof that was right once, for a nonce that the server gave then.
  const std::string nonce(32, 'n');
  const std::string old_server_nonce(32, 's');
  const std::string mac(AsText(HmacSha256(kSecret, {"client", nonce, old_server_nonce, body})));
  const UniqueFd fd = Connect(point.port());
  Send(fd, std::string(rendezvous::kMagic) + nonce);
  Send(fd, rendezvous::Frame(rendezvous::Kind::kJoin, mac + body));
  CHECK(HungUp(fd));
  CHECK(JoinError(point.As(0), kPlenty).empty());
}

TEST_CASE("rendezvous: garbage and giant messages are turned away and do not stop the run") {
  const MeetingPoint point(1);
  const UniqueFd http = Connect(point.port());
  Send(http, "GET / HTTP/1.1\r\n\r\n");
  CHECK(HungUp(http));
  const UniqueFd giant = Connect(point.port());
  ByteWriter header;
  header.U32(0xFFFFFFFFU);
  header.U8('J');
  Send(giant, std::string(rendezvous::kMagic) + std::string(32, 'n') + header.Take());
  CHECK(HungUp(giant));
  CHECK(JoinError(point.As(0), kPlenty).empty());
}

TEST_CASE("rendezvous: garbage is named to the ranks that wait") {
  const MeetingPoint point(2);
  const UniqueFd http = Connect(point.port());
  Send(http, "GET / HTTP/1.1\r\n\r\n");
  CHECK(HungUp(http));
  CHECK(JoinError(point.As(0), kShort).ends_with("does not speak the rendezvous protocol"));
}

TEST_CASE("rendezvous: a peer that stays silent or speaks byte by byte is dropped") {
  const MeetingPoint point(2, milliseconds(200));
  const UniqueFd silent = Connect(point.port());
  const UniqueFd slow = Connect(point.port());
  Send(slow, std::string(rendezvous::kMagic.substr(0, 3)));
  CHECK(HungUp(silent));
  CHECK(HungUp(slow));
  CHECK(JoinError(point.As(0), kShort).find("connected and did not say who it is") !=
        std::string::npos);
}

TEST_CASE("rendezvous: a rank that comes as its meeting ends is told so, not cut off") {
  MeetingPoint point(1);
  CHECK(JoinError(point.As(0), kPlenty).empty());
  const UniqueFd late = Connect(point.port());
  const std::string nonce(32, 'n');
  Send(late, std::string(rendezvous::kMagic) + nonce);
  const std::string challenge = Receive(late, rendezvous::kChallengeBytes);
  REQUIRE(challenge.size() == rendezvous::kChallengeBytes);
  std::thread stop([&] { point.Stop(); });
  while (ConnectTcp("127.0.0.1", point.port(), Deadline::After(milliseconds(50)), -1)) {
  }
  const std::string body = rendezvous::WriteJoin({"run", 1, 0, "late", 1000});
  const std::string server_nonce = challenge.substr(rendezvous::kMagic.size(), 32);
  const std::string mac(AsText(HmacSha256(kSecret, {"client", nonce, server_nonce, body})));
  Send(late, rendezvous::Frame(rendezvous::Kind::kJoin, mac + body));
  CHECK(Receive(late, 5) == rendezvous::Frame(rendezvous::Kind::kOver, ""));
  stop.join();
}

TEST_CASE("rendezvous: a crowd of strangers cannot take all the places") {
  for (const bool stays : {false, true}) {
    CAPTURE(stays);
    const MeetingPoint point(1, milliseconds(200));
    std::vector<UniqueFd> crowd;
    for (int i = 0; i < 300; ++i) {
      auto fd = ConnectTcp("127.0.0.1", point.port(), Deadline::After(kPlenty), -1);
      if (fd) {
        crowd.push_back(std::move(*fd));
      }
    }
    if (!stays) {
      crowd.clear();
    }
    CHECK(JoinError(point.As(0), kPlenty) == "");
  }
}

TEST_CASE("rendezvous: a server that is none is told apart") {
  auto listener = ListenTcp(0);
  REQUIRE(listener.has_value());
  JoinOptions options;
  options.address = "127.0.0.1";
  options.port = PortOf(listener->get());
  options.secret = kSecret;
  auto joining = std::async(std::launch::async, [&] { return JoinError(options, kPlenty); });
  REQUIRE(WaitForFd(listener->get(), POLLIN, Deadline::After(kPlenty), -1) == Waited::kReady);
  const UniqueFd peer(accept(listener->get(), nullptr, nullptr));
  Send(peer, std::string(rendezvous::kChallengeBytes, 'H'));
  CHECK(joining.get() == "what answers at 127.0.0.1:" + std::to_string(options.port) +
                             " is no rendezvous of dlc-probe");
}

}  // namespace
}  // namespace dlc

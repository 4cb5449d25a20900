#include "probes/node/rendezvous/server.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "probes/node/rendezvous/groups.h"
#include "probes/node/rendezvous/protocol.h"
#include "probes/node/rendezvous/socket.h"
#include "probes/node/sha256/sha256.h"

namespace dlc {

using namespace rendezvous;  // NOLINT(google-build-using-namespace): this is its implementation

namespace {

/// Of each of the two things that are still done once the server is to stop.
constexpr std::chrono::milliseconds kEndPatience{1'000};

}  // namespace

class RendezvousServer::Impl {
 public:
  Impl(UniqueFd listener, int size, std::string secret, std::chrono::milliseconds patience)
      : listener_(std::move(listener)),
        secret_(std::move(secret)),
        patience_(patience),
        // Experiments meet through connections of their own, before their predecessors are gone.
        max_peers_(static_cast<std::size_t>(size) * 3 + 64),
        groups_(size) {}

  void Serve(int stop_fd) {
    while (!TurnOnce(stop_fd)) {
    }
    FinishHandshakes();
    Drain();
  }

 private:
  enum class Phase : std::uint8_t { kHello, kProof, kMember };
  struct Peer {
    UniqueFd fd;
    std::string address;
    Deadline handshake;
    Phase phase = Phase::kHello;
    std::string client_nonce;
    std::string server_nonce;
    std::string in;
    std::string out;
    bool close_when_sent = false;
    bool said_goodbye = false;
  };

  bool TurnOnce(int stop_fd);
  void Accept();
  void ReadFrom(PeerId id, Peer& peer);
  void Interpret(PeerId id, Peer& peer);
  bool TakeHello(Peer& peer);
  bool TakeFrame(PeerId id, Peer& peer);
  void TakeJoin(PeerId id, Peer& peer, Kind kind, std::string_view payload);
  void TakeRequest(PeerId id, Peer& peer, Kind kind, std::string_view payload);
  void Turn(Peer& peer, const std::string& what);
  void SendReplies();
  static void Flush(Peer& peer);
  void DropGone();
  void FinishHandshakes();
  void Drain();

  UniqueFd listener_;
  std::string secret_;
  std::chrono::milliseconds patience_;
  std::size_t max_peers_;
  Groups groups_;
  std::map<PeerId, Peer> peers_;
  PeerId next_id_ = 1;
};

/// Puts a stranger out, and on record.
void RendezvousServer::Impl::Turn(Peer& peer, const std::string& what) {
  groups_.NoteStranger("a peer from " + peer.address + " " + what);
  peer.in.clear();
  peer.close_when_sent = true;
}

bool RendezvousServer::Impl::TurnOnce(int stop_fd) {
  // Whoever comes when all places are taken waits in the listener's queue: a rank is not put out
  // for a crowd of strangers, who leave or are dropped.
  const bool full = peers_.size() >= max_peers_;
  std::vector<pollfd> fds = {{stop_fd, POLLIN, 0}, {full ? -1 : listener_.get(), POLLIN, 0}};
  std::vector<PeerId> ids;
  auto wait = groups_.UntilNextDeadline();
  for (auto& [id, peer] : peers_) {
    const bool writing = !peer.out.empty();
    fds.push_back({peer.fd.get(), static_cast<short>(writing ? POLLIN | POLLOUT : POLLIN), 0});
    ids.push_back(id);
    if (peer.phase != Phase::kMember) {
      wait = std::min(wait, peer.handshake.Remaining());
    }
  }
  // One millisecond more: poll rounds down, and to wake up too early means to spin.
  poll(fds.data(), fds.size(), static_cast<int>(wait.count()) + 1);
  if (fds[0].revents != 0) {
    return true;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Peer& peer = peers_.at(ids[i]);
    if ((fds[i + 2].revents & ~POLLOUT) != 0) {
      ReadFrom(ids[i], peer);
    }
    if (peer.phase != Phase::kMember && !peer.close_when_sent && peer.handshake.Passed()) {
      Turn(peer, "connected and did not say who it is");
    }
  }
  if (fds[1].revents != 0) {
    Accept();
  }
  groups_.Expire();
  SendReplies();
  DropGone();
  SendReplies();
  return false;
}

void RendezvousServer::Impl::Accept() {
  while (peers_.size() < max_peers_) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      return;
    }
    SetKeepAlive(fd.get());
    std::string address = PeerAddress(fd.get());
    peers_.emplace(next_id_++, Peer{std::move(fd),
                                    std::move(address),
                                    Deadline::After(patience_),
                                    {},
                                    {},
                                    {},
                                    {},
                                    {},
                                    false,
                                    false});
  }
}

void RendezvousServer::Impl::ReadFrom(PeerId id, Peer& peer) {
  char chunk[65'536];
  const ssize_t count = recv(peer.fd.get(), chunk, sizeof chunk, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (count <= 0) {
    if (peer.phase != Phase::kMember && !peer.close_when_sent) {
      Turn(peer, "left before it said who it is");
    }
    peer.fd.Reset();
    return;
  }
  if (peer.close_when_sent) {
    return;
  }
  peer.in.append(chunk, static_cast<std::size_t>(count));
  Interpret(id, peer);
}

void RendezvousServer::Impl::Interpret(PeerId id, Peer& peer) {
  while (!peer.close_when_sent) {
    const bool more = peer.phase == Phase::kHello ? TakeHello(peer) : TakeFrame(id, peer);
    if (!more) {
      return;
    }
  }
}

bool RendezvousServer::Impl::TakeHello(Peer& peer) {
  const std::size_t known = std::min(peer.in.size(), kMagic.size());
  if (std::string_view(peer.in).substr(0, known) != kMagic.substr(0, known)) {
    Turn(peer, "does not speak the rendezvous protocol");
    return false;
  }
  if (peer.in.size() < kHelloBytes) {
    return false;
  }
  peer.client_nonce = peer.in.substr(kMagic.size(), kNonceBytes);
  peer.in.erase(0, kHelloBytes);
  peer.server_nonce.resize(kNonceBytes);
  if (getrandom(peer.server_nonce.data(), kNonceBytes, 0) != static_cast<ssize_t>(kNonceBytes)) {
    Turn(peer, "came when the kernel gave no random numbers");
    return false;
  }
  peer.out += kMagic;
  peer.out += peer.server_nonce;
  peer.out += AsText(HmacSha256(secret_, {"server", peer.client_nonce, peer.server_nonce}));
  peer.phase = Phase::kProof;
  return true;
}

bool RendezvousServer::Impl::TakeFrame(PeerId id, Peer& peer) {
  if (peer.in.size() < kFrameHeaderBytes) {
    return false;
  }
  ByteReader header(peer.in);
  const std::size_t length = header.U32();
  const auto kind = static_cast<Kind>(header.U8());
  const std::size_t limit = peer.phase == Phase::kMember ? kMaxMessageBytes + 1024 : kMaxJoinBytes;
  if (length > limit) {
    Turn(peer, "sent a message of " + std::to_string(length) + " bytes, more than the limit of " +
                   std::to_string(limit));
    return false;
  }
  if (peer.in.size() < kFrameHeaderBytes + length) {
    return false;
  }
  const std::string payload = peer.in.substr(kFrameHeaderBytes, length);
  peer.in.erase(0, kFrameHeaderBytes + length);
  if (peer.phase == Phase::kMember) {
    TakeRequest(id, peer, kind, payload);
  } else {
    TakeJoin(id, peer, kind, payload);
  }
  return true;
}

void RendezvousServer::Impl::TakeJoin(PeerId id, Peer& peer, Kind kind, std::string_view payload) {
  if (kind == Kind::kNotOurSecret) {
    return Turn(peer, "did not know the secret");
  }
  if (kind != Kind::kJoin || payload.size() < kMacBytes) {
    return Turn(peer, "does not speak the rendezvous protocol");
  }
  const std::string_view mac = payload.substr(0, kMacBytes);
  const std::string_view body = payload.substr(kMacBytes);
  const Sha256Bytes expected =
      HmacSha256(secret_, {"client", peer.client_nonce, peer.server_nonce, body});
  JoinRequest request;
  if (!EqualInConstantTime(mac, AsText(expected))) {
    peer.out += ErrorFrame({ErrorCode::kPermissionDenied, "the rendezvous refused our secret",
                            "give every rank of one run the same secret"});
    return Turn(peer, "did not know the secret");
  }
  if (!ReadJoin(body, request)) {
    return Turn(peer, "sent a malformed request to join");
  }
  peer.phase = Phase::kMember;
  groups_.Join(id, request, peer.address);
}

void RendezvousServer::Impl::TakeRequest(PeerId id, Peer& peer, Kind kind,
                                         std::string_view payload) {
  ByteReader reader(payload);
  const auto until = [&] { return Deadline::After(std::chrono::milliseconds(reader.U32())); };
  if (kind == Kind::kGather) {
    const Deadline deadline = until();
    const std::uint32_t sequence = reader.U32();
    const std::string_view what = reader.Text();
    const std::string_view bytes = reader.Text();
    if (reader.AtEnd()) {
      return groups_.Gather(id, sequence, what, bytes, deadline);
    }
  } else if (kind == Kind::kPut) {
    const std::string_view key = reader.Text();
    const std::string_view bytes = reader.Text();
    if (reader.AtEnd()) {
      return groups_.Put(id, key, bytes);
    }
  } else if (kind == Kind::kGet) {
    const Deadline deadline = until();
    const auto rank = static_cast<int>(reader.U32());
    const std::string_view key = reader.Text();
    if (reader.AtEnd()) {
      return groups_.Get(id, rank, key, deadline);
    }
  } else if (kind == Kind::kBye && payload.empty()) {
    peer.said_goodbye = true;
    peer.close_when_sent = true;
    return;
  }
  Turn(peer, "sent a malformed request");
}

void RendezvousServer::Impl::SendReplies() {
  for (Groups::Reply& reply : groups_.TakeReplies()) {
    const auto it = peers_.find(reply.to);
    if (it != peers_.end()) {
      it->second.out += reply.frame;
    }
  }
  for (auto& [id, peer] : peers_) {
    Flush(peer);
  }
}

void RendezvousServer::Impl::Flush(Peer& peer) {
  while (peer.fd && !peer.out.empty()) {
    const ssize_t sent = send(peer.fd.get(), peer.out.data(), peer.out.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent < 0 && errno == EAGAIN) {
      return;
    }
    if (sent <= 0) {
      peer.fd.Reset();
      return;
    }
    peer.out.erase(0, static_cast<std::size_t>(sent));
  }
}

void RendezvousServer::Impl::DropGone() {
  std::erase_if(peers_, [&](const auto& entry) {
    const Peer& peer = entry.second;
    const bool gone = !peer.fd || (peer.close_when_sent && peer.out.empty());
    if (gone) {
      groups_.Leave(entry.first, peer.said_goodbye);
    }
    return gone;
  });
}

/// Whoever is about to say who it is may mean the meeting that comes next: it is told so, not cut
/// off in the middle.
void RendezvousServer::Impl::FinishHandshakes() {
  listener_.Reset();
  const auto unknown = [](const auto& entry) { return entry.second.phase != Phase::kMember; };
  const Deadline deadline = Deadline::After(kEndPatience);
  for (auto& [id, peer] : peers_) {
    if (deadline.Remaining() < peer.handshake.Remaining()) {
      peer.handshake = deadline;
    }
  }
  while (std::any_of(peers_.begin(), peers_.end(), unknown) && !deadline.Passed()) {
    TurnOnce(-1);
  }
}

/// What is due goes out.
void RendezvousServer::Impl::Drain() {
  const Deadline deadline = Deadline::After(kEndPatience);
  while (!deadline.Passed()) {
    SendReplies();
    const auto busy = std::find_if(peers_.begin(), peers_.end(), [](const auto& entry) {
      return entry.second.fd && !entry.second.out.empty();
    });
    if (busy == peers_.end()) {
      return;
    }
    WaitForFd(busy->second.fd.get(), POLLOUT, deadline, -1);
  }
}

RendezvousServer::RendezvousServer(UniqueFd listener, int size, std::string secret,
                                   std::chrono::milliseconds handshake_patience)
    : impl_(std::make_unique<Impl>(std::move(listener), size, std::move(secret),
                                   handshake_patience)) {}

RendezvousServer::~RendezvousServer() = default;

void RendezvousServer::Serve(int stop_fd) {
  impl_->Serve(stop_fd);
}

}  // namespace dlc

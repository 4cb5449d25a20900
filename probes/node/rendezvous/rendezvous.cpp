#include "probes/node/rendezvous/rendezvous.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "probes/node/rendezvous/protocol.h"
#include "probes/node/rendezvous/socket.h"
#include "probes/node/sha256/sha256.h"

namespace dlc {

using namespace rendezvous;  // NOLINT(google-build-using-namespace): this is its implementation

namespace {

/// What the server may wait for us: less than we wait ourselves, so that its answer, which names
/// the culprit, arrives before our own deadline.
std::uint32_t ServerWait(Deadline deadline) {
  const auto left = deadline.Remaining();
  const auto margin = std::min(left / 5, std::chrono::milliseconds(1'000));
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>((left - margin).count(), 1, 1'000'000'000));
}

Result<std::vector<std::string>> ReadTexts(std::string_view payload, int expected) {
  ByteReader reader(payload);
  const std::uint32_t count = reader.U32();
  std::vector<std::string> texts;
  for (std::uint32_t i = 0; i < count && reader.ok(); ++i) {
    texts.emplace_back(reader.Text());
  }
  if (!reader.AtEnd() || texts.size() != static_cast<std::size_t>(expected)) {
    return Error{ErrorCode::kInternal, "malformed answer from the rendezvous", ""};
  }
  return texts;
}

Error ReadError(std::string_view payload) {
  ByteReader reader(payload);
  const auto code = static_cast<ErrorCode>(
      std::min(reader.U8(), static_cast<std::uint8_t>(ErrorCode::kInternal)));
  std::string message(reader.Text());
  return {code, std::move(message), std::string(reader.Text())};
}

}  // namespace

Error Rendezvous::Lost(const std::string& what) const {
  return {
      ErrorCode::kUnavailable,
      "the rendezvous of rank 0 at " + AddressText(options_.address, options_.port) + " " + what,
      "look at rank 0's own output and at its pod's last state"};
}

Result<void> Rendezvous::SendBytes(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) {
      return Lost(std::string("was lost: ") + strerrordesc_np(errno));
    }
    switch (WaitForFd(fd_.get(), POLLOUT, deadline, options_.stop_fd)) {
      case Waited::kStopped:
        return Error{ErrorCode::kInterrupted, "interrupted", ""};
      case Waited::kTimedOut:
        return Lost("takes nothing more");
      case Waited::kReady:
        break;
    }
  }
  return {};
}

Result<std::string> Rendezvous::ReceiveBytes(std::size_t count, Deadline deadline) {
  std::string bytes;
  bytes.reserve(std::min(count, std::size_t{65'536}));
  char chunk[65'536];
  while (bytes.size() < count) {
    switch (WaitForFd(fd_.get(), POLLIN, deadline, options_.stop_fd)) {
      case Waited::kStopped:
        return Error{ErrorCode::kInterrupted, "interrupted", ""};
      case Waited::kTimedOut: {
        Error late = Lost("did not answer in time");
        late.code = ErrorCode::kTimedOut;
        return late;
      }
      case Waited::kReady:
        break;
    }
    const ssize_t got = recv(fd_.get(), chunk, std::min(sizeof chunk, count - bytes.size()), 0);
    if (got == 0) {
      return Lost("closed the connection");
    }
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
      return Lost(std::string("was lost: ") + strerrordesc_np(errno));
    }
    bytes.append(chunk, got > 0 ? static_cast<std::size_t>(got) : 0);
  }
  return bytes;
}

Result<std::string> Rendezvous::Ask(std::string_view frame, std::uint8_t expected_kind,
                                    Deadline deadline) {
  if (!fd_) {
    return Lost("was lost earlier");
  }
  const auto exchange = [&]() -> Result<std::string> {
    if (const auto sent = SendBytes(frame, deadline); !sent) {
      return sent.error();
    }
    const auto header = ReceiveBytes(kFrameHeaderBytes, deadline);
    if (!header) {
      return header.error();
    }
    ByteReader reader(*header);
    const std::size_t length = reader.U32();
    const std::uint8_t kind = reader.U8();
    const std::size_t limit =
        (kMaxMessageBytes + 1024) * static_cast<std::size_t>(std::max(options_.size, 1));
    if (length > limit ||
        (kind != expected_kind && kind != static_cast<std::uint8_t>(Kind::kError) &&
         kind != static_cast<std::uint8_t>(Kind::kOver))) {
      return Lost("sent what is no answer");
    }
    if (kind == static_cast<std::uint8_t>(Kind::kOver)) {
      may_come_again_ = true;
      return Lost("is of a meeting that this rank has left");
    }
    auto payload = ReceiveBytes(length, deadline);
    if (payload && kind != expected_kind) {
      return ReadError(*payload);
    }
    return payload;
  };
  auto answer = exchange();
  // After half an answer the stream has no meaning any more.
  if (!answer && (answer.error().code == ErrorCode::kInterrupted ||
                  answer.error().message.starts_with("the rendezvous of rank 0"))) {
    fd_.Reset();
  }
  return answer;
}

Result<void> Rendezvous::Authenticate(Deadline deadline) {
  std::string nonce(kNonceBytes, '\0');
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    return Error{ErrorCode::kInternal, "the kernel gave no random numbers", ""};
  }
  const auto sent = SendBytes(std::string(kMagic) + nonce, deadline);
  const auto challenge = sent ? ReceiveBytes(kChallengeBytes, deadline) : sent.error();
  if (!challenge) {
    may_come_again_ = challenge.error().code == ErrorCode::kUnavailable;
    return challenge.error();
  }
  const std::string_view view = *challenge;
  const std::string_view server_nonce = view.substr(kMagic.size(), kNonceBytes);
  const std::string_view proof = view.substr(kHelloBytes);
  if (!view.starts_with(kMagic)) {
    return Error{ErrorCode::kUnavailable,
                 "what answers at " + AddressText(options_.address, options_.port) +
                     " is no rendezvous of dlc-probe",
                 "choose a MASTER_PORT that no other program has"};
  }
  if (!EqualInConstantTime(proof,
                           AsText(HmacSha256(options_.secret, {"server", nonce, server_nonce})))) {
    const auto told = SendBytes(Frame(Kind::kNotOurSecret, ""), deadline);
    return Error{ErrorCode::kPermissionDenied,
                 "the rendezvous at " + AddressText(options_.address, options_.port) +
                     " does not know our secret" + (told ? "" : " and is gone"),
                 "give every rank of one run the same secret; or another run has the port"};
  }
  JoinRequest request{options_.group, options_.size, options_.rank, options_.host.substr(0, 255),
                      ServerWait(deadline)};
  const std::string body = WriteJoin(request);
  const Sha256Bytes mac = HmacSha256(options_.secret, {"client", nonce, server_nonce, body});
  const auto joined = Ask(Frame(Kind::kJoin, std::string(AsText(mac)) + body),
                          static_cast<std::uint8_t>(Kind::kJoined), deadline);
  if (!joined) {
    return joined.error();
  }
  auto hosts = ReadTexts(*joined, options_.size);
  if (!hosts) {
    return hosts.error();
  }
  hosts_ = std::move(hosts).value();
  return {};
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::Join(const JoinOptions& options,
                                                     Deadline deadline) {
  constexpr std::chrono::milliseconds kPause{20};
  std::optional<Error> before;
  while (true) {
    auto fd = ConnectTcp(options.address, options.port, deadline, options.stop_fd);
    if (!fd) {
      const bool stopped = fd.error().code == ErrorCode::kInterrupted;
      return before && !stopped ? *before : fd.error();
    }
    SetKeepAlive(fd->get());
    std::unique_ptr<Rendezvous> member(new Rendezvous(options, std::move(fd).value()));
    auto joined = member->Authenticate(deadline);
    if (joined) {
      return member;
    }
    // The meeting before this one was still there, or just went.
    if (member->may_come_again_) {
      before = joined.error();
    }
    if (!member->may_come_again_ || deadline.Passed()) {
      return before && deadline.Passed() ? *before : joined.error();
    }
    WaitForFd(-1, 0, Deadline::After(std::min(kPause, deadline.Remaining())), options.stop_fd);
  }
}

Rendezvous::~Rendezvous() {
  if (fd_) {
    const std::string bye = Frame(Kind::kBye, "");
    send(fd_.get(), bye.data(), bye.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

Result<std::vector<std::string>> Rendezvous::Gather(std::string_view what, std::string_view mine,
                                                    Deadline deadline) {
  if (mine.size() > kMaxMessageBytes) {
    return Error{ErrorCode::kInternal,
                 "a message of " + std::to_string(mine.size()) + " bytes is over the limit of " +
                     std::to_string(kMaxMessageBytes),
                 ""};
  }
  ByteWriter payload;
  payload.U32(ServerWait(deadline));
  payload.U32(sequence_++);
  payload.Text(what);
  payload.Text(mine);
  auto answer = Ask(Frame(Kind::kGather, payload.Take()),
                    static_cast<std::uint8_t>(Kind::kGathered), deadline);
  if (!answer) {
    return answer.error();
  }
  return ReadTexts(*answer, options_.size);
}

Result<std::vector<std::string>> Rendezvous::AllGather(std::string_view mine, Deadline deadline) {
  return Gather("all-gather", mine, deadline);
}

Result<void> Rendezvous::Barrier(Deadline deadline) {
  auto answers = Gather("barrier", "", deadline);
  return answers ? Result<void>() : Result<void>(answers.error());
}

Result<void> Rendezvous::LookForLost(Deadline deadline) {
  return LostOf(Wish(kAnyRank, "", ServerWait(deadline), deadline));
}

Result<void> Rendezvous::LostSoFar(Deadline deadline) {
  return LostOf(Wish(kAnyRank, "", 1, deadline));
}

Result<void> Rendezvous::LostOf(const Result<std::string>& nobody) const {
  return !nobody && connected() && nobody.error().code == ErrorCode::kUnavailable
             ? Result<void>(nobody.error())
             : Result<void>();
}

void Rendezvous::TellStopped(std::string_view why, Deadline deadline) {
  constexpr std::size_t kMostBytes = 1'024;
  const auto told = Put(kWhyStopped, why.substr(0, kMostBytes), deadline);
  (void)told;  // it is more than they would know otherwise, and no more than that
}

Result<void> Rendezvous::Put(std::string_view key, std::string_view value, Deadline deadline) {
  if (value.size() > kMaxMessageBytes) {
    return Error{ErrorCode::kInternal,
                 "a value of " + std::to_string(value.size()) + " bytes is over the limit of " +
                     std::to_string(kMaxMessageBytes),
                 ""};
  }
  ByteWriter payload;
  payload.Text(key);
  payload.Text(value);
  auto answer =
      Ask(Frame(Kind::kPut, payload.Take()), static_cast<std::uint8_t>(Kind::kStored), deadline);
  return answer ? Result<void>() : Result<void>(answer.error());
}

Result<std::string> Rendezvous::Get(int rank, std::string_view key, Deadline deadline) {
  return Wish(rank, key, ServerWait(deadline), deadline);
}

Result<std::string> Rendezvous::Wish(int rank, std::string_view key, std::uint32_t server_wait_ms,
                                     Deadline deadline) {
  ByteWriter payload;
  payload.U32(server_wait_ms);
  payload.U32(static_cast<std::uint32_t>(rank));
  payload.Text(key);
  return Ask(Frame(Kind::kGet, payload.Take()), static_cast<std::uint8_t>(Kind::kValue), deadline);
}

}  // namespace dlc

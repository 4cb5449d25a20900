#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "probes/node/bytes.h"
#include "probes/observations/result.h"

/// How ranks talk to the rendezvous. TCP, little endian:
///
///   client  magic, nonce
///   server  magic, nonce, HMAC(secret, "server", client nonce, server nonce)
///   client  join frame: HMAC(secret, "client", both nonces, request), request
///   then    frames: u32 length, u8 kind, payload; one request at a time, each answered once
///
/// Both sides prove that they know the run's secret and neither sends it. What follows is not
/// encrypted or signed: the secret keeps out strays and other runs, not somebody who can rewrite
/// the pod network's packets.
namespace dlc::rendezvous {

inline constexpr std::string_view kMagic = "dlcrdv1\n";
inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kMacBytes = 32;
inline constexpr std::size_t kHelloBytes = kMagic.size() + kNonceBytes;
inline constexpr std::size_t kChallengeBytes = kHelloBytes + kMacBytes;
inline constexpr std::size_t kFrameHeaderBytes = 5;
/// Before a peer has proved anything.
inline constexpr std::size_t kMaxJoinBytes = 1024;
/// One rank's contribution.
inline constexpr std::size_t kMaxMessageBytes = 16U << 20U;
inline constexpr std::size_t kMaxNameBytes = 256;

/// In a kGet: no value of any rank, but word of one that is lost, or has put this.
inline constexpr int kAnyRank = -1;
inline constexpr std::string_view kWhyStopped = "why it stopped";

enum class Kind : std::uint8_t {
  // from a rank
  kJoin = 'J',
  kNotOurSecret = 'N',  ///< the server's proof was wrong
  kGather = 'G',
  kPut = 'P',
  kGet = 'T',
  kBye = 'B',
  // from the server
  kJoined = 'j',
  kGathered = 'g',
  kStored = 'p',
  kValue = 't',
  kError = 'e',
  kOver = 'o',  ///< an error too: the rank has been here and has left, so it means another meeting
};

/// A process that wants to be a member of a group of ranks.
struct JoinRequest {
  std::string group;
  int size = 0;
  int rank = 0;
  std::string host;
  std::uint32_t wait_ms = 0;  ///< for the others
};

inline std::string Frame(Kind kind, std::string_view payload) {
  ByteWriter frame;
  frame.U32(static_cast<std::uint32_t>(payload.size()));
  frame.U8(static_cast<std::uint8_t>(kind));
  std::string bytes = frame.Take();
  bytes += payload;
  return bytes;
}

inline std::string ErrorFrame(const Error& error) {
  ByteWriter payload;
  payload.U8(static_cast<std::uint8_t>(error.code));
  payload.Text(error.message);
  payload.Text(error.hint);
  return Frame(Kind::kError, payload.Take());
}

inline std::string WriteJoin(const JoinRequest& request) {
  ByteWriter payload;
  payload.Text(request.group);
  payload.U32(static_cast<std::uint32_t>(request.size));
  payload.U32(static_cast<std::uint32_t>(request.rank));
  payload.Text(request.host);
  payload.U32(request.wait_ms);
  return payload.Take();
}

/// False: malformed.
inline bool ReadJoin(std::string_view payload, JoinRequest& request) {
  ByteReader reader(payload);
  request.group = reader.Text();
  request.size = static_cast<int>(reader.U32());
  request.rank = static_cast<int>(reader.U32());
  request.host = reader.Text();
  request.wait_ms = reader.U32();
  return reader.AtEnd() && !request.group.empty() && request.group.size() <= kMaxNameBytes;
}

}  // namespace dlc::rendezvous

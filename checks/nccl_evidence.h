#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checks/wire_bytes.h"
#include "probes/observations/nccl.h"
#include "probes/observations/observed.h"

namespace dlc {

/// How much is known of what carried a rank's bytes between nodes; each level includes what those
/// below it could not.
enum class TransportLevel : std::uint8_t {
  kTcpProven,  ///< sockets, or libfabric over TCP, carried them
  kNotProven,  ///< nothing that was seen settles it
  kEfaLogged,  ///< a complete log says EFA, and nothing speaks against it
  kEfaProven,  ///< and the devices' own counters agree with the bytes of the operations
};

/// "TCP_PROVEN", "NOT_PROVEN", "EFA_LOGGED", "EFA_PROVEN".
std::string_view TransportLevelName(TransportLevel level);

/// What was seen of one rank while the operations ran.
struct TransportEvidence {
  int rank = 0;
  int ranks = 0;  ///< of the run; a log of another communicator is no evidence
  Observed<NcclLog> log;
  /// Sent by the rank's EFA devices, of their port counters: send_bytes + rdma_write_bytes +
  /// rdma_read_resp_bytes.
  Observed<std::int64_t> efa_sent_bytes;
  /// Sent by all interfaces but loopback.
  Observed<std::int64_t> tcp_sent_bytes;
  /// Sent by loopback, where several of NCCL's nodes share a network namespace; 0 elsewhere. It can
  /// show that TCP carried the bytes, but others use it too: little of it speaks against nothing.
  std::int64_t loopback_sent_bytes = 0;
  /// Of what the counters above cover; nullopt: not known.
  std::optional<ByteWindow> expected;
};

struct TransportVerdict {
  TransportLevel level = TransportLevel::kNotProven;
  /// The rank's communicators are on one node each, and it has no network connection: there was
  /// nothing to carry between nodes.
  bool one_node = false;
  /// Of kNotProven: something speaks against EFA, rather than too little for it.
  bool against = false;
  std::vector<std::string> because;      ///< what decided; for kNotProven, all that is missing
  std::vector<std::string> not_checked;  ///< witnesses that were not heard

  bool operator==(const TransportVerdict&) const = default;
};

TransportVerdict JudgeTransport(const TransportEvidence& evidence);

/// Lines of the log.
std::int64_t LinesOf(const NcclConnections& one);
bool OfNetwork(const NcclConnections& one);
/// No line is lost or unread that could be of another connection, but for the end of one that was
/// still written (NcclLog::cut).
bool HasEveryConnection(const NcclLog& log);

/// Network connections that go through host memory.
std::int64_t ConnectionsWithoutGpuDirect(const NcclLog& log);

}  // namespace dlc

#include "checks/nccl_evidence.h"

#include <algorithm>

#include "checks/wording.h"
#include "probes/observations/nccl_log.h"
#include "probes/observations/why_unseen.h"

namespace dlc {
namespace {

/// What bootstrap, plugins' own TCP, RAS and a pod's heartbeats may send meanwhile.
constexpr double kTcpAllowedBytes = 16 << 20;
constexpr double kTcpAllowedShare = 0.01;

bool OnOneNode(const NcclLog& log) {
  const bool network = std::any_of(log.connections.begin(), log.connections.end(), OfNetwork);
  const bool single = std::all_of(log.communicators.begin(), log.communicators.end(),
                                  [](const NcclLoggedCommunicator& one) { return one.nodes == 1; });
  return !network && !log.communicators.empty() && single && HasEveryConnection(log);
}

bool BetweenNodes(const NcclLog& log) {
  return std::any_of(log.communicators.begin(), log.communicators.end(),
                     [](const NcclLoggedCommunicator& one) { return one.nodes > 1; });
}

/// What in the log says that TCP carried bytes. One such line is enough, in a damaged log too.
std::vector<std::string> TcpInLog(const NcclLog& log) {
  std::vector<std::string> signs;
  std::int64_t sockets = 0;
  bool libfabric = false;
  for (const NcclConnections& one : log.connections) {
    sockets += one.network == "Socket" ? LinesOf(one) : 0;
    libfabric = libfabric || IsLibfabric(one.network);
  }
  if (sockets > 0) {
    signs.push_back(std::to_string(sockets) + " connections via NET/Socket");
  } else if (!log.networks.empty() && log.networks.back() == "Socket" && BetweenNodes(log)) {
    signs.emplace_back("the network that NCCL chose last is Socket");
  }
  for (const std::string& provider : log.providers) {
    if (libfabric && !provider.empty() && provider == log.providers.back() && provider != "efa") {
      signs.push_back("libfabric's provider is " + provider + ", which is not EFA");
      break;
    }
  }
  return signs;
}

/// NCCL or the plugin says that it is not EFA, without saying that it is TCP.
bool SpeaksAgainstEfa(const NcclLog& log) {
  const bool other_network = !log.networks.empty() && !IsLibfabric(log.networks.back());
  const bool other_provider = !log.providers.empty() && log.providers.back() != "efa";
  return log.plugin_failed || other_network || other_provider;
}

void WantWhole(const NcclLog& log, std::vector<std::string>& missing) {
  const auto want = [&](bool holds, std::string otherwise) {
    if (!holds) {
      missing.push_back(std::move(otherwise));
    }
  };
  want(!log.cut, "the log ends in the middle of a line");
  want(log.damaged_lines == 0, Count(static_cast<std::size_t>(log.damaged_lines), "damaged line"));
  want(log.folded_lines == 0, "Ray folded lines of several processes: collect NCCL_DEBUG_FILE");
  want(log.unread_connections == 0, "a connection line of unknown shape: " + log.first_unread);
  want(log.dropped == 0, "the log says more than is kept");
  want(log.processes.size() == 1,
       "the log is of " + std::to_string(log.processes.size()) + " processes");
}

/// What is missing for the log to say EFA from beginning to end.
std::vector<std::string> MissingInLog(const NcclLog& log, const TransportEvidence& evidence) {
  std::vector<std::string> missing;
  const auto want = [&](bool holds, std::string otherwise) {
    if (!holds) {
      missing.push_back(std::move(otherwise));
    }
  };
  WantWhole(log, missing);
  const auto& communicators = log.communicators;
  want(std::any_of(communicators.begin(), communicators.end(),
                   [&](const NcclLoggedCommunicator& one) {
                     return one.rank == evidence.rank && one.ranks == evidence.ranks;
                   }),
       "no communicator of rank " + std::to_string(evidence.rank) + " of " +
           std::to_string(evidence.ranks));
  want(std::all_of(communicators.begin(), communicators.end(),
                   [](const NcclLoggedCommunicator& one) { return one.complete; }),
       "a communicator's init did not complete");
  want(!log.plugin_version.empty(), "aws-ofi-nccl did not start");
  want(!log.plugin_failed, "aws-ofi-nccl failed");
  want(!log.networks.empty() &&
           std::all_of(log.networks.begin(), log.networks.end(),
                       [](const std::string& name) { return IsLibfabric(name); }),
       log.networks.empty() ? "no line says which network is used"
                            : "the network used is " + log.networks.back());
  want(log.providers == std::vector<std::string>{"efa"},
       log.providers.empty() ? "no line says which provider was selected"
                             : "the provider selected is " + log.providers.back());
  std::int64_t sends = 0;
  std::int64_t receives = 0;
  for (const NcclConnections& one : log.connections) {
    if (OfNetwork(one)) {
      want(one.transport == "NET" && IsLibfabric(one.network),
           "connections via " + one.transport + "/" + one.network);
      sends += one.sends;
      receives += one.receives;
    }
  }
  want(sends > 0, "no connection is logged that sends to another node");
  want(receives > 0, "no connection is logged that receives from another node");
  return missing;
}

void NameUnheard(const char* witness, const Observed<std::int64_t>& seen,
                 TransportVerdict& verdict) {
  if (seen.failed()) {
    verdict.not_checked.push_back(std::string(witness) + ": " + seen.error().message);
  } else if (seen.not_looked_at()) {
    verdict.not_checked.push_back(std::string(witness) + ": " + seen.why_not().reason);
  }
}

/// The bytes of the EFA devices: for, against, or nothing.
enum class CounterSays : std::uint8_t { kNothing, kAgrees, kTooFew, kTooMany };

CounterSays AskEfa(const TransportEvidence& evidence) {
  const std::int64_t* sent = evidence.efa_sent_bytes.get();
  if (sent == nullptr || !evidence.expected || evidence.expected->least <= 0) {
    return CounterSays::kNothing;
  }
  const auto bytes = static_cast<double>(*sent);
  return bytes < evidence.expected->least  ? CounterSays::kTooFew
         : bytes > evidence.expected->most ? CounterSays::kTooMany
                                           : CounterSays::kAgrees;
}

/// Sent by everything that TCP goes through. Precondition: tcp_sent_bytes was seen.
std::int64_t AllTcp(const TransportEvidence& evidence) {
  return evidence.tcp_sent_bytes.value() + evidence.loopback_sent_bytes;
}

/// Whether the interfaces sent as much as the operations did.
bool TcpCarriedAll(const TransportEvidence& evidence) {
  return evidence.tcp_sent_bytes.seen() && evidence.expected &&
         evidence.expected->least > kTcpAllowedBytes &&
         static_cast<double>(AllTcp(evidence)) >= evidence.expected->least;
}

bool TcpExcluded(const TransportEvidence& evidence) {
  const std::int64_t* sent = evidence.tcp_sent_bytes.get();
  const double expected = evidence.expected ? evidence.expected->least : 0;
  return sent == nullptr ||
         static_cast<double>(*sent) <= std::max(kTcpAllowedBytes, kTcpAllowedShare * expected);
}

void Raise(const TransportEvidence& evidence, TransportVerdict& verdict) {
  switch (AskEfa(evidence)) {
    case CounterSays::kTooFew:
      verdict.against = true;
      verdict.because.push_back("the EFA devices sent " +
                                std::to_string(evidence.efa_sent_bytes.value()) +
                                " bytes, fewer than the operations did");
      return;
    case CounterSays::kTooMany:
      verdict.level = TransportLevel::kEfaLogged;
      verdict.because.emplace_back("the log says EFA throughout");
      verdict.not_checked.emplace_back(
          "EFA counters: the devices sent more than these operations can have");
      return;
    case CounterSays::kAgrees:
      verdict.level = TransportLevel::kEfaProven;
      verdict.because.emplace_back("the log says EFA throughout, and the EFA counters agree");
      return;
    case CounterSays::kNothing:
      break;
  }
  verdict.level = TransportLevel::kEfaLogged;
  verdict.because.emplace_back("the log says EFA throughout");
  if (evidence.efa_sent_bytes.seen()) {
    verdict.not_checked.emplace_back(
        "EFA counters: it is not known how much should be on the wire");
  }
}

}  // namespace

std::int64_t LinesOf(const NcclConnections& one) {
  return one.sends + one.receives + one.others;
}

bool OfNetwork(const NcclConnections& one) {
  return one.transport == "NET" || one.transport == "COLLNET";
}

bool HasEveryConnection(const NcclLog& log) {
  return log.unread_connections == 0 && log.damaged_lines == 0 && log.folded_lines == 0 &&
         log.dropped == 0;
}

std::string_view TransportLevelName(TransportLevel level) {
  switch (level) {
    case TransportLevel::kTcpProven:
      return "TCP_PROVEN";
    case TransportLevel::kEfaLogged:
      return "EFA_LOGGED";
    case TransportLevel::kEfaProven:
      return "EFA_PROVEN";
    case TransportLevel::kNotProven:
      break;
  }
  return "NOT_PROVEN";
}

TransportVerdict JudgeTransport(const TransportEvidence& evidence) {
  TransportVerdict verdict;
  NameUnheard("EFA counters", evidence.efa_sent_bytes, verdict);
  NameUnheard("TCP interfaces", evidence.tcp_sent_bytes, verdict);
  const NcclLog* log = evidence.log.get();
  if (log != nullptr) {
    verdict.because = TcpInLog(*log);
  }
  if (TcpCarriedAll(evidence) && AskEfa(evidence) != CounterSays::kAgrees) {
    verdict.because.push_back("the TCP interfaces sent " + std::to_string(AllTcp(evidence)) +
                              " bytes, as many as the operations did");
  }
  if (!verdict.because.empty()) {
    verdict.level = TransportLevel::kTcpProven;
    return verdict;
  }
  if (log == nullptr) {
    verdict.because.push_back("no log of NCCL: " + WhyUnseen(evidence.log));
    return verdict;
  }
  verdict.one_node = OnOneNode(*log);
  verdict.because = MissingInLog(*log, evidence);
  verdict.against = !verdict.one_node && SpeaksAgainstEfa(*log);
  if (!TcpExcluded(evidence)) {
    verdict.against = true;
    verdict.because.push_back("the TCP interfaces sent " +
                              std::to_string(evidence.tcp_sent_bytes.value()) +
                              " bytes meanwhile, more than NCCL's own talk needs");
  }
  if (verdict.because.empty()) {
    Raise(evidence, verdict);
  }
  return verdict;
}

std::int64_t ConnectionsWithoutGpuDirect(const NcclLog& log) {
  std::int64_t without = 0;
  for (const NcclConnections& one : log.connections) {
    without += OfNetwork(one) && !one.gpu_direct ? LinesOf(one) : 0;
  }
  return without;
}

}  // namespace dlc

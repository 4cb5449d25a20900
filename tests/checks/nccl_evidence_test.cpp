#include "checks/nccl_evidence.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "probes/observations/nccl_log.h"

namespace dlc {
namespace {

constexpr std::int64_t kMebi = 1 << 20;

NcclLog LogFile(const std::string& name) {
  std::ifstream file(std::string(DLC_TESTDATA "/nccl/") + name);
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE_FALSE(text.str().empty());
  return ReadNcclLog(text.str());
}

TransportEvidence Good(int rank = 0) {
  TransportEvidence evidence;
  evidence.rank = rank;
  evidence.ranks = 2;
  evidence.log = LogFile("new/rank" + std::to_string(rank) + ".log");
  return evidence;
}

bool Says(const std::vector<std::string>& reasons, const std::string& text) {
  for (const std::string& reason : reasons) {
    if (reason.find(text) != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST_CASE("nccl evidence: complete logs of all versions say EFA, and what was not heard is told") {
  for (const char* folder : {"old", "new", "no_gpu_direct", "collnet_symbols"}) {
    for (int rank = 0; rank < 2; ++rank) {
      CAPTURE(folder);
      TransportEvidence evidence = Good(rank);
      evidence.log = LogFile(std::string(folder) + "/rank" + std::to_string(rank) + ".log");
      const auto verdict = JudgeTransport(evidence);
      CHECK_MESSAGE(verdict.level == TransportLevel::kEfaLogged, verdict.because.front());
      CHECK(Says(verdict.not_checked, "EFA counters"));
      CHECK(Says(verdict.not_checked, "TCP interfaces"));
    }
  }
  CHECK(ConnectionsWithoutGpuDirect(LogFile("no_gpu_direct/rank0.log")) > 0);
  CHECK(ConnectionsWithoutGpuDirect(LogFile("new/rank0.log")) == 0);
}

TEST_CASE("nccl evidence: a provider that was selected does not rescue sockets") {
  for (int rank = 0; rank < 8; ++rank) {
    TransportEvidence evidence;
    evidence.rank = rank;
    evidence.ranks = 8;
    evidence.log = LogFile("provider_selected_then_sockets/rank" + std::to_string(rank) + ".log");
    const auto verdict = JudgeTransport(evidence);
    CAPTURE(rank);
    CHECK(verdict.level == (rank < 4 ? TransportLevel::kTcpProven : TransportLevel::kEfaLogged));
  }
}

TEST_CASE("nccl evidence: folded lines are no evidence, but sockets in them are") {
  TransportEvidence evidence = Good();
  evidence.log = LogFile("folded_by_ray.log");
  CHECK(JudgeTransport(evidence).level == TransportLevel::kNotProven);
  CHECK(Says(JudgeTransport(evidence).because, "Ray folded lines"));
  evidence.log.value().connections.push_back(
      {"NET", "Socket", 0, "", false, false, false, false, 1, 0, 0});
  CHECK(JudgeTransport(evidence).level == TransportLevel::kTcpProven);
}

TEST_CASE("nccl evidence: anything missing from the log, and EFA is not proven") {
  struct Row {
    const char* says;
    void (*spoil)(NcclLog&);
  };
  const Row rows[] = {
      {"middle of a line", [](NcclLog& log) { log.cut = true; }},
      {"1 damaged line", [](NcclLog& log) { log.damaged_lines = 1; }},
      {"unknown shape", [](NcclLog& log) { log.unread_connections = 1; }},
      {"more than is kept", [](NcclLog& log) { log.dropped = 1; }},
      {"2 processes", [](NcclLog& log) { log.processes.emplace_back("h:2"); }},
      {"no communicator of rank 0 of 2", [](NcclLog& log) { log.communicators[0].ranks = 4; }},
      {"no communicator of rank 0 of 2", [](NcclLog& log) { log.communicators[0].rank = 1; }},
      {"no communicator of rank 0 of 2", [](NcclLog& log) { log.communicators.clear(); }},
      {"did not complete", [](NcclLog& log) { log.communicators[0].complete = false; }},
      {"aws-ofi-nccl did not start", [](NcclLog& log) { log.plugin_version.clear(); }},
      {"aws-ofi-nccl failed", [](NcclLog& log) { log.plugin_failed = true; }},
      {"no line says which network", [](NcclLog& log) { log.networks.clear(); }},
      {"network used is IB", [](NcclLog& log) { log.networks = {"IB"}; }},
      {"network used is Libfabric",
       [](NcclLog& log) {
         log.networks = {"IB", "Libfabric"};
       }},
      {"which provider", [](NcclLog& log) { log.providers.clear(); }},
      {"that sends", [](NcclLog& log) { log.connections[0].sends = 0; }},
      {"that receives", [](NcclLog& log) { log.connections[0].receives = 0; }},
      {"via NET/IB", [](NcclLog& log) { log.connections[0].network = "IB"; }},
      {"via COLLNET/Libfabric", [](NcclLog& log) { log.connections[0].transport = "COLLNET"; }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.says);
    TransportEvidence evidence = Good();
    evidence.efa_sent_bytes = std::int64_t{100};
    evidence.expected = ByteWindow{90, 110};
    REQUIRE(JudgeTransport(evidence).level == TransportLevel::kEfaProven);
    row.spoil(evidence.log.value());
    const auto verdict = JudgeTransport(evidence);
    CHECK(verdict.level == TransportLevel::kNotProven);
    CHECK(Says(verdict.because, row.says));
  }
}

TEST_CASE("nccl evidence: every shorter log is less than EFA_LOGGED") {
  std::ifstream file(DLC_TESTDATA "/nccl/new/rank0.log");
  std::stringstream buffer;
  buffer << file.rdbuf();
  const std::string text = buffer.str();
  const std::size_t connected = text.find("Channel 00/0");
  REQUIRE(connected != std::string::npos);
  TransportEvidence evidence = Good();
  for (std::size_t length = 0; length < connected; ++length) {
    evidence.log = ReadNcclLog(std::string_view(text).substr(0, length));
    CHECK(JudgeTransport(evidence).level == TransportLevel::kNotProven);
  }
}

TEST_CASE("nccl evidence: libfabric over TCP is TCP") {
  TransportEvidence evidence = Good();
  evidence.log.value().providers = {"tcp;ofi_rxm"};
  CHECK(JudgeTransport(evidence).level == TransportLevel::kTcpProven);
  evidence.log.value().providers = {"efa", "tcp"};
  CHECK(JudgeTransport(evidence).level == TransportLevel::kTcpProven);
}

TEST_CASE("nccl evidence: Socket chosen, no connection logged") {
  TransportEvidence evidence = Good();
  NcclLog& log = evidence.log.value();
  log.connections.clear();
  log.networks = {"Socket"};
  CHECK(JudgeTransport(evidence).level == TransportLevel::kTcpProven);
  CHECK_FALSE(JudgeTransport(evidence).one_node);
  log.communicators[0].nodes = 1;
  CHECK(JudgeTransport(evidence).level == TransportLevel::kNotProven);
  CHECK(JudgeTransport(evidence).one_node);
  log.communicators[0].nodes = 0;  // NCCL before 2.23 does not tell
  CHECK_FALSE(JudgeTransport(evidence).one_node);
}

TEST_CASE("nccl evidence: the devices' counters prove, or contradict") {
  TransportEvidence evidence = Good();
  evidence.tcp_sent_bytes = kMebi;
  evidence.expected = ByteWindow{1000.0 * kMebi, 1200.0 * kMebi};
  evidence.efa_sent_bytes = 1000 * kMebi;
  CHECK(JudgeTransport(evidence).level == TransportLevel::kEfaProven);
  CHECK(JudgeTransport(evidence).not_checked.empty());
  evidence.efa_sent_bytes = 1000 * kMebi - 1;
  CHECK(JudgeTransport(evidence).level == TransportLevel::kNotProven);
  evidence.efa_sent_bytes = 1200 * kMebi + 1;
  CHECK(JudgeTransport(evidence).level == TransportLevel::kEfaLogged);
  evidence.efa_sent_bytes = 1000 * kMebi;
  evidence.expected.reset();
  CHECK(JudgeTransport(evidence).level == TransportLevel::kEfaLogged);
  evidence.efa_sent_bytes =
      Error{ErrorCode::kPermissionDenied, "not in this network namespace", ""};
  CHECK(Says(JudgeTransport(evidence).not_checked, "EFA counters: not in this network namespace"));
}

TEST_CASE("nccl evidence: TCP interfaces that carried the bytes, or too many to exclude it") {
  TransportEvidence evidence = Good();
  evidence.expected = ByteWindow{1000.0 * kMebi, 1200.0 * kMebi};
  evidence.tcp_sent_bytes = 16 * kMebi;
  CHECK(JudgeTransport(evidence).level == TransportLevel::kEfaLogged);
  evidence.tcp_sent_bytes = 16 * kMebi + 1;
  CHECK(JudgeTransport(evidence).level == TransportLevel::kNotProven);
  CHECK(Says(JudgeTransport(evidence).because, "more than NCCL's own talk needs"));
  evidence.tcp_sent_bytes = 1000 * kMebi;
  CHECK(JudgeTransport(evidence).level == TransportLevel::kTcpProven);
  // Both moved that much: storage traffic beside, perhaps. Not told apart here.
  evidence.efa_sent_bytes = 1100 * kMebi;
  CHECK(JudgeTransport(evidence).level == TransportLevel::kNotProven);
  // Of large transfers a hundredth is allowed.
  evidence.expected = ByteWindow{10'000.0 * kMebi, 12'000.0 * kMebi};
  evidence.efa_sent_bytes = 11'000 * kMebi;
  evidence.tcp_sent_bytes = 100 * kMebi;
  CHECK(JudgeTransport(evidence).level == TransportLevel::kEfaProven);
}

TEST_CASE("nccl evidence: without a log nothing is proven but TCP") {
  TransportEvidence evidence;
  CHECK(JudgeTransport(evidence).level == TransportLevel::kNotProven);
  CHECK(Says(JudgeTransport(evidence).because, "not asked for"));
  evidence.log = Error{ErrorCode::kNotFound, "the file is gone", ""};
  evidence.expected = ByteWindow{100.0 * kMebi, 120.0 * kMebi};
  evidence.efa_sent_bytes = 110 * kMebi;
  CHECK(JudgeTransport(evidence).level == TransportLevel::kNotProven);
  CHECK(Says(JudgeTransport(evidence).because, "the file is gone"));
  evidence.efa_sent_bytes = std::int64_t{0};
  evidence.tcp_sent_bytes = 110 * kMebi;
  CHECK(JudgeTransport(evidence).level == TransportLevel::kTcpProven);
}

TEST_CASE("nccl evidence: names of the levels") {
  CHECK(TransportLevelName(TransportLevel::kEfaProven) == "EFA_PROVEN");
  CHECK(TransportLevelName(TransportLevel::kEfaLogged) == "EFA_LOGGED");
  CHECK(TransportLevelName(TransportLevel::kNotProven) == "NOT_PROVEN");
  CHECK(TransportLevelName(TransportLevel::kTcpProven) == "TCP_PROVEN");
}

}  // namespace
}  // namespace dlc

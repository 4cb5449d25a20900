#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "probes/observations/nccl_log.h"

namespace dlc {
namespace {

const std::string kSend = "Channel 00/0 : 1[0] -> 0[0] [send] via NET/Libfabric/0/GDRDMA";
const std::string kFrame = "h:1:2 [0] NCCL INFO ";

std::string TextOf(const std::string& name) {
  std::ifstream file(std::string(DLC_TESTDATA "/nccl/") + name);
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE_FALSE(text.str().empty());
  return text.str();
}

TEST_CASE("nccl log damage: no beginning of a connection line is taken for a whole one") {
  for (std::size_t length = 0; length < kSend.size(); ++length) {
    const NcclLog log = ReadNcclLog(kFrame + kSend.substr(0, length) + "\n");
    CAPTURE(length);
    // A line that lost "/GDRDMA" at the slash cannot be told from one that never had it.
    const bool whole_without = kSend.substr(0, length).ends_with("/0") && length > 40;
    CHECK(log.connections.size() == (whole_without ? 1 : 0));
    // Up to "Channel 00/0 : 1" it could be another message, or the order of a ring.
    const bool told = length > std::string_view("Channel 00/0 : 1").size() && !whole_without;
    CHECK(log.unread_connections >= (told ? 1 : 0));
  }
}

TEST_CASE("nccl log damage: two writers in one line") {
  const NcclLog log =
      ReadNcclLog(kFrame + kSend.substr(0, 40) + "h:9:9 [1] NCCL INFO " + kSend + "\n");
  CHECK(log.damaged_lines == 1);
  CHECK(log.connections.empty());
  CHECK(log.unread_connections == 1);
}

TEST_CASE("nccl log damage: pieces without a head are counted") {
  CHECK(ReadNcclLog("[0] NCCL INFO " + kSend + "\n").damaged_lines == 1);
  CHECK(ReadNcclLog(" -> 0[0] [send] via NET/Socket/0\n").damaged_lines == 1);
  CHECK(ReadNcclLog(kFrame + "0] [send] via NET/Socket/0\n").unread_connections == 1);
  CHECK(ReadNcclLog("libfabric:17773:1732779731::efa:ep_ctrl:f():1410<warn> set to false\n")
            .damaged_lines == 0);
}

TEST_CASE("nccl log damage: shapes that nobody knows") {
  for (const char* tail : {"/GDRDMAX", "/shared", " ", "/GDRDMA(PCIe)", "(1", "(x)"}) {
    CAPTURE(tail);
    const NcclLog log = ReadNcclLog(
        kFrame + "Channel 00/0 : 1[0] -> 0[0] [send] via NET/Libfabric/0" + tail + "\n");
    CHECK(log.connections.empty());
    CHECK(log.unread_connections == 1);
    CHECK(log.first_unread.ends_with(tail));
  }
  CHECK(ReadNcclLog(kFrame + "Channel 00/0 : 1[0] -> 0[0] via NET/Libfabric/0\n")
            .unread_connections == 1);  // neither sends nor receives
  CHECK(
      ReadNcclLog(kFrame + "Channel 00/0 : 1[0] -> 0[0] [send] via QUIC/0\n").unread_connections ==
      1);
  CHECK(ReadNcclLog(kFrame + "Channel 99999999999/0 : 1[0] -> 0[0] via P2P/IPC\n")
            .unread_connections == 1);
}

TEST_CASE("nccl log damage: the end is missing") {
  const std::string text = TextOf("new/rank0.log");
  CHECK_FALSE(ReadNcclLog(text).cut);
  CHECK(ReadNcclLog(text.substr(0, text.size() - 1)).cut);
}

TEST_CASE("nccl log damage: lines without end are passed over in constant memory") {
  NcclLogReader reader;
  const std::string noise(1 << 16, 'x');
  for (int i = 0; i < 1000; ++i) {
    reader.Feed(noise);
  }
  reader.Feed("\n" + kFrame + kSend + "\n");
  const NcclLog log = reader.Finish();
  CHECK(log.bytes > 65'536'000);
  CHECK(log.lines == 2);
  CHECK(log.damaged_lines == 1);
  CHECK(log.connections.size() == 1);
}

TEST_CASE("nccl log damage: of every list the beginning is kept, and that there was more is told") {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += "h" + std::to_string(i) +
            ":1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [send] via NET/N" + std::to_string(i) +
            "/0\n";
  }
  const NcclLog log = ReadNcclLog(text);
  CHECK(log.connections.size() == 64);
  CHECK(log.processes.size() == 64);
  CHECK(log.dropped == 72);
}

TEST_CASE("nccl log damage: what Ray folded is told") {
  const NcclLog log = ReadNcclLog(TextOf("folded_by_ray.log"));
  CHECK(log.folded_lines == 1);
  CHECK(log.processes.size() == 2);
}

TEST_CASE("nccl log damage: pieces of any size read the same") {
  const std::string text = TextOf("provider_selected_then_sockets/rank0.log");
  const NcclLog whole = ReadNcclLog(text);
  for (const std::size_t step : {1U, 7U, 64U, 1000U}) {
    NcclLogReader reader;
    for (std::size_t at = 0; at < text.size(); at += step) {
      reader.Feed(std::string_view(text).substr(at, step));
    }
    CHECK(reader.Finish() == whole);
  }
}

}  // namespace
}  // namespace dlc

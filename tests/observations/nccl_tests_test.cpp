#include "probes/observations/nccl_tests.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace dlc {
namespace {

std::string OutputFile(const std::string& name) {
  std::ifstream file(std::string(DLC_TESTDATA "/nccl/nccl_tests/") + name);
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE_FALSE(text.str().empty());
  return text.str();
}

TEST_CASE("nccl-tests output: a whole run, tagged by mpirun or not") {
  const NcclTestsOutput output = ReadNcclTests(OutputFile("two_hosts.txt"));
  CHECK(output == ReadNcclTests(OutputFile("two_hosts_tagged.txt")));
  CHECK(output.version == "2.19.6");
  CHECK(output.headers_code == 22907);
  CHECK(output.library_code == 22907);
  CHECK(output.device_tables == 1);
  CHECK(output.averages == 1);
  REQUIRE(output.ranks.size() == 16);
  CHECK(output.ranks[8] == NcclTestsRank{8, 108, "node-b"});
  REQUIRE(output.rows.size() == 3);
  const NcclTestsRow& row = output.rows[2];
  CHECK(row.size_bytes == 1 << 30);
  CHECK(row.count == 1 << 28);
  CHECK(row.type == "float");
  CHECK(row.op == "sum");
  CHECK(row.root == -1);
  CHECK(row.in_place.seconds == doctest::Approx(0.26843546));
  CHECK(row.in_place.algorithm_bandwidth_bytes_per_second == doctest::Approx(4e9));
  CHECK(row.in_place.bus_bandwidth_bytes_per_second == doctest::Approx(7.5e9));
  CHECK(row.in_place.wrong == 0);
  CHECK(output.out_of_bounds == 0);
  CHECK(output.out_of_bounds_ok);
  CHECK(output.unread_rows == 0);
}

TEST_CASE("nccl-tests output: N/A is not zero wrong elements") {
  const NcclTestsOutput output = ReadNcclTests(OutputFile("not_compared.txt"));
  REQUIRE_FALSE(output.rows.empty());
  CHECK_FALSE(output.rows[0].out_of_place.wrong.has_value());
}

TEST_CASE("nccl-tests output: two tests in one output are both counted") {
  const NcclTestsOutput output = ReadNcclTests(OutputFile("two_tables.txt"));
  CHECK(output.device_tables == 2);
  CHECK(output.averages == 2);
  CHECK(output.ranks.size() == 2);
}

TEST_CASE("nccl-tests output: a rank of an old version has no group") {
  const auto output =
      ReadNcclTests("#   Rank  1 Pid   9210 on v100-gpu-5 device  0 [0x00] Tesla V100-PCIE-16GB\n");
  REQUIRE(output.ranks.size() == 1);
  CHECK(output.ranks[0] == NcclTestsRank{1, 9210, "v100-gpu-5"});
}

TEST_CASE("nccl-tests output: rows that are cut or mixed are counted, other lines passed over") {
  const std::string row = "8 2 float sum -1 45.46 0.00 0.00 0 124.9 0.00 0.00 0";
  CHECK(ReadNcclTests(row + "\n").rows.size() == 1);
  CHECK(ReadNcclTests(row).rows.size() == 1);
  for (const std::string& bad : {row.substr(0, row.size() - 2), row + " 1", row.substr(0, 20),
                                 std::string("8 2 float sum -1 x 0.00 0.00 0 1 0.00 0.00 0"),
                                 std::string("8 2 float sum -1 1 0.00 0.00 ? 1 0.00 0.00 0"),
                                 std::string("# Out of bounds values : many OK")}) {
    CAPTURE(bad);
    CHECK(ReadNcclTests(bad + "\n").rows.empty());
    CHECK(ReadNcclTests(bad + "\n").unread_rows == 1);
  }
  const auto other = ReadNcclTests(
      "node-a:1:2 [0] NCCL INFO Connected all trees\n\n# nThread 1\n 12 is not a "
      "row\n[1,0]<stdout>:\n");
  CHECK(other == NcclTestsOutput{});
}

TEST_CASE("nccl-tests output: is bounded") {
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    text += "8 2 float sum -1 45.46 0.00 0.00 0 124.9 0.00 0.00 0\n";
  }
  const NcclTestsOutput output = ReadNcclTests(text);
  CHECK(output.rows.size() == 4096);
  CHECK(output.dropped);
}

}  // namespace
}  // namespace dlc

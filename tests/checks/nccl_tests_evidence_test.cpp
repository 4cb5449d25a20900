#include "checks/nccl_tests_evidence.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace dlc {
namespace {

NcclTestsOutput Output(const std::string& name) {
  std::ifstream file(std::string(DLC_TESTDATA "/nccl/nccl_tests/") + name);
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE_FALSE(text.str().empty());
  return ReadNcclTests(text.str());
}

std::string Problems(const NcclTestsOutput& output) {
  std::string all;
  for (const std::string& one : ProblemsOf(output)) {
    all += one + "\n";
  }
  return all;
}

TEST_CASE("nccl-tests evidence: one test over two hosts is a measurement") {
  CHECK(Problems(Output("two_hosts.txt")).empty());
  CHECK(Problems(Output("two_hosts_tagged.txt")).empty());
}

TEST_CASE("nccl-tests evidence: two tests, each with a rank 0, are none") {
  const std::string problems = Problems(Output("two_tables.txt"));
  CHECK(problems.find("invalid measurement: the output is of 2 separate tests") == 0);
  CHECK(problems.find("2 ranks are listed, and they are not 0 to 1") != std::string::npos);
}

TEST_CASE("nccl-tests evidence: one host, an unfinished test, wrong and uncompared results") {
  CHECK(Problems(Output("one_host.txt")) ==
        "all ranks are on node-a: nothing went between nodes\n");
  CHECK(Problems(Output("not_finished.txt")).find("did not finish") != std::string::npos);
  CHECK(Problems(Output("wrong.txt")) == "results are wrong\n");
  CHECK(Problems(Output("not_compared.txt")) == "results were not compared\n");
}

TEST_CASE("nccl-tests evidence: each sign of wrong results is enough") {
  NcclTestsOutput output = Output("two_hosts.txt");
  output.rows[1].in_place.wrong = 1;
  CHECK(Problems(output) == "results are wrong\n");
  output = Output("two_hosts.txt");
  output.out_of_bounds = 1;
  CHECK(Problems(output) == "results are wrong\n");
  output = Output("two_hosts.txt");
  output.out_of_bounds_ok = false;
  CHECK(Problems(output) == "results are wrong\n");
  output.out_of_bounds.reset();
  CHECK(Problems(output) == "results were not compared\n");
}

TEST_CASE("nccl-tests evidence: ranks that are missing, rows that cannot be read, nothing at all") {
  NcclTestsOutput output = Output("two_hosts.txt");
  output.ranks.erase(output.ranks.begin() + 3);
  CHECK(Problems(output).find("invalid measurement: 15 ranks") == 0);
  output = Output("two_hosts.txt");
  output.unread_rows = 1;
  CHECK(Problems(output) == "some of the output cannot be read\n");
  output.unread_rows = 0;
  output.dropped = true;
  CHECK(Problems(output) == "some of the output cannot be read\n");
  CHECK(ProblemsOf({}).size() == 4);
}

}  // namespace
}  // namespace dlc

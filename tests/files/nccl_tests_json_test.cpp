#include "probes/control/files/nccl_tests_json.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace dlc {
namespace {

std::string Text(const std::string& name) {
  std::ifstream file(std::string(DLC_TESTDATA "/nccl/nccl_tests/") + name);
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE_FALSE(text.str().empty());
  return text.str();
}

NcclTestsOutput Read(const std::string& name) {
  auto output = ParseNcclTestsFile(Text(name), name);
  REQUIRE_MESSAGE(output.has_value(), output.error().message);
  return *output;
}

TEST_CASE("nccl-tests JSON: says what the text of the same run says") {
  const NcclTestsOutput json = Read("two_hosts.json");
  const NcclTestsOutput text = Read("two_hosts.txt");
  CHECK(json.collective == "all_reduce");
  CHECK(text.collective == "all_reduce");
  CHECK(json.library_code == text.library_code);
  CHECK(json.ranks == text.ranks);
  REQUIRE(json.rows.size() == text.rows.size());
  for (std::size_t i = 0; i < json.rows.size(); ++i) {
    CHECK(json.rows[i].size_bytes == text.rows[i].size_bytes);
    CHECK(json.rows[i].type == text.rows[i].type);
    CHECK(json.rows[i].op == text.rows[i].op);
    CHECK(json.rows[i].root == text.rows[i].root);
    CHECK(json.rows[i].in_place.bus_bandwidth_bytes_per_second == doctest::Approx(7.5e9));
    CHECK(json.rows[i].in_place.wrong == text.rows[i].in_place.wrong);
  }
  CHECK(json.rows[1].in_place.seconds == doctest::Approx(0.06710886));
  CHECK(json.out_of_bounds == 0);
  CHECK(json.out_of_bounds_ok);
  CHECK(json.averages == 1);
}

TEST_CASE("nccl-tests JSON: a process with eight GPUs stands for eight ranks") {
  const NcclTestsOutput output = Read("eight_gpus_a_process.json");
  REQUIRE(output.ranks.size() == 16);
  CHECK(output.ranks[7] == NcclTestsRank{7, 41, "node-a"});
  CHECK(output.ranks[8] == NcclTestsRank{8, 57, "node-b"});
}

TEST_CASE("nccl-tests JSON: a test that died is not finished, and null is not compared") {
  CHECK(Read("not_finished.json").averages == 0);
  std::string text = Text("two_hosts.json");
  const std::string zero = "\"nwrong\": 0.0";
  text.replace(text.find(zero), zero.size(), "\"nwrong\": null");
  const auto output = ParseNcclTestsJson(text, "x.json");
  REQUIRE(output.has_value());
  CHECK_FALSE(output->rows[0].out_of_place.wrong.has_value());
  CHECK(output->rows[0].in_place.wrong == 0);
}

TEST_CASE("nccl-tests output: what is none is refused by name") {
  for (const char* bad : {"{}", "{\"results\": 3}", "{\"results\": [", "hello\n", "",
                          "{\"results\": [{\"size\": \"big\"}]}"}) {
    CAPTURE(bad);
    const auto output = ParseNcclTestsFile(bad, "x.out");
    REQUIRE_FALSE(output.has_value());
    CHECK(output.error().code == ErrorCode::kInvalidInput);
    CHECK(output.error().message.starts_with("x.out: "));
  }
}

}  // namespace
}  // namespace dlc

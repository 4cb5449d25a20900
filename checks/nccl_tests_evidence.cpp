#include "checks/nccl_tests_evidence.h"

#include <algorithm>
#include <set>

namespace dlc {
namespace {

void RankProblems(const NcclTestsOutput& output, std::vector<std::string>& problems) {
  std::set<int> ranks;
  std::set<std::string> hosts;
  for (const NcclTestsRank& rank : output.ranks) {
    ranks.insert(rank.rank);
    hosts.insert(rank.host);
  }
  if (output.ranks.empty()) {
    problems.emplace_back("no line says which ranks took part");
    return;
  }
  if (ranks.size() != output.ranks.size() || *ranks.begin() != 0 ||
      *ranks.rbegin() + 1 != static_cast<int>(ranks.size())) {
    problems.push_back("invalid measurement: " + std::to_string(output.ranks.size()) +
                       " ranks are listed, and they are not 0 to " +
                       std::to_string(output.ranks.size() - 1));
  }
  if (hosts.size() < 2) {
    problems.push_back("all ranks are on " + *hosts.begin() + ": nothing went between nodes");
  }
}

void ResultProblems(const NcclTestsOutput& output, std::vector<std::string>& problems) {
  std::int64_t wrong = output.out_of_bounds.value_or(0);
  bool compared = output.out_of_bounds.has_value();
  for (const NcclTestsRow& row : output.rows) {
    for (const NcclTestsTiming* one : {&row.out_of_place, &row.in_place}) {
      wrong = std::max(wrong, one->wrong.value_or(0));
      compared = compared && one->wrong.has_value();
    }
  }
  if (wrong > 0 || (output.out_of_bounds && !output.out_of_bounds_ok)) {
    problems.emplace_back("results are wrong");
  } else if (!compared) {
    problems.emplace_back("results were not compared");
  }
}

}  // namespace

std::vector<std::string> ProblemsOf(const NcclTestsOutput& output) {
  std::vector<std::string> problems;
  if (output.device_tables > 1 || output.averages > 1) {
    problems.push_back("invalid measurement: the output is of " +
                       std::to_string(std::max(output.device_tables, output.averages)) +
                       " separate tests");
  }
  RankProblems(output, problems);
  if (output.rows.empty()) {
    problems.emplace_back("there is no row");
  }
  if (output.unread_rows > 0 || output.dropped) {
    problems.emplace_back("some of the output cannot be read");
  }
  if (output.averages == 0) {
    problems.emplace_back("the test did not finish: its last line is missing");
  }
  ResultProblems(output, problems);
  return problems;
}

}  // namespace dlc

#include "probes/node/resume/rotated_exchange.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <vector>

#include "tests/fabric/forked_ranks.h"

namespace dlc {
namespace {

using Nodes = std::vector<std::string>;

constexpr int kMostRanks = 8;

Deadline Soon() {
  return Deadline::After(std::chrono::seconds(30));
}

/// Without any ranks: what a rotation makes of a number.
class Alone : public Exchange {
 public:
  Alone(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Result<std::vector<std::string>> AllGather(std::string_view /*mine*/,
                                             Deadline /*deadline*/) override {
    return Error{ErrorCode::kUnavailable, "rank 1 was lost", ""};
  }
  Result<void> Barrier(Deadline /*deadline*/) override {
    return Error{ErrorCode::kUnavailable, "nobody came", ""};
  }
  Result<void> LookForLost(Deadline /*deadline*/) override {
    return Error{ErrorCode::kUnavailable, "rank 1 told why", ""};
  }
  void TellStopped(std::string_view why, Deadline /*deadline*/) override { told = why; }

  std::string told;

 private:
  int rank_;
  int size_;
};

std::vector<int> RolesOf(const Nodes& nodes) {
  const int shift = RotationOf(nodes);
  std::vector<int> roles;
  const auto size = static_cast<int>(nodes.size());
  for (int rank = 0; rank < size; ++rank) {
    Alone inner(rank, size);
    roles.push_back(RotatedExchange(inner, shift).rank());
  }
  return roles;
}

/// A permutation in which nobody stays, if there is anybody else.
bool AllInOtherRoles(const std::vector<int>& roles) {
  std::vector<int> sorted = roles;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t rank = 0; rank < roles.size(); ++rank) {
    const bool stays = roles[rank] == static_cast<int>(rank);
    if (sorted[rank] != static_cast<int>(rank) || (roles.size() > 1 && stays)) {
      return false;
    }
  }
  return true;
}

int Elsewhere(const Nodes& nodes, const std::vector<int>& roles) {
  int count = 0;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    count += nodes[rank] != nodes[static_cast<std::size_t>(roles[rank])] ? 1 : 0;
  }
  return count;
}

/// Ranks of each of the three nodes; 0: the node has none.
std::vector<int> RanksByNode(const Nodes& nodes) {
  std::vector<int> counts;
  for (const char* node : {"a", "b", "c"}) {
    counts.push_back(static_cast<int>(std::count(nodes.begin(), nodes.end(), node)));
  }
  return counts;
}

std::string TextOf(const Nodes& nodes) {
  return std::accumulate(nodes.begin(), nodes.end(), std::string());
}

TEST_CASE("ranks in a row on up to three nodes: as many as can get another node's role") {
  for (int a = 1; a <= kMostRanks; ++a) {
    for (int b = 0; a + b <= kMostRanks; ++b) {
      for (int c = 0; a + b + c <= kMostRanks; ++c) {
        Nodes nodes(static_cast<std::size_t>(a), "a");
        nodes.insert(nodes.end(), static_cast<std::size_t>(b), "b");
        nodes.insert(nodes.end(), static_cast<std::size_t>(c), "c");
        CAPTURE(TextOf(nodes));
        const std::vector<int> roles = RolesOf(nodes);
        CHECK(AllInOtherRoles(roles));
        // The largest node's ranks can go no further than the others have places.
        const int ranks = a + b + c;
        CHECK(Elsewhere(nodes, roles) == std::min(ranks, 2 * (ranks - std::max({a, b, c}))));
      }
    }
  }
}

TEST_CASE("ranks in any order on three nodes: no fewer than the shifts have on average") {
  for (int ranks = 1, orders = 3; ranks <= kMostRanks; ++ranks, orders *= 3) {
    for (int order = 0; order < orders; ++order) {
      Nodes nodes;
      for (int rank = 0, rest = order; rank < ranks; ++rank, rest /= 3) {
        nodes.push_back(std::string(1, static_cast<char>('a' + rest % 3)));
      }
      CAPTURE(TextOf(nodes));
      const std::vector<int> roles = RolesOf(nodes);
      REQUIRE(AllInOtherRoles(roles));
      // Over all shifts each rank meets each other rank once.
      int pairs = 0;
      for (const int here : RanksByNode(nodes)) {
        pairs += here * (ranks - here);
      }
      REQUIRE(Elsewhere(nodes, roles) * std::max(1, ranks - 1) >= pairs);
    }
  }
}

TEST_CASE("the smallest shift of the best is taken") {
  CHECK(RotationOf({}) == 0);
  CHECK(RotationOf({"a"}) == 0);
  CHECK(RotationOf({"a", "a", "a"}) == 1);
  CHECK(RotationOf({"a", "a", "b", "b"}) == 2);
  CHECK(RotationOf({"a", "b", "a", "b"}) == 1);
  CHECK(RotationOf({"a", "b", "b", "a"}) == 2);
  CHECK(RotationOf({"a", "a", "a", "b"}) == 1);
  CHECK(RotationOf({"a", "a", "a", "b", "b"}) == 2);
}

TEST_CASE("what is gathered lies by role, on every rank, for every shift") {
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    const auto outcomes = RunRanks(ranks, [](Exchange& exchange) -> std::string {
      for (int shift = 0; shift < exchange.size(); ++shift) {
        RotatedExchange rotated(exchange, shift);
        const int role = (exchange.rank() + shift) % exchange.size();
        if (rotated.rank() != role || rotated.size() != exchange.size()) {
          return "another role or size";
        }
        if (!rotated.Barrier(Soon())) {
          return "no barrier";
        }
        const auto all = rotated.AllGather("role " + std::to_string(role), Soon());
        if (!all || all->size() != static_cast<std::size_t>(exchange.size())) {
          return "not everybody's";
        }
        for (int other = 0; other < exchange.size(); ++other) {
          if ((*all)[static_cast<std::size_t>(other)] != "role " + std::to_string(other)) {
            return "at " + std::to_string(other) + " lies " +
                   (*all)[static_cast<std::size_t>(other)] + ", shift " + std::to_string(shift);
          }
        }
      }
      return "";
    });
    CHECK(Trouble(outcomes) == "");
  }
}

TEST_CASE("errors and last words go through as they are") {
  Alone inner(0, 2);
  RotatedExchange rotated(inner, 1);
  CHECK(rotated.AllGather("x", Soon()).error().message == "rank 1 was lost");
  CHECK(rotated.Barrier(Soon()).error().message == "nobody came");
  CHECK(rotated.LookForLost(Soon()).error().message == "rank 1 told why");
  rotated.TellStopped("no memory", Soon());
  CHECK(inner.told == "no memory");
}

}  // namespace
}  // namespace dlc

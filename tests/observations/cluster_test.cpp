#include "probes/observations/cluster.h"

#include <doctest/doctest.h>

#include <optional>

namespace dlc {
namespace {

TEST_CASE("whole quantities: Kubernetes suffixes") {
  struct Row {
    const char* text;
    std::optional<std::int64_t> expected;
  };
  const Row rows[] = {{"4", 4},
                      {"0", 0},
                      {"4000m", 4},
                      {"4500m", std::nullopt},
                      {"2k", 2000},
                      {"5120Mi", 5368709120},
                      {"", std::nullopt},
                      {"four", std::nullopt},
                      {"4x", std::nullopt},
                      {"9223372036854775807k", std::nullopt}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(WholeQuantity({{"k", row.text}}, "k") == row.expected);
  }
  CHECK(WholeQuantity({{"k", "4"}}, "other") == std::nullopt);
}

}  // namespace
}  // namespace dlc

#include "checks/instance_types.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace dlc {
namespace {

TEST_CASE("instance types: each is listed once, with GPUs and plausible numbers") {
  std::set<std::string_view> names;
  for (const InstanceType& type : AllInstanceTypes()) {
    CAPTURE(std::string(type.name));
    CHECK(names.insert(type.name).second);
    CHECK(FindInstanceType(type.name) == &type);
    CHECK(type.gpus >= 1);
    CHECK(type.gpu_memory_gib > 16);
    CHECK(type.line_rate_gbps >= 0);
    CHECK(type.efa_interfaces >= 0);
    const bool small_without_rate_and_calibrated = type.line_rate_gbps == 0 && type.calibrated;
    CHECK_FALSE(small_without_rate_and_calibrated);
  }
}

TEST_CASE("instance types: the sample's g6.12xlarge has four L4, one EFA, no GPUDirect") {
  const InstanceType* type = FindInstanceType("g6.12xlarge");
  REQUIRE(type != nullptr);
  CHECK(type->gpus == 4);
  CHECK(type->efa_interfaces == 1);
  CHECK(type->gpu_direct == GpuDirect::kNo);
  CHECK_FALSE(type->calibrated);
  REQUIRE(FindInstanceType("p5.48xlarge") != nullptr);
  CHECK(FindInstanceType("p5.48xlarge")->efa_interfaces == 32);
  CHECK(FindInstanceType("g6.4xlarge")->efa_interfaces == 0);
}

TEST_CASE("instance types: a type that is not listed is not found") {
  CHECK(FindInstanceType("") == nullptr);
  CHECK(FindInstanceType("g6.12xlarg") == nullptr);
  CHECK(FindInstanceType("z9.metal") == nullptr);
}

}  // namespace
}  // namespace dlc

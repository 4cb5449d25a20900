#include "probes/node/nccl/nccl_group.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace dlc {
namespace {

NcclIntroduction Introduction(const std::string& host) {
  NcclIntroduction one;
  one.version = "2.28.9";
  one.file = "sha256:aa";
  one.path = "/venv/libnccl.so.2";
  one.settings = "NCCL_ALGO=Ring";
  one.place.host = host;
  one.place.boot_id = "boot";
  one.place.network_namespace = "net:[1]";
  one.place.usable_cpus = 8;
  return one;
}

std::string Complaint(const std::vector<NcclIntroduction>& all) {
  const auto good = CheckNcclIntroductions(all);
  return good ? "" : good.error().message;
}

TEST_CASE("nccl introduction: what is packed is unpacked, and nothing else") {
  NcclIntroduction one = Introduction("pod-1");
  one.error = {ErrorCode::kUnavailable, "no GPU", "look"};
  const auto again = NcclIntroduction::Unpack(one.Pack());
  REQUIRE(again.has_value());
  CHECK(again->Pack() == one.Pack());
  CHECK(again->error == one.error);
  CHECK(again->place == one.place);
  const std::string packed = one.Pack();
  for (std::size_t length = 0; length < packed.size(); ++length) {
    CHECK_FALSE(NcclIntroduction::Unpack(packed.substr(0, length)).has_value());
  }
  CHECK_FALSE(NcclIntroduction::Unpack(packed + "x").has_value());
}

TEST_CASE("nccl introduction: the rank that differs is named") {
  std::vector<NcclIntroduction> all = {Introduction("a"), Introduction("b"), Introduction("c")};
  CHECK(Complaint(all).empty());
  all[2].version = "2.27.7";
  CHECK(Complaint(all).find("rank 2 on c has NCCL 2.27.7") == 0);
  all[2] = Introduction("c");
  all[1].file = "sha256:bb";
  CHECK(Complaint(all).find("rank 1 on b") == 0);
  all[1] = Introduction("b");
  all[1].settings = "NCCL_ALGO=Tree";
  CHECK(Complaint(all) ==
        "rank 1 on b has the settings 'NCCL_ALGO=Tree', rank 0 has 'NCCL_ALGO=Ring'");
  // That a rank cannot take part says more than that it differs.
  all[2].error.message = "no GPU";
  CHECK(Complaint(all) == "rank 2 on c: no GPU");
  // Another path to the same file is the same NCCL.
  all = {Introduction("a"), Introduction("b")};
  all[1].path = "/elsewhere/libnccl.so.2";
  CHECK(Complaint(all).empty());
}

TEST_CASE("nccl version: as text") {
  CHECK(NcclVersionText(22809) == "2.28.9");
  CHECK(NcclVersionText(21805) == "2.18.5");
}

}  // namespace
}  // namespace dlc

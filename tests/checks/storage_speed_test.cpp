#include <doctest/doctest.h>

#include <string>

#include "tests/checks/rank_run.h"

namespace dlc {
namespace {

using testing::At;
using testing::GoodRun;
using testing::OfRule;
using testing::One;

std::vector<Finding> Look(const Observations& o, const Policy& p = {}) {
  return FindCheck("storage-speed")->judge(o, p);
}

std::vector<StorageTransfer>& TransfersAt(Observations& o, int rank) {
  return At(o, rank).storage_speed[0].seen.value().transfers;
}

constexpr const char* kWrite = "storage-speed/write-bandwidth";
constexpr const char* kRead = "storage-speed/cold-read-bandwidth";
constexpr const char* kComplete = "storage-speed/transfers-complete";

TEST_CASE("storage-speed: without a demand the rates are told, not judged") {
  const auto findings = Look(GoodRun({"a", "b"}));
  // Two ranks, 1000 bytes each, in 2 s and in 1 s.
  CHECK(One(findings, kWrite).reason.message ==
        "the policy demands no rate; measured 1000 bytes/s with 100-byte blocks");
  CHECK(One(findings, kRead).reason.message ==
        "the policy demands no rate; measured 2000 bytes/s with 100-byte blocks");
  CHECK(OfRule(findings, kComplete)[0].verdict == Verdict::kPass);
  CHECK(Aggregate(findings, false) == Outcome::kPassed);
}

TEST_CASE("storage-speed: at the limit passes, just below fails") {
  const Observations o = GoodRun({"a", "b"});
  Policy p;
  p.storage.min_write_bytes_per_second = 1000;
  p.storage.min_cold_read_bytes_per_second = 2000;
  CHECK(One(Look(o, p), kWrite).verdict == Verdict::kPass);
  CHECK(One(Look(o, p), kRead).verdict == Verdict::kPass);
  p.storage.min_write_bytes_per_second = 1000.5;
  p.storage.min_cold_read_bytes_per_second = 2000.5;
  CHECK(One(Look(o, p), kWrite).verdict == Verdict::kFail);
  CHECK(One(Look(o, p), kRead).verdict == Verdict::kFail);
}

TEST_CASE("storage-speed: the slowest rank's end counts, and who started late") {
  Observations o = GoodRun({"a", "b"});
  TransfersAt(o, 1)[0].start_seconds = 2;
  CHECK(One(Look(o), kWrite).reason.message.find("measured 500 bytes/s") != std::string::npos);
}

TEST_CASE("storage-speed: the best block size counts") {
  Observations o = GoodRun({"a"});
  TransfersAt(o, 0).push_back({"write", 1000, 400, false, 0, 0.5, "", -1, "", ""});
  CHECK(One(Look(o), kWrite).reason.message.find("2000 bytes/s with 400-byte blocks") !=
        std::string::npos);
}

TEST_CASE("storage-speed: a read that one rank may have had from its page cache is unknown") {
  Observations o = GoodRun({"a", "b"});
  TransfersAt(o, 1)[1].cold_because = "";
  Policy p;
  p.storage.min_cold_read_bytes_per_second = 1;
  CHECK(One(Look(o, p), kRead).verdict == Verdict::kUnknown);
  CHECK(One(Look(o), kRead).reason.message ==
        "the policy demands no rate; no read was shown to come from no page cache");
}

TEST_CASE("storage-speed: wrong data and errors fail and are named, no direct I/O is a remark") {
  Observations o = GoodRun({"a", "b"});
  TransfersAt(o, 0)[1].error = "wrong-data";
  TransfersAt(o, 1).push_back(
      {"write", 0, 400, true, 0, 0.1, "", -1, "EINVAL", "Invalid argument"});
  const auto findings = OfRule(Look(o), kComplete);
  CHECK(findings[0].verdict == Verdict::kFail);
  CHECK(findings[0].actual.find("read: wrong-data") != std::string::npos);
  CHECK(findings[1].verdict == Verdict::kPass);
  CHECK(findings[1].notes[0] == "this file system refuses direct I/O");
}

TEST_CASE("storage-speed: nothing transferred is no pass") {
  Observations o = GoodRun({"a"});
  TransfersAt(o, 0).clear();
  Policy p;
  p.storage.min_write_bytes_per_second = 1;
  CHECK(One(Look(o, p), kComplete).verdict == Verdict::kFail);
  CHECK(One(Look(o, p), kWrite).verdict == Verdict::kUnknown);
}

TEST_CASE("storage-speed: a lost rank is unknown, and no rate is made up without it") {
  Observations o = GoodRun({"a", "b"});
  o.checkpoint_ranks.value().ranks[1].seen =
      Error{ErrorCode::kTimedOut, "rank 1 never arrived", ""};
  Policy p;
  p.storage.min_write_bytes_per_second = 1;
  const auto findings = Look(o, p);
  CHECK(OfRule(findings, kComplete)[1].verdict == Verdict::kUnknown);
  CHECK(One(findings, kWrite).verdict == Verdict::kUnknown);
}

TEST_CASE("storage-speed: not looked at, and an error, are unknown") {
  Observations o;
  CHECK(One(Look(o), kComplete).verdict == Verdict::kUnknown);
  o.checkpoint_ranks = Error{ErrorCode::kNotFound, "no dlc-probe", ""};
  CHECK(One(Look(o), kComplete).reason.code == "not-found");
}

}  // namespace
}  // namespace dlc

#include <doctest/doctest.h>

#include <algorithm>
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

constexpr const char* kSave = "storage-speed/save-time";
constexpr const char* kRestore = "storage-speed/restore-time";
constexpr const char* kSmallFiles = "storage-speed/small-files-complete";
constexpr const char* kMetadata = "storage-speed/metadata-rate";
constexpr const char* kBurst = "storage-speed/past-burst";
constexpr const char* kHeld = "storage-speed/rate-held";

StorageSpeed& SpeedAt(Observations& o, int rank) {
  return At(o, rank).storage_speed[0].seen.value();
}

/// 100 files on each rank; creating takes 1 s, deleting 0.5 s.
void AddSmallFiles(Observations& o, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    SpeedAt(o, rank).metadata = {{"create", 100, 100, 0, 1.0, false, "", ""},
                                 {"create-write-fsync", 100, 50, 0, 2.0, false, "", ""},
                                 {"list", 150, 150, 0, 0.1, true, "", ""},
                                 {"delete", 150, 150, 0, 0.5, false, "", ""}};
  }
}

void AddAlone(Observations& o, double write_seconds) {
  StorageTransfer write{"write", 1000, 100, false, 0, write_seconds, "", -1, "", ""};
  write.alone = true;
  TransfersAt(o, 0).push_back(write);
}

bool HasNote(const Finding& finding, const std::string& part) {
  return std::any_of(finding.notes.begin(), finding.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

TEST_CASE("storage-speed: one rank alone tells whose limit it is, and is no rate of all") {
  Observations o = GoodRun({"a", "b"});
  AddAlone(o, 2);  // as fast as each of the two together
  Finding write = One(Look(o), kWrite);
  CHECK(write.reason.message.find("measured 1000 bytes/s") != std::string::npos);
  CHECK(HasNote(write,
                "one rank alone: 500 bytes/s with 100-byte blocks; 2 together at the same "
                "block size: 2.00 times that: each rank has a limit of its own"));
  TransfersAt(o, 0).back().seconds = 1;
  CHECK(HasNote(One(Look(o), kWrite), "the limit is one that all share"));
  TransfersAt(o, 0).back().error = "EIO";
  CHECK_FALSE(HasNote(One(Look(o), kWrite), "one rank alone"));
  CHECK(OfRule(Look(o), kComplete)[0].verdict == Verdict::kFail);
  Observations one_node = GoodRun({"a", "a"});
  AddAlone(one_node, 2);
  CHECK(HasNote(One(Look(one_node), kWrite), "it says nothing about the server"));
}

TEST_CASE("storage-speed: times to save and restore follow from the rates of all ranks") {
  const Observations o = GoodRun({"a", "b"});  // 1000 and 2000 bytes/s
  Policy p;
  p.storage.parameters = 1000;  // 12,000 bytes
  const Finding told = One(Look(o, p), kSave);
  CHECK(told.verdict == Verdict::kNotApplicable);
  CHECK(told.reason.message ==
        "the policy demands no time; predicted: save of 1000 parameters (0.00 GB): 12.00 s");
  CHECK(HasNote(told, "save of qwen2.5-1.5b (18.52 GB): 18524571.65 s"));
  CHECK(HasNote(told, "extrapolated: each rank moved 1000 of 6000 bytes"));
  p.storage.max_save_seconds = 12;
  p.storage.max_restore_seconds = 6;
  CHECK(One(Look(o, p), kSave).verdict == Verdict::kPass);
  CHECK(One(Look(o, p), kRestore).verdict == Verdict::kPass);
  p.storage.max_save_seconds = 11.99;
  p.storage.max_restore_seconds = 5.99;
  CHECK(One(Look(o, p), kSave).verdict == Verdict::kFail);
  CHECK(One(Look(o, p), kRestore).verdict == Verdict::kFail);
}

TEST_CASE("storage-speed: nothing is predicted from a pass that failed, or without a rank") {
  Policy p;
  p.storage.max_save_seconds = 1e9;
  p.storage.max_restore_seconds = 1e9;
  Observations failed = GoodRun({"a", "b"});
  TransfersAt(failed, 1)[0].error = "EDQUOT";
  CHECK(One(Look(failed, p), kSave).verdict == Verdict::kUnknown);
  CHECK(One(Look(failed), kSave).reason.message.find("none is predicted: no write ended") !=
        std::string::npos);
  CHECK(One(Look(failed), kSave).notes.empty());
  Observations warm = GoodRun({"a", "b"});
  TransfersAt(warm, 1)[1].cold_because = "";
  CHECK(One(Look(warm, p), kRestore).verdict == Verdict::kUnknown);
  Observations lost = GoodRun({"a", "b"});
  lost.checkpoint_ranks.value().ranks[1].seen = Error{ErrorCode::kTimedOut, "never arrived", ""};
  CHECK(One(Look(lost, p), kSave).verdict == Verdict::kUnknown);
  CHECK(OfRule(Look(lost), kSmallFiles)[1].verdict == Verdict::kUnknown);
}

TEST_CASE("storage-speed: the errors of disks and quotas are named, with what to do") {
  const char* rows[][2] = {{"ENOSPC", "full"},
                           {"EDQUOT", "quota"},
                           {"EIO", "lost what it had taken"},
                           {"ESTALE", "remount"},
                           {"ETIMEDOUT", "storage.maxBytesPerRank"},
                           {"short-read", "caching"}};
  for (const auto& [error, hint] : rows) {
    CAPTURE(error);
    Observations o = GoodRun({"a"});
    TransfersAt(o, 0)[0].error = error;
    TransfersAt(o, 0)[0].detail = "fsync: text";
    const Finding finding = One(Look(o), kComplete);
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(finding.actual.find(std::string("write: ") + error + " (fsync: text)") !=
          std::string::npos);
    CHECK(finding.hint.find(hint) != std::string::npos);
  }
}

TEST_CASE("storage-speed: small files, each phase, on every rank") {
  Observations o = GoodRun({"a", "b"});
  CHECK(OfRule(Look(o), kSmallFiles)[0].verdict == Verdict::kNotApplicable);
  AddSmallFiles(o, 2);
  CHECK(OfRule(Look(o), kSmallFiles)[1].verdict == Verdict::kPass);
  SpeedAt(o, 1).metadata[1].error = "EDQUOT";
  const Finding failed = OfRule(Look(o), kSmallFiles)[1];
  CHECK(failed.verdict == Verdict::kFail);
  CHECK(failed.actual.find("create-write-fsync after 50: EDQUOT") != std::string::npos);
  CHECK(failed.hint.find("quota") != std::string::npos);
  SpeedAt(o, 0).metadata.pop_back();
  CHECK(OfRule(Look(o), kSmallFiles)[0].verdict == Verdict::kFail);
}

TEST_CASE("storage-speed: metadata at the demand passes, below warns, not ended is unknown") {
  Observations o = GoodRun({"a", "b"});
  AddSmallFiles(o, 2);
  Policy p;
  CHECK(
      One(Look(o, p), kMetadata).reason.message.find("create: 200 per second (200 of all ranks)") !=
      std::string::npos);
  p.storage.min_metadata_operations_per_second = 200;
  CHECK(One(Look(o, p), kMetadata).verdict == Verdict::kPass);
  p.storage.min_metadata_operations_per_second = 200.5;
  const Finding slow = One(Look(o, p), kMetadata);
  CHECK(slow.verdict == Verdict::kFail);
  CHECK(slow.severity == Severity::kWarn);
  SpeedAt(o, 0).metadata[3].error = "EIO";
  CHECK(One(Look(o, p), kMetadata).verdict == Verdict::kUnknown);
}

TEST_CASE("storage-speed: a test too small to be past a burst warns") {
  Observations o = GoodRun({"a"});
  SpeedAt(o, 0).mount = MountFacts{"/f", "10.0.0.1@tcp:/abc", "lustre", "/", "rw", "0:5", false};
  CHECK(One(Look(o), kBurst).verdict == Verdict::kNotApplicable);
  for (const char* source : {"fs-1.efs.eu-west-1.amazonaws.com:/", "127.0.0.1:/"}) {
    SpeedAt(o, 0).mount = MountFacts{"/f", source, "nfs4", "/", "rw", "0:5", false};
    const Finding efs = One(Look(o), kBurst);
    CHECK(efs.verdict == Verdict::kFail);
    CHECK(efs.severity == Severity::kWarn);
    CHECK(HasNote(efs, "elastic"));
  }
  Policy p;
  p.storage.burst_bytes = 0;
  CHECK(One(Look(o, p), kBurst).verdict == Verdict::kNotApplicable);
  p.storage.burst_bytes = 2000;  // what the two passes moved
  CHECK(One(Look(o, p), kBurst).verdict == Verdict::kPass);
  p.storage.burst_bytes = 2001;
  CHECK(One(Look(o, p), kBurst).verdict == Verdict::kFail);
  SpeedAt(o, 0).mount = Error{ErrorCode::kNotFound, "no /proc", ""};
  CHECK(One(Look(o), kBurst).verdict == Verdict::kUnknown);
}

TEST_CASE("storage-speed: a rate that falls on the way warns, where its quarters tell") {
  Observations o = GoodRun({"a", "b"});
  CHECK(One(Look(o), kHeld).verdict == Verdict::kNotApplicable);
  for (int rank : {0, 1}) {
    TransfersAt(o, rank)[1].quarters = {{250, 0.1}, {250, 0.1}, {250, 0.2}, {250, 0.2}};
  }
  CHECK(One(Look(o), kHeld).verdict == Verdict::kPass);
  TransfersAt(o, 1)[1].quarters[3].seconds = 0.3;
  const Finding fell = One(Look(o), kHeld);
  CHECK(fell.verdict == Verdict::kFail);
  CHECK(fell.severity == Severity::kWarn);
  CHECK(HasNote(fell, "read with 100-byte blocks"));
  // A write whose fsync took most of its time showed how fast memory is.
  Observations cached = GoodRun({"a"});
  TransfersAt(cached, 0)[0].quarters = {{250, 0.1}, {250, 0.1}, {250, 0.4}, {250, 0.4}};
  TransfersAt(cached, 0)[0].sync_seconds = 1;
  CHECK(One(Look(cached), kHeld).verdict == Verdict::kNotApplicable);
}

}  // namespace
}  // namespace dlc

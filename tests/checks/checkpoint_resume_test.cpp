#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "tests/checks/checkpoint_run.h"

namespace dlc {
namespace {

using testing::At;
using testing::GoodCheckpoints;
using testing::LoadAt;
using testing::One;
using testing::SaveAt;
using testing::Says;

constexpr const char* kLosses = "checkpoint-resume/losses";
constexpr const char* kState = "checkpoint-resume/state";
constexpr const char* kBoth[] = {kLosses, kState};

std::vector<Finding> Resumed(const Observations& o, const Policy& p = {}) {
  return FindCheck("checkpoint-resume")->judge(o, p);
}

void CheckBothUnknown(const Observations& o, const std::string& why, const Policy& p = {}) {
  for (const char* rule : kBoth) {
    const Finding finding = One(Resumed(o, p), rule);
    CAPTURE(rule);
    CAPTURE(finding.reason.message);
    CHECK(finding.verdict == Verdict::kUnknown);
    CHECK(Says(finding, why));
  }
}

TEST_CASE("checkpoint-resume: what goes on as if nothing had happened passes") {
  const auto findings = Resumed(GoodCheckpoints({"a", "b", "b"}));
  CHECK(findings.size() == 2);
  CHECK(One(findings, kLosses).verdict == Verdict::kPass);
  CHECK(One(findings, kLosses).actual == "6 losses, the same bits");
  CHECK(One(findings, kState).verdict == Verdict::kPass);
  CHECK(One(findings, kState).expected == "state bb");
  CHECK(One(findings, kState).actual == "the same on 3 ranks");
  CHECK(Aggregate(findings, false) == Outcome::kPassed);
}

TEST_CASE("checkpoint-resume: one rank has its own role") {
  Observations o = GoodCheckpoints({"a"});
  SaveAt(o, 0).step = LoadAt(o, 0).step = 1;
  SaveAt(o, 0).losses.resize(1);
  LoadAt(o, 0).losses.resize(1);
  Policy p;
  p.checkpoint.steps = 1;
  CHECK(One(Resumed(o, p), kLosses).actual == "1 loss, the same bits");
  CHECK(One(Resumed(o, p), kState).verdict == Verdict::kPass);
}

TEST_CASE("checkpoint-resume: the next float is another loss, and the step is named") {
  Observations o = GoodCheckpoints({"a", "b"});
  double& loss = LoadAt(o, 0).losses[1];
  loss = std::nextafter(loss, 0.0);
  const auto findings = Resumed(o);
  CHECK(One(findings, kLosses).verdict == Verdict::kFail);
  CHECK(Says(One(findings, kLosses), "rank 0 on pod-0 as rank 1: step 4 has 7.125"));
  CHECK(One(findings, kState).verdict == Verdict::kPass);
}

TEST_CASE("checkpoint-resume: losses are those of the rank whose role it is") {
  Observations o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 0).losses = SaveAt(o, 0).losses;  // its own, where rank 1's are due
  CHECK(One(Resumed(o), kLosses).verdict == Verdict::kFail);
}

TEST_CASE("checkpoint-resume: what is not finite is never the same") {
  for (const double loss :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    CAPTURE(loss);
    Observations o = GoodCheckpoints({"a", "b"});
    SaveAt(o, 1).losses[0] = loss;
    LoadAt(o, 0).losses[0] = loss;
    CHECK(One(Resumed(o), kLosses).verdict == Verdict::kFail);
    CHECK(Says(One(Resumed(o), kLosses), "rank 0 on pod-0 as rank 1: step 3 is not finite: "));
    LoadAt(o, 0).losses[0] = 7.25;
    CHECK(Says(One(Resumed(o), kLosses), "step 3 is not finite: 7.250000, and without a pause "));
    std::swap(SaveAt(o, 1).losses[0], LoadAt(o, 0).losses[0]);
    CHECK(One(Resumed(o), kLosses).verdict == Verdict::kFail);
  }
}

TEST_CASE("checkpoint-resume: no losses at all are no pass") {
  Observations o = GoodCheckpoints({"a", "b"});
  for (const int rank : {0, 1}) {
    SaveAt(o, rank).losses.clear();
    LoadAt(o, rank).losses.clear();
  }
  CHECK(One(Resumed(o), kLosses).verdict == Verdict::kFail);
  for (const int rank : {0, 1}) {  // nor where there were no steps
    SaveAt(o, rank).step = LoadAt(o, rank).step = 0;
  }
  Policy p;
  p.checkpoint.steps = 0;
  CHECK(One(Resumed(o, p), kLosses).verdict == Verdict::kFail);
  CHECK(Says(One(Resumed(o, p), kLosses), "no losses to compare"));
}

TEST_CASE("checkpoint-resume: one rank's losses do not stand in for another's that has none") {
  Observations o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 1).losses.clear();
  LoadAt(o, 0).losses.clear();
  CHECK(One(Resumed(o), kLosses).verdict == Verdict::kFail);
  CHECK(Says(One(Resumed(o), kLosses), "rank 0 on pod-0 as rank 1"));
}

TEST_CASE("checkpoint-resume: every step has a loss") {
  Observations o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 1).losses.pop_back();
  CHECK(One(Resumed(o), kLosses).verdict == Verdict::kFail);
  CHECK(Says(One(Resumed(o), kLosses), "rank 1 on pod-1 as rank 0: another number of steps"));
  SaveAt(o, 0).losses.pop_back();  // the same number, and fewer than steps
  CHECK(One(Resumed(o), kLosses).verdict == Verdict::kFail);
  o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 1).losses.push_back(6);
  CHECK(Says(One(Resumed(o), kLosses), "another number of steps"));
}

TEST_CASE("checkpoint-resume: two ranks with one role leave a rank uncompared") {
  Observations o = GoodCheckpoints({"a", "b", "c"});
  LoadAt(o, 2).role = 1;
  LoadAt(o, 2).losses = SaveAt(o, 1).losses;
  CheckBothUnknown(o, "nobody loaded the file of rank 0");
  LoadAt(o, 2).losses[0] += 1;  // and a difference is still one
  CHECK(One(Resumed(o), kLosses).verdict == Verdict::kFail);
}

TEST_CASE("checkpoint-resume: a rank that keeps its own role shows no other's") {
  Observations o = GoodCheckpoints({"a", "b"});
  for (const int rank : {0, 1}) {
    LoadAt(o, rank).role = rank;
    LoadAt(o, rank).losses = SaveAt(o, rank).losses;
  }
  CheckBothUnknown(o, "rank 0 on pod-0");
}

TEST_CASE("checkpoint-resume: a role that nobody saved as is no pass") {
  Observations o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 0).role = 7;
  CHECK(One(Resumed(o), kLosses).verdict != Verdict::kPass);
  CHECK(One(Resumed(o), kState).verdict != Verdict::kPass);
}

TEST_CASE("checkpoint-resume: another state on one rank fails, and the rank is named") {
  Observations o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 1).resumed_hash = "bc";
  const auto findings = Resumed(o);
  CHECK(One(findings, kState).verdict == Verdict::kFail);
  CHECK(One(findings, kState).reason.message == "rank 1 on pod-1: other state");
  CHECK(One(findings, kLosses).verdict == Verdict::kPass);
}

TEST_CASE("checkpoint-resume: runs without a pause that differ, and empty hashes, are no pass") {
  Observations o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 1).continued_hash = "bc";
  CHECK(One(Resumed(o), kState).verdict == Verdict::kFail);
  CHECK(Says(One(Resumed(o), kState), "rank 1 on pod-1: no common state without a pause"));
  for (const int rank : {0, 1}) {
    SaveAt(o, rank).continued_hash.clear();
    LoadAt(o, rank).resumed_hash.clear();
  }
  CHECK(One(Resumed(o), kState).verdict == Verdict::kFail);
}

TEST_CASE("checkpoint-resume: one rank that is lost takes the ground from both rules") {
  Observations o = GoodCheckpoints({"a", "b"});
  o.checkpoint_ranks.value().ranks[1].seen = Error{ErrorCode::kTimedOut, "never arrived", ""};
  CheckBothUnknown(o, "could not see the run without a pause: never arrived");
  o = GoodCheckpoints({"a", "b"});
  At(o, 1).checkpoint_load[0].seen = Error{ErrorCode::kUnavailable, "killed", ""};
  CheckBothUnknown(o, "could not see the run from the checkpoint: killed");
  CHECK(One(Resumed(o), kState).reason.code == "unavailable");
}

TEST_CASE("checkpoint-resume: rows that are not there are unknown") {
  Observations o = GoodCheckpoints({"a", "b"});
  At(o, 1).checkpoint_load.clear();
  CheckBothUnknown(o, "the plan had no such step");
  At(o, 1).interrupted = true;
  CheckBothUnknown(o, "the run was interrupted");
  At(o, 0).checkpoint_save.clear();
  CheckBothUnknown(o, "the run without a pause not looked at");
}

TEST_CASE("checkpoint-resume: too little memory, an early end, another model are unknown") {
  Observations o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 1).not_looked_at = "rank 1 needs 30 GiB";
  CheckBothUnknown(o, "rank 1 needs 30 GiB");
  o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 0).stopped_by = Error{ErrorCode::kTimedOut, "a step did not end", ""};
  CheckBothUnknown(o, "a step did not end");
  o = GoodCheckpoints({"a", "b"});
  Policy p;
  p.checkpoint.model = "qwen2.5-0.5b";
  CheckBothUnknown(o, "the policy asks for qwen2.5-0.5b on cpu (checkpoint); rank 0 on pod-0", p);
  p = Policy{};
  p.checkpoint.backend = "cuda";
  CheckBothUnknown(o, "trained 'qwen2-tiny' on 'cpu'", p);
}

TEST_CASE("checkpoint-resume: fewer steps than the policy asks for are not what it asks for") {
  Policy p;
  p.checkpoint.steps = 3;
  CheckBothUnknown(GoodCheckpoints({"a", "b"}), "3 steps", p);
  p.checkpoint.steps = 1;
  CHECK(One(Resumed(GoodCheckpoints({"a", "b"}), p), kState).verdict == Verdict::kPass);
}

TEST_CASE("checkpoint-resume: not applicable where nobody asks, unknown where nobody ran") {
  Policy p;
  p.checkpoint.measure = "no";
  CHECK(One(Resumed(GoodCheckpoints({"a"}), p), kState).verdict == Verdict::kNotApplicable);
  Observations o;
  o.checkpoint_ranks = NotLookedAt{"the config has no target", ""};
  CHECK(One(Resumed(o), kState).verdict == Verdict::kNotApplicable);
  o.run.interrupted = true;
  CHECK(One(Resumed(o), kState).verdict == Verdict::kUnknown);
  o = Observations{};
  o.checkpoint_ranks = NotLookedAt{"blocked", "gpu-visible/all pod-1"};
  CHECK(One(Resumed(o), kState).reason.code == "prerequisite-failed");
  o.checkpoint_ranks = Error{ErrorCode::kNotFound, "no dlc-probe", ""};
  CHECK(One(Resumed(o), kState).reason.code == "not-found");
  o.checkpoint_ranks = RankRun{};
  CHECK(One(Resumed(o), kState).verdict == Verdict::kUnknown);
}

TEST_CASE("checkpoint-resume: a planted fault is told on every finding") {
  Observations o = GoodCheckpoints({"a", "b"});
  o.checkpoint_ranks.value().planted_faults = {{1, "checkpoint-load", "stale-step", ""}};
  for (const Finding& finding : Resumed(o)) {
    REQUIRE(finding.notes.size() == 1);
    CHECK(finding.notes[0] == "faults were planted in this run: stale-step in rank 1");
  }
}

}  // namespace
}  // namespace dlc

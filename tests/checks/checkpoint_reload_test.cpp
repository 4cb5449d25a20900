#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/checks/checkpoint_run.h"

namespace dlc {
namespace {

using testing::At;
using testing::GoodCheckpoints;
using testing::LoadAt;
using testing::One;
using testing::SaveAt;
using testing::Says;

constexpr const char* kSaved = "checkpoint-reload/saved";
constexpr const char* kSameState = "checkpoint-reload/same-state";
constexpr const char* kNotCached = "checkpoint-reload/not-cached";
constexpr const char* kWorldSizes = "checkpoint-reload/other-world-sizes";
constexpr const char* kRefusals = "checkpoint-reload/refusals";
constexpr const char* kAll[] = {kSaved, kSameState, kNotCached, kWorldSizes, kRefusals};
constexpr const char* kOfLoads[] = {kSameState, kNotCached, kWorldSizes};

std::vector<Finding> Reloaded(const Observations& o, const Policy& p = {}) {
  return FindCheck("checkpoint-reload")->judge(o, p);
}

Finding Of(const Observations& o, const char* rule, const Policy& p = {}) {
  return One(Reloaded(o, p), rule);
}

void LoseSave(Observations& o, int rank) {
  At(o, rank).checkpoint_save[0].seen = Error{ErrorCode::kUnavailable, "killed by SIGKILL", ""};
}
void LoseLoad(Observations& o, int rank) {
  At(o, rank).checkpoint_load[0].seen = Error{ErrorCode::kUnavailable, "killed by SIGKILL", ""};
}

TEST_CASE("checkpoint-reload: what was saved and came back passes, in words") {
  const auto findings = Reloaded(GoodCheckpoints({"a", "b", "b"}));
  CHECK(findings.size() == 5);
  for (const char* rule : kAll) {
    CAPTURE(rule);
    CHECK(One(findings, rule).verdict == Verdict::kPass);
  }
  CHECK(One(findings, kSaved).actual ==
        "step 2 of qwen2-tiny, 30 tensors in 12000 bytes, by 3 ranks (rename) in 0.50 s: 0.0 MB/s");
  CHECK(One(findings, kSameState).expected == "state aa");
  CHECK(One(findings, kSameState).actual.find("the same on 3 ranks, 12000 bytes in 0.25 s") == 0);
  CHECK(One(findings, kNotCached).actual == "other-node, evicted");
  CHECK(One(findings, kWorldSizes).actual == "saved by 3, the same cut for 1, 2, 5");
  CHECK(One(findings, kRefusals).actual == "5 kinds of damage were refused");
  CHECK(Aggregate(findings, false) == Outcome::kPassed);
}

TEST_CASE("checkpoint-reload: one rank loads its own file, and no more is claimed") {
  const auto findings = Reloaded(GoodCheckpoints({"a"}));
  for (const char* rule : kAll) {
    CAPTURE(rule);
    CHECK(One(findings, rule).verdict == Verdict::kPass);
  }
  CHECK(One(findings, kSameState).establishes[0].find("where there is one") != std::string::npos);
}

// What the ranks save.

TEST_CASE("checkpoint-reload: what the file system refused fails, also beside a lost rank") {
  Observations o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 1).refused = "unavailable: cannot write f: ENOSPC";
  SaveAt(o, 1).stopped_by = Error{ErrorCode::kUnavailable, "cannot write f", ""};
  CHECK(Of(o, kSaved).verdict == Verdict::kFail);
  CHECK(Of(o, kSaved).reason.message == "rank 1 on pod-1: unavailable: cannot write f: ENOSPC");
  LoseSave(o, 0);
  CHECK(Of(o, kSaved).verdict == Verdict::kFail);
}

TEST_CASE("checkpoint-reload: a switched-off rule is not judged, whatever was seen") {
  Observations o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 1).refused = "unavailable: cannot write f: ENOSPC";
  LoseSave(o, 0);
  Policy p;
  p.severity["checkpoint-reload"] = Severity::kOff;
  for (const char* rule : {kSaved, kSameState, kNotCached, kWorldSizes}) {
    CAPTURE(rule);
    CHECK(Of(o, rule, p).verdict == Verdict::kNotApplicable);
    CHECK(Of(GoodCheckpoints({"a", "b"}), rule, p).verdict == Verdict::kNotApplicable);
    CHECK(Of(GoodCheckpoints({"a", "b"}), rule, p).actual == "");
  }
  // Whether damage is refused is fixed.
  SaveAt(o, 1).refusals = {{"partial", true, false, "taken"}};
  CHECK(Of(o, kRefusals, p).verdict == Verdict::kFail);
}

TEST_CASE("checkpoint-reload: every rank's file is published, else it fails") {
  Observations o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 1).bytes = 0;
  CHECK(Of(o, kSaved).verdict == Verdict::kFail);
  CHECK(Of(o, kSaved).reason.message == "not every rank's file was published");
  o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 0).published = false;
  CHECK(Of(o, kSaved).verdict == Verdict::kFail);
}

TEST_CASE("checkpoint-reload: published by nobody, nothing should have been found") {
  Observations o = GoodCheckpoints({"a", "b"});
  for (const int rank : {0, 1}) {
    SaveAt(o, rank).published = false;
    LoadAt(o, rank).refused = "partial: no manifest";
    LoadAt(o, rank).stopped_by = Error{ErrorCode::kNotFound, "no manifest", ""};
  }
  CHECK(Of(o, kSaved).verdict == Verdict::kFail);
  CHECK(Of(o, kSameState).verdict == Verdict::kUnknown);
  CHECK(Of(o, kSameState).reason.message == "no checkpoint was published");
  LoseSave(o, 0);
  CHECK(Of(o, kSameState).verdict == Verdict::kUnknown);
  CHECK(Says(Of(o, kSameState), "could not see the save: killed by SIGKILL"));
}

TEST_CASE("checkpoint-reload: remarks of the file system are told once") {
  Observations o = GoodCheckpoints({"a", "b"});
  for (const int rank : {0, 1}) {
    SaveAt(o, rank).notes = {"directory fsync refused: EINVAL"};
  }
  CHECK(Of(o, kSaved).notes == std::vector<std::string>{"directory fsync refused: EINVAL"});
}

TEST_CASE("checkpoint-reload: a lost rank, too little memory, an early end are unknown saves") {
  Observations o = GoodCheckpoints({"a", "b"});
  LoseSave(o, 1);
  CHECK(Of(o, kSaved).verdict == Verdict::kUnknown);
  CHECK(Of(o, kSaved).reason.code == "unavailable");
  o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 1).not_looked_at = "rank 1: /fsx has 5 bytes free";
  CHECK(Of(o, kSaved).verdict == Verdict::kUnknown);
  CHECK(Says(Of(o, kSaved), "/fsx has 5 bytes free"));
  o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 0).stopped_by = Error{ErrorCode::kTimedOut, "a step did not end", ""};
  CHECK(Of(o, kSaved).reason.code == "timeout");
}

// What other processes load.

TEST_CASE("checkpoint-reload: tensors that differ fail and are named") {
  Observations o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 1).wrong_tensors = 1;
  LoadAt(o, 1).wrong = {"model.norm.weight"};
  LoadAt(o, 1).hash = "ab";
  CHECK(Of(o, kSameState).verdict == Verdict::kFail);
  CHECK(Of(o, kSameState).reason.message ==
        "rank 1 on pod-1: 1 tensor not as saved: model.norm.weight");
  // Also where the hash of all says nothing, and where another rank was lost meanwhile.
  LoadAt(o, 1).hash = "aa";
  CHECK(Of(o, kSameState).verdict == Verdict::kFail);
  LoseLoad(o, 0);
  CHECK(Of(o, kSameState).verdict == Verdict::kFail);
  LoseSave(o, 0);
  CHECK(Of(o, kSameState).verdict == Verdict::kFail);
}

TEST_CASE("checkpoint-reload: another hash than in the saving memory fails") {
  Observations o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 0).hash = "ab";
  CHECK(Of(o, kSameState).reason.message ==
        "rank 0 on pod-0: other state than was in memory when it was saved");
  CHECK(Of(o, kSameState).verdict == Verdict::kFail);
}

TEST_CASE("checkpoint-reload: what the reader refused fails, also beside a lost rank") {
  Observations o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 1).refused = "damaged: f has another sha256";
  LoadAt(o, 1).stopped_by = Error{ErrorCode::kInvalidInput, "f", ""};
  CHECK(Of(o, kSameState).verdict == Verdict::kFail);
  LoseLoad(o, 0);
  CHECK(Of(o, kSameState).verdict == Verdict::kFail);
  CHECK(Of(o, kNotCached).verdict == Verdict::kUnknown);
  CHECK(Of(o, kWorldSizes).verdict == Verdict::kUnknown);
}

TEST_CASE("checkpoint-reload: empty hashes everywhere are no pass") {
  Observations o = GoodCheckpoints({"a", "b"});
  for (const int rank : {0, 1}) {
    SaveAt(o, rank).hash.clear();
    LoadAt(o, rank).hash.clear();
    for (CheckpointReshard& one : LoadAt(o, rank).reshards) {
      one.hash.clear();
    }
  }
  CHECK(Of(o, kSameState).verdict == Verdict::kUnknown);
  CHECK(Of(o, kSameState).reason.message == "the saving ranks tell no common state");
  CHECK(Of(o, kWorldSizes).verdict == Verdict::kUnknown);
}

TEST_CASE("checkpoint-reload: one saving rank without a hash leaves none in common") {
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    Observations o = GoodCheckpoints({"a", "b"});
    SaveAt(o, rank).hash.clear();
    CHECK(Of(o, kSameState).verdict == Verdict::kUnknown);
  }
}

TEST_CASE("checkpoint-reload: a rank without hash after its load fails") {
  Observations o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 1).hash.clear();
  CHECK(Of(o, kSameState).verdict == Verdict::kFail);
  CHECK(Of(o, kSameState).reason.message == "not every rank has the saved state");
}

TEST_CASE("checkpoint-reload: saving ranks that do not agree give nothing to compare with") {
  Observations o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 1).hash = "ab";
  CHECK(Of(o, kSameState).verdict == Verdict::kUnknown);
  CHECK(Of(o, kWorldSizes).verdict == Verdict::kUnknown);
}

TEST_CASE("checkpoint-reload: a saver that dies after it has published is no other state") {
  Observations o = GoodCheckpoints({"a", "b"});
  LoseSave(o, 1);
  CHECK(Of(o, kSameState).verdict == Verdict::kUnknown);
  CHECK(Of(o, kWorldSizes).verdict == Verdict::kUnknown);
  CHECK(Of(o, kNotCached).verdict == Verdict::kPass);
}

TEST_CASE("checkpoint-reload: a rank that read nothing loaded nothing") {
  Observations o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 0).bytes = 0;
  CHECK(Of(o, kSameState).verdict == Verdict::kFail);
  CHECK(Of(o, kSameState).reason.message == "not every rank has the saved state");
  CHECK(Of(o, kNotCached).verdict == Verdict::kUnknown);
}

TEST_CASE("checkpoint-reload: whose file was loaded must be shown") {
  Observations twice = GoodCheckpoints({"a", "b", "c"});
  LoadAt(twice, 2).role = 1;
  CHECK(Of(twice, kSameState).verdict == Verdict::kUnknown);
  CHECK(Of(twice, kSameState).reason.message == "nobody loaded the file of rank 0");
  Observations own = GoodCheckpoints({"a", "b"});
  LoadAt(own, 0).role = 0;
  LoadAt(own, 1).role = 1;
  CHECK(Of(own, kSameState).verdict == Verdict::kUnknown);
  CHECK(Says(Of(own, kSameState), "rank 0 on pod-0"));
  LoadAt(own, 1).hash = "ab";  // and a difference is still one
  CHECK(Of(own, kSameState).verdict == Verdict::kFail);
}

TEST_CASE("checkpoint-reload: loads that were not seen are unknown") {
  const auto check = [](const Observations& o, const std::string& why, const Policy& p = {}) {
    for (const char* rule : kOfLoads) {
      const Finding finding = Of(o, rule, p);
      CAPTURE(rule);
      CAPTURE(finding.reason.message);
      CHECK(finding.verdict == Verdict::kUnknown);
      CHECK(Says(finding, why));
    }
  };
  Observations o = GoodCheckpoints({"a", "b"});
  LoseLoad(o, 1);
  check(o, "could not see the load: killed by SIGKILL");
  At(o, 1).checkpoint_load.clear();  // fewer loads than saves
  check(o, "the load not looked at: the plan had no such step");
  At(o, 0).checkpoint_load.clear();
  check(o, "the load not looked at: the plan had no such step");
  o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 0).not_looked_at = "rank 0 needs 30 GiB";
  check(o, "rank 0 needs 30 GiB");
  o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 0).stopped_by = Error{ErrorCode::kTimedOut, "a step did not end", ""};
  check(o, "a step did not end");
  o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 1).training.model = "qwen2.5-0.5b";
  check(o, "rank 1 on pod-1 trained 'qwen2.5-0.5b' on 'cpu'");
}

TEST_CASE("checkpoint-reload: a rank that was lost altogether is unknown everywhere it is needed") {
  Observations o = GoodCheckpoints({"a", "b"});
  o.checkpoint_ranks.value().ranks[1].seen = Error{ErrorCode::kTimedOut, "never arrived", ""};
  for (const char* rule : {kSaved, kSameState, kNotCached, kWorldSizes}) {
    CAPTURE(rule);
    CHECK(Of(o, rule).verdict == Verdict::kUnknown);
    CHECK(Of(o, rule).reason.code == "timeout");
  }
  CHECK(Of(o, kRefusals).verdict == Verdict::kPass);  // rank 0 planted them
  o.checkpoint_ranks.value().ranks[0].seen = Error{ErrorCode::kTimedOut, "never arrived", ""};
  CHECK(Of(o, kRefusals).verdict == Verdict::kUnknown);
  CHECK(Of(o, kRefusals).reason.code == "timeout");
}

TEST_CASE("checkpoint-reload: another model, backend or fewer steps are not what is asked for") {
  const Observations o = GoodCheckpoints({"a", "b"});
  Policy policies[3];
  policies[0].checkpoint.model = "qwen2.5-0.5b";
  policies[1].checkpoint.backend = "cuda";
  policies[2].checkpoint.steps = 3;
  for (const Policy& p : policies) {
    for (const char* rule : {kSaved, kNotCached, kWorldSizes}) {
      CAPTURE(rule);
      CHECK(Of(o, rule, p).verdict == Verdict::kUnknown);
      CHECK(Says(Of(o, rule, p), "the policy asks for"));
    }
    CHECK(Of(o, kSameState, p).verdict == Verdict::kUnknown);
  }
}

TEST_CASE("checkpoint-reload: what another model's ranks met fails nothing of this one's") {
  Observations o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 0).refused = "unavailable: cannot write f: ENOSPC";
  LoadAt(o, 0).refused = "damaged: f has another sha256";
  LoadAt(o, 1).wrong_tensors = 1;
  Policy p;
  p.checkpoint.model = "qwen2.5-0.5b";
  CHECK(Of(o, kSaved, p).verdict == Verdict::kUnknown);
  CHECK(Of(o, kSameState, p).verdict == Verdict::kUnknown);
}

TEST_CASE("checkpoint-reload: bytes that may have come from a cache are unknown, as a warning") {
  Observations o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 1).cold_because.clear();
  const Finding finding = Of(o, kNotCached);
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(finding.severity == Severity::kWarn);
  CHECK(finding.reason.message == "rank 1 on pod-1 may have read this node's memory");
  CHECK(Aggregate(Reloaded(o), false) == Outcome::kPassed);
}

// Other numbers of ranks.

TEST_CASE("checkpoint-reload: no other number of ranks is unknown, with its reason") {
  Observations o = GoodCheckpoints({"a", "b"});
  for (const int rank : {0, 1}) {
    LoadAt(o, rank).reshards.clear();
  }
  CHECK(Of(o, kWorldSizes).verdict == Verdict::kUnknown);
  CHECK(Of(o, kWorldSizes).reason.message == "no other number was tried");
  for (const int rank : {0, 1}) {
    LoadAt(o, rank).reshard_not_looked_at = "the state has 9 bytes";
  }
  CHECK(Of(o, kWorldSizes).reason.message == "the state has 9 bytes");
}

TEST_CASE("checkpoint-reload: other tensors, an error and no hash fail for their number") {
  Observations o = GoodCheckpoints({"a", "b"});
  LoadAt(o, 1).reshards[1].hash = "ab";
  CHECK(Of(o, kWorldSizes).verdict == Verdict::kFail);
  CHECK(Of(o, kWorldSizes).reason.message == "rank 1 on pod-1: cut for 3: other tensors");
  LoadAt(o, 1).reshards[1] = {3, "", "cannot read f: EIO"};
  CHECK(Of(o, kWorldSizes).reason.message == "rank 1 on pod-1: cut for 3: cannot read f: EIO");
  CHECK(Of(o, kWorldSizes).verdict == Verdict::kFail);
  LoadAt(o, 1).reshards[1] = {3, "", ""};
  CHECK(Of(o, kWorldSizes).verdict == Verdict::kFail);
  LoseSave(o, 0);  // an error needs nothing to be compared with
  LoadAt(o, 1).reshards[1] = {3, "", "cannot read f: EIO"};
  CHECK(Of(o, kWorldSizes).verdict == Verdict::kFail);
}

TEST_CASE("checkpoint-reload: ranks that did not try the same numbers are no pass") {
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    Observations o = GoodCheckpoints({"a", "b"});
    LoadAt(o, rank).reshards.pop_back();
    CHECK(Of(o, kWorldSizes).verdict == Verdict::kUnknown);
    LoadAt(o, rank).reshards.clear();
    CHECK(Of(o, kWorldSizes).verdict == Verdict::kUnknown);
    LoadAt(o, 1 - rank).reshards[0].hash = "ab";  // and a difference is still one
    CHECK(Of(o, kWorldSizes).verdict == Verdict::kFail);
  }
}

// Damages.

TEST_CASE("checkpoint-reload: a damage that was taken fails, and is named with what was said") {
  Observations o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 0).refusals[2].caught = false;
  SaveAt(o, 0).refusals[2].found = "it was taken";
  CHECK(Of(o, kRefusals).verdict == Verdict::kFail);
  CHECK(Of(o, kRefusals).reason.message == "it took swapped (it was taken)");
  SaveAt(o, 0).refusals[0].planted = false;  // and hides behind none that was not planted
  CHECK(Of(o, kRefusals).verdict == Verdict::kFail);
}

TEST_CASE("checkpoint-reload: damages that were not planted, or are not there, are unknown") {
  Observations o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 0).refusals[1].planted = false;  // caught all the same: by nothing of ours
  CHECK(Of(o, kRefusals).verdict == Verdict::kUnknown);
  CHECK(Of(o, kRefusals).reason.message == "not planted: damaged");
  SaveAt(o, 0).refusals.erase(SaveAt(o, 0).refusals.begin() + 1);
  CHECK(Of(o, kRefusals).reason.message == "not planted: damaged");
  SaveAt(o, 0).refusals.clear();
  CHECK(Of(o, kRefusals).verdict == Verdict::kUnknown);
  CHECK(Of(o, kRefusals).reason.message == "no rank damaged a set of files");
  LoseSave(o, 1);
  CHECK(Says(Of(o, kRefusals), "could not see the refusals: killed by SIGKILL"));
}

TEST_CASE("checkpoint-reload: a damage named twice was refused when it was both times") {
  Observations o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 0).refusals.push_back({"partial", true, false, "it was taken"});
  CHECK(Of(o, kRefusals).verdict == Verdict::kFail);
  CHECK(Of(o, kRefusals).reason.message == "it took partial (it was taken)");
  SaveAt(o, 0).refusals.back() = {"partial", false, false, "EPERM"};
  CHECK(Of(o, kRefusals).verdict == Verdict::kPass);  // planted once, and refused
}

TEST_CASE("checkpoint-reload: a damage that another rank, or another name, tells is one too") {
  Observations o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 1).refusals = {{"partial", true, false, "it was taken"}};
  CHECK(Of(o, kRefusals).verdict == Verdict::kFail);
  SaveAt(o, 1).refusals = {{"torn", true, false, "it was taken"}};
  CHECK(Of(o, kRefusals).reason.message == "it took torn (it was taken)");
  CHECK(Of(o, kRefusals).verdict == Verdict::kFail);
}

TEST_CASE("checkpoint-reload: damages stand when the ranks stopped after them") {
  Observations o = GoodCheckpoints({"a", "b"});
  SaveAt(o, 0).stopped_by = Error{ErrorCode::kTimedOut, "late", ""};
  CHECK(Of(o, kRefusals).verdict == Verdict::kPass);
}

// Who ran.

TEST_CASE("checkpoint-reload: not applicable where nobody asks, unknown where nobody ran") {
  Policy p;
  p.checkpoint.measure = "no";
  CHECK(Of(GoodCheckpoints({"a"}), kSameState, p).verdict == Verdict::kNotApplicable);
  Observations o;
  o.checkpoint_ranks = NotLookedAt{"the config has no target", ""};
  CHECK(Of(o, kSameState).verdict == Verdict::kNotApplicable);
  o.run.interrupted = true;
  CHECK(Of(o, kSameState).verdict == Verdict::kUnknown);
  o = Observations{};
  o.checkpoint_ranks = NotLookedAt{"blocked", "gpu-visible/all pod-1"};
  CHECK(Of(o, kSameState).reason.code == "prerequisite-failed");
  o.checkpoint_ranks = Error{ErrorCode::kNotFound, "no dlc-probe", ""};
  CHECK(Of(o, kSameState).reason.code == "not-found");
  o.checkpoint_ranks = RankRun{};
  CHECK(Of(o, kSameState).verdict == Verdict::kUnknown);
}

TEST_CASE("checkpoint-reload: a planted fault is told on every finding") {
  Observations o = GoodCheckpoints({"a", "b"});
  o.checkpoint_ranks.value().planted_faults = {{1, "checkpoint-save", "flip-bit", ""}};
  const auto findings = Reloaded(o);
  CHECK(std::all_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.notes.back() == "faults were planted in this run: flip-bit in rank 1";
  }));
}

}  // namespace
}  // namespace dlc

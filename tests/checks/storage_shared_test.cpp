#include <doctest/doctest.h>

#include <string>

#include "tests/checks/rank_run.h"

namespace dlc {
namespace {

using testing::At;
using testing::GoodRun;
using testing::OfRule;
using testing::One;
using testing::PeerAt;
using testing::SharedAt;

std::vector<Finding> Look(const Observations& o, const Policy& p = {}) {
  return FindCheck("storage-shared")->judge(o, p);
}

TEST_CASE("storage-shared: all ranks of all nodes see each other: pass") {
  const auto findings = Look(GoodRun({"a", "b", "c"}));
  for (const Finding& finding : findings) {
    CAPTURE(finding.rule);
    CHECK(finding.verdict != Verdict::kFail);
    CHECK(finding.verdict != Verdict::kUnknown);
  }
  CHECK(One(findings, "storage-shared/files-visible").verdict == Verdict::kPass);
  CHECK(One(findings, "storage-shared/between-nodes").actual == "6 of 6 pairs of ranks do");
  CHECK(OfRule(findings, "storage-shared/file-operations").size() == 3);
  CHECK(Aggregate(findings, false) == Outcome::kPassed);
}

TEST_CASE("storage-shared: under one kernel, sharing between nodes is not applicable and says so") {
  const auto findings = Look(GoodRun({"a", "a"}));
  CHECK(One(findings, "storage-shared/files-visible").verdict == Verdict::kPass);
  CHECK(One(findings, "storage-shared/files-visible").does_not_establish[0].find("one kernel") !=
        std::string::npos);
  const Finding between = One(findings, "storage-shared/between-nodes");
  CHECK(between.verdict == Verdict::kNotApplicable);
  CHECK(between.reason.message ==
        "all 2 ranks run under one kernel, where any local directory is shared");
}

TEST_CASE("storage-shared: only pairs of different nodes count between nodes") {
  Observations o = GoodRun({"a", "a", "b"});
  const Finding between = One(Look(o), "storage-shared/between-nodes");
  CHECK(between.verdict == Verdict::kPass);
  CHECK(between.actual == "4 of 4 pairs of ranks do");
}

TEST_CASE("storage-shared: one rank has nobody to share with") {
  const auto findings = Look(GoodRun({"a"}));
  CHECK(One(findings, "storage-shared/files-visible").verdict == Verdict::kNotApplicable);
  CHECK(One(findings, "storage-shared/file-operations").verdict == Verdict::kPass);
}

TEST_CASE("storage-shared: a rank with another directory at the path is named") {
  Observations o = GoodRun({"a", "b", "c"});
  for (const int other : {0, 2}) {
    PeerAt(o, 1, other).state = PeerAt(o, other, 1).state = "absent";
    PeerAt(o, 1, other).error = PeerAt(o, other, 1).error = "ENOENT";
  }
  const auto findings = Look(o);
  for (const char* rule : {"storage-shared/files-visible", "storage-shared/between-nodes"}) {
    const Finding finding = One(findings, rule);
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(finding.actual == "rank 1 on pod-1 stands apart from ranks 0 and 2");
    CHECK(finding.notes[0] == "rank 0 does not see the file of rank 1 on pod-1 (ENOENT)");
    CHECK_FALSE(finding.hint.empty());
  }
}

TEST_CASE("storage-shared: emptyDir on every node: everybody stands apart") {
  Observations o = GoodRun({"a", "b"});
  PeerAt(o, 0, 1).state = PeerAt(o, 1, 0).state = "absent";
  CHECK(One(Look(o), "storage-shared/files-visible").actual ==
        "rank 1 on pod-1 stands apart from rank 0 on pod-0");
}

TEST_CASE("storage-shared: one direction is not enough") {
  Observations o = GoodRun({"a", "b", "c"});
  PeerAt(o, 2, 0).state = "absent";
  const Finding finding = One(Look(o), "storage-shared/files-visible");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.notes[0].starts_with("rank 2 does not see the file of rank 0"));
}

TEST_CASE("storage-shared: other bytes and unwritten files are told apart") {
  Observations o = GoodRun({"a", "b", "c"});
  PeerAt(o, 1, 0).state = PeerAt(o, 2, 0).state = "different";
  Finding finding = One(Look(o), "storage-shared/files-visible");
  CHECK(finding.actual == "rank 0 on pod-0 stands apart from ranks 1 and 2");
  CHECK(finding.notes[0] == "rank 1 read other bytes than rank 0 on pod-0 wrote");
  PeerAt(o, 1, 0).state = PeerAt(o, 2, 0).state = "not-written";
  finding = One(Look(o), "storage-shared/files-visible");
  CHECK(finding.notes == std::vector<std::string>{"rank 0 on pod-0 wrote no file"});
  // Who shares what cannot be told of a file that is not there.
  CHECK(finding.actual == "rank 0 on pod-0 wrote no file");
  CHECK(finding.hint.find("file-operations") != std::string::npos);
  PeerAt(o, 1, 2).state = "absent";
  finding = One(Look(o), "storage-shared/files-visible");
  CHECK(finding.actual.find("stand") != std::string::npos);
}

TEST_CASE("storage-shared: a lost rank is unknown, unless a failure was seen anyway") {
  Observations o = GoodRun({"a", "b", "c"});
  o.checkpoint_ranks.value().ranks[2].seen =
      Error{ErrorCode::kUnavailable, "rank 2 was killed by SIGKILL", ""};
  auto findings = Look(o);
  for (const char* rule : {"storage-shared/files-visible", "storage-shared/between-nodes"}) {
    const Finding finding = One(findings, rule);
    CHECK(finding.verdict == Verdict::kUnknown);
    CHECK(finding.reason.message.find("rank 2 was killed by SIGKILL") != std::string::npos);
  }
  const auto operations = OfRule(findings, "storage-shared/file-operations");
  REQUIRE(operations.size() == 3);
  CHECK(operations[2].verdict == Verdict::kUnknown);
  CHECK(Aggregate(findings, false) == Outcome::kIncomplete);
  PeerAt(o, 0, 1).state = "absent";
  findings = Look(o);
  CHECK(One(findings, "storage-shared/files-visible").verdict == Verdict::kFail);
}

TEST_CASE("storage-shared: ranks that lost each other are unknown") {
  Observations o = GoodRun({"a", "b"});
  SharedAt(o, 0).peers = Error{ErrorCode::kTimedOut, "rank 1 of 2 never arrived at share", ""};
  const Finding finding = One(Look(o), "storage-shared/files-visible");
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(finding.reason.code == "timeout");
  CHECK(finding.reason.message ==
        "could not see what rank 0 on pod-0 sees of the others' files: rank 1 of 2 never arrived "
        "at share");
}

TEST_CASE("storage-shared: no run of ranks at all is unknown with its reason") {
  Observations o;
  CHECK(One(Look(o), "storage-shared/files-visible").reason.code == "not-looked-at");
  o.checkpoint_ranks = Error{ErrorCode::kNotFound, "no dlc-probe at /x", "put it there"};
  CHECK(One(Look(o), "storage-shared/files-visible").hint == "put it there");
  o.checkpoint_ranks = RankRun{};
  CHECK(One(Look(o), "storage-shared/files-visible").verdict == Verdict::kUnknown);
}

TEST_CASE("storage-shared: a failed operation is named with its errno and a fitting hint") {
  struct Row {
    const char* error;
    const char* hint;
  };
  const Row rows[] = {{"ENOSPC", "full"},
                      {"EDQUOT", "quota"},
                      {"EROFS", "read-only"},
                      {"EACCES", "uid 1000 may not write"},
                      {"EPERM", "fsGroup"},
                      {"ENOENT", "loses names"},
                      {"ESTALE", "stale"},
                      {"ENOTSUP", "object stores"},
                      {"EIO", "choose another path"}};
  for (const Row& row : rows) {
    CAPTURE(row.error);
    Observations o = GoodRun({"a", "b"});
    SharedAt(o, 1).operations.resize(4);
    SharedAt(o, 1).operations[3] = {"write", row.error, "text"};
    const Finding finding = OfRule(Look(o), "storage-shared/file-operations")[1];
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(finding.subject.name == "rank 1 on pod-1");
    CHECK(finding.actual == std::string("write: ") + row.error + " (text)");
    CHECK(finding.hint.find(row.hint) != std::string::npos);
  }
}

TEST_CASE("storage-shared: the hint goes by the operation too") {
  struct Row {
    const char* operation;
    const char* error;
    const char* hint;
  };
  const Row rows[] = {{"create-directory", "ENOENT", "no such directory"},
                      {"read-back", "ENOENT", "loses names"},
                      {"read-back", "wrong-data", "does not come back"},
                      {"create-exclusive", "EPERM", "fsGroup"},
                      {"replace", "EPERM", "object stores"},
                      {"delete", "EPERM", "object stores"}};
  for (const Row& row : rows) {
    CAPTURE(row.operation);
    Observations o = GoodRun({"a", "b"});
    for (FileOperation& operation : SharedAt(o, 1).operations) {
      operation.error = operation.name == row.operation ? row.error : "";
    }
    const Finding finding = OfRule(Look(o), "storage-shared/file-operations")[1];
    CHECK(finding.verdict == Verdict::kFail);
    CHECK(finding.hint.find(row.hint) != std::string::npos);
  }
}

TEST_CASE("storage-shared: what is worth telling of an operation that worked is a note") {
  Observations o = GoodRun({"a", "b"});
  SharedAt(o, 0).operations[3].detail = "short write, 5000 of 65536 bytes";
  const auto findings = OfRule(Look(o), "storage-shared/file-operations");
  CHECK(findings[0].verdict == Verdict::kPass);
  REQUIRE(findings[0].notes.size() == 1);
  CHECK(findings[0].notes[0].starts_with("write: short write, 5000 of 65536 bytes"));
  CHECK(findings[1].notes.empty());
}

TEST_CASE("storage-shared: operations that were not tried are no pass") {
  Observations o = GoodRun({"a", "b"});
  SharedAt(o, 0).operations.pop_back();
  const Finding finding = OfRule(Look(o), "storage-shared/file-operations")[0];
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.actual == "write-nonce was not tried");
}

TEST_CASE("storage-shared: squashed owners, slow sight, stale handles and other mounts warn") {
  Observations o = GoodRun({"a", "b"});
  SharedAt(o, 0).file_uid = 65534;
  PeerAt(o, 0, 1).seconds = 10.1;
  PeerAt(o, 0, 1).stale_handles = 1;
  SharedAt(o, 1).mount.value().source = "10.0.0.2@tcp:/xyz";
  const auto findings = Look(o);
  for (const char* rule : {"storage-shared/visible-in-time", "storage-shared/no-stale-handles",
                           "storage-shared/same-mount"}) {
    CHECK(One(findings, rule).verdict == Verdict::kFail);
    CHECK(One(findings, rule).severity == Severity::kWarn);
  }
  CHECK(OfRule(findings, "storage-shared/owner-kept")[0].verdict == Verdict::kFail);
  CHECK(One(findings, "storage-shared/same-mount").actual ==
        "rank 0 on pod-0: lustre 10.0.0.1@tcp:/abc /; rank 1 on pod-1: lustre 10.0.0.2@tcp:/xyz /");
  CHECK(Aggregate(findings, false) == Outcome::kPassed);
  PeerAt(o, 0, 1).seconds = 10.0;
  CHECK(One(Look(o), "storage-shared/visible-in-time").verdict == Verdict::kPass);
}

TEST_CASE("storage-shared: an exclusive create that is not refused fails") {
  Observations o = GoodRun({"a", "b"});
  PeerAt(o, 1, 0).exclusive_create = "allowed";
  CHECK(One(Look(o), "storage-shared/exclusive-create").verdict == Verdict::kFail);
}

TEST_CASE("storage-shared: what pairs of ranks showed is not said of ranks that told nothing") {
  const std::vector<std::string> rules = {"storage-shared/exclusive-create",
                                          "storage-shared/visible-in-time",
                                          "storage-shared/no-stale-handles"};
  const auto verdicts = [&](const Observations& o, Verdict wanted) {
    const auto findings = Look(o);
    for (const std::string& rule : rules) {
      CAPTURE(rule);
      CHECK(One(findings, rule).verdict == wanted);
    }
    return findings;
  };
  Observations o = GoodRun({"a", "b", "c"});
  SharedAt(o, 2).peers = Error{ErrorCode::kTimedOut, "rank 1 never arrived", ""};
  const auto findings = verdicts(o, Verdict::kUnknown);
  CHECK(One(findings, rules[0]).reason.message ==
        "could not see what rank 2 on pod-2 sees of the others' files: rank 1 never arrived");
  PeerAt(o, 0, 1).exclusive_create = "allowed";
  PeerAt(o, 0, 1).seconds = 10.1;
  PeerAt(o, 0, 1).stale_handles = 1;
  verdicts(o, Verdict::kFail);
  o = GoodRun({"a", "b", "c"});
  o.checkpoint_ranks.value().ranks[2].seen = Error{ErrorCode::kUnavailable, "killed", ""};
  verdicts(o, Verdict::kUnknown);
}

TEST_CASE("storage-shared: the free space that a lost rank has is not known") {
  Observations o = GoodRun({"a", "b"});
  o.checkpoint_ranks.value().ranks[1].seen = Error{ErrorCode::kUnavailable, "killed", ""};
  Policy p;
  p.storage.min_free_bytes = 1;
  const auto space = OfRule(Look(o, p), "storage-shared/free-space");
  REQUIRE(space.size() == 2);
  CHECK(space[0].verdict == Verdict::kPass);
  CHECK(space[1].verdict == Verdict::kUnknown);
}

TEST_CASE("storage-shared: free space and file system type are judged by the policy only") {
  Observations o = GoodRun({"a", "b"});
  CHECK(One(Look(o), "storage-shared/free-space").verdict == Verdict::kNotApplicable);
  Policy p;
  p.storage.min_free_bytes = 500'000;
  p.storage.min_free_inodes = 900;
  p.storage.filesystems = {"lustre"};
  for (const char* rule : {"storage-shared/free-space", "storage-shared/filesystem-type"}) {
    CHECK(OfRule(Look(o, p), rule)[0].verdict == Verdict::kPass);
  }
  p.storage.min_free_bytes = 500'001;
  CHECK(OfRule(Look(o, p), "storage-shared/free-space")[0].verdict == Verdict::kFail);
  p.storage.min_free_bytes = 0;
  p.storage.min_free_inodes = 901;
  CHECK(OfRule(Look(o, p), "storage-shared/free-space")[0].verdict == Verdict::kFail);
  SharedAt(o, 0).space.value().total_inodes = 0;
  CHECK(OfRule(Look(o, p), "storage-shared/free-space")[0].verdict == Verdict::kNotApplicable);
  p.storage.filesystems = {"nfs4"};
  CHECK(OfRule(Look(o, p), "storage-shared/filesystem-type")[1].verdict == Verdict::kFail);
}

TEST_CASE("storage-shared: a demanded file system type that was not seen is no pass") {
  const Error unread{ErrorCode::kUnavailable, "cannot read /proc/self/mountinfo", ""};
  Policy p;
  p.storage.filesystems = {"lustre"};
  Observations o = GoodRun({"a", "b", "c"});
  for (const int rank : {0, 1, 2}) {
    SharedAt(o, rank).mount = unread;
  }
  auto findings = Look(o, p);
  auto types = OfRule(findings, "storage-shared/filesystem-type");
  REQUIRE(types.size() == 3);
  for (const Finding& type : types) {
    CHECK(type.verdict == Verdict::kUnknown);
  }
  CHECK(Aggregate(findings, false) == Outcome::kIncomplete);

  // One blind rank hides neither the others' types nor a lost rank.
  o = GoodRun({"a", "b", "c", "d"});
  SharedAt(o, 0).mount = unread;
  SharedAt(o, 2).mount.value().filesystem = "overlay";
  o.checkpoint_ranks.value().ranks[3].seen = Error{ErrorCode::kUnavailable, "killed", ""};
  findings = Look(o, p);
  types = OfRule(findings, "storage-shared/filesystem-type");
  REQUIRE(types.size() == 4);
  CHECK(types[0].verdict == Verdict::kUnknown);
  CHECK(types[1].verdict == Verdict::kPass);
  CHECK(types[2].verdict == Verdict::kFail);
  CHECK(types[3].verdict == Verdict::kUnknown);
  CHECK(Aggregate(findings, false) == Outcome::kFailed);
}

TEST_CASE("storage-shared: a mount that was not seen hides no difference and equals nothing") {
  Observations o = GoodRun({"a", "b", "c"});
  SharedAt(o, 1).mount = Error{ErrorCode::kUnavailable, "cannot read it", ""};
  Finding finding = One(Look(o), "storage-shared/same-mount");
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(finding.subject.name == "rank 1 on pod-1");
  SharedAt(o, 2).mount.value().root = "/other";
  finding = One(Look(o), "storage-shared/same-mount");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.actual ==
        "rank 0 on pod-0: lustre 10.0.0.1@tcp:/abc /; rank 2 on pod-2: lustre "
        "10.0.0.1@tcp:/abc /other");
  o = GoodRun({"a", "b", "c"});
  o.checkpoint_ranks.value().ranks[2].seen = Error{ErrorCode::kUnavailable, "killed", ""};
  finding = One(Look(o), "storage-shared/same-mount");
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(finding.reason.message == "could not see the mount at the path: killed");
}

TEST_CASE("storage-shared: planted faults are remarked on every finding") {
  Observations o = GoodRun({"a", "b"});
  for (const int rank : {0, 1}) {
    At(o, rank).planted_faults = {{1, "share", "flip-bit", ""}};
  }
  const std::vector<Finding> findings = Look(o);
  REQUIRE_FALSE(findings.empty());
  for (const Finding& finding : findings) {
    CHECK(finding.notes.back() == "faults were planted in this run: flip-bit in rank 1");
  }
}

// HX-09: a checkpoint split over node disks.

CheckpointTree Tree(int first, int last, bool metadata, char content = 'a') {
  CheckpointTree tree;
  tree.path = "/fsx/step-100";
  tree.kind = "dcp";
  tree.has_metadata = metadata;
  tree.metadata_bytes = metadata ? 10 : 0;
  for (int rank = first; rank <= last; ++rank) {
    tree.shards.push_back({"__" + std::to_string(rank) + "_0.distcp", rank, 100,
                           Digest{std::string(64, content)}, "", 0});
  }
  return tree;
}

std::vector<Finding> LookAtTrees(const CheckpointTree& a, const CheckpointTree& b, int workers) {
  Observations o = GoodRun({"a", "b"});
  o.run.workload.workers = workers;
  At(o, 0).checkpoint_tree = {{"tree", {}, a}};
  At(o, 1).checkpoint_tree = {{"tree", {}, b}};
  return Look(o);
}

TEST_CASE("checkpoint trees: each node keeps its own shards: node-local, with counts per rank") {
  const auto findings = LookAtTrees(Tree(0, 7, true), Tree(8, 15, false), 16);
  const Finding names = One(findings, "storage-shared/checkpoint-same-files");
  CHECK(names.verdict == Verdict::kFail);
  CHECK(names.actual ==
        "node-local: no file is seen by all; rank 0 on pod-0 sees 8 shards and .metadata; "
        "rank 1 on pod-1 sees 8 shards");
  CHECK(One(findings, "storage-shared/checkpoint-complete").verdict == Verdict::kPass);
}

TEST_CASE("checkpoint trees: both complete and equal: pass") {
  const auto findings = LookAtTrees(Tree(0, 15, true), Tree(0, 15, true), 16);
  for (const char* rule :
       {"storage-shared/checkpoint-same-files", "storage-shared/checkpoint-same-content",
        "storage-shared/checkpoint-complete"}) {
    CHECK(One(findings, rule).verdict == Verdict::kPass);
  }
}

TEST_CASE("checkpoint trees: equal but one rank short: incomplete, not node-local") {
  CheckpointTree tree = Tree(0, 15, true);
  tree.shards.erase(tree.shards.begin() + 5);
  auto findings = LookAtTrees(tree, tree, 0);
  CHECK(One(findings, "storage-shared/checkpoint-same-files").verdict == Verdict::kPass);
  CHECK(One(findings, "storage-shared/checkpoint-complete").actual ==
        "incomplete: no shard of rank 5");
  // The last rank's absence shows only if the number of workers is stated.
  findings = LookAtTrees(Tree(0, 14, true), Tree(0, 14, true), 16);
  CHECK(One(findings, "storage-shared/checkpoint-complete").actual ==
        "incomplete: no shard of rank 15");
  const Finding unstated = One(LookAtTrees(Tree(0, 14, true), Tree(0, 14, true), 0),
                               "storage-shared/checkpoint-complete");
  CHECK(unstated.verdict == Verdict::kPass);
  CHECK_FALSE(unstated.notes.empty());
}

TEST_CASE("checkpoint trees: no .metadata: not published") {
  CHECK(One(LookAtTrees(Tree(0, 3, false), Tree(0, 3, false), 4),
            "storage-shared/checkpoint-complete")
            .actual == "not published: no .metadata, so the save did not end");
  CHECK(One(LookAtTrees(Tree(0, -1, false), Tree(0, -1, false), 0),
            "storage-shared/checkpoint-complete")
            .verdict == Verdict::kFail);
}

TEST_CASE("checkpoint trees: same names, other content: two file systems") {
  const auto findings = LookAtTrees(Tree(0, 3, true, 'a'), Tree(0, 3, true, 'b'), 4);
  CHECK(One(findings, "storage-shared/checkpoint-same-files").verdict == Verdict::kPass);
  const Finding content = One(findings, "storage-shared/checkpoint-same-content");
  CHECK(content.verdict == Verdict::kFail);
  CHECK(content.actual.starts_with("two file systems: __0_0.distcp"));
}

TEST_CASE("checkpoint trees: what is written last is older than a shard: unknown, and said so") {
  CheckpointTree tree = Tree(0, 3, true);
  tree.metadata_modified_at_ns = 100;
  tree.shards[2].modified_at_ns = 100;
  CHECK(One(LookAtTrees(tree, tree, 4), "storage-shared/checkpoint-metadata-last").verdict ==
        Verdict::kPass);
  tree.shards[2].modified_at_ns = 101;
  const Finding finding =
      One(LookAtTrees(tree, tree, 4), "storage-shared/checkpoint-metadata-last");
  CHECK(finding.verdict == Verdict::kUnknown);
  CHECK(finding.reason.message.find("__2_0.distcp") != std::string::npos);
  tree.ray = "v2";
  CHECK(One(LookAtTrees(tree, tree, 4), "storage-shared/checkpoint-metadata-last").verdict ==
        Verdict::kNotApplicable);
}

TEST_CASE("checkpoint trees: files of two writers or two world sizes are mixed") {
  CheckpointTree own = Tree(0, 3, true);
  own.kind = "dlc-check";
  CHECK(One(LookAtTrees(Tree(0, 3, true), own, 4), "storage-shared/checkpoint-complete").verdict ==
        Verdict::kFail);
  CheckpointTree other = own;
  own.stated_ranks = 4;
  other.stated_ranks = 8;
  const Finding finding = One(LookAtTrees(own, other, 0), "storage-shared/checkpoint-complete");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.actual.find("mixed") != std::string::npos);
}

TEST_CASE("checkpoint views: judged without ranks, and no view is no pass") {
  Observations o;
  o.run.stages = {Stage::kCheckpoint};
  o.checkpoint_ranks = NotLookedAt{"what an earlier run left is judged", ""};
  o.checkpoint_views = std::vector<CheckpointView>{{"a", Tree(0, 3, true)}};
  auto findings = Look(o);
  CHECK(One(findings, "storage-shared/checkpoint-complete").verdict == Verdict::kPass);
  CHECK(One(findings, "storage-shared/files-visible").verdict == Verdict::kNotApplicable);
  CHECK(One(findings, "storage-shared/checkpoint-same-files").verdict == Verdict::kNotApplicable);
  o.checkpoint_views =
      std::vector<CheckpointView>{{"a", Error{ErrorCode::kTimedOut, "cannot read a: slow", ""}}};
  CHECK(One(Look(o), "storage-shared/checkpoint-complete").verdict == Verdict::kUnknown);
  o.checkpoint_views = std::vector<CheckpointView>{};
  CHECK(One(Look(o), "storage-shared/checkpoint-complete").verdict == Verdict::kUnknown);
}

TEST_CASE("leftovers: what one rank sees is told, and a rank that is blind makes no pass") {
  Observations o = GoodRun({"a", "b"});
  CHECK(One(Look(o), "storage-shared/no-leftovers").verdict == Verdict::kNotApplicable);
  At(o, 0).leftover_runs = {{"leftover-runs", {}, LeftoverRuns{"/fsx", {}}}};
  At(o, 1).leftover_runs = {{"leftover-runs", {}, LeftoverRuns{"/fsx", {}}}};
  CHECK(One(Look(o), "storage-shared/no-leftovers").verdict == Verdict::kPass);
  At(o, 0).leftover_runs = {{"leftover-runs", {}, Error{ErrorCode::kTimedOut, "slow", ""}}};
  CHECK(One(Look(o), "storage-shared/no-leftovers").verdict == Verdict::kUnknown);
  At(o, 1).leftover_runs = {
      {"leftover-runs",
       {},
       LeftoverRuns{"/fsx", {{"0123456789abcdef", 0, 3, 1000, true, 7200, "there", ""}}}}};
  const Finding finding = One(Look(o), "storage-shared/no-leftovers");
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kWarn);
  CHECK(finding.actual == "run 0123456789abcdef: 3 files, 1000 bytes, unchanged for 2.0 h");
  CHECK(finding.hint.find("--run-id 0123456789abcdef --yes") != std::string::npos);
}

TEST_CASE("a path in the container's layer: a warning where there are several nodes") {
  constexpr const char* kRule = "storage-shared/not-container-layer";
  Observations o = GoodRun({"a", "a"});
  SharedAt(o, 0).mount.value().filesystem = "overlay";
  SharedAt(o, 0).path = SharedAt(o, 1).path = "/home/ray/ray_results";
  CHECK(One(Look(o), kRule).verdict == Verdict::kNotApplicable);
  o.run.workload.nodes = 2;
  const Finding finding = One(Look(o), kRule);
  CHECK(finding.verdict == Verdict::kFail);
  CHECK(finding.severity == Severity::kWarn);
  CHECK(finding.actual.find("where Ray Train saves without storage_path") != std::string::npos);
  SharedAt(o, 0).mount.value().filesystem = "nfs4";
  CHECK(One(Look(o), kRule).verdict == Verdict::kPass);
  SharedAt(o, 0).mount = Error{ErrorCode::kUnavailable, "no", ""};
  CHECK(One(Look(o), kRule).verdict == Verdict::kUnknown);
}

TEST_CASE("checkpoint trees: one rank that cannot look makes it unknown") {
  Observations o = GoodRun({"a", "b"});
  At(o, 0).checkpoint_tree = {{"tree", {}, Tree(0, 3, true)}};
  At(o, 1).checkpoint_tree = {
      {"tree", {}, Error{ErrorCode::kNotFound, "cannot read /fsx/step-100: ENOENT", ""}}};
  CHECK(One(Look(o), "storage-shared/checkpoint-same-files").verdict == Verdict::kUnknown);
}

}  // namespace
}  // namespace dlc

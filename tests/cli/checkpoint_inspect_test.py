"""`dlc-check checkpoint --from-checkpoint` on existing checkpoints (HX-09 and its variants), the same by ranks, and `cleanup`."""
import json
import os
import shutil
import time
import unittest

from harness import FAILED, INCOMPLETE, LEFTOVERS, OK, USAGE, Case

COMPLETE = "storage-shared/checkpoint-complete"
SAME_FILES = "storage-shared/checkpoint-same-files"
SAME_CONTENT = "storage-shared/checkpoint-same-content"
LAST = "storage-shared/checkpoint-metadata-last"


class Trees(Case):
    def setUp(self):
        super().setUp()
        self.runs = 0

    def tree(self, name, files, metadata=".metadata"):
        """A directory with these files, the one that is written last last. Gives its path."""
        path = self.dir / name
        path.mkdir(parents=True, exist_ok=True)
        for age, file in enumerate(files):
            content = files[file] if isinstance(files, dict) else f"content of {file}"
            (path / file).write_text(content)
            os.utime(path / file, (1_700_000_000 + age, 1_700_000_000 + age))
        if metadata:
            (path / metadata).write_text("pickle")
            os.utime(path / metadata, (1_700_001_000, 1_700_001_000))
        return path

    def dcp(self, name, ranks, metadata=True):
        return self.tree(name, [f"__{rank}_0.distcp" for rank in ranks], ".metadata" if metadata else "")

    def judge(self, expect, *directories, more=()):
        self.runs += 1
        flags = [flag for directory in directories for flag in ("--from-checkpoint", directory)]
        done = self.run_cli("checkpoint", *flags, *more, "--no-sign", "--format", "json", "--out", self.dir / f"out{self.runs}", expect=expect)
        return json.loads(done.stdout)

    def finding(self, report, rule):
        [finding] = [f for f in report["findings"] if f["rule"] == rule]
        return finding

    def verdict(self, report, rule):
        finding = self.finding(report, rule)
        return finding["verdict"], finding["reason"]["message"]


class Hx09SplitOverNodeDisks(Trees):
    def test_split_is_node_local_with_counts(self):
        a, b = self.dcp("a", range(8)), self.dcp("b", range(8, 16), metadata=False)
        report = self.judge(FAILED, a, b)
        verdict, message = self.verdict(report, SAME_FILES)
        self.assertEqual(verdict, "fail")
        self.assertEqual(message, f"node-local: no file is seen by all; {a} sees 8 shards and .metadata; {b} sees 8 shards")
        # The set is whole, only nobody has all of it.
        self.assertEqual(self.verdict(report, COMPLETE)[0], "pass")
        self.assertEqual(self.verdict(report, SAME_CONTENT)[0], "unknown")

    def test_complete_and_equal_passes_and_is_judged_again(self):
        report = self.judge(OK, self.dcp("a", range(16)), self.dcp("b", range(16)), more=["--workers", "16"])
        for rule in (SAME_FILES, SAME_CONTENT, COMPLETE, LAST):
            self.assertEqual(self.verdict(report, rule)[0], "pass", rule)
        evidence = self.dir / "out1" / "evidence.statement.json"
        shutil.rmtree(self.dir / "a")
        again = json.loads(self.run_cli("judge", evidence, "--format", "json", expect=OK).stdout)
        self.assertEqual(self.finding(again, COMPLETE)["actual"], self.finding(report, COMPLETE)["actual"])

    def test_signed_evidence_verifies(self):
        key, public = self.keys()
        self.run_cli("checkpoint", "--from-checkpoint", self.dcp("a", range(2)), "--sign-key", key, "--out", self.dir / "signed", expect=OK)
        done = self.run_cli("report", "verify", self.dir / "signed" / "evidence.sigstore.json", "--key", public)
        self.assertNotIn("not trustworthy", done.stdout + done.stderr)
        self.assertIn(done.returncode, (OK, INCOMPLETE), done.stdout + done.stderr)

    def test_one_rank_missing_is_incomplete_and_not_node_local(self):
        ranks = [rank for rank in range(16) if rank != 5]
        report = self.judge(FAILED, self.dcp("a", ranks), self.dcp("b", ranks))
        self.assertEqual(self.verdict(report, SAME_FILES)[0], "pass")
        self.assertEqual(self.verdict(report, COMPLETE), ("fail", "incomplete: no shard of rank 5"))

    def test_no_metadata_is_not_published(self):
        report = self.judge(FAILED, self.dcp("a", range(4), False), self.dcp("b", range(4), False))
        self.assertEqual(self.verdict(report, COMPLETE), ("fail", "not published: no .metadata, so the save did not end"))

    def test_other_content_is_two_file_systems(self):
        a, b = self.dcp("a", range(4)), self.dcp("b", range(4))
        (b / "__2_0.distcp").write_text("content of __2_0.distcq")
        os.utime(b / "__2_0.distcp", (1_700_000_000, 1_700_000_000))
        report = self.judge(FAILED, a, b)
        verdict, message = self.verdict(report, SAME_CONTENT)
        self.assertEqual(verdict, "fail")
        self.assertIn("two file systems: __2_0.distcp", message)

    def test_two_empty_looks_are_no_agreement(self):
        report = self.judge(INCOMPLETE, self.tree("a", [], ""), self.tree("b", [], ""))
        self.assertEqual(self.verdict(report, SAME_FILES)[0], "unknown")
        self.assertEqual(self.verdict(report, COMPLETE)[0], "unknown")


class OneDirectory(Trees):
    def test_the_last_ranks_show_only_when_workers_are_stated(self):
        directory = self.dcp("a", range(7))
        report = self.judge(OK, directory)
        self.assertIn("how many ranks saved is not stated", json.dumps(self.finding(report, COMPLETE)["notes"]))
        self.assertEqual(self.verdict(report, SAME_FILES)[0], "not_applicable")
        report = self.judge(FAILED, directory, more=["--workers", "8"])
        self.assertEqual(self.verdict(report, COMPLETE), ("fail", "incomplete: no shard of rank 7"))
        config = self.write("c.yaml", "apiVersion: dlc-check/v1\nkind: Config\nworkload: {workers: 9}\n")
        report = self.judge(FAILED, directory, more=["-c", config])
        self.assertEqual(self.verdict(report, COMPLETE), ("fail", "incomplete: no shard of rank 7, rank 8"))

    def test_ranks_and_sizes_are_told(self):
        report = self.judge(OK, self.tree("a", {"__0_0.distcp": "x" * 10, "__1_0.distcp": "x" * 300}))
        self.assertEqual(self.finding(report, COMPLETE)["actual"],
                         "they are there; 2 files of 2 ranks (0 to 1), 310 bytes, 10 to 300 each, .metadata of 6 bytes")

    def test_an_interrupted_save(self):
        directory = self.dcp("a", range(2))
        (directory / ".metadata.tmp").write_text("half")
        report = self.judge(FAILED, directory)
        self.assertEqual(self.verdict(report, COMPLETE), ("fail", "interrupted: .metadata.tmp of a save is left"))

    def test_empty_files(self):
        report = self.judge(INCOMPLETE, self.tree("a", {"__0_0.distcp": "x", "__1_0.distcp": ""}))
        self.assertIn("no byte in __1_0.distcp", self.verdict(report, COMPLETE)[1])
        report = self.judge(FAILED, self.tree("b", {"__0_0.distcp": "", "__1_0.distcp": ""}))
        self.assertIn("cut: no byte in", self.verdict(report, COMPLETE)[1])
        directory = self.dcp("c", range(2))
        (directory / ".metadata").write_text("")
        self.assertIn("cut: .metadata is empty", self.verdict(self.judge(FAILED, directory), COMPLETE)[1])

    def test_a_shard_newer_than_metadata_is_no_pass(self):
        directory = self.dcp("a", range(2))
        os.utime(directory / "__1_0.distcp", (1_700_002_000, 1_700_002_000))
        verdict, message = self.verdict(self.judge(INCOMPLETE, directory), LAST)
        self.assertEqual(verdict, "unknown")
        self.assertIn("__1_0.distcp; a later save overwrote it in place", message)

    def test_links_are_not_followed_and_pipes_not_waited_for(self):
        outside = self.write("outside.distcp", "x")
        directory = self.dcp("a", [0])
        (directory / "__1_0.distcp").symlink_to(outside)
        os.mkfifo(directory / "__2_0.distcp")
        # Something is there by that name: it is not said to be missing, and not taken for a shard.
        verdict, message = self.verdict(self.judge(INCOMPLETE, directory), COMPLETE)
        self.assertEqual(verdict, "unknown")
        self.assertIn("__1_0.distcp: a link, which is not followed, __2_0.distcp: not a regular file", message)
        linked = self.dcp("c", [0, 1])
        (linked / "__1_1.distcp").symlink_to(outside)
        report = self.judge(INCOMPLETE, linked)
        self.assertIn("__1_1.distcp: a link, which is not followed", self.verdict(report, COMPLETE)[1])
        (self.dir / "d").mkdir()
        (self.dir / "d" / "checkpoint_000001").symlink_to(linked)
        self.assertEqual(self.verdict(self.judge(INCOMPLETE, self.dir / "d"), COMPLETE)[0], "unknown")

    def test_a_hostile_pickle_is_only_bytes(self):
        directory = self.dcp("a", range(2))
        planted = self.dir / "executed"
        (directory / ".metadata").write_bytes(b"cos\nsystem\n(S'touch " + str(planted).encode() + b"'\ntR.")
        self.judge(OK, directory)
        self.assertFalse(planted.exists())

    def test_saved_without_a_coordinator_cannot_be_told(self):
        directory = self.tree("a", ["__0_0.distcp", "__1_0.distcp", "__0.metadata", "__1.metadata"], "")
        self.assertIn("without a coordinator", self.verdict(self.judge(INCOMPLETE, directory), COMPLETE)[1])

    def test_bad_input(self):
        directory = self.dcp("a", range(2))
        for flags, needle in ((["--from-checkpoint", self.dir / "none"], "No such file"),
                              (["--from-checkpoint", directory / ".metadata"], "is no directory"),
                              (["--from-checkpoint", directory, "--from-checkpoint", f"{directory}/."], "given twice"),
                              (["--from-checkpoint", directory, "--workers", "0"], "workers")):
            done = self.run_cli("checkpoint", *flags, "--no-sign", "--out", self.dir / "never", expect=USAGE)
            self.assertIn(needle, done.stderr)
            self.assertFalse((self.dir / "never").exists())


class RayTrain(Trees):
    OLD, NEW = "checkpoint_2026-09-30_23-59-59.999999", "checkpoint_2026-10-01_00-00-00.000001"

    def test_the_newest_of_v2_is_taken_and_the_others_named(self):
        self.dcp(f"run/{self.OLD}", range(4))
        self.dcp(f"run/{self.NEW}", [0, 1, 3])
        self.dcp("run/checkpoint_000007", range(4))
        self.dcp("run/checkpoint_best", range(4))
        (self.dir / "run" / ".validate_storage_marker").touch()
        report = self.judge(FAILED, self.dir / "run")
        self.assertEqual(self.verdict(report, COMPLETE), ("fail", "incomplete: no shard of rank 2"))
        notes = json.dumps(self.finding(report, COMPLETE)["notes"])
        for needle in (f"in {self.NEW}", f"{self.OLD}: older", "checkpoint_000007: a name of Ray Train v1", "checkpoint_best: its name tells no time",
                       "of Ray Train v2, whose controller's .validate_storage_marker is there"):
            self.assertIn(needle, notes)
        # Each worker uploads at its own time: that says nothing about an overwrite.
        self.assertEqual(self.verdict(report, LAST)[0], "not_applicable")

    def test_v1_by_number_and_a_storage_path_with_one_run(self):
        self.dcp("storage/run/trial/checkpoint_000009", range(2))
        self.dcp("storage/run/trial/checkpoint_000010", range(2))
        report = self.judge(OK, self.dir / "storage")
        self.assertIn("in run/trial/checkpoint_000010", json.dumps(self.finding(report, COMPLETE)["notes"]))

    def test_two_runs_are_not_guessed_between(self):
        for run in ("one", "two"):
            self.dcp(f"storage/{run}/{self.NEW}", range(2))
        self.assertIn("name one of them", self.verdict(self.judge(INCOMPLETE, self.dir / "storage"), COMPLETE)[1])

    def test_a_checkpoint_that_not_every_worker_reported(self):
        self.dcp(f"run/{self.OLD}", range(2))
        self.dcp(f"run/{self.NEW}", range(2))
        snapshot = self.dir / "run" / "checkpoint_manager_snapshot.json"
        snapshot.write_text(json.dumps({"checkpoint_results": [{"checkpoint_dir_name": self.OLD}]}))
        self.assertIn("not registered", self.verdict(self.judge(FAILED, self.dir / "run"), COMPLETE)[1])
        snapshot.write_text(json.dumps({"checkpoint_results": [{"checkpoint_dir_name": self.NEW}]}))
        self.judge(OK, self.dir / "run")

    def test_pods_that_find_another_one_the_newest(self):
        self.dcp(f"a/{self.OLD}", range(2))
        self.dcp(f"b/{self.NEW}", range(2))
        verdict, message = self.verdict(self.judge(FAILED, self.dir / "a", self.dir / "b"), SAME_FILES)
        self.assertEqual(verdict, "fail")
        self.assertIn("node-local", message)

    def test_a_plain_model_file_tells_nothing(self):
        self.tree(f"run/{self.NEW}", ["model.pt"], "")
        self.assertEqual(self.verdict(self.judge(INCOMPLETE, self.dir / "run"), COMPLETE)[0], "unknown")


class OtherWriters(Trees):
    def own(self, name, ranks, of, manifest="checkpoint.json"):
        return self.tree(name, [f"rank-{rank:05}-of-{of:05}.safetensors" for rank in ranks], manifest)

    def test_our_own(self):
        self.judge(OK, self.own("a", range(4), 4))
        self.assertEqual(self.verdict(self.judge(FAILED, self.own("b", [0, 1, 2], 4)), COMPLETE), ("fail", "incomplete: no shard of rank 3"))
        self.assertIn("no checkpoint.json", self.verdict(self.judge(FAILED, self.own("c", range(4), 4, "")), COMPLETE)[1])
        self.assertIn("say 4 ranks", self.verdict(self.judge(FAILED, self.own("d", range(4), 4), more=["--workers", "5"]), COMPLETE)[1])

    def deepspeed(self, name, ranks):
        files = ["mp_rank_00_model_states.pt"] + [f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in ranks]
        return self.tree(name, files, "")

    def test_deepspeed(self):
        step = self.deepspeed("ds/global_step20", range(4))
        self.deepspeed("ds/global_step10", range(4))
        (self.dir / "ds" / "latest").write_text("global_step20\n")
        report = self.judge(OK, self.dir / "ds", more=["--workers", "4"])
        self.assertIn("global_step10: `latest` does not name it", json.dumps(self.finding(report, COMPLETE)["notes"]))
        self.assertIn("optimizer states of 4 processes", self.verdict(self.judge(FAILED, self.dir / "ds", more=["--workers", "8"]), COMPLETE)[1])
        # Without `latest` nothing says that the save ended.
        self.assertEqual(self.verdict(self.judge(INCOMPLETE, step), COMPLETE)[0], "unknown")
        (step / "bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt").unlink()
        self.assertIn("rank 2 (optim_states)", self.verdict(self.judge(FAILED, self.dir / "ds"), COMPLETE)[1])

    def test_latest_cannot_lead_out(self):
        self.deepspeed("elsewhere", range(2))
        (self.dir / "ds").mkdir()
        (self.dir / "ds" / "latest").write_text("../elsewhere")
        self.assertEqual(self.verdict(self.judge(INCOMPLETE, self.dir / "ds"), COMPLETE)[0], "unknown")

    def test_files_that_state_the_world_size(self):
        name = "{}_world_size_4_rank_{}.pt"
        files = [name.format(part, rank) for part in ("model", "optim") for rank in range(4)]
        self.assertIn("nothing beside them says", self.verdict(self.judge(INCOMPLETE, self.tree("a", files, "")), COMPLETE)[1])
        files.remove(name.format("optim", 3))
        self.assertEqual(self.verdict(self.judge(FAILED, self.tree("b", files, "")), COMPLETE), ("fail", "incomplete: no shard of rank 3 (optim)"))


class ByRanks(Trees):
    def config(self, inspect, extra=""):
        shared = self.dir / "shared"
        shared.mkdir(exist_ok=True)
        return self.write("ranks.yaml", "apiVersion: dlc-check/v1\nkind: Config\n"
                          f"checkpoint: {{path: {shared}, inspect: {inspect}}}\nworkload: {{workers: 16}}\n"
                          f"target:\n  type: local\n  ranks: 2\n{extra}policy: {{stages: [checkpoint]}}\n")

    def test_every_rank_looks(self):
        report = self.judge(OK, more=["-c", self.config(self.dcp("a", range(16)))])
        for rule in (SAME_FILES, SAME_CONTENT, COMPLETE, LAST):
            self.assertEqual(self.verdict(report, rule)[0], "pass", rule)

    def test_a_rank_with_another_disk_at_the_path(self):
        a, b = self.dcp("a", range(8)), self.dcp("b", range(8, 16), False)
        fault = f"  plantedFaults: [{{rank: 1, step: checkpoint-tree, kind: other-directory, path: {b}}}]\n"
        report = self.judge(FAILED, more=["-c", self.config(a, fault)])
        verdict, message = self.verdict(report, SAME_FILES)
        self.assertEqual(verdict, "fail")
        self.assertIn("node-local", message)

    def test_inspect_needs_a_path(self):
        config = self.write("c.yaml", "apiVersion: dlc-check/v1\nkind: Config\ncheckpoint: {inspect: /tmp}\n")
        self.assertIn("checkpoint.path", self.run_cli("checkpoint", "-c", config, "--no-sign", expect=USAGE).stderr)


class Cleanup(Case):
    OLD, NEW = "0123456789abcdef", "fedcba9876543210"

    def setUp(self):
        super().setUp()
        self.shared = self.dir / "shared"
        self.shared.mkdir()
        self.config = self.write("ranks.yaml", "apiVersion: dlc-check/v1\nkind: Config\ntarget: {type: local, ranks: 3}\n"
                                 f"checkpoint: {{path: {self.shared}}}\npolicy: {{stages: [checkpoint]}}\n")

    def leave(self, run, hours):
        """What a run that was killed would leave, unchanged for so long."""
        path = self.shared / f".dlc-check-{run}"
        (path / "rank-0").mkdir(parents=True)
        (path / "rank-0" / "draft").write_bytes(b"x" * 1000)
        (path / "link").symlink_to(self.dir)
        then = time.time() - hours * 3600
        for entry in (path / "rank-0" / "draft", path / "link", path / "rank-0", path):
            os.utime(entry, (then, then), follow_symlinks=False)
        return path

    def cleanup(self, *flags, expect):
        return self.run_cli("cleanup", "-c", self.config, "-q", *flags, expect=expect).stdout

    def test_the_next_run_says_what_was_left_and_goes_on(self):
        path = self.leave(self.OLD, 5)
        done = self.run_cli("checkpoint", "-c", self.config, "--no-sign", "--format", "json", "--out", self.dir / "out", expect=OK)
        [finding] = [f for f in json.loads(done.stdout)["findings"] if f["rule"] == "storage-shared/no-leftovers"]
        self.assertEqual((finding["verdict"], finding["severity"]), ("fail", "warn"))
        self.assertIn(f"run {self.OLD}: 3 files, 1000 bytes, unchanged for 5.0 h", finding["actual"])
        self.assertIn(f"cleanup -c CONFIG --run-id {self.OLD} --yes", finding["hint"])
        self.assertTrue(path.exists())
        self.cleanup("--yes", expect=OK)
        done = self.run_cli("checkpoint", "-c", self.config, "--no-sign", "--format", "json", "--out", self.dir / "out2", expect=OK)
        [finding] = [f for f in json.loads(done.stdout)["findings"] if f["rule"] == "storage-shared/no-leftovers"]
        self.assertEqual(finding["verdict"], "pass")

    def test_lists_first_and_removes_with_yes(self):
        path = self.leave(self.OLD, 5)
        self.assertIn("--yes removes it", self.cleanup(expect=LEFTOVERS))
        self.assertTrue(path.exists())
        self.assertIn("removed", self.cleanup("--yes", expect=OK))
        self.assertEqual(list(self.shared.iterdir()), [])
        self.assertTrue(self.config.exists(), "a link was followed")
        self.assertIn("nothing", self.cleanup(expect=OK))

    def test_what_may_still_run_stays_unless_it_is_named(self):
        old, new = self.leave(self.OLD, 5), self.leave(self.NEW, 0.5)
        self.assertIn("may still run", self.cleanup("--yes", expect=LEFTOVERS))
        self.assertEqual((old.exists(), new.exists()), (False, True))
        self.cleanup("--yes", "--run-id", self.NEW, expect=OK)
        self.assertFalse(new.exists())

    def test_a_file_that_still_grows_keeps_an_old_directory(self):
        path = self.leave(self.OLD, 5)
        os.utime(path / "rank-0" / "draft")
        self.cleanup("--yes", expect=LEFTOVERS)
        self.assertTrue((path / "rank-0" / "draft").exists())

    def test_only_the_one_that_is_named(self):
        old, new = self.leave(self.OLD, 5), self.leave(self.NEW, 5)
        self.cleanup("--yes", "--run-id", self.NEW, expect=OK)
        self.assertEqual((old.exists(), new.exists()), (True, False))

    def test_only_directories_of_exactly_that_name(self):
        near = [".dlc-check-", ".dlc-check-0123456789abcde", ".dlc-check-0123456789abcdeF", ".dlc-check-0123456789abcdef0", "dlc-check-0123456789abcdef",
                "precious"]
        for name in near:
            (self.shared / name).mkdir()
        (self.shared / ".dlc-check-00000000000000aa").touch()
        (self.shared / ".dlc-check-00000000000000bb").symlink_to(self.dir)
        self.cleanup("--yes", expect=OK)
        self.assertEqual(len(list(self.shared.iterdir())), len(near) + 2)
        self.assertTrue(self.config.exists())

    @unittest.skipUnless(os.geteuid() == 0, "only root gives files away")
    def test_what_belongs_to_another_user_stays(self):
        path = self.leave(self.OLD, 5)
        os.chown(path, 65534, 65534)
        self.assertIn("belongs to uid 65534", self.cleanup("--yes", expect=LEFTOVERS))
        self.cleanup("--yes", "--run-id", self.OLD, expect=LEFTOVERS)
        self.assertTrue(path.exists())

    def test_json(self):
        self.leave(self.OLD, 5)
        [run] = json.loads(self.cleanup("--format", "json", expect=LEFTOVERS))["runs"]
        self.assertEqual((run["runId"], run["files"], run["state"]), (self.OLD, 3, "there"))

    def test_a_path_that_cannot_be_listed_is_incomplete(self):
        shutil.rmtree(self.shared)
        done = self.run_cli("cleanup", "-c", self.config, "-q", expect=INCOMPLETE)
        self.assertIn("ENOENT", done.stderr)

    def test_bad_input(self):
        bare = self.write("bare.yaml", "apiVersion: dlc-check/v1\nkind: Config\n")
        no_path = self.write("no_path.yaml", "apiVersion: dlc-check/v1\nkind: Config\ntarget: {type: local}\n")
        for flags, needle in ((["-c", bare], "no target"), (["-c", no_path], "checkpoint.path"), ([], "--config"),
                              (["-c", self.config, "--run-id", "../../etc"], "no run's id")):
            self.assertIn(needle, self.run_cli("cleanup", *flags, expect=USAGE).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

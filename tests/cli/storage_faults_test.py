"""The checkpoint stage on a file system with one fault at a time: each is a finding with the name of what went wrong, none a false
pass. Two ranks on two nodes, each with its own mount of one directory (nodes.py); the fault is in both mounts.

A step that is added to the stage is exercised by adding what it has to say of a fault to the fault's `says`.
"""
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

from harness import FAILED, INCOMPLETE, LEFTOVERS, OK, Case
from nodes import FaultyMount, Node, Programs, may_make_nodes

OPERATIONS = "storage-shared/file-operations"
VISIBLE = "storage-shared/files-visible"
BETWEEN = "storage-shared/between-nodes"
STALE = "storage-shared/no-stale-handles"
OWNER = "storage-shared/owner-kept"
TRANSFERS = "storage-speed/transfers-complete"
SAVED = "checkpoint-reload/saved"
SAME = "checkpoint-reload/same-state"
WORLDS = "checkpoint-reload/other-world-sizes"
REFUSALS = "checkpoint-reload/refusals"
LOSSES = "checkpoint-resume/losses"
STATE = "checkpoint-resume/state"
JUDGED_ON_BOTH = {OPERATIONS, OWNER, TRANSFERS}  # once for each rank; the others once for the run

SKIPPED = 77


@dataclasses.dataclass
class Fault:
    kind: str               # of faulty_fs
    options: str            # of faulty_fs
    says: dict              # rule -> (verdict, what its message or notes must match)
    expect: int = FAILED    # exit code
    name: str = ""          # where a kind comes more than once
    leaves: str = ""        # what is said of what could not be removed; empty: nothing is left
    shared: bool = True     # the nodes mount one directory


def not_saved(words):
    """And so nothing is said of what comes after it."""
    return {SAVED: ("fail", words)} | dict.fromkeys((SAME, WORLDS, REFUSALS, LOSSES, STATE), ("unknown", "^could not see"))


def not_loaded(words):
    return {SAVED: ("pass", ""), SAME: ("fail", words)} | dict.fromkeys((WORLDS, LOSSES, STATE), ("unknown", "^could not see"))


RELOADED = dict.fromkeys((SAVED, SAME, WORLDS, REFUSALS, LOSSES, STATE), ("pass", ""))

# The sizes: 64 KiB of the trial files, 32 bytes of the nonces, 8 MiB of the speed test's files, 860 KB of each rank's state.
FAULTS = [
    Fault("none", "", {OPERATIONS: ("pass", ""), VISIBLE: ("pass", ""), BETWEEN: ("pass", ""), STALE: ("pass", ""), OWNER: ("pass", ""),
                       TRANSFERS: ("pass", "")} | RELOADED, OK),
    Fault("none", "", {OPERATIONS: ("pass", ""), VISIBLE: ("fail", r"rank 1 on b stands apart from rank 0 on a"),
                       BETWEEN: ("fail", r"rank 1 on b stands apart")} | not_saved(r"^rank 1 on b: .*ENOENT"), name="false share", shared=False),

    Fault("enospc", "--after 40000", {OPERATIONS: ("fail", r"^write: ENOSPC"), VISIBLE: ("fail", r"^ranks 0 and 1 wrote no file"),
                                      TRANSFERS: ("fail", r"write: ENOSPC")} | not_saved(r"cannot write .*ENOSPC")),
    Fault("enospc", "--after 1000000", {OPERATIONS: ("pass", ""), TRANSFERS: ("fail", r"write: ENOSPC")} | not_saved(r"cannot write .*ENOSPC"), name="enospc under way"),
    Fault("edquot", "--after 40000", {OPERATIONS: ("fail", r"^write: EDQUOT"), TRANSFERS: ("fail", r"write: EDQUOT")} | not_saved(r"cannot write .*EDQUOT")),
    Fault("edquot", "--after 1000000", {OPERATIONS: ("pass", ""), TRANSFERS: ("fail", r"write: EDQUOT")} | not_saved(r"cannot write .*EDQUOT"), name="edquot under way"),
    Fault("close-enospc", "", {OPERATIONS: ("fail", r"^close: ENOSPC")} | not_saved(r"cannot close .*ENOSPC")),
    Fault("fsync-eio", "", {OPERATIONS: ("fail", r"^fsync-file: EIO"), TRANSFERS: ("fail", r"write: EIO")} | not_saved(r"cannot fsync .*EIO")),
    Fault("fsync-eio", "--match */speed-*", {OPERATIONS: ("pass", ""), TRANSFERS: ("fail", r"write: EIO")} | RELOADED, name="fsync-eio of large files"),
    Fault("fsync-directory-eio", "", {OPERATIONS: ("fail", r"^fsync-directory: EIO")} | not_saved(r"cannot fsync .*EIO")),
    Fault("read-eio", "", {OPERATIONS: ("fail", r"^read-back: EIO"), TRANSFERS: ("fail", r"read: EIO")} | not_saved(r"cannot read .*EIO")),
    # Who goes on writing has lost nothing, and that is what is to be known. O_DIRECT has no short writes: Linux makes them EIO.
    Fault("short-write", "--after 5000 --match */rank-*", {OPERATIONS: ("pass", r"write: short write, 5000 of 65536 bytes")} | RELOADED, OK),
    Fault("short-write", "--after 5000 --match */speed-1-*", {TRANSFERS: ("fail", r"write: EIO")}, name="short-write with O_DIRECT"),
    # The kernel asks once more itself.
    Fault("stale-open", "--match */nonce-* --times 4", {STALE: ("fail", r"stale file handles 0, found [1-9]"), VISIBLE: ("pass", "")}, OK),
    Fault("stale-open", "--match */nonce-*", {VISIBLE: ("fail", r"(?s)stand.*does not see the file of rank . on . \(ESTALE\)")},
          name="stale-open for ever"),
    Fault("stale-read", "", {OPERATIONS: ("fail", r"^read-back: ESTALE"), TRANSFERS: ("fail", r"read: ESTALE")} | not_saved(r"ESTALE")),
    Fault("delayed-names", "--match */nonce-* --after 3", {VISIBLE: ("pass", ""), BETWEEN: ("pass", "")}, OK),
    Fault("delayed-names", "--match */nonce-* --after 1000000",
          {OPERATIONS: ("pass", ""), VISIBLE: ("fail", r"(?s)stands apart.*does not see the file of rank . on . \(ENOENT\)")}, name="names that never come"),
    Fault("corrupt-read", "--byte 5000", {OPERATIONS: ("fail", r"^read-back: wrong-data \(byte 5000 of 65536 reads other")} | not_loaded(r"damaged: ")),
    Fault("corrupt-read", "--byte 31 --match */nonce-1", {VISIBLE: ("fail", r"(?s)stands apart.*rank 0 read other bytes than rank 1 on b wrote")},
          name="corrupt-read of another node's file"),
    Fault("corrupt-read", "--byte 4096 --match */speed-0-*", {OPERATIONS: ("pass", ""), TRANSFERS: ("fail", r"read: wrong-data")},
          name="corrupt-read of large files"),
    Fault("corrupt-read", "--byte 5000001 --match */speed-0-*", {OPERATIONS: ("pass", ""), TRANSFERS: ("fail", r"read: wrong-data \(read: byte 5000001 is")},
          name="corrupt-read in the middle of a page"),
    Fault("corrupt-write", "--byte 5000", {OPERATIONS: ("fail", r"^read-back: wrong-data \(byte 5000 of 65536 reads other")} | not_loaded(r"damaged: ")),
    Fault("truncated", "--after 10", {OPERATIONS: ("fail", r"^read-back: wrong-data \(10 bytes read of 65536 written"),
                                      TRANSFERS: ("fail", r"read: (wrong-data|short-read)")} | not_saved(r"reads back as something else")),
    Fault("lost-rename", "", {OPERATIONS: ("fail", r"^read-back: ENOENT")} | not_saved(r"cannot open .*ENOENT")),
    Fault("no-rename", "", {OPERATIONS: ("fail", r"^rename: ENOSYS")} | RELOADED | {SAVED: ("pass", r"\(in-place\)(?s:.*)rename refused: ENOSYS")}),
    Fault("no-overwrite", "", {OPERATIONS: ("fail", r"^replace: EPERM")}),
    Fault("no-delete", "", {OPERATIONS: ("fail", r"^delete: EPERM"), SAVED: ("pass", r"unlink refused: EPERM"), SAME: ("pass", ""),
                            REFUSALS: ("unknown", "not planted: ")}, leaves=r"ranks 0 and 1: \S+: EPERM"),
    Fault("no-delete", "--match */speed-*", {OPERATIONS: ("pass", ""), TRANSFERS: ("pass", "")}, LEFTOVERS, name="no-delete of large files",
          leaves=r"ranks 0 and 1: \S+: EPERM"),
    Fault("read-only", "", {OPERATIONS: ("fail", r"^create-directory: EROFS"), TRANSFERS: ("fail", r"write: EROFS")} | not_saved(r"EROFS")),
    Fault("no-direct", "", {OPERATIONS: ("pass", ""), TRANSFERS: ("pass", r"refuses direct I/O")} | RELOADED, OK),
    Fault("squashed", "", {OWNER: ("fail", r"found 65534"), OPERATIONS: ("pass", "")}, OK),
    Fault("stopped", "--after 60", {OPERATIONS: ("fail", r": EIO"), TRANSFERS: ("unknown", r"EIO")} | not_saved(r"EIO"), leaves=r"cannot be looked at: Input/output error"),
]


def told(finding):
    return "\n".join([finding["reason"]["message"] or finding["actual"], *finding["notes"]])


class StorageFaults(Case):
    def setUp(self):
        super().setUp()
        self.shared = self.dir / "shared"
        self.shared.mkdir()
        self.backing = [self.dir / "backing", self.dir / "other"]
        for directory in self.backing:
            directory.mkdir()
        self.nodes = [Node(self, "a"), Node(self, "b")]
        self.programs = Programs(self.dir / "bin", self.nodes)
        self.config = self.write("ranks.yaml", f"apiVersion: dlc-check/v1\nkind: Config\ntarget: {{type: local, ranks: 2}}\ncheckpoint: {{path: {self.shared}}}\n"
                                 "policy: {stages: [checkpoint], storage: {visibleWithinSeconds: 1, maxBytesPerRank: 8388608, metadataFiles: 50}}\n")

    def run_with(self, fault, name):
        """The finished dlc-check, its findings by rule, and how often the fault struck."""
        mounts = [FaultyMount(node, self.backing[0 if fault.shared else number], self.shared, ["--fault", fault.kind, *fault.options.split()])
                  for number, node in enumerate(self.nodes)]
        done = subprocess.run(self.programs.command("checkpoint", "-c", self.config, "--no-sign", "--format", "json", "--out", self.dir / name),
                              capture_output=True, text=True, timeout=self.patience, env=self.env)
        struck = sum(mount.unmount() for mount in mounts)
        self.assertTrue(done.stdout, done.stderr)
        table = {}
        for finding in json.loads(done.stdout)["findings"]:
            table.setdefault(finding["rule"], []).append(finding)
        return done, table, struck

    def check(self, number, fault):
        for directory in self.backing:  # what an earlier fault has left, by right or not
            shutil.rmtree(directory)
            directory.mkdir()
        done, table, struck = self.run_with(fault, f"out{number}")
        if fault.kind != "none":
            self.assertGreater(struck, 0, "the fault was not met")
        for rule, (verdict, words) in fault.says.items():
            self.assertEqual(len(table[rule]), 2 if rule in JUDGED_ON_BOTH else 1)
            for finding in table[rule]:
                self.assertEqual(finding["verdict"], verdict, finding)
                self.assertRegex(told(finding), words or "^")
        self.assertEqual(done.returncode, fault.expect, done.stderr)
        left = [entry for directory in self.backing for entry in directory.iterdir()]
        if fault.leaves:
            self.assertTrue(left)
            self.assertRegex(done.stderr, f"left behind: .*{fault.leaves}")
        else:
            self.assertEqual(left, [])
            self.assertNotIn("left behind", done.stderr)

    def test_each_fault_is_named_and_none_passes_for_health(self):
        for number, fault in enumerate(FAULTS):
            with self.subTest(fault=fault.name or fault.kind):
                self.check(number, fault)

    def test_a_file_system_that_does_not_answer_ends_by_deadline(self):
        for name, silent in (("a", 0), ("b", 1)):  # dlc-check itself is on a
            with self.subTest(node=name):
                config = self.config.read_text().replace("ranks: 2", "ranks: 2, timeoutSeconds: 3")
                config = self.write(f"silent-{name}.yaml", config)
                mounts = [FaultyMount(node, self.backing[0], self.shared) for node in self.nodes]
                process = subprocess.Popen(self.programs.command("checkpoint", "-c", config, "--no-sign", "--format", "json", "--out", self.dir / f"silent-{name}"),
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env)
                said = ""
                while "step-started storage-shared" not in said:
                    line = process.stderr.readline()
                    self.assertTrue(line, said)
                    said += line
                mounts[silent].process.send_signal(signal.SIGSTOP)
                try:
                    out, err = process.communicate(timeout=self.patience)
                finally:
                    mounts[silent].process.send_signal(signal.SIGCONT)
                self.assertEqual(process.returncode, INCOMPLETE, out + said + err)
                unknown = [finding for finding in json.loads(out)["findings"] if finding["rule"] == VISIBLE and finding["verdict"] == "unknown"]
                self.assertRegex(told(unknown[0]), r"in time|before its deadline")
                # Whoever waits there can say no more; what there is to say of the directory is said all the same.
                self.assertRegex(err, rf"left behind: rank {silent} on {name}: .*deadline")
                if silent == 0:
                    self.assertRegex(err, r"left behind: \S+ cannot be looked at: Connection timed out")
                for mount in mounts:
                    mount.unmount()

    def test_every_fault_that_can_be_planted_is_looked_for(self):
        listed = subprocess.run([os.environ["DLC_FAULTY_FS"], "--list"], capture_output=True, text=True, check=True).stdout
        kinds = {line.split(":")[0] for line in listed.splitlines()}
        self.assertGreater(len(kinds), 20)
        self.assertEqual(kinds, {fault.kind for fault in FAULTS})

    def test_a_wrong_expectation_is_seen(self):
        """The table itself can fail."""
        for says in ({OPERATIONS: ("pass", "")}, {OPERATIONS: ("fail", "EDQUOT")}):
            with self.assertRaises(AssertionError):
                self.check(len(FAULTS) + len(str(says)), Fault("fsync-eio", "", says))


def why_not():
    if not pathlib.Path(os.environ.get("DLC_FAULTY_FS", "")).is_file():
        return "built without libfuse 3"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or os.geteuid() != 0:
        return "no right to mount FUSE file systems"
    return "" if may_make_nodes() else "no right to make mount namespaces"


if __name__ == "__main__":
    if why_not():
        print(f"skipped: {why_not()}")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

"""The checkpoint stage on the file systems of one machine: ext4 on a loop device and tmpfs, as they are, full and read-only."""
import json
import os
import subprocess
import sys
import unittest

from harness import FAILED, OK, Case
from nodes import Node, Programs, may_make_nodes

SKIPPED = 77
RANKS = range(1, 8)
IMAGE_BYTES = 640 << 20  # room for what 7 ranks write, and an eighth to spare


class FileSystems(Case):
    def setUp(self):
        super().setUp()
        self.shared = self.dir / "shared"
        self.shared.mkdir()
        self.node = Node(self, "a")
        self.programs = Programs(self.dir / "bin", [self.node])
        self.runs = 0

    def checkpoint(self, ranks, expect):
        self.runs += 1
        config = self.write("ranks.yaml", f"apiVersion: dlc-check/v1\nkind: Config\ntarget: {{type: local, ranks: {ranks}}}\ncheckpoint: {{path: {self.shared}}}\n"
                            "policy: {stages: [checkpoint]}\n")
        out = self.dir / f"out{self.runs}"
        done = subprocess.run(self.programs.command("checkpoint", "-c", config, "--no-sign", "--format", "json", "--out", out),
                              capture_output=True, text=True, timeout=self.patience, env=self.env)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        table = {}
        for finding in json.loads(done.stdout)["findings"]:
            table.setdefault(finding["rule"], []).append(finding)
        seen = json.loads((out / "evidence.statement.json").read_text())["predicate"]["observations"]["checkpointRanks"]["value"]["ranks"]
        mounts = {rank["seen"]["value"]["storageShared"][0]["seen"]["value"]["mount"]["value"]["filesystem"] for rank in seen}
        self.assertEqual(self.node.run("find", self.shared, "-name", ".dlc-check-*").stdout, "")
        return table, mounts

    def any_number_of_ranks(self, filesystem):
        for ranks in RANKS:
            with self.subTest(ranks=ranks):
                table, mounts = self.checkpoint(ranks, OK)
                self.assertEqual(mounts, {filesystem})
                for rule in ("storage-shared/file-operations", "storage-speed/transfers-complete"):
                    self.assertEqual([finding["verdict"] for finding in table[rule]], ["pass"] * ranks)
                self.assertNotIn("pass", [finding["verdict"] for finding in table["storage-shared/between-nodes"]])

    def every_rank_says(self, table, words):
        for finding in table["storage-shared/file-operations"]:
            self.assertEqual(finding["verdict"], "fail")
            self.assertRegex(finding["reason"]["message"], words)

    def test_ext4(self):
        if not os.path.exists("/dev/loop-control"):
            self.skipTest("no loop devices")
        image = self.dir / "image"
        with open(image, "wb") as file:
            file.truncate(IMAGE_BYTES)
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
        self.node.run("mount", "-o", "loop", image, self.shared)
        self.any_number_of_ranks("ext4")
        self.node.run("mount", "-o", "remount,ro", self.shared)
        table, _ = self.checkpoint(2, FAILED)
        self.every_rank_says(table, "^create-directory: EROFS")
        self.node.run("umount", self.shared)

    def test_tmpfs(self):
        self.node.mount_tmpfs(self.shared)
        self.any_number_of_ranks("tmpfs")

    def test_a_full_tmpfs(self):
        self.node.run("mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", self.shared)
        table, _ = self.checkpoint(2, FAILED)
        self.every_rank_says(table, "^write: ENOSPC")

    def test_a_tmpfs_without_inodes(self):
        self.node.run("mount", "-t", "tmpfs", "-o", "nr_inodes=2", "tmpfs", self.shared)
        table, _ = self.checkpoint(2, FAILED)
        self.every_rank_says(table, "^create-directory: ENOSPC")


if __name__ == "__main__":
    if os.geteuid() != 0 or not may_make_nodes():
        print("skipped: no right to mount")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

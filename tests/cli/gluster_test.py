"""The checkpoint stage on a real network file system: GlusterFS with two bricks on a server of its own, mounted by two nodes, all
three in network and mount namespaces of their own. The daemons see private directories, and all end with the test."""
import json
import os
import shutil
import subprocess
import sys
import time
import unittest

from harness import FAILED, INCOMPLETE, OK, Case
from nodes import Network, Node, Programs, may_make_nodes

SKIPPED = 77
PATIENCE = 30  # seconds for a daemon to come up; one that needs them has failed
VOLUME = "checkpoints"


class Server:
    """glusterd and the two bricks of one volume, over which files are spread by their names; bricks are in memory."""

    def __init__(self, case, network, address):
        self.case, self.address = case, address
        self.node = Node(case, "server", network, own_processes=True)
        self.bricks = case.dir / "bricks"
        self.bricks.mkdir()
        # Nobody's but ours: its state, logs and sockets.
        for directory in ("/var/lib/glusterd", "/var/log/glusterfs", "/run", self.bricks):
            self.node.mount_tmpfs(directory)
        self.node.run("mkdir", "/run/gluster", self.bricks / "1", self.bricks / "2")
        self.daemon = self.node.start("glusterd", "--no-daemon", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        case.addCleanup(self.daemon.wait)
        case.addCleanup(self.daemon.kill)
        case.wait_until(lambda: self.gluster("volume", "list", check=False).returncode == 0, "glusterd")
        self.gluster("volume", "create", VOLUME, f"{address}:{self.bricks}/1", f"{address}:{self.bricks}/2", "force")
        self.gluster("volume", "start", VOLUME)

    def gluster(self, *arguments, check=True):
        return self.node.run("gluster", "--mode=script", *arguments, check=check)

    def kill_brick(self, number):
        self.node.run("sh", "-c", f"kill -KILL $(cat /run/gluster/vols/{VOLUME}/*-{number}.pid)")

    def kill_the_first_brick_that_is_given(self, pattern):
        """As soon as one has such a file; a process to wait for."""
        script = f"""set -- {self.bricks}/*/{pattern}
            until [ -e "$1" ]; do set -- {self.bricks}/*/{pattern}; done
            brick=${{1#{self.bricks}/}}
            kill -KILL $(cat /run/gluster/vols/{VOLUME}/*-${{brick%%/*}}.pid)"""
        killer = self.node.start("timeout", str(2 * PATIENCE), "sh", "-c", script, stderr=subprocess.PIPE)
        self.case.addCleanup(killer.communicate)
        return killer

    def start_bricks(self):
        self.gluster("volume", "start", VOLUME, "force")

    def left(self):
        return self.node.run("find", self.bricks, "-path", "*/.dlc-check-*", "-not", "-path", "*/.glusterfs/*").stdout


class Gluster(Case):
    def setUp(self):
        super().setUp()
        network = Network(self, 3)
        self.server = Server(self, network.names[0], network.addresses[0])
        self.shared = self.dir / "shared"
        self.shared.mkdir()
        self.nodes = [Node(self, name, network.names[number]) for number, name in enumerate("ab", 1)]
        self.clients = {}
        for node in self.nodes:
            self.mount(node)
        self.programs = Programs(self.dir / "bin", self.nodes, rendezvous=network.addresses[1])
        self.runs = 0

    def wait_until(self, there, what):
        end = time.monotonic() + PATIENCE
        while not there():
            self.assertLess(time.monotonic(), end, f"{what} did not come up")

    def mount(self, node):
        """Its own mount, by its own client, over its own network."""
        client = node.start("glusterfs", "--no-daemon", f"--volfile-server={self.server.address}", f"--volfile-id={VOLUME}",
                            f"--log-file={self.dir}/client-{node.name}.log", self.shared)
        self.clients[node] = client
        self.addCleanup(client.wait)
        self.addCleanup(client.kill)
        self.wait_until(lambda: node.run("mountpoint", self.shared, check=False).returncode == 0, "the mount")
        # Before the client has met a brick it would look like one that is lost.
        self.wait_until(lambda: node.run("sh", "-c", f"mkdir {self.shared}/{node.name} && rmdir {self.shared}/{node.name}", check=False).returncode == 0,
                        "the bricks")

    def unmount(self, node):
        """What is left at the path is a directory of the node's own disk."""
        node.run("umount", self.shared)
        self.clients[node].wait(timeout=PATIENCE)

    def command(self, ranks, sizes):
        self.runs += 1
        config = self.write("ranks.yaml", f"apiVersion: dlc-check/v1\nkind: Config\ntarget: {{type: local, ranks: {ranks}}}\ncheckpoint: {{path: {self.shared}}}\n"
                            f"policy: {{stages: [checkpoint], storage: {{visibleWithinSeconds: 2, filesystems: [fuse.glusterfs]{sizes}}}}}\n")
        return self.programs.command("checkpoint", "-c", config, "--no-sign", "--format", "json", "--out", self.dir / f"out{self.runs}")

    def table(self, out):
        rules = {}
        for finding in json.loads(out)["findings"]:
            rules.setdefault(finding["rule"], []).append(finding)
        return rules

    def checkpoint(self, ranks, *expect, sizes=", maxBytesPerRank: 16777216, metadataFiles: 100"):
        done = subprocess.run(self.command(ranks, sizes), capture_output=True, text=True, timeout=self.patience, env=self.env)
        self.assertIn(done.returncode, expect, done.stdout + done.stderr)
        return self.table(done.stdout), done

    def verdicts(self, table, rule):
        return {finding["verdict"] for finding in table[rule]}

    def test_any_number_of_ranks_on_two_nodes_share_it(self):
        for ranks in (1, 2, 4, 7):
            with self.subTest(ranks=ranks):
                table, done = self.checkpoint(ranks, OK)
                for rule in ("files-visible", "between-nodes"):
                    self.assertEqual(self.verdicts(table, f"storage-shared/{rule}"), {"pass"} if ranks > 1 else {"not_applicable"})
                for rule in ("storage-shared/file-operations", "storage-shared/filesystem-type", "storage-speed/transfers-complete"):
                    self.assertEqual([finding["verdict"] for finding in table[rule]], ["pass"] * ranks)
                self.assertEqual(self.verdicts(table, "storage-shared/same-mount"), {"pass"})
                for rule in ("reload/saved", "reload/same-state", "reload/other-world-sizes", "reload/refusals", "resume/losses", "resume/state"):
                    self.assertEqual(self.verdicts(table, f"checkpoint-{rule}"), {"pass"})
                how, = table["checkpoint-reload/not-cached"]
                self.assertEqual(how["verdict"], "pass")
                self.assertRegex(how["actual"], "other-node" if ranks > 1 else "direct|evicted")
                self.assertNotIn("left behind", done.stderr)
                self.assertEqual(self.server.left(), "")

    def test_a_node_without_the_mount_is_named(self):
        self.unmount(self.nodes[1])
        table, _ = self.checkpoint(4, FAILED)
        for rule in ("files-visible", "between-nodes"):
            finding, = table[f"storage-shared/{rule}"]
            self.assertEqual(finding["verdict"], "fail")
            self.assertRegex(finding["reason"]["message"], r"ranks 1 and 3 .*stand apart from ranks 0 and 2|ranks 0 and 2 .*stand apart from ranks 1 and 3")
        self.assertEqual(self.verdicts(table, "storage-shared/same-mount"), {"fail"})
        self.assertEqual([finding["verdict"] for finding in table["storage-shared/filesystem-type"]], ["pass", "fail"] * 2)
        self.assertEqual(self.server.left(), "")
        # With its mount it is as before.
        self.mount(self.nodes[1])
        self.checkpoint(4, OK)

    def test_a_lost_brick_before_the_run_is_no_pass(self):
        self.server.kill_brick(2)
        table, _ = self.checkpoint(4, FAILED)
        # Which operations meet it depends on the bricks that names fall to.
        failed = [finding["reason"]["message"] for rule in table for finding in table[rule] if finding["verdict"] == "fail"]
        self.assertRegex(" ".join(failed), r"ENOTCONN|ENOENT|EIO")

    def test_a_brick_lost_in_the_middle_is_no_pass(self):
        killer = self.server.kill_the_first_brick_that_is_given(".dlc-check-*/speed-*")
        table, done = self.checkpoint(4, FAILED, INCOMPLETE, sizes="")
        self.assertEqual(killer.wait(timeout=PATIENCE), 0)
        self.assertEqual(self.verdicts(table, "storage-shared/file-operations"), {"pass"})
        bad = [finding for finding in table["storage-speed/transfers-complete"] if finding["verdict"] != "pass"]
        self.assertTrue(bad)
        self.assertRegex(" ".join(finding["reason"]["message"] for finding in bad), "ENOTCONN")
        # What the lost brick keeps is there again with it, and was told.
        self.server.start_bricks()
        if self.server.left():
            self.assertIn("left behind", done.stderr)


def why_not():
    if shutil.which("glusterd") is None:
        return "no GlusterFS"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK) or os.geteuid() != 0:
        return "no right to mount FUSE file systems"
    return "" if may_make_nodes() and subprocess.run(["unshare", "--net", "--pid", "--fork", "true"], capture_output=True).returncode == 0 else "no right to make namespaces"


if __name__ == "__main__":
    if why_not():
        print(f"skipped: {why_not()}")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

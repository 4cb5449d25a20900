"""`target: ray`: ranks in the actors of a real Ray of two nodes, which are told of GPUs that this machine does not have. It runs where
DLC_RAY_PYTHON names a python that can import ray[default] (tests/ray/install.sh makes one) and nodes may be made (see nodes.py);
else ctest skips it.
"""
import http.client
import http.server
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from harness import DLC_CHECK, FAILED, INCOMPLETE, OK, ROOT, USAGE, Case
from nodes import Node, may_make_nodes

sys.path.insert(0, str(ROOT / "tests" / "ray"))
import real_ray  # noqa: E402

SKIPPED = 77
LEASE = 5
TOKEN = "hush-hush-0123456789abcdef0123456789abcdef"
OTHER_TOKEN = "hush-wrong-0123456789abcdef0123456789abcd"
PATIENCE = 120
HOLDER = """
import ray, sys
from ray.util import placement_group
ray.init(address="auto", log_to_driver=False, logging_level="ERROR", namespace="training")
group = placement_group([{"GPU": 1}], name="a-training-run")
ray.get(group.ready())
print("held", flush=True)
sys.stdin.read()
print(ray.util.placement_group_table(group)["state"], flush=True)
"""


def setUpModule():
    print("Ray", real_ray.ray_version(), file=sys.stderr)


class ForClass:
    """What Node wants of a test case, of a class of them."""

    def __init__(self, cls):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="dlc-check-test-"))
        cls.addClassCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.addCleanup = cls.addClassCleanup
        self.assertEqual = unittest.TestCase().assertEqual


class Cluster(Case):
    """Two nodes with a GPU each, so it is said."""
    token = None
    patience = 300

    @classmethod
    def setUpClass(cls):
        if cls.token and tuple(int(part) for part in real_ray.ray_version().split(".")[:2]) < (2, 52):
            raise unittest.SkipTest("this Ray has no tokens")
        case = ForClass(cls)
        cls.nodes = [Node(case, name) for name in ("ray-head", "ray-worker")]
        cls.head = real_ray.Head(gpus=1, token=cls.token, cpus=2, enter=cls.nodes[0].enter())
        cls.addClassCleanup(cls.head.stop)
        # What is unpacked for a job is each node's own.
        cls.nodes[1].run("mkdir", "-p", cls.head.directory)
        cls.nodes[1].mount_tmpfs(cls.head.directory)
        cls.worker = real_ray.Worker(cls.head, gpus=1, cpus=2, enter=cls.nodes[1].enter(), node_ip="127.0.0.2")
        cls.addClassCleanup(cls.worker.stop)

    def setUp(self):
        super().setUp()
        self.shared = self.dir / "shared"
        self.shared.mkdir()

    def config(self, policy="", target="", address=None, ranks=2):
        return self.write("ray.yaml", f"""apiVersion: dlc-check/v1
kind: Config
target: {{type: ray, ranks: {ranks}, leaseSeconds: {LEASE}, placement: strict-spread{target}}}
ray: {{address: '{address or self.head.address}'}}
checkpoint: {{path: {self.shared}}}
policy:
  storage: {{metadataFiles: 0, maxBytesPerRank: 4194304}}
  fsdp: {{training: {{backend: cpu, model: qwen2-tiny}}}}
  {policy}
""")

    def command(self, command, config, *more):
        return [command, "-c", config, "--no-sign", "--format", "json", "--out", self.dir / f"out{len(list(self.dir.iterdir()))}", "-v", *more]

    def look(self, command, config, expect, **env):
        """The report, and the observations of the ranks of that stage."""
        arguments = self.command(command, config)
        done = self.run_cli(*arguments, expect=expect, env=self.env | env)
        out = arguments[arguments.index("--out") + 1]
        said = done.stdout + done.stderr + "".join(path.read_text() for path in out.rglob("*") if path.is_file())
        self.assertNotIn("hush", said)
        self.seen = json.loads((out / "evidence.statement.json").read_text())["predicate"]["observations"]
        self.told = done.stderr
        return json.loads(done.stdout)

    def state(self, kind, *states):
        answer = json.loads(self.head.ask(f"/api/v0/{kind}?detail=1&limit=10000"))
        return [one for one in answer["data"]["result"]["result"] if one["state"] in states]

    def left(self):
        """What is still there of dlc-check, in a word each."""
        jobs = [job["submission_id"] for job in json.loads(self.head.ask("/api/jobs/")) if (job["submission_id"] or "").startswith("dlc-check-")]
        actors = [f"actor {one['class_name']}" for one in self.state("actors", "ALIVE", "PENDING_CREATION") if one["class_name"] == "Rank"]
        groups = [f"placement group {one['state']}" for one in self.state("placement_groups", "CREATED", "PENDING", "RESCHEDULING")
                  if one["name"] != "a-training-run"]
        processes = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
                cwd = os.readlink(entry / "cwd")
            except OSError:
                continue
            if "/working_dir_files/dlc-check-" in cwd or ("delete_job" in line and "dlc-check-" in line):
                processes.append(f"{entry.name}: {line[:120]}")
        return jobs + actors + groups + processes + [str(path) for path in self.shared.iterdir()]

    def assert_clean(self, within=0.0):
        end = time.monotonic() + within
        left = self.left()
        while left and time.monotonic() < end:
            threading.Event().wait(0.5)
            left = self.left()
        self.assertEqual(left, [], "left behind")

    def ranks(self, stage):
        ranks = self.seen[f"{stage}Ranks"]
        self.assertEqual(ranks["state"], "seen", ranks)
        return [rank["seen"] for rank in ranks["value"]["ranks"]]


class Runs(Cluster):
    def test_a_model_is_trained_and_saved_and_loaded_on_two_nodes(self):
        self.look("cluster", self.config("stages: [fsdp, checkpoint]"), OK)
        for stage in ("fsdp", "checkpoint"):
            ranks = self.ranks(stage)
            self.assertEqual({rank["state"] for rank in ranks}, {"seen"}, ranks)
            facts = [rank["value"]["facts"] for rank in ranks]
            self.assertEqual([fact.get("rank", 0) for fact in facts], [0, 1])
            self.assertEqual({fact["host"] for fact in facts}, {"ray-head", "ray-worker"})
            self.assertEqual(self.seen[f"{stage}Ranks"]["value"]["launcher"], "ray")
        self.assert_clean(within=10)


if __name__ == "__main__":
    if not real_ray.PYTHON:
        print("SKIPPED: no real Ray: set DLC_RAY_PYTHON to a python with ray[default] (bash tests/ray/install.sh DIR)")
        sys.exit(SKIPPED)
    if not may_make_nodes():
        print("SKIPPED: no right to make mount namespaces: no second node")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

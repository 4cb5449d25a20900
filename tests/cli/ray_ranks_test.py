"""`target: ray`: ranks in the actors of a real Ray of two nodes, which are told of GPUs that this machine does not have. It runs where
DLC_RAY_PYTHON names a python that can import ray[default] (tests/ray/install.sh makes one) and nodes may be made (see nodes.py);
else ctest skips it.
"""
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

from harness import DLC_CHECK, INCOMPLETE, OK, ROOT, Case
from nodes import Node, may_make_nodes

sys.path.insert(0, str(ROOT / "tests" / "ray"))
import real_ray  # noqa: E402
from relay import Relay  # noqa: E402

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
    host = "127.0.0.1"  # where the dashboard listens
    patience = 300

    @classmethod
    def setUpClass(cls):
        if cls.token and tuple(int(part) for part in real_ray.ray_version().split(".")[:2]) < (2, 52):
            raise unittest.SkipTest("this Ray has no tokens")
        case = ForClass(cls)
        cls.nodes = [Node(case, name) for name in ("ray-head", "ray-worker")]
        cls.head = real_ray.Head(gpus=1, token=cls.token, host=cls.host, cpus=2, enter=cls.nodes[0].enter())
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
        session = pathlib.Path(os.readlink(f"{self.head.directory}/t/session_latest")).name
        home = f"HOME={self.head.directory}".encode()
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
                cwd = os.readlink(entry / "cwd")
                mine = home in (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            # Another Ray of this machine may have its own. A rank's title may be written over its environment.
            if (f"/{session}/" in cwd and "/working_dir_files/dlc-check-" in cwd) or (mine and "delete_job" in line and "dlc-check-" in line):
                processes.append(f"{entry.name}: {line.strip()[:400]}")  # a path to dlc-probe is long
        return jobs + actors + groups + processes + [str(path) for path in self.shared.iterdir()]

    def assert_clean(self, within=15.0):
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

    def start_run(self, command, config):
        arguments = self.command(command, config)
        process = subprocess.Popen([str(DLC_CHECK), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.env, cwd=self.dir)
        self.addCleanup(process.kill)
        return process, arguments

    def read_until(self, process, text):
        for line in process.stderr:
            if text in line:
                return
        self.fail(f"dlc-check ended before it said '{text}'")


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
        self.assert_clean()

    def test_the_example_runs_as_it_is_written(self):
        example = ROOT / "examples" / "ray-local.yaml"
        done = self.run_cli("cluster", "-c", example, "--ray-address", self.head.address, "--no-sign", "--format", "json",
                            "--out", self.dir / "out", expect=OK)
        self.assertEqual(json.loads(done.stdout)["outcome"], "PASSED")
        self.assert_clean()

    def test_what_a_run_that_died_left_is_found_and_removed_through_ray(self):
        left = self.shared / ".dlc-check-0123456789abcdef"
        left.mkdir()
        done = self.run_cli("cleanup", "-c", self.config(target=", gpusPerRank: 0"), "--run-id", left.name[-16:], "--yes", expect=OK)
        self.assertIn("removed", done.stdout)
        self.assert_clean()

    def test_one_rank_that_dies_is_named_and_the_others_go_on(self):
        fault = ", plantedFaults: [{rank: 1, step: fsdp-layout, kind: exit-rank}]"
        self.look("fsdp", self.config(target=fault), None)
        ranks = self.ranks("fsdp")
        self.assertEqual([rank["state"] for rank in ranks], ["seen", "error"])
        self.assertIn("rank 1", json.dumps(ranks[1]))
        self.assert_clean()

    def test_an_interruption_stops_the_ranks_and_keeps_what_was_seen(self):
        process, arguments = self.start_run("fsdp", self.config())
        self.read_until(process, "step-started fsdp-layout")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, err)
        self.assert_clean()
        self.assertTrue((arguments[arguments.index("--out") + 1] / "evidence.statement.json").exists())

    def end_the_job_by(self, how):
        process, arguments = self.start_run("checkpoint", self.config())
        end = time.monotonic() + PATIENCE
        while not any(self.shared.iterdir()):  # told of before it is read: a rank's directory is what must not stay
            self.assertLess(time.monotonic(), end)
            threading.Event().wait(0.02)
        job, = [job for job in json.loads(self.head.ask("/api/jobs/")) if (job["submission_id"] or "").startswith("dlc-check-")]
        how(job)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, INCOMPLETE, err)
        self.assert_clean()
        return (arguments[arguments.index("--out") + 1] / "evidence.statement.json").read_text()

    def test_a_driver_that_is_killed_is_told_and_leaves_nothing(self):
        """Ray kills what its workers started: their ranks' own processes must clean up nevertheless."""
        told = self.end_the_job_by(lambda job: os.kill(int(job["driver_info"]["pid"]), signal.SIGKILL))
        self.assertRegex(told, "Ray's job dlc-check-[-0-9a-f]* ended as FAILED")

    def test_a_job_that_somebody_stops_leaves_nothing(self):
        told = self.end_the_job_by(lambda job: self.head.ask(f"/api/jobs/{job['submission_id']}/stop", method="POST"))
        self.assertIn('"state": "seen"', told)

    def test_a_client_that_is_killed_leaves_nothing(self):
        moments = ["starting 2 ranks", "the ranks run", "step-started storage-speed", "step-started checkpoint-load"]
        for moment in moments:
            with self.subTest(moment=moment):
                process, _ = self.start_run("checkpoint", self.config())
                self.read_until(process, moment)
                process.kill()
                process.communicate()
                self.assert_clean(within=LEASE + 60)

    def test_a_client_that_is_killed_at_any_time_leaves_nothing(self):
        seed = random.randrange(1 << 30)
        chance = random.Random(seed)
        for turn in range(10):
            with self.subTest(seed=seed, turn=turn):
                process, _ = self.start_run("checkpoint", self.config())
                try:
                    process.communicate(timeout=chance.uniform(0.2, 12))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                self.assert_clean(within=LEASE + 60)

    def test_a_busy_cluster_is_not_looked_at_and_its_holder_is_named_and_left_alone(self):
        holder = subprocess.Popen([*self.nodes[0].enter(), real_ray.PYTHON, "-c", HOLDER], env=self.head.environment | {"RAY_ADDRESS": self.head.gcs},
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.dir)
        self.addCleanup(holder.kill)
        self.assertEqual(holder.stdout.readline(), "held\n")
        report = self.look("fsdp", self.config(target=", waitSeconds: 3"), INCOMPLETE)
        ranks = self.seen["fsdpRanks"]
        self.assertEqual(ranks["state"], "not_looked_at")
        self.assertIn("GPUs are held by placement group 'a-training-run' of job", json.dumps(ranks))
        self.assertIn("(free: 1 of 2 GPU, 4 of 4 CPU)", json.dumps(ranks))
        self.assertIn("waiting for 2 places with a GPU each", self.told)
        self.assertNotIn("fail", {f["verdict"] for f in report["findings"]})
        self.assert_clean()
        # Who has none is let through meanwhile.
        self.look("fsdp", self.config(target=", gpusPerRank: 0"), OK)
        self.assertEqual(holder.communicate("", timeout=PATIENCE)[0], "CREATED\n")
        self.look("fsdp", self.config(target=", waitSeconds: 60"), OK)


class Damage(Cluster):
    def spoiled(self, change):
        """A config whose way to the dashboard has `change` made to the job's log."""
        def logs(path, data):
            return json.dumps({"logs": change(json.loads(data)["logs"])}).encode() if path.endswith("/logs") else data

        relay = Relay(self.head.port, logs)
        self.addCleanup(relay.close)
        return self.config(address=relay.address)

    def run_with(self, change):
        self.look("fsdp", self.spoiled(change), INCOMPLETE)
        told = json.dumps(self.seen["fsdpRanks"])
        self.assert_clean()
        return told

    def test_a_frame_that_is_lost_damaged_or_cut_is_refused(self):
        def frame(number, edit):
            return lambda log: re.sub(rf"(?m)^@dlc-check {number} .*\n?", edit, log)

        def flip(match):
            line = match[0]
            at = len(line) // 2
            return line[:at] + ("A" if line[at] != "A" else "B") + line[at + 1:]

        self.assertIn("frame 3 stands where frame 2 belongs", self.run_with(frame(2, "")))
        self.assertIn("the digest of frame 2 is another", self.run_with(frame(2, flip)))
        self.assertIn("frame 2 stands where frame 3 belongs", self.run_with(frame(2, lambda m: m[0] * 2)))

    def test_nothing_in_the_way_is_seen_to_pass(self):
        self.look("fsdp", self.spoiled(lambda log: "noise of Ray\n" + log), OK)


class Locked(Cluster):
    token = TOKEN

    def test_with_the_token(self):
        self.look("fsdp", self.config(), OK, RAY_AUTH_TOKEN=TOKEN)
        self.assertEqual({rank["state"] for rank in self.ranks("fsdp")}, {"seen"})
        self.assert_clean()

    def test_without_a_token(self):
        self.look("fsdp", self.config(), INCOMPLETE)
        self.assertEqual(self.seen["fsdpRanks"]["state"], "not_looked_at")
        self.assertIn("RAY_AUTH_TOKEN", json.dumps(self.seen["fsdpRanks"]))

    def test_with_a_wrong_token(self):
        self.look("fsdp", self.config(), INCOMPLETE, RAY_AUTH_TOKEN=OTHER_TOKEN)
        self.assertEqual(self.seen["fsdpRanks"]["state"], "error")
        self.assertIn("does not accept the token of RAY_AUTH_TOKEN", json.dumps(self.seen["fsdpRanks"]))

    def test_a_client_with_a_token_that_is_killed_leaves_nothing(self):
        self.env["RAY_AUTH_TOKEN"] = TOKEN
        process, _ = self.start_run("checkpoint", self.config())
        self.read_until(process, "step-started storage-shared")
        process.kill()
        process.communicate()
        self.assert_clean(within=LEASE + 60)


if __name__ == "__main__":
    if not real_ray.PYTHON:
        print("SKIPPED: no real Ray: set DLC_RAY_PYTHON to a python with ray[default] (bash tests/ray/install.sh DIR)")
        sys.exit(SKIPPED)
    if not may_make_nodes():
        print("SKIPPED: no right to make mount namespaces: no second node")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

"""`fsdp-framework` with `launcher: ray-train`: TorchTrainer of a real Ray Train trains on the two nodes of ray_ranks_test.py, on the CPU and
over Gloo. It runs where DLC_RAY_PYTHON names a python that can import ray[train] and torch, and nodes may be made; else ctest skips it.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

import ray_ranks_test
from framework_runs import RULES
from harness import FAILED, INCOMPLETE, OK, ROOT
from nodes import may_make_nodes
from ray_ranks_test import LEASE, PATIENCE, SKIPPED

sys.path.insert(0, str(ROOT / "tests" / "ray"))
import real_ray  # noqa: E402


def setUpModule():
    print("Ray", real_ray.ray_version(), file=sys.stderr)


class RayTrain(ray_ranks_test.Cluster):
    patience = 600

    def config(self, faults="", target="", engine="torch", checkpoint=True, path=None):
        plant = f", plantedFaults: [{faults}]" if faults else ""
        return self.write(f"ray{len(list(self.dir.iterdir()))}.yaml", f"""apiVersion: dlc-check/v1
kind: Config
target: {{type: ray, ranks: 2, gpusPerRank: 0, leaseSeconds: {LEASE}, placement: strict-spread{plant}{target}}}
ray: {{address: '{self.head.address}'}}
{f"checkpoint: {{path: {path or self.shared}}}" if checkpoint else ""}
policy:
  stages: [fsdp]
  fsdp:
    models: [qwen2-tiny]
    layouts: [fsdp2]
    training: {{rows: 1, sequence: 16}}
    framework: {{engine: {engine}, launcher: ray-train}}
""")

    def left(self):
        """No actor of anybody's: also Ray Train's own helpers end, but for one that Ray makes for all jobs of a cluster and keeps."""
        actors = [f"actor {one['class_name']}" for one in self.state("actors", "ALIVE", "PENDING_CREATION")
                  if one["class_name"] not in ("JobSupervisor", "_AutoscalingCoordinatorActor")]
        trainers = [entry.name for entry in pathlib.Path("/proc").glob("[0-9]*")
                    if any(name in self.command_line(entry) for name in (b"dlc_check_trainer", b"dlc_check_fit"))]
        return [one for one in super().left() if "_AutoscalingCoordinatorActor" not in one] + actors + trainers

    def command_line(self, entry):
        try:
            return (entry / "cmdline").read_bytes()
        except OSError:
            return b""

    def framework(self, config, expect):
        """(findings by rule, by rank what was seen of the step)."""
        report = self.look("fsdp", config, expect)
        steps = [rank["value"]["fsdpFramework"][0]["seen"]["value"] for rank in self.ranks("fsdp")]
        self.assertEqual({step["launcher"] for step in steps}, {"ray-train"})
        self.assert_clean()
        return {f["rule"].split("/")[1]: f for f in report["findings"] if f["check"] == "fsdp-framework"}, steps

    def verdicts(self, findings):
        return [findings[rule]["verdict"] for rule in RULES]

    def processes(self, steps, name="train"):
        return [[one for one in step["processes"] if one["name"] == name][0] for step in steps]


class Trains(RayTrain):
    def test_losses_are_the_native_engines_and_the_checkpoint_is_saved_resumed_and_inspected(self):
        process, arguments = self.start_run("fsdp", self.config())
        self.read_until(process, "TorchTrainer starts 2 workers (resume)")
        # While it is read, for it is removed at the end.
        checkpoint, = (path for path in self.shared.glob(".dlc-check-*/framework/dlc-check-*-train/**/checkpoint_*") if path.is_dir())
        kept = self.dir / "kept" / checkpoint.name
        shutil.copytree(checkpoint, kept)
        out, err = process.communicate(timeout=self.patience)
        self.assertEqual(process.returncode, OK, out + err)
        self.assert_clean()
        report = json.loads(out)
        findings = {f["rule"].split("/")[1]: f for f in report["findings"] if f["check"] == "fsdp-framework"}
        self.assertEqual(self.verdicts(findings), ["pass"] * 5)
        self.assertRegex(findings["runs"]["actual"], "^5 steps on 2 ranks, float32 over gloo, .*, under Ray Train's TorchTrainer$")
        self.assertIn(f"ray {real_ray.ray_version()}", findings["runs"]["notes"][0])
        print(findings["losses"]["actual"], findings["steps-per-second"]["actual"], findings["checkpoint"]["notes"], sep="; ", file=sys.stderr)
        statement = json.loads((arguments[arguments.index("--out") + 1] / "evidence.statement.json").read_text())
        self.seen = statement["predicate"]["observations"]
        steps = [rank["value"]["fsdpFramework"][0]["seen"]["value"] for rank in self.ranks("fsdp")]
        train, resume = self.processes(steps), self.processes(steps, "resume")
        self.assertEqual({one["host"] for one in train}, {"ray-head", "ray-worker"})
        for first, second in zip(train, resume):
            self.assertNotEqual(first["seen"]["value"]["process"], second["seen"]["value"]["process"])
            self.assertEqual([s["loss"] for s in first["seen"]["value"]["moreSteps"]], [s["loss"] for s in second["seen"]["value"]["moreSteps"]])
        self.assertEqual({f.name for f in kept.iterdir()}, {".metadata", "__0_0.distcp", "__1_0.distcp"})
        inspect = ("checkpoint", "--from-checkpoint", kept.parent, "--workers", "2", "--no-sign", "--format", "json")
        done = self.run_cli(*inspect, "--out", self.dir / "whole", expect=OK)
        complete = [f["verdict"] for f in json.loads(done.stdout)["findings"] if f["rule"] == "storage-shared/checkpoint-complete"]
        self.assertEqual(set(complete), {"pass"})
        (kept / "__1_0.distcp").unlink()
        self.run_cli(*inspect, "--out", self.dir / "partial", expect=FAILED)

    def test_deepspeed_where_it_is_there(self):
        if subprocess.run([real_ray.PYTHON, "-c", "import deepspeed"], capture_output=True, check=False).returncode != 0:
            findings, _ = self.framework(self.config(engine="deepspeed"), INCOMPLETE)
            self.assertIn("has no package 'deepspeed'", findings["runs"]["reason"]["message"])
            self.skipTest("DLC_RAY_PYTHON has no deepspeed")
        findings, _ = self.framework(self.config(engine="deepspeed"), OK)
        self.assertEqual(self.verdicts(findings), ["pass"] * 5)
        self.assertRegex(findings["runs"]["actual"], "^5 steps on 2 ranks, .*, under Ray Train's TorchTrainer$")
        print(findings["losses"]["actual"], findings["checkpoint"]["notes"], sep="; ", file=sys.stderr)

    def test_without_a_path_nothing_is_saved(self):
        findings, steps = self.framework(self.config(checkpoint=False), OK)
        self.assertEqual(self.verdicts(findings), ["pass"] * 4 + ["not_applicable"])
        self.assertEqual(list(pathlib.Path("/tmp").glob(".dlc-check-*")), [])

    def test_another_seed_and_lost_moments_are_found(self):
        seed = "{rank: 1, step: fsdp-framework, kind: wrong-seed}"
        moments = "{rank: 0, step: fsdp-framework, kind: lost-moments}"
        findings, _ = self.framework(self.config(faults=f"{seed}, {moments}"), FAILED)
        self.assertEqual(self.verdicts(findings), ["pass", "fail", "pass", "pass", "fail"])
        self.assertRegex(findings["losses"]["reason"]["message"], "^worker 1 of Ray Train on ray-")
        self.assertIn("parameters or optimizer state are not as saved on worker 0 of Ray Train", findings["checkpoint"]["reason"]["message"])


class Fails(RayTrain):
    def test_a_worker_that_dies_is_told_and_is_no_finding(self):
        for kind in ("kill", "exit"):
            with self.subTest(kind=kind):
                findings, steps = self.framework(self.config(faults=f"{{rank: 1, step: fsdp-framework, kind: {kind}}}"), INCOMPLETE)
                self.assertEqual(self.verdicts(findings), ["unknown"] * 5)
                self.assertRegex(findings["runs"]["reason"]["message"], "could not see training by the framework: worker 1 of Ray Train on ray-[a-z]*: Ray lost it")
                self.assertEqual([one["how"] for one in self.processes(steps)], ["stopped", "lost"])

    def test_a_hang_ends_at_the_deadline(self):
        config = self.config(faults="{rank: 1, step: fsdp-framework, kind: sleep}", target=", timeoutSeconds: 60")
        findings, steps = self.framework(config, INCOMPLETE)
        self.assertEqual(self.verdicts(findings), ["unknown"] * 5)
        self.assertEqual({one["how"] for one in self.processes(steps)}, {"timed-out"})

    def test_a_path_that_is_not_shared_fails(self):
        own = pathlib.Path(self.dir, "own")
        own.mkdir()
        self.nodes[1].mount_tmpfs(own)
        findings, _ = self.framework(self.config(path=own), FAILED)
        self.assertEqual(findings["runs"]["verdict"], "fail")
        self.assertRegex(findings["runs"]["reason"]["message"], "^worker . of Ray Train on ray-worker: RuntimeError: .* is not there on ray-worker")
        self.assertEqual(self.nodes[1].run("find", own, "-mindepth", "1").stdout, "")
        self.assertEqual(list(own.iterdir()), [])

    def test_a_path_that_the_driver_of_torchtrainer_has_not_got(self):
        findings, _ = self.framework(self.config(path=self.dir / "nowhere"), INCOMPLETE)
        self.assertEqual(self.verdicts(findings), ["unknown"] * 5)
        self.assertIn(f"cannot make {self.dir}/nowhere/.dlc-check-", findings["runs"]["reason"]["message"])

    def test_an_interruption_stops_it(self):
        process, arguments = self.start_run("fsdp", self.config())
        self.read_until(process, "of Ray Train: train: step 1")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 130, err)
        self.assert_clean()
        self.assertTrue((arguments[arguments.index("--out") + 1] / "evidence.statement.json").exists())

    def test_a_client_that_is_killed_leaves_nothing(self):
        for moment in ("TorchTrainer starts 2 workers (train)", "of Ray Train: train: saving the checkpoint", "of Ray Train: resume: loading"):
            with self.subTest(moment=moment):
                process, _ = self.start_run("fsdp", self.config())
                self.read_until(process, moment)
                process.kill()
                process.communicate()
                self.assert_clean(within=LEASE + 90)

    def pids_of(self, name):
        return [int(entry.name) for entry in pathlib.Path("/proc").glob("[0-9]*") if name in self.command_line(entry).split(b"\0")]

    def test_a_driver_that_is_killed_is_told_and_leaves_nothing(self):
        of_trainer = b"import dlc_check_fit; dlc_check_fit.fit()"
        for name, told in ((b"dlc_check_driver.py", "Ray's job dlc-check-[-0-9a-f]* (ended as FAILED|is gone)"),
                           (of_trainer, "worker 0 of Ray Train on ray-.*: TorchTrainer's driver was killed by SIGKILL")):
            with self.subTest(name=name):
                process, _ = self.start_run("fsdp", self.config())
                self.read_until(process, "of Ray Train: train: step 1")
                pid, = self.pids_of(name)
                os.kill(pid, signal.SIGKILL)
                out, err = process.communicate(timeout=PATIENCE)
                self.assertEqual(process.returncode, INCOMPLETE, err)
                runs, = (f for f in json.loads(out)["findings"] if f["rule"] == "fsdp-framework/runs")
                self.assertRegex(runs["reason"]["message"], told)
                self.assert_clean(within=90)


class Packages(RayTrain):
    """A torch, and a package of Ray Train's, that come first in the path of all of Ray's processes."""

    @classmethod
    def setUpClass(cls):
        cls.packages = ray_ranks_test.ForClass(cls).dir
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = str(cls.packages)
        try:
            super().setUpClass()
        finally:
            os.environ.pop("PYTHONPATH")
            if before is not None:
                os.environ["PYTHONPATH"] = before

    def plant(self, name, text):
        folder = self.packages / name
        folder.mkdir()
        self.addCleanup(shutil.rmtree, folder)
        (folder / "__init__.py").write_text(text)

    def test_a_package_that_is_missing_is_named(self):
        for name in ("torch", "pyarrow"):
            with self.subTest(name=name):
                self.plant(name, f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')\n")
                findings, _ = self.framework(self.config(), INCOMPLETE)
                self.assertEqual(self.verdicts(findings), ["unknown"] * 5)
                self.assertIn(f"the python of Ray's workers has no package '{name}'", findings["runs"]["reason"]["message"])
                self.doCleanups()
                self.setUp()

    def test_a_torch_that_does_not_load_fails(self):
        self.plant("torch", "raise ImportError('libcudart.so.13: cannot open shared object file')\n")
        findings, _ = self.framework(self.config(), FAILED)
        self.assertIn("ImportError: libcudart.so.13: cannot open shared object file; the framework or its packages",
                      findings["runs"]["reason"]["message"])


if __name__ == "__main__":
    if not real_ray.PYTHON:
        print("SKIPPED: no real Ray: set DLC_RAY_PYTHON to a python with ray[default,train] and torch (bash tests/ray/install.sh DIR)")
        sys.exit(SKIPPED)
    if subprocess.run([real_ray.PYTHON, "-c", "import ray.train.torch"], capture_output=True, check=False).returncode != 0:
        print("SKIPPED: DLC_RAY_PYTHON cannot import ray.train.torch (pip install 'ray[train]' torch)")
        sys.exit(SKIPPED)
    if not may_make_nodes():
        print("SKIPPED: no right to make mount namespaces: no second node")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

"""`fsdp-framework` with a real PyTorch on the CPU, over Gloo. It runs where DLC_TORCH_PYTHON names a python that imports torch and numpy
(`pip install torch numpy`); without it, ctest skips it."""
import json
import os
import subprocess
import struct
import sys
import unittest

from framework_runs import FrameworkCase
from harness import FAILED, INCOMPLETE, OK, ROOT

SKIPPED = 77
PYTHON = os.environ.get("DLC_TORCH_PYTHON", "")
PROGRAM = ROOT / "probes" / "node" / "framework" / "train_framework.py"


class Torch(FrameworkCase):
    def test_losses_are_the_native_engines_on_any_number_of_ranks(self):
        for ranks, strategy in [(1, "fsdp2"), (2, "fsdp2"), (4, "fsdp2"), (2, "fsdp1")]:
            with self.subTest(ranks=ranks, strategy=strategy):
                findings, steps = self.framework(OK, ranks, PYTHON, f"engine: torch, strategy: {strategy}")
                self.assertEqual(self.verdicts(findings), ["pass"] * 5)
                self.assertRegex(findings["runs"]["actual"], f"5 steps on {ranks} rank.*, float32 over gloo")
                self.assertRegex(findings["steps-per-second"]["actual"], r"steps/s, \d+ tokens/s over")
                print(f"{strategy}, {ranks} ranks: {findings['losses']['actual']}; {findings['steps-per-second']['actual']}", file=sys.stderr)
                for step in steps:
                    train, resume = (self.process(step, name) for name in ("train", "resume"))
                    self.assertNotEqual(train["seen"]["value"]["process"], resume["seen"]["value"]["process"])
                    self.assertEqual([s["loss"] for s in train["seen"]["value"]["moreSteps"]], [s["loss"] for s in resume["seen"]["value"]["moreSteps"]])

    def without_transformers(self):
        wrapper = self.write("own", f"""#!/bin/sh
exec {PYTHON} -c 'import runpy, sys
sys.modules["transformers"] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")' "$@"
""")
        wrapper.chmod(0o755)
        return wrapper

    def test_the_model_is_transformers_or_the_programs_own(self):
        findings, _ = self.framework(OK, 2, self.without_transformers(), checkpoint=False, training="rows: 2, sequence: 33, microBatches: 3, steps: 4")
        self.assertEqual(findings["losses"]["verdict"], "pass")
        self.assertIn("the model of dlc-check", findings["runs"]["actual"])
        if subprocess.run([PYTHON, "-c", "import transformers"], capture_output=True, check=False).returncode == 0:
            findings, _ = self.framework(OK, 2, PYTHON, checkpoint=False)
            self.assertEqual(findings["losses"]["verdict"], "pass")
            self.assertIn("the model of transformers", findings["runs"]["actual"])

    def test_deepspeed_where_it_is_there(self):
        if subprocess.run([PYTHON, "-c", "import deepspeed"], capture_output=True, check=False).returncode != 0:
            findings, _ = self.framework(INCOMPLETE, 1, PYTHON, "engine: deepspeed", checkpoint=False)
            self.assertIn("has no package 'deepspeed'", findings["runs"]["reason"]["message"])
            self.skipTest("DLC_TORCH_PYTHON has no deepspeed")
        findings, _ = self.framework(OK, 2, PYTHON, "engine: deepspeed")
        self.assertEqual(self.verdicts(findings), ["pass"] * 5)
        print(f"zero3, 2 ranks: {findings['losses']['actual']}", file=sys.stderr)
        findings, _ = self.framework(FAILED, 2, PYTHON, "engine: deepspeed", faults=[{"rank": rank, "step": "fsdp-framework", "kind": "lost-moments"} for rank in (0, 1)])
        self.assertEqual(self.verdicts(findings), ["pass"] * 4 + ["fail"])

    def test_another_seed_is_found(self):
        findings, _ = self.framework(FAILED, 2, PYTHON, faults=[{"rank": 1, "step": "fsdp-framework", "kind": "wrong-seed"}], checkpoint=False)
        self.assertEqual(findings["losses"]["verdict"], "fail")
        self.assertEqual(findings["runs"]["verdict"], "pass")
        self.assertIn("rank 1 on ", findings["losses"]["reason"]["message"])

    def test_an_optimizer_that_is_not_loaded_is_found(self):
        findings, _ = self.framework(FAILED, 2, PYTHON, faults=[{"rank": rank, "step": "fsdp-framework", "kind": "lost-moments"} for rank in (0, 1)])
        self.assertEqual(self.verdicts(findings), ["pass"] * 4 + ["fail"])
        self.assertIn("parameters or optimizer state are not as saved on rank 0", findings["checkpoint"]["reason"]["message"])

    def test_a_torch_that_does_not_load(self):
        """A folder of its name comes first in the path."""
        broken = self.dir / "broken" / "torch"
        broken.mkdir(parents=True)
        (broken / "__init__.py").write_text("raise ImportError('libcudart.so.13: cannot open shared object file')\n")
        wrapper = self.write("python", f'#!/bin/sh\nPYTHONPATH={broken.parent} exec {PYTHON} "$@"\n')
        wrapper.chmod(0o755)
        findings, _ = self.framework(FAILED, 2, wrapper)
        self.assertIn("ImportError: libcudart.so.13: cannot open shared object file; the framework or its packages", findings["runs"]["reason"]["message"])

    def test_one_rank_dies_in_a_collective(self):
        wrapper = self.write("python", f"""#!/bin/sh
[ "$RANK" = 1 ] || exec {PYTHON} "$@"
exec {PYTHON} -c 'import os, runpy, sys, torch.nn.utils as u
u.clip_grad_norm_ = lambda *a, **k: os.kill(os.getpid(), 11)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")' "$@"
""")
        wrapper.chmod(0o755)
        findings, steps = self.framework(FAILED, 2, wrapper)
        self.assertEqual(findings["runs"]["verdict"], "fail")
        self.assertIn("SIGSEGV", findings["runs"]["reason"]["message"])
        self.assertIn(self.process(steps[0])["how"], ("stopped", "exited"))


class Checkpoint(FrameworkCase):
    """The program by itself, as under torchrun, and its DCP checkpoint."""

    def start(self, ranks, directory, **change):
        single = lambda value: struct.unpack("f", struct.pack("f", value))[0]  # noqa: E731
        job = {"engine": "torch", "strategy": "fsdp2", "device": "cpu", "seed": 1, "weightSeed": 1, "weightSpread": 1 / 32, "rows": 1, "sequence": 16,
               "microBatches": 1, "steps": 2, "moreSteps": 1, "clipNorm": 1.0, "directory": str(directory), "timeoutSeconds": 60,
               "adam": {"rate": single(1e-3), "beta1": single(0.9), "beta2": single(0.999), "epsilon": single(1e-8), "weightDecay": single(0.01)},
               "model": {"hidden": 60, "layers": 3, "heads": 6, "kvHeads": 2, "headSize": 10, "intermediate": 148, "vocabulary": 509,
                         "ropeTheta": 10000.0, "rmsEpsilon": 1e-6, "tiedEmbedding": True}} | change
        done = subprocess.run([PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), str(PROGRAM), json.dumps(job)],
                              capture_output=True, timeout=300, cwd=self.dir, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout

    def test_it_is_inspected_as_complete_and_as_partial(self):
        directory = self.dir / "dcp"
        self.start(2, directory)
        self.assertEqual({f.name for f in directory.iterdir()}, {".metadata", "__0_0.distcp", "__1_0.distcp"})
        inspect = ("checkpoint", "--from-checkpoint", directory, "--workers", "2", "--no-sign", "--format", "json")
        done = self.run_cli(*inspect, "--out", self.dir / "whole", expect=OK)
        complete = [f for f in json.loads(done.stdout)["findings"] if f["rule"] == "storage-shared/checkpoint-complete"]
        self.assertEqual({f["verdict"] for f in complete}, {"pass"}, complete)
        (directory / "__1_0.distcp").unlink()
        done = self.run_cli(*inspect, "--out", self.dir / "partial", expect=FAILED)
        self.assertIn("fail", [f["verdict"] for f in json.loads(done.stdout)["findings"]])


if __name__ == "__main__":
    if not PYTHON or subprocess.run([PYTHON, "-c", "import torch, numpy"], capture_output=True, check=False).returncode != 0:
        print("skipped: DLC_TORCH_PYTHON names no python that imports torch and numpy")
        sys.exit(SKIPPED)
    unittest.main()

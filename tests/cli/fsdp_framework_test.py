"""`fsdp-framework` with programs in place of the image's python: what is told when the framework is not there, fails, hangs or lies.
tests/cli/fsdp_torch_test.py runs the real one."""
import json
import signal
import subprocess
import sys
import unittest

from framework_runs import FrameworkCase
from harness import DLC_CHECK, FAILED, INCOMPLETE, OK, USAGE

# Started as `python FILE JOB FD`. It is not torch: it answers in torch's place.
PROGRAM = """#!{python}
import json, os, signal, struct, sys, time
job, fd, rank = json.loads(sys.argv[2]), int(sys.argv[3]), int(os.environ["RANK"])
def frame(kind, text):
    os.write(fd, kind + struct.pack("<I", len(text)) + text.encode())
def steps(count):
    return [{{"loss": 1.0, "gradientNorm": 1.0, "finite": True, "seconds": 0.5}}] * count
def result(**change):
    facts = {{"process": os.getpid(), "ranks": int(os.environ["WORLD_SIZE"]), "versions": {{"python": "3.13.1", "torch": "2.13.0"}}, "backend": "gloo",
             "implementation": "own", "compute": "float32", "parameters": 139980, "stateHash": "saved",
             "moreSteps": steps(job["moreSteps"] if job.get("directory") else 0)}}
    if not job.get("resume"):
        facts["steps"] = steps(job["steps"])
    frame(b"R", json.dumps({{**facts, **change}}))
def hang():
    while True:
        time.sleep(60)
frame(b"P", "loading torch")
{body}
"""


class Framework(FrameworkCase):
    def program(self, body):
        path = self.write(f"python{self.runs}", PROGRAM.format(python=sys.executable, body=body))
        path.chmod(0o755)
        return path


class Faults(Framework):
    def test_a_python_without_torch_is_not_looked_at(self):
        """A real python, without what is installed beside it."""
        bare = self.write("bare", f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
        bare.chmod(0o755)
        findings, steps = self.framework(INCOMPLETE, 2, bare)
        self.assertEqual(self.verdicts(findings), ["unknown"] * 5)
        self.assertIn(f"{bare} has no package 'torch'", findings["runs"]["reason"]["message"])
        self.assertEqual(self.process(steps[1])["seen"]["value"]["missing"], "torch")
        self.assertEqual(findings["runs"]["reason"]["code"], "not-looked-at")

    def test_no_such_python(self):
        findings, _ = self.framework(INCOMPLETE, 2, self.dir / "nowhere")
        self.assertEqual(self.verdicts(findings), ["unknown"] * 5)
        self.assertIn("nowhere: No such file or directory", findings["runs"]["reason"]["message"])

    def test_one_rank_raises_and_the_others_hang(self):
        findings, steps = self.framework(FAILED, 3, self.program("if rank == 1: raise RuntimeError('no NCCL here')\nhang()"))
        self.assertEqual(self.verdicts(findings), ["fail"] + ["unknown"] * 4)
        message = findings["runs"]["reason"]["message"]
        self.assertRegex(message, "^rank 1 on .*: RuntimeError: no NCCL here; the framework or its packages: the native engine trains the same")
        raised = self.process(steps[1])
        self.assertEqual((raised["how"], raised["exitCode"], raised["lastWords"]), ("exited", 1, "RuntimeError: no NCCL here"))
        self.assertIn("Traceback (most recent call last):", raised["outputTail"])
        # The others did not wait for their deadline.
        for rank in (0, 2):
            self.assertEqual(self.process(steps[rank])["how"], "stopped")
            self.assertIn("RuntimeError: no NCCL here", self.process(steps[rank])["seen"]["error"]["message"])
            self.assertLess(self.process(steps[rank])["seconds"], 60)

    def test_one_rank_crashes(self):
        findings, steps = self.framework(FAILED, 2, self.program("if rank == 1: os.kill(os.getpid(), signal.SIGSEGV)\nhang()"))
        self.assertRegex(findings["runs"]["reason"]["message"], 
                         "^rank 1 on .*killed by SIGSEGV; last progress: loading torch.*; the framework or its packages")
        self.assertEqual(self.process(steps[1])["signalName"], "SIGSEGV")

    def test_one_rank_is_killed(self):
        """By whom is not known: no words of the framework's."""
        findings, _ = self.framework(INCOMPLETE, 2, self.program("if rank == 1: os.kill(os.getpid(), signal.SIGKILL)\nhang()"))
        self.assertEqual(self.verdicts(findings), ["unknown"] * 5)
        self.assertRegex(findings["runs"]["reason"]["message"], "rank 1 on .*killed by SIGKILL")

    def test_a_hang_ends_at_the_deadline(self):
        findings, steps = self.framework(INCOMPLETE, 2, self.program("hang()"), timeout=12)
        self.assertEqual(self.verdicts(findings), ["unknown"] * 5)
        self.assertIn("did not end before its deadline; last progress: loading torch", findings["runs"]["reason"]["message"])
        self.assertIn("timed-out", {self.process(step)["how"] for step in steps})

    def test_an_interruption_ends_it(self):
        config = self.write("c.yaml", f"""apiVersion: dlc-check/v1
kind: Config
target: {{type: local, ranks: 2}}
framework: {{python: {self.program("hang()")}}}
policy: {{stages: [fsdp], fsdp: {{models: [qwen2-tiny], layouts: [fsdp2], training: {{rows: 1, sequence: 16}}, framework: {{engine: torch}}}}}}
""")
        process = subprocess.Popen([str(DLC_CHECK), "fsdp", "-c", str(config), "--no-sign", "--out", str(self.dir / "out")],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=self.env, cwd=self.dir)
        self.addCleanup(process.kill)
        told = ""
        for line in process.stderr:
            told += line
            if "step-started fsdp-framework" in line:
                process.send_signal(signal.SIGINT)
                break
        told += process.stderr.read()
        process.stderr.close()
        self.assertEqual(process.wait(self.patience), 130, told)
        self.assertEqual(self.still_running(), [])

    def test_results_that_are_none(self):
        for body, text in [("", "exited with code 0 and no result"), ("frame(b'R', '{')", "a result that cannot be read"),
                           ("result(made='up')", "made"), ("frame(b'R', '{}')", "tells of 0 and 0 steps, and was asked for 3 and 2"),
                           ("result(ranks='two')", "ranks"), ("os.write(fd, b'R' + b'\\xff' * 8)", "over the limit")]:
            with self.subTest(body=body):
                findings, _ = self.framework(INCOMPLETE, 1, self.program(body))
                self.assertEqual(self.verdicts(findings), ["unknown"] * 5)
                self.assertIn(text, findings["runs"]["reason"]["message"])

    def test_other_losses_fail_and_are_named(self):
        findings, _ = self.framework(FAILED, 2, self.program("result()"))
        self.assertEqual(self.verdicts(findings), ["pass", "fail", "pass", "pass", "pass"])
        self.assertRegex(findings["losses"]["reason"]["message"],
                         r"^rank \d on .*, step \d: 1 and not 6\.\d+, off by 0\.8\d+, allowed 0\.0001; the framework or its packages: the native")
        self.assertEqual(findings["runs"]["notes"][0], "python 3.13.1, torch 2.13.0")
        self.assertRegex(findings["steps-per-second"]["actual"], r"^2 steps/s, 128 tokens/s over 2 ranks")

    def test_what_is_not_finite(self):
        body = "result(steps=[dict(one, finite=rank == 0, loss=0) for one in steps(job.get('steps', 0))])"
        findings, _ = self.framework(FAILED, 2, self.program(body), checkpoint=False)
        self.assertEqual(self.verdicts(findings), ["pass", "fail", "fail", "pass", "not_applicable"])
        self.assertRegex(findings["finite"]["reason"]["message"], "^rank 1 on .*, step 1")

    def test_a_checkpoint_that_does_not_come_back(self):
        for body, text in [("result(stateHash='loaded' if job.get('resume') else 'saved')",
                            "parameters or optimizer state are not as saved on rank 0"),
                           ("result(moreSteps=[dict(one, loss=1.5 if job.get('resume') else 1) for one in steps(2)])",
                            "step 4: 1.5 and not 1 in the process that saved"),
                           ("if job.get('resume'): raise ValueError('not a checkpoint')\nresult()", "ValueError: not a checkpoint")]:
            with self.subTest(body=body):
                findings, _ = self.framework(FAILED, 1, self.program(body))
                self.assertEqual(findings["checkpoint"]["verdict"], "fail")
                self.assertIn(text, findings["checkpoint"]["reason"]["message"])

    def test_a_native_engine_that_is_wrong_comes_first(self):
        plant = [{"rank": 1, "step": "fsdp-training", "kind": "wrong-average"}]
        findings, _ = self.framework(FAILED, 2, self.program("result()"), faults=plant)
        self.assertEqual(findings["losses"]["verdict"], "unknown")
        self.assertRegex(findings["losses"]["reason"]["message"],
                         r"^the native engine fails \(fsdp-training/whole-numbers: .*\) and the framework trains: impossible until explained")
        findings, _ = self.framework(FAILED, 2, self.program("raise RuntimeError('no')"), faults=plant)
        self.assertEqual(findings["runs"]["verdict"], "unknown")
        self.assertIn("the native engine fails on these ranks too (fsdp-training/whole-numbers: ", findings["runs"]["reason"]["message"])

    def test_a_rank_that_dies_in_the_step(self):
        findings, _ = self.framework(INCOMPLETE, 2, self.program("result()"), faults=[{"rank": 1, "step": "fsdp-framework", "kind": "kill"}])
        self.assertEqual(findings["runs"]["verdict"], "unknown")
        self.assertEqual(findings["losses"]["verdict"], "unknown")

    def test_too_slow(self):
        findings, _ = self.framework(FAILED, 1, self.program("result()"), "engine: torch, minStepsPerSecond: 2.5")
        self.assertEqual(findings["steps-per-second"]["verdict"], "fail")


class Policies(Framework):
    def test_none_is_asked_for_by_default(self):
        config = self.write("c.yaml", "apiVersion: dlc-check/v1\nkind: Config\ntarget: {type: local, ranks: 1}\n"
                            "policy: {stages: [fsdp], fsdp: {models: [qwen2-tiny], layouts: [fsdp2]}}\n")
        report = json.loads(self.run_cli("fsdp", "-c", config, "--no-sign", "--format", "json", "--out", self.dir / "out", expect=OK).stdout)
        finding, = [f for f in report["findings"] if f["check"] == "fsdp-framework"]
        self.assertEqual(finding["verdict"], "not_applicable")
        self.assertIn("fsdp.framework.engine: none", finding["reason"]["message"])
        more = self.write("more.yaml", "apiVersion: dlc-check/v1\nkind: Policy\nfsdp: {models: [qwen2-tiny], layouts: [fsdp2], framework: {engine: torch}}\n")
        done = self.run_cli("judge", self.dir / "out" / "evidence.statement.json", "--policy", more, "--format", "json", expect=INCOMPLETE)
        self.assertEqual(self.of(json.loads(done.stdout))["runs"]["verdict"], "unknown")

    def test_another_strategy_shows_nothing(self):
        self.framework(FAILED, 1, self.program("result()"))
        other = self.write("other.yaml", "apiVersion: dlc-check/v1\nkind: Policy\nfsdp: {models: [qwen2-tiny], layouts: [fsdp2], "
                           "training: {rows: 1, sequence: 16}, framework: {engine: torch, strategy: fsdp1}}\n")
        done = self.run_cli("judge", self.out / "evidence.statement.json", "--policy", other, "--format", "json", expect=INCOMPLETE)
        findings = self.of(json.loads(done.stdout))
        self.assertEqual(self.verdicts(findings), ["unknown"] * 5)
        self.assertIn("the policy asks for fsdp1 (fsdp.framework.strategy), and the ranks trained with fsdp2", findings["runs"]["reason"]["message"])

    def test_what_is_no_policy(self):
        for text, message in [("engine: jax", "not 'jax'"), ("engine: torch, strategy: zero3", "not 'zero3'"), ("engine: deepspeed, strategy: fsdp2", "not 'fsdp2'"),
                              ("engin: torch", "did you mean 'engine'"), ("maxLossDifference: -1", "maxLossDifference"), ("minStepsPerSecond: fast", "minStepsPerSecond")]:
            with self.subTest(text=text):
                policy = self.write("bad.yaml", f"apiVersion: dlc-check/v1\nkind: Policy\nfsdp:\n  framework: {{{text}}}\n")
                done = self.run_cli("policy", "check", policy, expect=USAGE)
                self.assertIn("bad.yaml: line 4: ", done.stderr)
                self.assertIn(message, done.stderr)
        policy = self.write("bad.yaml", "apiVersion: dlc-check/v1\nkind: Policy\nfsdp:\n  training: {measure: no}\n  framework: {engine: torch}\n")
        done = self.run_cli("policy", "check", policy, expect=USAGE)
        self.assertIn("line 5: 'fsdp.framework' cannot be compared with a native engine that does not train", done.stderr)
        self.run_cli("policy", "check", self.write("good.yaml", "apiVersion: dlc-check/v1\nkind: Policy\nfsdp:\n  framework: {engine: deepspeed}\n"), expect=OK)
        config = self.write("config.yaml", "apiVersion: dlc-check/v1\nkind: Config\nframework: {pyton: x}\n")
        self.assertIn("did you mean 'python'", self.run_cli("fsdp", "-c", config, expect=USAGE).stderr)

    def test_ray_train_needs_a_ray_and_its_python(self):
        for config, message in [
                ("target: {type: local, ranks: 2}", "c.yaml: line 3: the policy has Ray Train start the framework (fsdp.framework.launcher: "
                 "ray-train), and target local has no Ray"),
                ("target: {type: ray, ranks: 2}\nframework: {python: /opt/python}", "c.yaml: framework.python names /opt/python, and workers of Ray Train"),
                ("target: {type: ray, ranks: 2, plantedFaults: [{rank: 0, step: fsdp-framework, kind: flip-bit}]}",
                 "c.yaml: line 3: 'flip-bit' cannot be planted in 'fsdp-framework' with fsdp.framework.launcher: ray-train"),
                ("target: {type: ray, ranks: 2, plantedFaults: [{rank: 0, step: nowhere, kind: kill}]}", "fsdp-framework")]:
            with self.subTest(config=config):
                path = self.write("c.yaml", f"apiVersion: dlc-check/v1\nkind: Config\n{config}\nray: {{address: 'http://127.0.0.1:9'}}\n"
                                  "policy: {fsdp: {framework: {engine: torch, launcher: ray-train}}}\n")
                done = self.run_cli("fsdp", "-c", path, "--no-sign", "--out", self.dir / "out", expect=USAGE)
                self.assertIn(message, done.stderr)
                self.assertFalse((self.dir / "out").exists())
        # Another stage does not mind.
        path = self.write("c.yaml", "apiVersion: dlc-check/v1\nkind: Config\ntarget: {type: local, ranks: 1}\n"
                          "policy: {gpu: {devices: no}, fsdp: {framework: {engine: torch, launcher: ray-train}}}\n")
        self.assertNotEqual(self.run_cli("gpu", "-c", path, "--no-sign", "--out", self.dir / "out").returncode, USAGE)


if __name__ == "__main__":
    unittest.main()

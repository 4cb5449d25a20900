"""`dlc-check` against a real Ray, whose head is told of four GPUs on a machine that has none. It runs where DLC_RAY_PYTHON
names a python that can import ray[default] (tests/ray/install.sh makes one); without it, ctest skips it.
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

from harness import INCOMPLETE, ROOT, USAGE, Case

sys.path.insert(0, str(ROOT / "tests" / "ray"))
import real_ray  # noqa: E402

SKIPPED = 77
TOKEN = "hush-hush-0123456789abcdef0123456789abcdef"
OTHER_TOKEN = "hush-wrong-0123456789abcdef0123456789abcd"


def setUpModule():
    global VERSION
    VERSION = real_ray.ray_version()
    print("Ray", VERSION, file=sys.stderr)


def has_tokens():
    return tuple(int(part) for part in VERSION.split(".")[:2]) >= (2, 52)


class RealRay(Case):
    token = None

    @classmethod
    def setUpClass(cls):
        if cls.token and not has_tokens():
            raise unittest.SkipTest(f"Ray {VERSION} has no tokens")
        cls.head = real_ray.Head(gpus=4, token=cls.token)
        cls.addClassCleanup(cls.head.stop)
        cls.head.submit("pip-job", "python -c 'print(1)'", {
            "pip": ["transformers==4.46.3", "--extra-index-url https://ci:hush-hush@wheels.invalid/simple"],
            "env_vars": {"HF_TOKEN": "hush-hush", "FI_PROVIDER": "efa"}})

    def look(self, *flags, expect=INCOMPLETE, command="image", **env):
        """The report, and everything that the run said and wrote, in which no secret may be."""
        out = self.dir / f"out{len(list(self.dir.iterdir()))}"
        done = self.run_cli(command, *flags, "--no-sign", "--format", "json", "--out", out, "-v", expect=expect, env=self.env | env)
        said = done.stdout + done.stderr + "".join(path.read_text() for path in out.rglob("*") if path.is_file())
        self.assertNotIn("hush", said)
        if expect == USAGE:
            return done
        self.statement = json.loads((out / "evidence.statement.json").read_text())
        return json.loads(done.stdout)

    def seen(self):
        ray = self.statement["predicate"]["observations"]["ray"]
        return ray, {name: ray[name]["value"] for name in ("version", "nodes", "jobs") if ray[name]["state"] == "seen"}


class Open(RealRay):
    def check_all(self, ray, seen, authentication):
        self.assertEqual(ray["dashboard"], {"address": self.head.address + "/", "route": "address"} | ({"authentication": authentication} if authentication else {}))
        self.assertEqual(seen["version"]["rayVersion"], VERSION)
        self.assertEqual([(node["isHead"], node["alive"], node["resources"]["GPU"]) for node in seen["nodes"]], [(True, True, 4)])
        self.assertFalse(pathlib.Path("/dev/nvidia3").exists(), "this machine has the GPUs that are only declared here")
        jobs = {job["submissionId"]: job for job in seen["jobs"]}
        packages = jobs["pip-job"]["runtimeEnv"]["packages"]
        self.assertEqual([(p["name"], p["specifier"]) for p in packages[:1]], [("transformers", "==4.46.3")])
        self.assertTrue(packages[1]["isOption"])
        self.assertEqual(jobs["pip-job"]["runtimeEnv"]["envVars"], {"FI_PROVIDER": "efa", "HF_TOKEN": "(redacted)"})

    def test_every_answer_is_an_observation(self):
        self.look("--ray-address", self.head.address)
        self.check_all(*self.seen(), "disabled" if has_tokens() else "")

    def test_named_by_the_environment_and_by_the_config(self):
        self.look("-f", self.manifest(), RAY_ADDRESS=self.head.address)
        self.assertEqual(set(self.seen()[1]), {"version", "nodes", "jobs"})
        config = self.write("config.yaml", f"apiVersion: dlc-check/v1\nkind: Config\nray: {{address: '{self.head.address}'}}\n")
        self.look("-c", config, RAY_ADDRESS="http://127.0.0.1:1")
        self.assertEqual(set(self.seen()[1]), {"version", "nodes", "jobs"})

    def manifest(self):
        return self.example() / "raycluster.yaml" if not (self.dir / "example").exists() else self.dir / "example" / "raycluster.yaml"

    def test_what_is_judged_of_it(self):
        policy = self.write("policy.yaml", "apiVersion: dlc-check/v1\nkind: Policy\nray: {version: '2.1.0'}\njobPackages: {imagePackages: {transformers: 5.13.0}}\nstages: [image]\n")
        done = self.run_cli("image", "--ray-address", self.head.address, "--policy", policy, "--no-sign", "--format", "json",
                            "--out", self.dir / "judged")
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 1, done.stderr)
        told = json.dumps(report["findings"])
        self.assertIn("transformers", told)
        self.assertIn(VERSION, told)

    def test_gpus_are_said_to_be_only_declared(self):
        report = self.look("-f", self.manifest(), "--ray-address", self.head.address, command="gpu", expect=1)
        of = [f for f in report["findings"] if f["rule"] == "gpu-allocation/ray-advertises-limit"]
        # One live node that says 4: the manifest's head has none.
        head = [f for f in of if any("(head)" in note for note in f["notes"])]
        self.assertEqual([f["verdict"] for f in head], ["fail"])
        self.assertIn("declared", json.dumps(head))

    def test_addresses_that_are_no_dashboard(self):
        for address, port in ((f"ray://127.0.0.1:10001", "8265"), (self.head.gcs, "8265"), ("auto", "8265")):
            done = self.look("--ray-address", address, expect=USAGE)
            self.assertIn(port, done.stderr)
            done = self.look("-f", self.manifest(), expect=USAGE, RAY_ADDRESS=address)
            self.assertIn("RAY_ADDRESS", done.stderr)
        # GCS listens there, and speaks no HTTP/1.
        self.look("--ray-address", "http://" + self.head.gcs)
        self.assertEqual(self.seen()[1], {})


class Locked(RealRay):
    token = TOKEN

    def test_with_the_token_from_each_place(self):
        file = self.write("token", TOKEN + "\n")
        self.write(".ray/auth_token", TOKEN + "\n")
        for env in ({"RAY_AUTH_TOKEN": TOKEN}, {"RAY_AUTH_TOKEN_PATH": str(file)}, {}):
            self.look("--ray-address", self.head.address, **env)
            ray, seen = self.seen()
            self.assertEqual(ray["dashboard"]["authentication"], "token")
            self.assertEqual(set(seen), {"version", "nodes", "jobs"}, env.keys())

    def test_without_a_token(self):
        self.look("--ray-address", self.head.address)
        ray, seen = self.seen()
        self.assertEqual(seen, {})
        for name in ("version", "nodes", "jobs"):
            self.assertEqual(ray[name]["state"], "not_looked_at")
            self.assertIn("RAY_AUTH_TOKEN", json.dumps(ray[name]))

    def test_with_a_wrong_token(self):
        self.look("--ray-address", self.head.address, RAY_AUTH_TOKEN=OTHER_TOKEN)
        ray, seen = self.seen()
        self.assertEqual(seen, {})
        self.assertIn("does not accept the token of RAY_AUTH_TOKEN (403: Forbidden: Invalid authentication token)", json.dumps(ray))


if __name__ == "__main__":
    if not real_ray.PYTHON:
        print("SKIPPED: no real Ray: set DLC_RAY_PYTHON to a python with ray[default] (bash tests/ray/install.sh DIR)")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

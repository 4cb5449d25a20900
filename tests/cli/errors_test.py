"""Bad input: a clear error with file, line and remedy, exit code 2, nothing written."""
import os
import resource
import signal
import subprocess
import unittest

from harness import DLC_CHECK, EXAMPLE, NOT_WRITTEN, OK, USAGE, Case

HEAD = "apiVersion: dlc-check/v1\nkind: Policy\n"


class Policies(Case):
    def check(self, text, *needles):
        path = self.write("p.yaml", text)
        done = self.run_cli("policy", "check", path, expect=USAGE)
        self.assertEqual(done.stdout, "")
        for needle in (str(path), *needles):
            self.assertIn(needle, done.stderr)

    def test_what_is_wrong_is_named_with_its_line(self):
        self.check(HEAD + "gpu:\n  perWorkerPods: 4\n", "line 4", "perWorkerPods", "did you mean 'perWorkerPod'?")
        self.check(HEAD + "gpu: {perWorkerPod: four}\n", "line 3", "perWorkerPod")
        self.check(HEAD + "gpu: {workerPods: 1}\ngpu: {workerPods: 2}\n", "line 4", "gpu")
        self.check(HEAD + "severity: {image-digset: warn}\n", "line 3", "did you mean 'image-digest'?")
        self.check(HEAD + "severity: {image-digest: warning}\n", "line 3", "warn")
        self.check(HEAD + "severity:\n  coverage: off\n", "line 4", "'severity.coverage' cannot be 'off'", "stages")
        self.check(HEAD + "image: {digest: sha256:12}\n", "line 3", "digest")
        self.check("apiVersion: dlc-check/v9\nkind: Policy\n", "line 1", "dlc-check/v1")
        self.check(HEAD + "image: [\n", "line")
        self.check("", "holds nothing")

    def test_an_anchor_bomb_ends_early(self):
        bomb = HEAD + "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
        for i in range(1, 12):
            bomb += f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n"
        self.check(bomb, "line")

    def test_a_100_mb_file_is_refused_before_it_is_read(self):
        path = self.dir / "big.yaml"
        with open(path, "wb") as file:
            os.truncate(file.fileno(), 100 << 20)
        done = self.run_cli("policy", "check", path, expect=USAGE)
        self.assertIn("big.yaml", done.stderr)

    def test_every_example_policy_is_valid(self):
        for path in sorted(EXAMPLE.parent.rglob("*policy*.yaml")):
            with self.subTest(path=path.name):
                self.run_cli("policy", "check", path, expect=OK)


def small_files_only():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


class Inputs(Case):
    def test_nothing_is_written_after_a_bad_input(self):
        copy = self.example()
        for name, text, needle in [
            ("pods.json", '{"kind": "PodList", "items": [', "pods.json"),
            ("pods.json", '{"kind": "ConfigMapList", "items": []}', "pods.json"),
            ("raycluster.yaml", "kind: RayCluster\napiVersion: ray.io/v1\nmetadata: {name: [a]}\nspec: {}\n", "raycluster.yaml: line 3"),
            ("raycluster.yaml", "kind: RayCluster\napiVersion: ray.io/v1\nmetadata: {name: '{{ .Values.name }}'}\nspec: {}\n", "raycluster.yaml: line 3"),
            ("ray/nodes.json", "[1, 2]", "ray/nodes.json"),
            ("dlc-check.yaml", "apiVersion: dlc-check/v1\nkind: Config\nimage: {refrence: x}\n", "did you mean 'reference'?"),
            ("dlc-check.yaml", "apiVersion: dlc-check/v1\nkind: Config\nimage: {reference: 'UPPER/x:1'}\n", "line 3"),
            ("dlc-check.yaml", "apiVersion: dlc-check/v1\nkind: Config\nimage: {reference: 'x:1', manifests: [absent.yaml]}\n", "absent.yaml"),
        ]:
            with self.subTest(name=name, text=text[:40]):
                saved = (copy / name).read_text()
                (copy / name).write_text(text)
                done = self.run_cli("cluster", "-c", copy / "dlc-check.yaml", "--no-sign", "--out", self.dir / "out", expect=USAGE)
                (copy / name).write_text(saved)
                self.assertIn(needle, done.stderr)
                self.assertFalse((self.dir / "out").exists())

    def test_a_full_disk_leaves_nothing_half_written(self):
        # RLIMIT_FSIZE stands in for a full disk: the write comes back short and fails.
        out = self.dir / "out"
        done = subprocess.run([str(DLC_CHECK), "cluster", "-c", str(EXAMPLE / "dlc-check.yaml"), "--policy", str(EXAMPLE / "policy.yaml"),
                               "--only", "image,gpu,nccl", "--no-sign", "--out", str(out)], capture_output=True, text=True, env=self.env,
                              preexec_fn=small_files_only)
        self.assertEqual(done.returncode, NOT_WRITTEN, done.stderr)
        self.assertEqual([p.name for p in out.glob("*")] if out.exists() else [], [])
        self.assertIn("PASSED", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)

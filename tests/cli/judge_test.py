"""`judge`, `snapshot`, `report show`, and the published AWS manifests."""
import json
import shutil
import unittest

from harness import EXAMPLE, FAILED, INCOMPLETE, OK, TESTDATA, USAGE, Case

RUN = ["--policy", EXAMPLE / "policy.yaml", "--only", "image,gpu,nccl", "--no-sign"]


class Judge(Case):
    def test_the_same_findings_again_byte_for_byte(self):
        key, _ = self.keys()
        out = self.dir / "out"
        run = self.run_cli("cluster", "-c", EXAMPLE / "dlc-check.yaml", "--policy", EXAMPLE / "policy.yaml", "--only", "image,gpu,nccl",
                           "--sign-key", key, "--format", "json", "--out", out, expect=OK)
        for name in ["evidence.sigstore.json", "evidence.dsse.json", "evidence.statement.json"]:
            with self.subTest(name=name):
                again = self.run_cli("judge", out / name, "--format", "json", "-q", expect=OK)
                cut = lambda text: text[text.index('"findings"'):text.index('"signature"')]
                self.assertEqual(cut(again.stdout), cut(run.stdout))

    def test_another_policy_on_the_same_observations(self):
        out = self.dir / "out"
        self.run_cli("cluster", "-c", EXAMPLE / "dlc-check.yaml", *RUN, "--out", out, expect=OK)
        stricter = self.write("stricter.yaml", (EXAMPLE / "policy.yaml").read_text().replace("perWorkerPod: 4", "perWorkerPod: 8"))
        done = self.run_cli("judge", out / "evidence.statement.json", "--policy", stricter, expect=FAILED)
        self.assertIn("gpu-allocation/limit-matches-policy", done.stdout)

    def test_snapshot_then_judge_equals_a_run(self):
        run = self.run_cli("cluster", "-c", EXAMPLE / "dlc-check.yaml", *RUN, "--format", "json", "--out", self.dir / "out", expect=OK)
        shot = self.run_cli("snapshot", "-c", EXAMPLE / "dlc-check.yaml", "--out", self.dir / "shot", expect=OK)
        observations = shot.stdout.strip()
        judged = self.run_cli("judge", observations, "--policy", EXAMPLE / "policy.yaml", "--format", "json")
        table = self.findings(json.loads(run.stdout))
        other = self.findings(json.loads(judged.stdout))
        for rule in table:
            if not rule.startswith(("coverage/", "run-identity/")):
                self.assertEqual(table[rule], other[rule], rule)

    def test_a_damaged_observations_file_is_a_usage_error(self):
        self.run_cli("snapshot", "-c", EXAMPLE / "dlc-check.yaml", "--out", self.dir / "shot", expect=OK)
        text = (self.dir / "shot" / "observations.json").read_text()
        for damage in [text[:-20], text.replace('"rayVersion"', '"rayVersoin"', 1), text + "{}"]:
            path = self.write("damaged.json", damage)
            done = self.run_cli("judge", path, expect=USAGE)
            self.assertIn("damaged.json", done.stderr)

    def test_show_gives_what_was_judged_then(self):
        out = self.dir / "out"
        run = self.run_cli("cluster", "-c", EXAMPLE / "dlc-check.yaml", *RUN, "--out", out, expect=OK)
        shown = self.run_cli("report", "show", out / "evidence.statement.json", expect=OK)
        self.assertEqual(shown.stdout, run.stdout)
        for form in ["json", "junit", "ctrf", "markdown"]:
            self.assertTrue(self.run_cli("report", "show", out / "evidence.statement.json", "--format", form, expect=OK).stdout)


class PublishedManifests(Case):
    """The two manifests that AWS publishes for this image, read as they are."""

    def judge(self, manifest, *config):
        directory = self.dir / "aws"
        shutil.copytree(TESTDATA / "files" / "aws", directory, dirs_exist_ok=True)
        path = directory / "dlc-check.yaml"
        path.write_text("\n".join(["apiVersion: dlc-check/v1", "kind: Config", "image:", "  reference: oci:absent:1", f"  manifests: [{manifest}]", *config]) + "\n")
        done = self.run_cli("cluster", "-c", path, "--only", "image,gpu,nccl", "--no-sign", "--format", "json", "--out", self.dir / manifest)
        return done, json.loads(done.stdout)

    def test_the_sample_uses_a_floating_tag_and_overrides_transformers(self):
        policy = ["policy:", "  jobPackages:", "    imagePackages: {transformers: 5.13.0}"]
        done, report = self.judge("raycluster-sample.yaml", "ray:", "  runtimeEnv: job-runtime-env.json", *policy)
        self.assertEqual(done.returncode, INCOMPLETE)
        table = self.findings(report)
        self.assertIn("fail", [v for v, _ in table["image-digest/reference-pinned"]])
        self.assertIn("fail", [v for v, _ in table["job-packages/overrides-image-package"]])
        text = json.dumps(report)
        self.assertIn("train-ml-cuda", text)
        self.assertIn("4.46.3", text)
        self.assertIn("5.13.0", text)

    def test_the_release_test_manifest_has_sound_gpu_and_efa_requests(self):
        done, report = self.judge("raycluster-release-test.yaml", "policy:", "  gpu: {perWorkerPod: 4, workerPods: 2}", "  fabric: {efa: required, interfacesPerWorkerPod: 1}")
        self.assertEqual(done.returncode, INCOMPLETE)
        bad = [f for f in report["findings"] if f["verdict"] == "fail" and f["check"] in ("gpu-allocation", "fabric-ready") and f["severity"] == "required"]
        self.assertEqual(bad, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)

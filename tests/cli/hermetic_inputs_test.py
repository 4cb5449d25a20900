"""Every hermetic input of tests/testdata/files through `dlc-check`, with the exit code of the run and the worst verdict of
the rules that the input is about. What an input does not hold (Ray's own answers, jobs) is given in good health, so that
the exit code is the input's doing.
"""
import json
import unittest

from harness import FAILED, INCOMPLETE, OK, TESTDATA, Case

FILES = TESTDATA / "files"
LAYOUT = FILES / "hx01" / "layout"
INVENTED = "sha256:" + "2" * 64
WORST_FIRST = ["fail", "unknown", "pass", "not_applicable"]


class Hermetic(Case):
    def setUp(self):
        super().setUp()
        self.runs = 0

    def judge(self, stage, expect, rules, *, manifests, policy="", policy_part="", image=f"oci:{LAYOUT}:train-ml-cuda-v1.1.0", **ray):
        """`rules`: rule -> its worst verdict, "none" when it must not be judged. Paths are below FILES, unless absolute.
        `ray`: version, nodes, podVersions, jobs, runtimeEnv. Gives the report."""
        self.runs += 1
        config = ["apiVersion: dlc-check/v1", "kind: Config", f"image: {{reference: '{image}'}}",
                  f"cluster: {{manifests: {json.dumps([str(FILES / name) for name in manifests])}}}"]
        if ray:
            config += ["ray:"] + [f"  {key}: {json.dumps([str(FILES / name)] if key == 'jobs' else str(FILES / name))}" for key, name in ray.items()]
        body = (FILES / policy).read_text() if policy else "apiVersion: dlc-check/v1\nkind: Policy\n"
        flags = ["-c", self.write(f"config{self.runs}.yaml", "\n".join(config) + "\n"),
                 "--policy", self.write(f"policy{self.runs}.yaml", body + policy_part + f"stages: [{stage}]\n"), "--no-sign", "--format", "json"]
        done = self.run_cli(stage, *flags, "--out", self.dir / f"out{self.runs}")
        self.assertTrue(done.stdout, done.stderr)
        report = json.loads(done.stdout)
        table = self.findings(report)
        bad = [(f["rule"], f["verdict"], f["subject"]["name"], f["reason"]["message"]) for f in report["findings"]
               if f["severity"] == "required" and f["verdict"] in ("fail", "unknown")]
        self.assertEqual(done.returncode, expect, bad)
        worst = {rule: min((verdict for verdict, _ in table.get(rule, [])), key=WORST_FIRST.index, default="none") for rule in rules}
        self.assertEqual(worst, rules)
        self.assertEqual(report["outcome"], {OK: "PASSED", FAILED: "FAILED", INCOMPLETE: "INCOMPLETE"}[expect])
        failed = {f["rule"] for f in report["findings"] if f["verdict"] == "fail" and f["severity"] == "required"}
        # A failed run fails for the reason that the input is for, and for no other.
        self.assertLessEqual(failed, set(rules))
        return report

    def told(self, report, rule, *texts):
        text = json.dumps([f for f in report["findings"] if f["rule"] == rule])
        for needle in texts:
            self.assertIn(needle, text)


class Hx01IndexAgainstPlatformManifest(Hermetic):
    def healthy(self):
        """Of the two pods of hx01."""
        versions = [{"pod": pod, "ray": "2.58.0", "python": "3.13.2"} for pod in ("ray-head", "ray-worker-1")]
        nodes = [{"node_id": f"n{i}", "node_ip": f"10.0.0.{i + 1}", "is_head_node": i == 0, "state": "ALIVE",
                  "resources_total": {"CPU": 4.0}} for i in range(2)]
        return {"version": "hx03/version.json", "podVersions": self.write("versions.json", versions),
                "nodes": self.write("nodes.json", nodes), "jobs": "hx04/job-no-runtime-env.json"}

    def judge_pods(self, pods, expect, verdict, **more):
        return self.judge("image", expect, {"image-digest/pod-runs-accepted-digest": verdict, **more.pop("rules", {})},
                          manifests=[f"hx01/{pods}", "hx01/nodes.json"], policy="hx01/policy.yaml", **self.healthy(), **more)

    def test_index_member_and_config_name_one_image(self):
        for pods in ("pods.json", "pods-config-digest.json", "pods-prefix.json"):
            with self.subTest(pods=pods):
                self.judge_pods(pods, OK, "pass", rules={"image-digest/policy-digest-served": "pass", "image-digest/one-digest-per-cluster": "pass",
                                                        "image-digest/architecture": "pass"})

    def test_members_that_cannot_run_on_the_node_fail(self):
        for pods, word in (("pods-arm64.json", "arm64"), ("pods-attestation.json", "attestation")):
            with self.subTest(pods=pods):
                report = self.judge_pods(pods, FAILED, "fail", rules={"image-digest/policy-digest-served": "pass", "image-digest/one-digest-per-cluster": "fail"})
                self.told(report, "image-digest/pod-runs-accepted-digest", word)

    def test_without_the_registry_a_member_is_unknown_not_failed(self):
        for pods in ("pods.json", "pods-config-digest.json", "pods-prefix.json", "pods-arm64.json", "pods-attestation.json"):
            with self.subTest(pods=pods):
                self.judge_pods(pods, INCOMPLETE, "unknown", image=f"oci:{self.dir}/absent:1",
                                rules={"image-digest/policy-digest-served": "unknown", "image-digest/one-digest-per-cluster": "unknown"})


class Hx02OneTagTwoReleases(Hermetic):
    def judge_pods(self, pods, expect, rules):
        # No registry serves the invented digests.
        return self.judge("image", expect, rules, manifests=[f"hx02/{pods}"], policy="hx02/policy.yaml", image=f"oci:{self.dir}/absent:1",
                          version="hx03/version.json", podVersions="hx03/pod-versions.json", nodes="hx05/ray-nodes-head-zero.json",
                          jobs="hx04/job-no-runtime-env.json")

    def test_a_mixed_cluster_fails_and_names_both_releases(self):
        report = self.judge_pods("pods.json", FAILED, {
            "image-digest/pod-runs-accepted-digest": "pass", "image-digest/one-digest-per-cluster": "fail", "image-digest/reference-pinned": "fail",
            "image-digest/pull-policy": "fail", "image-release/known-problems": "fail", "ray-version/one-running-version": "pass"})
        self.told(report, "image-digest/one-digest-per-cluster", "v1.0", "v1.1", "ray-worker-2")

    def test_all_on_the_old_release_is_a_warning(self):
        report = self.judge_pods("pods-all-old.json", INCOMPLETE, {
            "image-digest/pod-runs-accepted-digest": "pass", "image-digest/one-digest-per-cluster": "pass", "image-digest/policy-digest-served": "unknown",
            "image-release/known-problems": "fail", "image-release/running-release-known": "pass"})
        self.told(report, "image-release/known-problems", "broadcast can hang where all-reduce passes", "v1.0")


class OfTheServedImage(Hermetic):
    """hx03 and hx04 are about what is in the image: their invented digest becomes that of the layout."""

    def served(self, name):
        index = json.loads((LAYOUT / "index.json").read_text())["manifests"][0]["digest"]
        text = (FILES / name).read_text()
        self.assertIn(INVENTED, text)
        return self.write(name, text.replace(INVENTED, index))

    def judge_image(self, expect, rules, cluster, pod_versions="pod-versions.json", **job):
        return self.judge("image", expect, rules, manifests=[self.served(f"hx03/{cluster}"), self.served("hx03/pods.json")],
                          version="hx03/version.json", podVersions=f"hx03/{pod_versions}", nodes="hx05/ray-nodes-head-zero.json", **job)


class Hx03RayVersionFieldOff(OfTheServedImage):
    def judge_versions(self, expect, rules, cluster="raycluster.yaml", pod_versions="pod-versions.json"):
        return self.judge_image(expect, rules, cluster, pod_versions, jobs="hx04/job-no-runtime-env.json")

    def test_the_field_alone_is_a_warning(self):
        report = self.judge_versions(OK, {"ray-version/spec-matches-image": "fail", "ray-version/one-running-version": "pass",
                                          "ray-version/running-matches-expected": "pass"})
        self.told(report, "ray-version/spec-matches-image", "2.57.0", "2.58.0", '"warn"')

    def test_the_same_version_passes(self):
        self.judge_versions(OK, {"ray-version/spec-matches-image": "pass", "ray-version/one-running-version": "pass"}, "raycluster-same-version.yaml")

    def test_no_version_is_no_fault(self):
        self.judge_versions(OK, {"ray-version/spec-matches-image": "not_applicable", "ray-version/one-running-version": "pass"}, "raycluster-no-version.yaml")

    def test_one_pod_with_another_ray_fails(self):
        report = self.judge_versions(FAILED, {"ray-version/one-running-version": "fail", "ray-version/running-matches-expected": "fail"},
                                     pod_versions="pod-versions-other-ray.json")
        self.told(report, "ray-version/one-running-version", "2.57.0", "ray-worker-2")

    def test_one_pod_with_another_python_fails(self):
        report = self.judge_versions(FAILED, {"ray-version/one-running-version": "fail", "ray-version/running-matches-expected": "pass"},
                                     pod_versions="pod-versions-other-python.json")
        self.told(report, "ray-version/one-running-version", "3.13.1", "ray-worker-2")


class Hx04RuntimeEnvReplacesTorch(OfTheServedImage):
    def judge_job(self, expect, rules, **job):
        return self.judge_image(expect, rules, "raycluster-same-version.yaml", **job)

    def test_torch_and_nccl_are_named_in_every_shape(self):
        for job in ("job.json", "job-pip-list.json", "job-uv.json", "job-conda.json", "job-other-spelling.json", "jobs.json"):
            with self.subTest(job=job):
                # uv: its version is an installer option; conda: another environment. Both are warnings.
                more = {"job-uv.json": "package-source-changed", "job-conda.json": "environment-replaced"}.get(job)
                rules = {"job-packages/protected-package": "fail"} | ({f"job-packages/{more}": "fail"} if more else {"job-packages/package-source-changed": "pass"})
                report = self.judge_job(FAILED, rules, jobs=f"hx04/{job}")
                self.told(report, "job-packages/protected-package", *(("Torch", "nvidia_nccl_cu13") if "spelling" in job else ("torch", "nvidia-nccl-cu13")))

    def test_the_value_of_a_token_appears_nowhere(self):
        report = self.judge_job(FAILED, {"job-packages/protected-package": "fail"}, jobs="hx04/job.json")
        self.assertIn("not-to-be-copied", (FILES / "hx04" / "job.json").read_text())
        self.assertNotIn("not-to-be-copied", json.dumps(report))
        for path in (self.dir / f"out{self.runs}").iterdir():
            self.assertNotIn("not-to-be-copied", path.read_text(), path)

    def test_another_index_is_another_source(self):
        report = self.judge_job(FAILED, {"job-packages/protected-package": "fail", "job-packages/package-source-changed": "fail"}, jobs="hx04/job-index-option.json")
        self.told(report, "job-packages/package-source-changed", "download.example.com")

    def test_an_addition_passes(self):
        for job in ({"jobs": "hx04/job-requests.json"}, {"jobs": "hx04/job-no-runtime-env.json"}, {"runtimeEnv": "hx04/runtime-env.yaml"}):
            with self.subTest(job=job):
                report = self.judge_job(OK, {"job-packages/protected-package": "pass", "job-packages/overrides-image-package": "pass"},
                                        policy_part="jobPackages: {imagePackages: {transformers: 5.13.0}}\n", **job)
                if "job-no-runtime-env" not in str(job):
                    self.told(report, "job-packages/protected-package", "adds", "requests")

    def test_without_the_images_packages_an_addition_cannot_be_told_from_an_override(self):
        self.judge_job(OK, {"job-packages/protected-package": "pass", "job-packages/overrides-image-package": "unknown"}, jobs="hx04/job-requests.json")


class Hx05HeadOffersGpus(Hermetic):
    def judge_gpus(self, expect, rules, cluster, ray_nodes):
        return self.judge("gpu", expect, rules, manifests=[f"hx05/{cluster}", "hx05/nodes.json", "hx05/pods.json"], policy="hx05/policy.yaml",
                          nodes=f"hx05/{ray_nodes}")

    def test_the_head_alone_fails(self):
        report = self.judge_gpus(FAILED, {"gpu-allocation/ray-advertises-limit": "fail", "gpu-allocation/ray-flag-stated": "fail",
                                          "gpu-allocation/head-visibility": "fail", "gpu-allocation/limit-matches-policy": "pass"},
                                 "raycluster.yaml", "ray-nodes.json")
        failed = [f for f in report["findings"] if f["rule"] == "gpu-allocation/ray-advertises-limit" and f["verdict"] == "fail"]
        self.assertEqual(len(failed), 1, failed)
        self.assertIn("head", json.dumps(failed[0]))
        self.assertIn("8", failed[0]["actual"])

    def test_a_head_that_offers_none_passes(self):
        for cluster, nodes in (("raycluster-head-zero.yaml", "ray-nodes-head-zero.json"), ("raycluster-head-zero.yaml", "ray-list-nodes.json"),
                               ("raycluster-number.yaml", "ray-nodes-head-zero.json")):
            with self.subTest(cluster=cluster, nodes=nodes):
                self.judge_gpus(OK, {"gpu-allocation/ray-advertises-limit": "pass", "gpu-allocation/ray-flag-matches-limit": "pass"}, cluster, nodes)

    def test_a_worker_that_offers_twice_its_limit_fails(self):
        report = self.judge_gpus(FAILED, {"gpu-allocation/ray-advertises-limit": "fail", "gpu-allocation/ray-flag-matches-limit": "fail"},
                                 "raycluster-worker-eight.yaml", "ray-nodes-worker-eight.json")
        self.told(report, "gpu-allocation/ray-flag-matches-limit", "8", "4")


class Hx07EfaByEnvironmentOnly(Hermetic):
    def judge_fabric(self, expect, rules, cluster, *more, policy="hx07/policy.yaml"):
        rules = {f"fabric-ready/{rule}": verdict for rule, verdict in rules.items()}
        return self.judge("nccl", expect, rules, manifests=[f"hx07/{name}" for name in (cluster, *more)], policy=policy)

    def test_the_environment_alone_fails(self):
        report = self.judge_fabric(FAILED, {"efa-limit": "fail", "provider-by-env-only": "fail"}, "raycluster.yaml", "nodes.json")
        self.told(report, "fabric-ready/provider-by-env-only", "FI_PROVIDER")

    def test_a_limit_in_the_wrong_place_fails(self):
        for cluster in ("raycluster-request-only.yaml", "raycluster-init-limit.yaml"):
            with self.subTest(cluster=cluster):
                self.judge_fabric(FAILED, {"efa-limit": "fail", "provider-by-env-only": "fail", "limit-in-ray-container": "fail"}, cluster, "nodes.json")

    def test_an_instance_type_without_efa_asks_for_none(self):
        # No required rule has anything to judge, and nothing seen is never a pass.
        report = self.judge_fabric(INCOMPLETE, {"efa-limit": "not_applicable", "type-has-efa": "fail"}, "raycluster.yaml", "nodes-no-efa.json")
        self.told(report, "fabric-ready/type-has-efa", "g6.4xlarge", '"warn"')

    def test_one_interface_of_32_is_a_warning(self):
        report = self.judge_fabric(OK, {"efa-limit": "pass", "interface-share": "fail"}, "raycluster-one-of-32.yaml", "nodes-p5.json")
        self.told(report, "fabric-ready/interface-share", "32", '"warn"')

    def test_as_it_should_be(self):
        self.judge_fabric(OK, {"efa-limit": "pass", "provider-by-env-only": "pass", "interface-share": "pass", "one-zone": "pass"},
                          "raycluster-right.yaml", "nodes.json", "pods-right.json")

    def test_two_zones_fail(self):
        report = self.judge_fabric(FAILED, {"one-zone": "fail"}, "raycluster-right.yaml", "nodes-two-zones.json", "pods-right.json")
        self.told(report, "fabric-ready/one-zone", "us-west-2a", "us-west-2b")


class Completeness(unittest.TestCase):
    def test_every_input_is_named_here(self):
        # A new file in a hermetic set must be run too, or fail here.
        text = open(__file__, encoding="utf-8").read()
        parts = {"hx01/index.json"}  # a blob of the layout, for the digest tests
        for path in sorted(FILES.glob("hx*/*")):
            name = path.relative_to(FILES).as_posix()
            if path.is_file() and name not in parts:
                self.assertIn(path.name, text, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)

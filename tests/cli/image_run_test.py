"""`dlc-check image` and `dlc-check cluster --only image` against a registry: Debian's docker-registry with images that
skopeo pushed, and a scripted one for rate limits. Every case holds the exit code, the verdict of the rule that the case
is about, and that report or stderr say what to do.
"""
import base64
import itertools
import json
import pathlib
import shutil
import socket
import tempfile
import unittest

import registry_servers as servers
from harness import FAILED, INCOMPLETE, OK, USAGE, Case

EXAMPLE_IMAGE = "registry.example/ray:train-ml-cuda-v1.1.0@sha256:9e796f746667c974421094b3b10a5572f01bd9c36795263fe7973b8d2e7eb663"
HEAD, WORKER, OTHER_WORKER = "ray-train-cluster-head-7x2kq", "ray-train-cluster-gpu-workers-worker-4fbzd", "ray-train-cluster-gpu-workers-worker-9qmtn"
USER, PASSWORD = "grace", "correct-horse:battery"
SERVED, POD, ONE, PINNED, PULL = (f"image-digest/{rule}" for rule in (
    "policy-digest-served", "pod-runs-accepted-digest", "one-digest-per-cluster", "reference-pinned", "pull-policy"))


class Shared:
    """Made once: an image, its index, a later image, and the registries that hold them."""


def labels(minor):
    return {"framework": "ray", "framework_version": "2.58.0", "dlc_major_version": "1", "dlc_minor_version": minor}


def setUpModule():
    servers.require_tools()
    directory = tempfile.mkdtemp(prefix="dlc-image-run-test-")
    unittest.addModuleCleanup(shutil.rmtree, directory)
    where = lambda name: f"{directory}/{name}"
    Shared.layout = layout = servers.Layout(where("layout"))
    env = ["PATH=/usr/bin", "DLC_CONTAINER_TYPE=training", "FI_PROVIDER=efa"]
    Shared.image, Shared.config = layout.image("amd64", labels("1"), env)
    Shared.later, _ = layout.image("amd64", labels("2"), env)
    arm64, _ = layout.image("arm64", labels("1"), env)
    Shared.arm64 = arm64
    Shared.index = layout.index([servers.on(arm64, "arm64"), servers.on(Shared.image, "amd64")])
    for descriptor, tag in ((Shared.image, "single"), (Shared.index, "index"), (Shared.later, "later")):
        layout.tag(descriptor, tag)

    def start(name, **kwargs):
        registry = servers.Registry(where(name), **kwargs)
        unittest.addModuleCleanup(registry.stop)
        return registry

    authority = servers.Authority(directory, "ca")
    Shared.ca = authority.pem
    Shared.stranger = servers.Authority(directory, "stranger").pem
    Shared.open = start("open")
    Shared.tls = start("tls", tls=authority.issue("good", "IP:127.0.0.1,DNS:localhost"))
    servers.run("htpasswd", "-Bbc", where("htpasswd"), USER, PASSWORD)
    Shared.login = start("login", auth=f"auth: {{htpasswd: {{realm: test, path: {where('htpasswd')}}}}}\n")
    Shared.open.push(layout, "single", "ray:single", "--preserve-digests")
    Shared.open.push(layout, "index", "ray:index", "--preserve-digests")
    Shared.tls.push(layout, "index", "ray:v1", "--preserve-digests")
    Shared.login.push(layout, "index", "ray:v1", "--preserve-digests", "--dest-creds", f"{USER}:{PASSWORD}")


class ImageCase(Case):
    """A cluster of a head and two workers, written anew with the digests of the case."""

    def setUp(self):
        super().setUp()
        self.runs = 0

    def cluster(self, reference, policy, runs, registry="", pull="IfNotPresent"):
        """`reference` is what the manifest asks for, `policy` the digest that the policy pins, `runs` the imageID's
        digest of head, worker and other worker. Gives the flags."""
        self.runs += 1
        copy = self.example(f"cluster{self.runs}")
        name = reference.partition("@")[0] if "@" in reference else reference.rpartition(":")[0]
        (copy / "raycluster.yaml").write_text((copy / "raycluster.yaml").read_text().replace(EXAMPLE_IMAGE, reference))
        pods = json.loads((copy / "pods.json").read_text())
        self.assertEqual([pod["metadata"]["name"] for pod in pods["items"]], [HEAD, WORKER, OTHER_WORKER])
        for pod, digest in zip(pods["items"], runs):
            spec, status = pod["spec"], pod["status"]
            for container in spec["containers"] + spec.get("initContainers", []):
                container.update(image=reference, imagePullPolicy=pull)
            for container in status["containerStatuses"] + status.get("initContainerStatuses", []):
                container.update(image=reference, imageID=f"{name}@{digest}")
        (copy / "pods.json").write_text(json.dumps(pods))
        config = (copy / "dlc-check.yaml").read_text().replace("oci:image:train-ml-cuda-v1.1.0", reference)
        if registry:
            config = config.replace("  manifests:", f"  registry: {{{registry}}}\n  manifests:", 1)
        (copy / "dlc-check.yaml").write_text(config)
        text = (copy / "policy.yaml").read_text().replace(EXAMPLE_IMAGE.partition("@")[2], policy)
        (copy / "policy.yaml").write_text(text.replace("stages: [image, gpu, nccl]", "stages: [image]"))
        return ["-c", copy / "dlc-check.yaml", "--policy", copy / "policy.yaml", "--no-sign", "--format", "json"]

    def judge(self, flags, expect, env=None):
        """The report; both commands must come to the same end."""
        tables = []
        for number, command in enumerate((["cluster", "--only", "image"], ["image"])):
            out = self.dir / f"out{self.runs}-{number}"
            done = self.run_cli(*command, *flags, "--out", out, expect=expect, env=env)
            report = json.loads(done.stdout)
            self.assertEqual(report["outcome"], {OK: "PASSED", FAILED: "FAILED", INCOMPLETE: "INCOMPLETE"}[expect])
            statement = json.loads((out / "evidence.statement.json").read_text())
            self.assertEqual(statement["predicate"]["result"], report["outcome"])
            tables.append(self.findings(report))
        self.assertEqual(*tables)
        return report

    def of(self, report, rule, subject=None):
        found = [f for f in report["findings"] if f["rule"] == rule and subject in (None, f["subject"]["name"])]
        self.assertEqual(len(found), 1, f"{rule} {subject}: {[(f['subject'], f['verdict']) for f in found]}")
        return found[0]

    def holds(self, finding, verdict, *texts):
        told = json.dumps(finding, indent=1)
        self.assertEqual(finding["verdict"], verdict, told)
        for text in texts:
            self.assertIn(text, told)

    def unseen(self, report, *texts):
        """The registry was not asked: unknown, no pass and no fail that would rest on it, and the remedy."""
        self.holds(self.of(report, SERVED), "unknown", *texts)
        self.assertTrue(self.of(report, SERVED)["hint"])
        self.assertEqual([f["rule"] for f in report["findings"] if f["verdict"] == "fail" and f["severity"] == "required"], [])
        for rule in ("image-release/labels-match-policy", "image-release/is-ray-training-image"):
            self.holds(self.of(report, rule), "unknown")


class Digests(ImageCase):
    def pinned(self, descriptor):
        return f"{Shared.open.host}/ray@{descriptor['digest']}"

    def test_a_single_manifest_pinned_by_digest(self):
        digest = Shared.image["digest"]
        # The runtime may report the manifest or, with docker's image store, the config.
        report = self.judge(self.cluster(self.pinned(Shared.image), digest, [digest, digest, Shared.config]), OK)
        self.holds(self.of(report, SERVED), "pass", digest)
        self.holds(self.of(report, POD, OTHER_WORKER), "pass", Shared.config)
        self.holds(self.of(report, ONE), "pass")
        self.holds(self.of(report, PINNED), "pass")
        self.assertEqual(report["image"]["digest"], digest)

    def test_an_index_and_its_member_name_one_image(self):
        index, member = Shared.index["digest"], Shared.image["digest"]
        for policy in (index, member, Shared.config):
            with self.subTest(policy=policy):
                report = self.judge(self.cluster(self.pinned(Shared.index), policy, [index, member, Shared.config]), OK)
                self.holds(self.of(report, SERVED), "pass", policy)
                self.holds(self.of(report, ONE), "pass")
                self.assertEqual(report["image"]["digest"], index)

    def test_the_member_of_another_architecture_fails(self):
        index, member = Shared.index["digest"], Shared.image["digest"]
        report = self.judge(self.cluster(self.pinned(Shared.index), index, [member, member, Shared.arm64["digest"]]), FAILED)
        self.holds(self.of(report, POD, OTHER_WORKER), "fail", "arm64", "delete the pod")
        self.holds(self.of(report, POD, WORKER), "pass")

    def test_a_floating_tag_that_is_right_today_passes_with_a_warning(self):
        index = Shared.index["digest"]
        flags = self.cluster(f"{Shared.open.host}/ray:index", index, [index] * 3)
        report = self.judge(flags, OK)
        self.holds(self.of(report, SERVED), "pass", index)
        self.holds(self.of(report, PINNED), "fail", '"warn"', "REPOSITORY@sha256:", "tag index can be moved")
        self.holds(self.of(report, PULL), "fail", "imagePullPolicy: Always")
        always = self.judge(self.cluster(f"{Shared.open.host}/ray:index", index, [index] * 3, pull="Always"), OK)
        self.holds(self.of(always, PINNED), "fail")

    def test_a_floating_tag_fails_where_the_policy_requires_a_digest(self):
        index = Shared.index["digest"]
        flags = self.cluster(f"{Shared.open.host}/ray:index", index, [index] * 3)
        policy = pathlib.Path(flags[3])
        policy.write_text(policy.read_text() + "severity: {image-digest/reference-pinned: required}\n")
        self.holds(self.of(self.judge(flags, FAILED), PINNED), "fail", '"required"')

    def test_a_moved_tag(self):
        first, later = Shared.image["digest"], Shared.later["digest"]
        reference = f"{Shared.open.host}/ray:moving"
        Shared.open.push(Shared.layout, "single", "ray:moving", "--preserve-digests")
        before = self.judge(self.cluster(reference, first, [first] * 3), OK)
        self.holds(self.of(before, SERVED), "pass", first)

        Shared.open.push(Shared.layout, "later", "ray:moving", "--preserve-digests")
        report = self.judge(self.cluster(reference, first, [first] * 3), FAILED)
        self.holds(self.of(report, SERVED), "fail", first, later, "if the tag moved on purpose", "image.digests of the policy")
        # The pods hold the old content, and that is what the policy wants of them.
        self.holds(self.of(report, POD, HEAD), "pass", first)

        # A pod that was created again after the move.
        report = self.judge(self.cluster(reference, first, [first, first, later]), FAILED)
        self.holds(self.of(report, POD, OTHER_WORKER), "fail", later)
        self.holds(self.of(report, ONE), "fail", first, later, OTHER_WORKER)

        # The release was reviewed and put into the policy: the pods that hold the old one are what is left to do.
        report = self.judge(self.cluster(reference, later, [first, later, later]), FAILED)
        self.holds(self.of(report, SERVED), "pass", later)
        self.holds(self.of(report, POD, HEAD), "fail", first, "delete the pod")

    def test_one_pod_on_another_digest(self):
        index, other = Shared.index["digest"], "sha256:" + "0" * 64
        report = self.judge(self.cluster(self.pinned(Shared.index), index, [index, index, other]), FAILED)
        self.holds(self.of(report, SERVED), "pass")
        self.holds(self.of(report, POD, OTHER_WORKER), "fail", other, "delete the pod")
        self.holds(self.of(report, POD, WORKER), "pass")
        self.holds(self.of(report, ONE), "fail", OTHER_WORKER, "let KubeRay create the pods again")

    def test_a_reference_that_the_registry_does_not_have(self):
        index, missing = Shared.index["digest"], "sha256:" + "5" * 64
        report = self.judge(self.cluster(f"{Shared.open.host}/ray@{missing}", index, [index] * 3), INCOMPLETE)
        self.holds(self.of(report, SERVED), "unknown", "not-found", missing)


class Unreachable(ImageCase):
    def pods(self, reference, registry=""):
        index = Shared.index["digest"]
        return self.cluster(reference, index, [index] * 3, registry)

    def test_the_registry_is_down(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))  # bound, not listening: refused
            host = f"127.0.0.1:{unused.getsockname()[1]}"
            report = self.judge(self.pods(f"{host}/ray:v1"), INCOMPLETE)
            self.unseen(report, f"connection to {host} refused", "that the registry runs")
            # What needs no registry is still judged: the pod's own word against the policy's.
            self.holds(self.of(report, POD, HEAD), "pass")
            # Without the registry a strange digest may be a member of the pinned index.
            index = Shared.index["digest"]
            report = self.judge(self.cluster(f"{host}/ray:v1", index, [index, index, Shared.image["digest"]]), INCOMPLETE)
            self.unseen(report, "refused")
            self.holds(self.of(report, POD, OTHER_WORKER), "unknown", "refused")
            self.holds(self.of(report, ONE), "unknown")

    def test_nothing_in_the_text_report_reads_as_a_pass(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            flags = self.pods(f"127.0.0.1:{unused.getsockname()[1]}/ray:v1")[:-2]
            done = self.run_cli("image", *flags, "--out", self.dir / "text", expect=INCOMPLETE)
        text = " ".join(done.stdout.split())
        self.assertIn(f"UNKNOWN {SERVED} subject image reference under test", text)
        self.assertIn("hint check host and port, and that the registry runs", text)
        self.assertIn("INCOMPLETE: 0 failed", done.stdout)

    def test_401_and_the_login_that_mends_it(self):
        reference = f"{Shared.login.host}/ray:v1"
        report = self.judge(self.pods(reference), INCOMPLETE)
        self.unseen(report, "permission-denied", Shared.login.host, "docker login")

        def login(password):
            auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
            self.write(".docker/config.json", {"auths": {Shared.login.host: {"auth": auth}}})
            return auth

        wrong = login("SECRET-wrong")
        report = self.judge(self.pods(reference), INCOMPLETE)
        self.unseen(report, "permission-denied", "credentials used: auths in", str(self.dir / ".docker/config.json"))
        right = login(PASSWORD)
        report = self.judge(self.pods(reference), OK)
        self.holds(self.of(report, SERVED), "pass")
        # Neither password is in anything that a run wrote.
        written = [p for p in self.dir.rglob("*") if p.is_file() and p.parent.name.startswith("out")]
        self.assertTrue(written)
        for path in written:
            for secret in (PASSWORD, "SECRET-wrong", wrong, right):
                self.assertNotIn(secret, path.read_text(), path)

    def scripted(self, answer):
        server = servers.Fake(answer)
        self.addCleanup(server.stop)
        return server

    def test_429_that_passes(self):
        image = servers.image_routes(Shared.layout, Shared.index)
        turns = itertools.count()

        def at_the_second_request(request):
            # Each of the two runs asks for the tag anew, and is first told to wait.
            if request["path"].endswith("/manifests/v1") and next(turns) % 2 == 0:
                return servers.Reply(429, b"", {"Retry-After": "1"})
            return image(request)

        server = self.scripted(at_the_second_request)
        report = self.judge(self.pods(f"{server.host}/app:v1", "plainHttp: true"), OK)
        self.holds(self.of(report, SERVED), "pass", Shared.index["digest"])
        self.assertEqual(server.paths().count("/v2/app/manifests/v1"), 4)  # refused and served, in each of two runs

    def test_429_that_does_not_pass(self):
        busy = {"errors": [{"code": "TOOMANYREQUESTS", "message": "rate exceeded"}]}
        # Longer than the run may take: no use in waiting for it.
        later = self.scripted(lambda _: servers.Reply(429, busy, {"Retry-After": "3600"}))
        report = self.judge(self.pods(f"{later.host}/app:v1", "plainHttp: true"), INCOMPLETE)
        self.unseen(report, "429", "Retry-After: 3600", "rate exceeded")
        self.assertEqual(len(later.requests), 2)  # one in each of two runs
        # No word of when: asked again until the time is over.
        always = self.scripted(lambda _: servers.Reply(429, busy))
        report = self.judge(self.pods(f"{always.host}/app:v1", "plainHttp: true, timeoutSeconds: 1"), INCOMPLETE)
        self.unseen(report, "429", "TOOMANYREQUESTS")
        self.assertGreater(len(always.requests), 2)

    def test_the_wrong_authority_and_the_right_one(self):
        reference = f"{Shared.tls.host}/ray:v1"
        report = self.judge(self.pods(reference), INCOMPLETE)
        self.unseen(report, "certificate authority that is not trusted", "CA file")
        report = self.judge(self.pods(reference, f"ca: {Shared.stranger}"), INCOMPLETE)
        self.unseen(report, "not trusted", f"CA file in use is '{Shared.stranger}'")
        report = self.judge(self.pods(reference, f"ca: {Shared.ca}"), OK)
        self.holds(self.of(report, SERVED), "pass", Shared.index["digest"])

    def test_a_ca_file_that_is_none_is_a_usage_error(self):
        for content in ("", "not a certificate\n"):
            ca = self.write("ca.pem", content)
            done = self.run_cli("image", *self.pods(f"{Shared.tls.host}/ray:v1", f"ca: {ca}"), "--out", self.dir / "none", expect=USAGE)
            self.assertEqual(done.stdout, "")
            self.assertIn(str(ca), done.stderr)
            self.assertFalse((self.dir / "none").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)

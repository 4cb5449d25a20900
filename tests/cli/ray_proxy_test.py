#!/usr/bin/env python3
"""Ray's dashboard through the service proxy of a real kube-apiserver. Needs KUBEBUILDER_ASSETS (a directory with etcd and
kube-apiserver) and an address beside loopback, which Kubernetes takes no endpoint at; else this exits 77, as ctest's skips do.
The dashboard is one that answers what a real Ray 2.58 did and, where DLC_RAY_PYTHON names a python that has a Ray
(tests/ray/install.sh), that Ray itself."""
import base64
import ipaddress
import json
import re
import socket
import sys
import time
import unittest

import kube_server
from harness import EXAMPLE, ROOT, Case
from kube_server import NAMESPACE, KubeServer
from ray_faults_test import JOBS, MODE, NODES, TOKEN, VERSION, recorded
from registry_servers import Fake, Reply

sys.path.insert(0, str(ROOT / "tests" / "ray"))
import real_ray  # noqa: E402

SERVICE = "ray-train-cluster-head-svc"
SKIPPED = 77


def own_address():
    """An address of this machine that is not loopback, or None. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = one.getsockname()[0]
    return None if ipaddress.ip_address(address).is_loopback else address


class Behind(Case):
    """A live cluster whose head's dashboard listens on this machine, at `port`."""

    @classmethod
    def start(cls, port):
        cls.port = port
        cls.server = KubeServer()
        cls.addClassCleanup(cls.server.close)
        cls.server.start()
        cls.server.namespace()
        cls.server.create(f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters", (EXAMPLE / "raycluster.yaml").read_bytes(),
                          {"state": "ready", "head": {"serviceName": SERVICE}}, "application/yaml")
        # The proxy goes to addresses of pods alone.
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        cls.server.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "head", "namespace": NAMESPACE},
                                 "spec": {"containers": [{"name": "ray-head", "image": "x"}]}},
                          {"phase": "Running", "podIP": own_address(), "podIPs": [{"ip": own_address()}]})
        cls.serve("dashboard")

    @classmethod
    def serve(cls, port_name, port=None):
        """A headless service, as KubeRay makes it."""
        services, endpoints = (f"/api/v1/namespaces/{NAMESPACE}/{kind}" for kind in ("services", "endpoints"))
        for path in (services, endpoints):
            cls.server.request("DELETE", f"{path}/{SERVICE}")
        metadata = {"name": SERVICE, "namespace": NAMESPACE}
        cls.server.create(services, {"apiVersion": "v1", "kind": "Service", "metadata": metadata,
                                     "spec": {"clusterIP": "None", "ports": [{"name": port_name, "port": 8265, "targetPort": port or cls.port}]}})
        cls.server.create(endpoints, {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata,
                                      "subsets": [{"addresses": [{"ip": own_address(), "targetRef": {"kind": "Pod", "name": "head", "namespace": NAMESPACE}}],
                                                   "ports": [{"name": port_name, "port": port or cls.port}]}]})

    def look(self, user="admin", config=None, **env):
        out = self.dir / f"out{len(list(self.dir.iterdir()))}"
        done = self.run_cli("image", "--kubeconfig", config or self.server.kubeconfig(user), "--image", f"oci:{EXAMPLE / 'image'}", "--no-sign",
                            "--format", "json", "--out", out, "-v", env=self.env | env)
        said = done.stdout + done.stderr + "".join(path.read_text() for path in out.rglob("*") if path.is_file())
        for secret in ("hush", base64.b64encode(TOKEN.encode()).decode(), self.server.token(user)):
            self.assertNotIn(secret, said)
        self.said = said
        return json.loads((out / "evidence.statement.json").read_text())["predicate"]["observations"]["ray"]

    def states(self, ray):
        return {ray[name]["state"] for name in ("version", "nodes", "jobs")}


class Proxied(Behind):
    @classmethod
    def setUpClass(cls):
        cls.locked = False
        cls.dashboard = Fake(cls.answer, bind=own_address())
        cls.addClassCleanup(cls.dashboard.stop)
        cls.start(cls.dashboard.port)

    @classmethod
    def answer(cls, request):
        path = request["path"]
        if path not in (MODE, VERSION, NODES, JOBS):
            return Reply(404, b"404: Not Found", {"Content-Type": "text/plain"})
        if path != MODE and cls.locked and request["headers"].get("X-Ray-Authorization") != f"Bearer {TOKEN}":
            return Reply(401, b"Unauthorized: Missing authentication token", {"Content-Type": "text/plain"})
        return recorded(path, cls.locked)

    def look(self, *arguments, **options):
        self.dashboard.requests.clear()
        return super().look(*arguments, **options)

    def test_the_head_services_dashboard(self):
        ray = self.look()
        self.assertEqual(self.states(ray), {"seen"}, ray)
        self.assertEqual(ray["version"]["value"]["rayVersion"], "2.58.0")
        self.assertEqual(ray["dashboard"]["route"], "service-proxy")
        self.assertIn(f"/namespaces/{NAMESPACE}/services/http:{SERVICE}:dashboard/proxy", ray["dashboard"]["address"])
        self.assertEqual([r["path"] for r in self.dashboard.requests], [MODE, VERSION, NODES, JOBS])
        self.assertEqual(self.dashboard.requests[2]["query"], {"detail": ["1"], "limit": ["10000"]})
        # What the API server is shown stays there.
        self.assertNotIn(self.server.token("admin"), str(self.dashboard.requests))

    def test_a_port_of_another_name(self):
        self.serve("dash")
        self.addCleanup(self.serve, "dashboard")
        self.assertEqual(self.states(self.look()), {"seen"})

    def test_rays_token(self):
        type(self).locked = True
        self.addCleanup(setattr, type(self), "locked", False)
        self.assertEqual(self.states(self.look(RAY_AUTH_TOKEN=TOKEN)), {"seen"})
        self.assertEqual([TOKEN in str(r["headers"]) for r in self.dashboard.requests], [False, True, True, True])
        ray = self.look()
        self.assertEqual(self.states(ray), {"not_looked_at"})
        self.assertIn("RAY_AUTH_TOKEN", json.dumps(ray))

    def test_a_viewer_without_the_right(self):
        ray = self.look("viewer")
        self.assertEqual(self.states(ray), {"not_looked_at"})
        self.assertEqual(self.dashboard.requests, [])

    def test_no_head_service(self):
        self.server.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/services/{SERVICE}")
        self.addCleanup(self.serve, "dashboard")
        ray = self.look()
        self.assertEqual(self.states(ray), {"error"})
        self.assertIn(f"has no service '{SERVICE}'", json.dumps(ray))

    def test_a_given_address_is_asked_in_its_place(self):
        ray = self.look(RAY_ADDRESS=f"http://{self.dashboard.host}")
        self.assertEqual(ray["dashboard"]["route"], "address")
        self.assertEqual(self.states(ray), {"seen"})

    def test_a_401_of_ray_is_no_word_on_the_login_to_kubernetes(self):
        type(self).locked = True
        self.addCleanup(setattr, type(self), "locked", False)
        runs = self.dir / "runs"
        answer = json.dumps({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"token": self.server.token("admin")}})
        self.write("plugin", f"#!/bin/sh\necho x >>{runs}\necho '{answer}'\n").chmod(0o755)
        config = self.server.kubeconfig(name="plugin.kubeconfig", exec={"command": str(self.dir / "plugin"), "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"})
        ray = self.look(config=config, RAY_AUTH_TOKEN="another-" + TOKEN)
        self.assertEqual(self.states(ray), {"error"})
        self.assertIn("does not accept the token of RAY_AUTH_TOKEN (401", json.dumps(ray))
        self.assertEqual(runs.read_text(), "x\n")


class Live(Behind):
    """A real Ray: what it makes of the headers that a real proxy leaves, and the proxy of its answers."""

    token = None

    @classmethod
    def setUpClass(cls):
        if not real_ray.PYTHON:
            raise unittest.SkipTest("no real Ray (DLC_RAY_PYTHON): only recorded answers stood behind the proxy")
        cls.version = real_ray.ray_version()
        if cls.token and tuple(int(part) for part in cls.version.split(".")[:2]) < (2, 52):
            raise unittest.SkipTest(f"Ray {cls.version} has no tokens")
        cls.head = real_ray.Head(gpus=4, token=cls.token, host=own_address())
        cls.addClassCleanup(cls.head.stop)
        cls.head.submit("pip-job", "python -c 'print(1)'", {"pip": ["transformers==4.46.3"], "env_vars": {"HF_TOKEN": "hush-hush", "FI_PROVIDER": "efa"}})
        cls.start(cls.head.port)

    def assert_all_seen(self, ray):
        self.assertEqual(self.states(ray), {"seen"}, ray)
        self.assertEqual(ray["dashboard"]["route"], "service-proxy")
        self.assertIn(f"/namespaces/{NAMESPACE}/services/http:{SERVICE}:dashboard/proxy", ray["dashboard"]["address"])
        self.assertEqual(ray["version"]["value"]["rayVersion"], self.version)
        self.assertEqual([(node["isHead"], node["alive"], node["resources"]["GPU"]) for node in ray["nodes"]["value"]], [(True, True, 4)])
        job = {job["submissionId"]: job for job in ray["jobs"]["value"]}["pip-job"]
        self.assertEqual([(p["name"], p["specifier"]) for p in job["runtimeEnv"]["packages"]], [("transformers", "==4.46.3")])
        self.assertEqual(job["runtimeEnv"]["envVars"], {"FI_PROVIDER": "efa", "HF_TOKEN": "(redacted)"})


class LiveOpen(Live):
    def test_a_real_dashboard(self):
        self.assert_all_seen(self.look())

    def test_a_viewer_without_the_right(self):
        self.assertEqual(self.states(self.look("viewer")), {"not_looked_at"})

    def test_the_dashboard_goes(self):
        self.serve("dashboard", port=kube_server.free_ports(1)[0])
        self.addCleanup(self.serve, "dashboard")
        ray = self.look()
        self.assertEqual(self.states(ray), {"error"})
        self.assertIn("--ray-address http://127.0.0.1:8265", json.dumps(ray))


class LiveLocked(Live):
    token = TOKEN

    def test_rays_token_through_the_proxy(self):
        ray = self.look(RAY_AUTH_TOKEN=TOKEN)
        self.assert_all_seen(ray)
        self.assertEqual(ray["dashboard"]["authentication"], "token")

    def test_rays_token_from_the_clusters_secret(self):
        """As KubeRay 1.5.1 makes it. The printed role with --ray-cluster is enough, and without that rule the Secret stays closed."""
        clusters, secrets = f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters/ray-train-cluster", f"/api/v1/namespaces/{NAMESPACE}/secrets"
        patch = lambda value: self.server.request("PATCH", clusters, {"spec": {"authOptions": value}}, content_type="application/merge-patch+json")
        self.assertEqual(patch({"mode": "token"})[0], 200)
        self.addCleanup(patch, None)
        self.server.create(secrets, {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "ray-train-cluster", "namespace": NAMESPACE}, "stringData": {"auth_token": TOKEN}})
        self.addCleanup(self.server.request, "DELETE", f"{secrets}/ray-train-cluster")
        self.assert_all_seen(self.look())
        self.assertEqual(self.states(self.look("viewer")), {"not_looked_at"})
        printed = self.run_cli("manifest", "rbac", "-n", NAMESPACE, "--only", "image", "--ray-cluster", "ray-train-cluster", expect=0).stdout
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        for document in printed.split("\n---\n"):
            kind = re.search(r"^kind: (\w+)$", document, re.M).group(1)
            if kind == "ServiceAccount":
                continue
            document = document.replace("kind: ServiceAccount", "kind: User\n  apiGroup: rbac.authorization.k8s.io").replace(f"  name: dlc-check\n  namespace: {NAMESPACE}", "  name: viewer") if kind.endswith("Binding") else document
            path = {"Role": f"{rbac}/namespaces/{NAMESPACE}/roles", "RoleBinding": f"{rbac}/namespaces/{NAMESPACE}/rolebindings", "ClusterRole": f"{rbac}/clusterroles", "ClusterRoleBinding": f"{rbac}/clusterrolebindings"}[kind]
            made = self.server.create(path, document.encode(), content_type="application/yaml")
            self.addCleanup(self.server.request, "DELETE", f"{path}/{made['metadata']['name']}")
            if kind == "Role":
                role, roles = made, path
        self.await_review("secrets", True)
        self.assert_all_seen(self.look("viewer"))
        less = {**role, "rules": [rule for rule in role["rules"] if rule["resources"] != ["secrets"]]}
        self.assertEqual(len(less["rules"]), len(role["rules"]) - 1)
        less["metadata"].pop("resourceVersion")
        self.assertEqual(self.server.request("PUT", f"{roles}/{role['metadata']['name']}", less)[0], 200)
        self.await_review("secrets", False)
        ray = self.look("viewer")
        self.assertEqual(self.states(ray), {"not_looked_at"})
        self.assertIn("needs get on secrets 'ray-train-cluster'", json.dumps(ray))

    def await_review(self, resource, allowed):
        """The server's authorizer follows its own watch: ask until it has seen the change."""
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                  "spec": {"user": "viewer", "resourceAttributes": {"verb": "get", "resource": resource, "name": "ray-train-cluster", "namespace": NAMESPACE}}}
        until = time.monotonic() + 30
        while self.server.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)[1]["status"]["allowed"] != allowed:
            self.assertLess(time.monotonic(), until, "the right did not change")

    def test_without_rays_token(self):
        ray = self.look()
        self.assertEqual(self.states(ray), {"not_looked_at"})
        self.assertIn("RAY_AUTH_TOKEN", json.dumps(ray))

    def test_with_a_wrong_token(self):
        ray = self.look(RAY_AUTH_TOKEN="another-" + TOKEN)
        self.assertEqual(self.states(ray), {"error"})
        self.assertIn("does not accept the token of RAY_AUTH_TOKEN (403: Forbidden: Invalid authentication token)", json.dumps(ray))


if __name__ == "__main__":
    if not kube_server.available() or own_address() is None:
        print("SKIPPED: no real kube-apiserver (KUBEBUILDER_ASSETS), or no address but loopback")
        sys.exit(SKIPPED)
    unittest.main()

#!/usr/bin/env python3
"""dlc-check against a real kube-apiserver. Needs KUBEBUILDER_ASSETS (a directory with etcd and kube-apiserver); without it
this exits 77, which ctest counts as skipped and tests/skipped.sh names."""
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import unittest

import kube_server
from harness import EXAMPLE, FAILED, INCOMPLETE, OK, ROOT, TESTDATA, USAGE
from kube_faults_test import MEGABYTE, KubeCase
from kube_server import NAMESPACE, RBAC, KubeServer

RAY = "/apis/ray.io/v1/namespaces"
SERVER = None


def setUpModule():
    global SERVER
    SERVER = KubeServer()
    try:
        SERVER.start()
        SERVER.namespace()
        SERVER.create(f"{RAY}/{NAMESPACE}/rayclusters", (EXAMPLE / "raycluster.yaml").read_bytes(),
                      {"state": "ready", "head": {"serviceName": "ray-train-cluster-head-svc"}}, "application/yaml")
        for node in json.loads((EXAMPLE / "nodes.json").read_text())["items"]:
            SERVER.create_node(node)
        for pod in json.loads((EXAMPLE / "pods.json").read_text())["items"]:
            SERVER.create(f"/api/v1/namespaces/{NAMESPACE}/pods", pod, pod["status"])
    except BaseException:
        SERVER.close()
        raise


def tearDownModule():
    SERVER.close()


def without_sources(value):
    """What was seen, apart from where it was written and what the server alone knows."""
    if isinstance(value, dict):
        return {key: without_sources(item) for key, item in value.items() if key not in ("source", "uid")}
    return [without_sources(item) for item in value] if isinstance(value, list) else value


class Reads(KubeCase):
    def test_an_admin_sees_what_kubectl_saves(self):
        report, *_ = self.look(SERVER.kubeconfig())
        saved = []
        for path in (f"{RAY}/{NAMESPACE}/rayclusters", f"/api/v1/namespaces/{NAMESPACE}/pods", "/api/v1/nodes"):
            saved.append(self.write(f"{path.rsplit('/', 1)[1]}.json", SERVER.request("GET", path)[1]))
        files = [argument for path in saved for argument in ("-f", path)]
        done = self.run_cli("cluster", "--only", "image,gpu,nccl", "--image", f"oci:{EXAMPLE / 'image'}", *files, "--policy", EXAMPLE / "policy.yaml", "--no-sign",
                            "--format", "json", "--out", self.dir / "files", expect=INCOMPLETE)
        of_files = json.loads((self.dir / "files" / "evidence.statement.json").read_text())["predicate"]["observations"]["cluster"]
        for name in ("rayClusters", "pods", "nodes"):
            self.assertEqual(without_sources(self.observation(name)), without_sources(of_files[name]), name)
        verdicts = lambda findings: {rule: found for rule, found in self.findings(findings).items() if not rule.startswith("run-identity/")}
        self.assertEqual(verdicts(report), verdicts(json.loads(done.stdout)))
        api = self.observation("apiServer")
        self.assertEqual(api["context"], "test")
        self.assertEqual({one["path"].rsplit("/", 1)[1]: one.get("objects", 0) for one in api["lists"]}, {"rayclusters": 1, "rayjobs": 0, "pods": 3, "nodes": 3})

    def test_both_manifests_that_aws_publishes(self):
        for name in ("raycluster-sample", "raycluster-release-test"):
            with self.subTest(name=name):
                SERVER.namespace(name)
                text = re.sub(r"namespace: [\w-]+", f"namespace: {name}", (TESTDATA / "files" / "aws" / f"{name}.yaml").read_text())
                made = SERVER.create(f"{RAY}/{name}/rayclusters", text.encode(), {"state": "ready"}, "application/yaml")
                self.look(SERVER.kubeconfig(), "-n", name, expect=FAILED)  # there is no operator, so there are no pods
                cluster = self.observation("rayClusters")["value"][0]
                self.assertEqual(cluster["name"], made["metadata"]["name"])
                self.assertEqual(cluster["workers"][0]["rayStartParams"]["num-gpus"], "4")
                self.assertEqual(self.observation("pods"), {"state": "seen", "value": []})

    def test_a_namespace_without_a_raycluster_is_a_usage_error(self):
        done = self.run_cli("cluster", "--kubeconfig", SERVER.kubeconfig(), "-n", "default", "--no-sign", expect=USAGE)
        self.assertIn("no RayCluster in namespace default", done.stderr)

    def test_a_thousand_nodes(self):
        node = json.loads((EXAMPLE / "nodes.json").read_text())["items"][1]
        SERVER.create_all([("/api/v1/nodes", {**node, "metadata": {**node["metadata"], "name": f"many-{i}"}}, None) for i in range(1000)])
        try:
            _, _, peak = self.look(SERVER.kubeconfig())
            self.assertEqual(len(self.observation("nodes")["value"]), 1003)
            self.assertEqual([one["pages"] for one in self.observation("apiServer")["lists"] if one["path"] == "/api/v1/nodes"], [3])
            self.assertLess(peak, 200 * MEGABYTE)
        finally:
            for i in range(1000):
                SERVER.request("DELETE", f"/api/v1/nodes/many-{i}")


class Rights(KubeCase):
    def apply(self, text, namespace=NAMESPACE):
        made = SERVER.apply(text, namespace)
        self.addCleanup(lambda: [SERVER.request("DELETE", f"{path}/{one['metadata']['name']}") for path, one in made])
        return made

    def test_a_viewer_without_rights_is_told_each(self):
        report, err, *_ = self.look(SERVER.kubeconfig("viewer"))
        self.assertEqual({name: self.observation(name)["why"]["reason"] for name in ("rayClusters", "pods", "nodes")},
                         {"rayClusters": "needs list on rayclusters.ray.io in namespace ray-train", "pods": "needs list on pods in namespace ray-train", "nodes": "needs list on nodes"})
        self.assertEqual([rule for rule, found in self.findings(report).items() if any(verdict == "fail" for verdict, _ in found)], [])
        self.assertIn("dlc-check manifest rbac", err)

    def test_the_printed_rights_are_enough_and_each_is_needed(self):
        made = self.apply(self.run_cli("manifest", "rbac", "--namespace", NAMESPACE, "--only", "image,gpu,nccl", expect=OK).stdout)
        config = SERVER.kubeconfig("account", token=SERVER.account_token("dlc-check"))
        where = {"rayclusters": "rayClusters", "pods": "pods", "nodes": "nodes"}
        seen = lambda: {name: self.observation(name)["state"] for name in where.values()}
        ray = lambda: json.loads((self.out / "evidence.statement.json").read_text())["predicate"]["observations"]["ray"]
        jobs = lambda: ray()["jobObjects"]["state"]
        # Those of resource.k8s.io are for pods with resource claims: below.
        rules = [one for one in SERVER.await_rights("dlc-check", made) if one[2]["apiGroups"] != ["resource.k8s.io"]]
        self.assertEqual(len(rules), 5)
        whole, *_ = self.look(config)
        self.assertEqual(set(seen().values()), {"seen"})
        self.assertEqual(jobs(), "seen")
        # The proxy was tried: behind it there is nothing here. tests/cli/ray_proxy_test.py has a dashboard there.
        self.assertIn("has no service 'ray-train-cluster-head-svc'", json.dumps(ray()["version"]["error"]))
        for path, role, rule in rules:
            resource = rule["resources"][0]
            with self.subTest(rule=rule), SERVER.without_right("dlc-check", path, role, rule):
                self.look(config)
                expected = {name: "not_looked_at" if name == where.get(resource) else "seen" for name in where.values()}
                self.assertEqual(seen(), expected)
                self.assertEqual(jobs(), "not_looked_at" if resource == "rayjobs" else "seen")
                # Without the RayCluster nobody knows the dashboard's service.
                self.assertEqual(ray()["version"]["state"], "not_looked_at" if resource in ("services/proxy", "rayclusters") else "error")
                if resource == "services/proxy":
                    self.assertEqual(ray()["version"]["why"]["reason"], f"needs get on services/proxy in namespace {NAMESPACE}")
        self.assertTrue(whole)

    def test_the_rights_to_resource_claims_are_needed_where_a_pod_has_some(self):
        """This server is too old to have resource.k8s.io: CRDs stand for its kinds, so that what is shown here is the way to them and
        the rights, and no DRA. The objects are made after the types of resource.k8s.io/v1."""
        name = "claims"
        SERVER.namespace(name)
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for kind, scope in (("ResourceSlice", "Cluster"), ("ResourceClaim", "Namespaced")):
            plural = kind.lower() + "s"
            SERVER.create(crds, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                                 "metadata": {"name": f"{plural}.resource.k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
                                 "spec": {"group": "resource.k8s.io", "scope": scope, "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": kind + "List"},
                                          "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}})
            self.addCleanup(SERVER.request, "DELETE", f"{crds}/{plural}.resource.k8s.io")
        slices, claims = "/apis/resource.k8s.io/v1/resourceslices", f"/apis/resource.k8s.io/v1/namespaces/{name}/resourceclaims"
        SERVER.await_answer(slices)
        SERVER.await_answer(claims)
        SERVER.create(slices, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "gpu-1-gpus"},
                               "spec": {"driver": "gpu.nvidia.com", "nodeName": "gpu-1", "pool": {"name": "gpu-1", "generation": 1, "resourceSliceCount": 1},
                                        "devices": [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}]}})
        SERVER.create(claims, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "worker-gpus", "namespace": name},
                               "status": {"allocation": {"devices": {"results": [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": "gpu-1", "device": "gpu-0"}]}}}})
        cluster = json.loads(json.dumps(SERVER.request("GET", f"{RAY}/{NAMESPACE}/rayclusters/ray-train-cluster")[1]))
        cluster["metadata"] = {"name": "by-claim", "namespace": name}
        template = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]
        template["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]
        template["containers"][0]["resources"]["claims"] = [{"name": "gpus"}]
        SERVER.create(f"{RAY}/{name}/rayclusters", cluster, {"state": "ready"})
        made = self.apply(self.run_cli("manifest", "rbac", "--namespace", name, "--only", "image,gpu,nccl", expect=OK).stdout, name)
        config = SERVER.kubeconfig("by-claim", token=SERVER.account_token("dlc-check", name), namespace=name)
        rules = SERVER.await_rights("dlc-check", made, of=name)
        states = lambda: {kind: self.observation("dra")[kind]["state"] for kind in ("slices", "claims")}
        # There are no pods, which is a finding.
        self.look(config, expect=FAILED)
        self.assertEqual(states(), {"slices": "seen", "claims": "seen"})
        self.assertEqual(self.observation("dra")["slices"]["value"][0]["devices"], [{"name": "gpu-0", "kind": "gpu"}])
        self.assertEqual(self.observation("dra")["claims"]["value"][0]["devices"][0]["device"], "gpu-0")
        for path, role, rule in rules:
            if rule["apiGroups"] != ["resource.k8s.io"]:
                continue
            with self.subTest(rule=rule), SERVER.without_right("dlc-check", path, role, rule, of=name):
                self.look(config, expect=FAILED)
                missing = rule["resources"][0].removeprefix("resource")
                self.assertEqual(states(), {kind: "not_looked_at" if kind == missing else "seen" for kind in ("slices", "claims")})
                self.assertIn(f"needs list on resource{missing}.resource.k8s.io", self.observation("dra")[missing]["why"]["reason"])

    def test_fewer_stages_ask_for_fewer_rights(self):
        text = self.run_cli("manifest", "rbac", "--only", "checkpoint", "-n", "other", expect=OK).stdout
        self.assertIn('resources: ["rayclusters"]', text)
        self.assertNotIn("nodes", text.split("rules:", 1)[1])
        self.assertNotIn("ClusterRole", text)
        self.assertNotIn("services", text)
        self.assertNotIn("services", self.run_cli("manifest", "rbac", "--only", "nccl", expect=OK).stdout)
        ranks = self.run_cli("manifest", "rbac", "--only", "nccl", "--ranks", expect=OK).stdout
        for verb in ("get", "create", "update", "delete"):
            self.assertIn(f'  resources: ["services/proxy"]\n  verbs: ["{verb}"]\n', ranks)
        self.assertNotIn("It reads", ranks)
        self.assertIn('resources: ["services/proxy"]', self.run_cli("manifest", "rbac", "--only", "gpu", expect=OK).stdout)


class Jobs(KubeCase):
    """The restricted Pod Security Standard (kubernetes.io/docs/concepts/security/pod-security-standards), as far as it
    speaks of what a Job of ours may hold."""

    VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}

    def breaches(self, pod):
        found = []
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            found += [key] if pod.get(key) else []
        found += [f"volume {volume['name']}" for volume in pod.get("volumes", []) if not set(volume) - {"name"} <= self.VOLUMES]
        whole = pod.get("securityContext", {})
        for container in pod["containers"] + pod.get("initContainers", []):
            own = container.get("securityContext", {})
            get = lambda key: own.get(key, whole.get(key))
            found += ["runAsNonRoot"] if get("runAsNonRoot") is not True else []
            found += ["runAsUser"] if get("runAsUser") == 0 else []
            found += ["seccompProfile"] if (get("seccompProfile") or {}).get("type") not in ("RuntimeDefault", "Localhost") else []
            found += ["allowPrivilegeEscalation"] if own.get("allowPrivilegeEscalation") is not False else []
            found += ["capabilities"] if own.get("capabilities", {}).get("drop") != ["ALL"] or own["capabilities"].get("add") else []
            found += ["readOnlyRootFilesystem"] if own.get("readOnlyRootFilesystem") is not True else []
            found += ["privileged"] if own.get("privileged") else []
            found += ["hostPort"] if any(port.get("hostPort") for port in container.get("ports", [])) else []
        return found

    def job(self, *arguments):
        text = self.run_cli("manifest", "job", *arguments, expect=OK).stdout
        code, made = SERVER.request("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs?dryRun=All", text.encode(), content_type="application/yaml")
        self.assertEqual(code, 201, made)
        return made

    def test_the_job_is_accepted_and_restricted(self):
        made = self.job("--image", "registry.example/dlc-check:1", "--only", "image,gpu")
        pod = made["spec"]["template"]["spec"]
        self.assertEqual(self.breaches(pod), [])
        self.assertEqual((made["spec"]["backoffLimit"], pod["restartPolicy"], pod["serviceAccountName"]), (0, "Never", "dlc-check"))
        self.assertIn({"name": "evidence", "persistentVolumeClaim": {"claimName": "dlc-check-evidence"}}, pod["volumes"])
        for change, breach in [
            (lambda p: p["securityContext"].pop("runAsNonRoot"), "runAsNonRoot"),
            (lambda p: p["securityContext"].pop("seccompProfile"), "seccompProfile"),
            (lambda p: p["containers"][0]["securityContext"].pop("allowPrivilegeEscalation"), "allowPrivilegeEscalation"),
            (lambda p: p["containers"][0]["securityContext"].pop("capabilities"), "capabilities"),
            (lambda p: p["containers"][0]["securityContext"].pop("readOnlyRootFilesystem"), "readOnlyRootFilesystem"),
            (lambda p: p["volumes"].append({"name": "x", "hostPath": {"path": "/"}}), "volume x"),
        ]:
            changed = json.loads(json.dumps(pod))
            change(changed)
            self.assertEqual(self.breaches(changed), [breach])

    def test_the_plain_pods_of_the_example_are_accepted(self):
        kinds = []
        for text in (ROOT / "examples" / "env" / "pods.yaml").read_text().split("\n---\n"):
            kinds.append(re.search("^kind: (.*)$", text, re.MULTILINE).group(1))
            path = f"/api/v1/namespaces/{NAMESPACE}/{kinds[-1].lower()}s?dryRun=All&fieldValidation=Strict"
            code, made = SERVER.request("POST", path, text.encode(), content_type="application/yaml")
            self.assertEqual(code, 201, made)
        self.assertEqual(kinds, ["Service", "ConfigMap", "Pod", "Pod"])

    def test_its_command_gates_by_exit_code_and_takes_a_policy(self):
        container = self.job("--only", "image,gpu")["spec"]["template"]["spec"]["containers"][0]
        programs = self.dir / "bin"
        self.write("bin/dlc-check", '#!/bin/sh\nprintf "%s\\n" "$@"\nexit 3\n').chmod(0o755)
        env = {**self.env, "PATH": f"{programs}:{self.env['PATH']}", "POD_NAME": "dlc-check-abc"}
        done = subprocess.run(container["command"] + container.get("args", []), capture_output=True, text=True, env=env)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stdout.split(), ["cluster", "--only", "image,gpu", "--namespace", NAMESPACE, "--out", "/evidence/dlc-check-abc", "--no-sign"])

    def test_names_that_would_not_be_yaml_are_refused(self):
        for arguments in (["-n", "a: b"], ["-n", "A"], ["--name", "x\ny"], ["--evidence-claim", "-x-"], ["--image", "x y"], ["--only", "imag"], ["--only", "gpu,checkpoint"], ["--only", "fsdp"]):
            with self.subTest(arguments=arguments):
                done = self.run_cli("manifest", "job", *[arguments[0] + "=" + arguments[1]] if arguments[0].startswith("--") else arguments, expect=USAGE)
                self.assertEqual(done.stdout, "")


class Moments(KubeCase):
    def plugin(self, body):
        self.write("plugin", "#!/bin/sh\n" + body).chmod(0o755)
        return {"exec": {"command": str(self.dir / "plugin"), "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}}

    def credential(self, token, extra=""):
        return f"""'{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{{"token":"{token}"{extra}}}}}'"""

    def test_a_token_that_the_server_no_longer_takes_is_renewed(self):
        user = self.plugin(f"""echo x >>{self.dir}/runs
if [ "$(wc -l <{self.dir}/runs)" -eq 1 ]; then printf {self.credential('expired')}; else printf {self.credential(SERVER.token('admin'))}; fi""")
        self.look(SERVER.kubeconfig(name="renewed", **user))
        self.assertEqual(self.observation("nodes")["state"], "seen")
        self.assertEqual((self.dir / "runs").read_text(), "x\nx\n")

    def bound_token(self, account, secret=None):
        """A token as the server signs it; one for a Secret lives no longer than that."""
        spec = {"expirationSeconds": 3600}
        if secret:
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Secret", "name": secret["metadata"]["name"], "uid": secret["metadata"]["uid"]}
        code, made = SERVER.request("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token",
                                    {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
        self.assertEqual(code, 201, made)
        return made["status"]["token"]

    def await_answer_to(self, user, code):
        """The server keeps what it thinks of a token for some seconds, and tells nobody when it thinks anew."""
        until = time.monotonic() + 60
        while SERVER.request("GET", "/api/v1/nodes?limit=1", user=user)[0] != code:
            if time.monotonic() > until:
                self.fail(f"{user}: the server did not come to answer {code}")
            threading.Event().wait(0.1)

    def test_a_token_that_dies_in_the_middle_of_a_run_is_renewed(self):
        """The real server's own token, valid at first, and refused by it once the Secret that it is bound to is deleted."""
        paths = {"serviceaccounts": {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "short-lived", "namespace": NAMESPACE}},
                 "secrets": {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "session", "namespace": NAMESPACE}}}
        made = {kind: SERVER.create(f"/api/v1/namespaces/{NAMESPACE}/{kind}", body) for kind, body in paths.items()}
        binding = SERVER.create(f"{RBAC}/clusterrolebindings", {"kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "short-lived"},
                                                               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                                                               "subjects": [{"kind": "ServiceAccount", "name": "short-lived", "namespace": NAMESPACE}]})
        self.addCleanup(lambda: [SERVER.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/{kind}/{one['metadata']['name']}") for kind, one in made.items()])
        self.addCleanup(SERVER.request, "DELETE", f"{RBAC}/clusterrolebindings/{binding['metadata']['name']}")
        for name, secret in (("first", made["secrets"]), ("second", None)):
            SERVER.tokens[name] = (self.bound_token("short-lived", secret), ())
            self.await_answer_to(name, 200)
        ask, answer = self.dir / "ask", self.dir / "answer"
        os.mkfifo(ask)
        os.mkfifo(answer)
        died = []

        def end_the_session():
            ask.read_text()
            try:
                SERVER.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/secrets/session")
                self.await_answer_to("first", 401)
                died.append(True)
            finally:
                answer.write_text("x\n")

        threading.Thread(target=end_the_session, daemon=True).start()
        # Asked before every request, for the tokens' time is said to be past: the eighth is the first after the RayClusters, and
        # the last that gets the token that is dead by then.
        past = ',"expirationTimestamp":"2020-01-01T00:00:00Z"'
        user = self.plugin(f"""echo x >>{self.dir}/runs
n=$(wc -l <{self.dir}/runs)
if [ "$n" -eq 8 ]; then echo now >{ask}; read line <{answer}; fi
if [ "$n" -le 8 ]; then printf {self.credential(SERVER.token('first'), past)}; else printf {self.credential(SERVER.token('second'), past)}; fi""")
        _, err, *_ = self.look(SERVER.kubeconfig(name="session", **user))
        self.assertEqual(died, [True])
        for name in ("rayClusters", "pods", "nodes"):
            self.assertEqual(self.observation(name)["state"], "seen", name)
        self.assertEqual(len(re.findall(r": 401, ", err)), 1, err)

    def test_a_token_that_has_run_out_is_renewed_before_it_is_sent(self):
        extra = ',"expirationTimestamp":"2020-01-01T00:00:00Z"'
        user = self.plugin(f"echo x >>{self.dir}/runs\nprintf {self.credential(SERVER.token('admin'), extra)}")
        self.look(SERVER.kubeconfig(name="short", **user))
        self.assertEqual(self.observation("nodes")["state"], "seen")
        self.assertEqual(len((self.dir / "runs").read_text().split()), 11, "5 reviews, the version, 4 lists, and the dashboard's question")

    def test_a_rotated_token_file(self):
        token = self.write("token", "expired\n")
        config = SERVER.kubeconfig(name="rotating", tokenFile=str(token))
        report, *_ = self.look(config)
        self.assertIn("does not accept the credential", self.reasons(report))
        token.write_text(SERVER.token("admin") + "\n")
        self.look(config)
        self.assertEqual(self.observation("nodes")["state"], "seen")

    def test_in_a_pod(self):
        account = self.dir / "account"
        account.mkdir()
        (account / "token").write_text(SERVER.token("admin"))
        (account / "ca.crt").write_bytes(SERVER.ca.read_bytes())
        (account / "namespace").write_text(NAMESPACE)
        mounted = "/run/secrets/kubernetes.io/serviceaccount"
        script = f"mount -t tmpfs tmpfs /run && mkdir -p {mounted} && cp {account}/* {mounted}/ && exec \"$@\""
        namespace = ["unshare", "--mount", "sh", "-c", script, "sh"]
        if subprocess.run([*namespace, "true"], capture_output=True).returncode != 0:
            self.skipTest("no right to mount: the service account's directory is a fixed path")
        env = {**self.env, "KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(SERVER.port)}
        done = subprocess.run([*namespace, str(pathlib.Path(os.environ["DLC_BIN"]) / "dlc-check"), "snapshot", "--out", str(self.dir / "out")], capture_output=True, text=True, env=env, cwd=self.dir)
        self.assertEqual(done.returncode, OK, done.stderr)
        cluster = json.loads((self.dir / "out" / "observations.json").read_text())["cluster"]
        self.assertEqual((cluster["pods"]["state"], cluster["nodes"]["state"]), ("seen", "seen"))
        self.assertNotIn("context", cluster["apiServer"])


class Stopped(KubeCase):
    def test_the_server_goes_in_the_middle(self):
        server = KubeServer()
        self.addCleanup(server.close)
        server.start()
        server.namespace()
        server.create(f"{RAY}/{NAMESPACE}/rayclusters", (EXAMPLE / "raycluster.yaml").read_bytes(), {"state": "ready"}, "application/yaml")
        ask, done = self.dir / "ask", self.dir / "done"
        os.mkfifo(ask)
        os.mkfifo(done)

        def stop():
            ask.read_text()
            server.stop_api()
            done.write_text("x\n")

        threading.Thread(target=stop, daemon=True).start()
        # A credential of the past is asked for before every request: the eighth is the first after the RayClusters.
        self.write("plugin", f"""#!/bin/sh
echo x >>{self.dir}/runs
if [ "$(wc -l <{self.dir}/runs)" -eq 8 ]; then echo now >{ask}; read answer <{done}; fi
printf '{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{{"token":"%s","expirationTimestamp":"2020-01-01T00:00:00Z"}}}}' {server.token('admin')}
""").chmod(0o755)
        user = {"exec": {"command": str(self.dir / "plugin"), "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}}
        report, *_ = self.look(server.kubeconfig(name="dying", **user))
        self.assertEqual(self.observation("rayClusters")["state"], "seen")
        for name in ("pods", "nodes"):
            self.assertEqual(self.observation(name)["state"], "error")
            self.assertIn("127.0.0.1", self.observation(name)["error"]["message"])
        self.assertEqual([rule for rule, found in self.findings(report).items() if rule.startswith(("image-digest/pod", "image-digest/one")) and any(v != "unknown" for v, _ in found)], [])


if __name__ == "__main__":
    if not kube_server.available():
        print("SKIPPED: KUBEBUILDER_ASSETS names no directory with etcd and kube-apiserver: nothing here was shown against a real API server")
        sys.exit(77)
    unittest.main(verbosity=2)

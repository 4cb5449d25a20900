"""A real kube-apiserver and etcd on loopback, for the tests that have them.

KUBEBUILDER_ASSETS names the directory that holds both. Users come from a token file, so a test can give any of them any
rights; the certificate is the server's own. Objects get in through the API alone.
"""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import re
import secrets
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time

ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
TESTDATA = pathlib.Path(__file__).resolve().parents[1] / "testdata"
NAMESPACE = "ray-train"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"], "rules": [{"level": "Metadata"}]}


def available():
    return bool(ASSETS) and all((pathlib.Path(ASSETS) / name).exists() for name in ("etcd", "kube-apiserver"))


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def make_certificate(directory, name="tls", subject="127.0.0.1", names="IP:127.0.0.1,DNS:localhost"):
    key, certificate = directory / f"{name}.key", directory / f"{name}.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={subject}",
                    "-addext", f"subjectAltName={names}", "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return key, certificate


class KubeServer:
    """`tokens`: user -> (token, groups). More users with add_user(), before start()."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="dlc-check-kube-"))
        self.key, self.ca = make_certificate(self.dir)
        self.tokens = {}
        self.processes = []
        self.local = threading.local()
        self.add_user("admin", "system:masters")
        self.add_user("viewer")

    def add_user(self, name, *groups):
        self.tokens[name] = (secrets.token_hex(16), groups)

    def token(self, user):
        return self.tokens[user][0]

    def start(self):
        self.port, etcd, peer = free_ports(3)
        subprocess.run(["openssl", "genrsa", "-out", str(self.dir / "sa.key"), "2048"], check=True, capture_output=True)
        lines = [f'{token},{user},{number},"{",".join(groups)}"' for number, (user, (token, groups)) in enumerate(self.tokens.items())]
        (self.dir / "tokens.csv").write_text("\n".join(lines) + "\n")
        (self.dir / "audit.json").write_text(json.dumps(AUDIT))
        self.spawn("etcd", "--data-dir", self.dir / "etcd", "--listen-client-urls", f"http://127.0.0.1:{etcd}", "--advertise-client-urls", f"http://127.0.0.1:{etcd}",
                   "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--unsafe-no-fsync")
        self.spawn("kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
                   f"--secure-port={self.port}", "--insecure-port=0", f"--tls-cert-file={self.ca}", f"--tls-private-key-file={self.key}",
                   f"--service-account-key-file={self.dir / 'sa.key'}", f"--service-account-signing-key-file={self.dir / 'sa.key'}",
                   "--service-account-issuer=https://kubernetes.default.svc", f"--token-auth-file={self.dir / 'tokens.csv'}", "--authorization-mode=RBAC",
                   "--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount", f"--cert-dir={self.dir / 'certs'}",
                   f"--audit-policy-file={self.dir / 'audit.json'}", f"--audit-log-path={self.dir / 'audit.log'}")
        self.await_ready()
        for crd in json.loads((TESTDATA / "kubernetes" / "crds.json").read_text()):
            self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        self.await_answer("/apis/ray.io/v1/rayclusters")
        self.await_answer("/apis/ray.io/v1/rayjobs")
        return self

    def spawn(self, name, *arguments):
        with open(self.dir / f"{name}.log", "wb") as log:
            self.processes.append(subprocess.Popen([str(pathlib.Path(ASSETS) / name), *map(str, arguments)], stdout=log, stderr=log, start_new_session=True))

    def await_ready(self):
        self.await_answer("/readyz")

    def await_answer(self, path, seconds=90):
        """The server cannot tell when it is ready: ask until it says so, or is dead."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                if self.request("GET", path)[0] == 200:
                    return
            except OSError:
                pass
            try:
                self.processes[-1].wait(timeout=0.2)
                break  # it ended
            except subprocess.TimeoutExpired:
                pass
        raise RuntimeError(f"kube-apiserver did not answer {path}: " + (self.dir / "kube-apiserver.log").read_text()[-2000:])

    def stop_api(self):
        self.processes[-1].kill()
        self.processes[-1].wait()

    def close(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def request(self, method, path, body=None, user="admin", content_type="application/json"):
        """(status, parsed or text). One kept connection a thread."""
        for attempt in (1, 2):
            connection = getattr(self.local, "connection", None)
            if connection is None:
                context = ssl.create_default_context(cafile=str(self.ca))
                connection = self.local.connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)
            data = None if body is None else body if isinstance(body, (bytes, str)) else json.dumps(body)
            try:
                connection.request(method, path, data, {"Authorization": f"Bearer {self.token(user)}", "Content-Type": content_type})
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException):
                self.local.connection = None
                if attempt == 2:
                    raise OSError("no answer")
                continue
            try:
                return answer.status, json.loads(text)
            except ValueError:
                return answer.status, text.decode("utf-8", "replace")

    def create(self, path, body, status=None, content_type="application/json"):
        """Creates an object and, where given, sets its status, which the server drops at creation."""
        code, made = self.request("POST", path, body, content_type=content_type)
        if code != 201:
            raise RuntimeError(f"POST {path}: {code} {made}")
        if status is not None:
            made["status"] = status
            code, made = self.request("PUT", f"{path}/{made['metadata']['name']}/status", made)
            if code != 200:
                raise RuntimeError(f"PUT {path} status: {code} {made}")
        return made

    def create_node(self, node):
        """Ready: admission taints what is new, and the controller that would take the taint away is not here."""
        made = self.create("/api/v1/nodes", node)
        code, made = self.request("PATCH", f"/api/v1/nodes/{made['metadata']['name']}", {"spec": {"taints": None}}, content_type="application/merge-patch+json")
        if code != 200:
            raise RuntimeError(f"node: {code} {made}")

    def create_all(self, things):
        """`things`: (path, body, status), in parallel."""
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda thing: self.create(*thing), things))

    def asked(self, user):
        """The server's own record of that user's requests, of those that it has answered."""
        with open(self.dir / "audit.log") as lines:
            return [event for event in map(json.loads, lines) if event["user"]["username"] == user]

    def apply(self, text, namespace=NAMESPACE):
        """Creates what `manifest rbac` printed: a list of (path, object)."""
        made = []
        for document in text.split("\n---\n"):
            kind = re.search(r"^kind: (\w+)$", document, re.M).group(1)
            path = {"ServiceAccount": f"/api/v1/namespaces/{namespace}/serviceaccounts", "Role": f"{RBAC}/namespaces/{namespace}/roles",
                    "RoleBinding": f"{RBAC}/namespaces/{namespace}/rolebindings", "ClusterRole": f"{RBAC}/clusterroles", "ClusterRoleBinding": f"{RBAC}/clusterrolebindings"}[kind]
            made.append((path, self.create(path, document.encode(), content_type="application/yaml")))
        return made

    def account_token(self, name, namespace=NAMESPACE):
        code, made = self.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
                                  {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}})
        if code != 201:
            raise RuntimeError(f"token of {name}: {code} {made}")
        return made["status"]["token"]

    def await_right(self, account, rule, namespace, allowed, of=NAMESPACE):
        """The server's authorizer follows its own watch: ask until it has seen the change."""
        resource, _, subresource = rule["resources"][0].partition("/")
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                  "spec": {"user": f"system:serviceaccount:{of}:{account}",
                           "resourceAttributes": {"verb": rule["verbs"][0], "resource": resource, "subresource": subresource, "group": rule["apiGroups"][0], "namespace": namespace}}}
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if self.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)[1]["status"]["allowed"] == allowed:
                return
        raise RuntimeError(f"{resource}: the right did not change")

    def await_rights(self, account, made, of=NAMESPACE):
        """Those of `apply`: (path, role, rule) of each rule."""
        rules = [(path, role, rule) for path, role in made for rule in role.get("rules", [])]
        for _, role, rule in rules:
            self.await_right(account, rule, role["metadata"].get("namespace", ""), True, of)
        return rules

    @contextlib.contextmanager
    def without_right(self, account, path, role, rule, of=NAMESPACE):
        """One rule of a role is away, as the authorizer sees it, and then back."""
        named = f"{path}/{role['metadata']['name']}"
        namespace = role["metadata"].get("namespace", "")
        whole = {**role, "metadata": {key: value for key, value in role["metadata"].items() if key != "resourceVersion"}}

        def put(one, allowed):
            code, answer = self.request("PUT", named, one)
            if code != 200:
                raise RuntimeError(f"PUT {named}: {code} {answer}")
            self.await_right(account, rule, namespace, allowed, of)

        put({**whole, "rules": [other for other in role["rules"] if other != rule]}, False)
        try:
            yield
        finally:
            put(whole, True)

    def namespace(self, name=NAMESPACE):
        self.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def kubeconfig(self, user="admin", name=None, namespace=NAMESPACE, **user_fields):
        fields = user_fields or {"token": self.token(user)}
        return self.kubeconfig_text(f"https://127.0.0.1:{self.port}", fields, namespace, name or f"{user}.kubeconfig")

    def kubeconfig_text(self, server, fields, namespace, name):
        path = self.dir / name
        path.write_text(json.dumps(kubeconfig(server, fields, namespace, **{"certificate-authority": str(self.ca)})))
        return path


def kubeconfig(server, user, namespace=NAMESPACE, **cluster):
    """A kubeconfig of one context, as a dict."""
    return {"apiVersion": "v1", "kind": "Config", "current-context": "test", "clusters": [{"name": "test", "cluster": {"server": server, **cluster}}],
            "users": [{"name": "someone", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "someone", "namespace": namespace}}]}

#!/usr/bin/env python3
"""dlc-check against an API server that misbehaves, over TLS, with answers that a real one gave where it behaves.

For every fault: the right exit code and words, bounded memory and time, and no credential anywhere that it was not meant for.
"""
import json
import os
import re
import ssl
import subprocess
import threading
import time
import http.server
import unittest

from harness import DLC_CHECK, EXAMPLE, FAILED, INCOMPLETE, OK, TESTDATA, USAGE, Case, interrupt_when
from kube_server import kubeconfig, make_certificate

RECORDED = TESTDATA / "kubernetes" / "recorded"
TOKEN = "s3cret-token-of-this-test"
MEGABYTE = 1 << 20


def recorded(name):
    """(status, content type, body) as kube-apiserver 1.20 answered."""
    head, body = (RECORDED / f"{name}.http").read_text().split("\n\n", 1)
    lines = head.split("\n")
    return int(lines[0].split()[1]), lines[1].split(": ", 1)[1], body.encode()


class FakeApi:
    """HTTPS on a fresh loopback port. `fault(request)` answers, or gives False for the recorded answer."""

    def __init__(self, directory, name="tls", names="IP:127.0.0.1,DNS:localhost", fault=None, jobs=False):
        self.jobs = jobs
        self.key, self.certificate = make_certificate(directory, name, names=names)
        self.seen = []
        self.fault = fault or (lambda request: False)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                self.body = body
                outer.seen.append((self.command, self.path, dict(self.headers), body))
                try:
                    if not outer.fault(self):
                        outer.behave(self)
                except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
                    self.close_connection = True

            do_POST = do_GET

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.http = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        self.http.socket = context.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.http.server_address[1]
        self.url = f"https://127.0.0.1:{self.port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def behave(self, request):
        if "/rayjobs" in request.path and not self.jobs:
            return json_reply(request, 200, {"kind": "RayJobList", "apiVersion": "ray.io/v1", "metadata": {"resourceVersion": "1"}, "items": []})
        for name in ("rayclusters", "rayjobs", "pods", "nodes", "version"):
            if f"/{name}" in request.path:
                return reply(request, *recorded(name))
        reply(request, *recorded("review-allowed"))

    def close(self):
        self.http.shutdown()
        self.http.server_close()


def reply(request, status, kind, body, **headers):
    request.send_response(status)
    request.send_header("Content-Type", kind)
    request.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    request.wfile.write(body)
    return True


def json_reply(request, status, value, **headers):
    return reply(request, status, "application/json", json.dumps(value).encode(), **headers)


def status(code, reason, message="planted"):
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code}


class KubeCase(Case):
    def api(self, fault=None, **options):
        server = FakeApi(self.dir, fault=fault, **options)
        self.addCleanup(server.close)
        return server

    def config_of(self, server, user=None, name="kubeconfig", **cluster):
        cluster.setdefault("certificate-authority", str(server.certificate))
        return self.write(name, kubeconfig(cluster.pop("server", server.url), user or {"token": TOKEN}, **cluster))

    def look(self, config, *arguments, expect=INCOMPLETE, env=None, name="out", interrupt=None):
        """(report, stderr, peak bytes) of a run over the live cluster; one that needs more than `patience` is killed, and fails."""
        out = self.dir / f"{name}-{len(list(self.dir.iterdir()))}"
        process = subprocess.Popen([str(DLC_CHECK), "cluster", "--only", "image,gpu,nccl", "--kubeconfig", str(config), "--image", f"oci:{EXAMPLE / 'image'}",
                                    "--policy", str(EXAMPLE / "policy.yaml"), "--no-sign", "--format", "json", "--out", str(out), *map(str, arguments)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env or self.env, cwd=self.dir)
        if interrupt is not None:
            interrupt_when(interrupt, process)
        texts = {}
        threads = [threading.Thread(target=lambda name=name, pipe=pipe: texts.__setitem__(name, pipe.read())) for name, pipe in (("out", process.stdout), ("err", process.stderr))]
        for thread in threads:
            thread.start()
        watchdog = threading.Timer(self.patience, process.kill)
        watchdog.start()
        _, code, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
        watchdog.cancel()
        for thread in threads:
            thread.join()
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.returncode, expect, texts["err"] + texts["out"][-2000:])
        self.assert_no_secret(texts, out)
        self.out = out
        return json.loads(texts["out"]) if texts["out"] else {}, texts["err"], usage.ru_maxrss * 1024

    def assert_no_secret(self, texts, out):
        for text in texts.values():
            self.assertNotIn(TOKEN, text)
        for path in out.rglob("*") if out.exists() else []:
            if path.is_file():
                self.assertNotIn(TOKEN.encode(), path.read_bytes(), path)

    def observation(self, name):
        statement = json.loads((self.out / "evidence.statement.json").read_text())
        return statement["predicate"]["observations"]["cluster"][name]

    def reasons(self, report):
        return " ".join(finding.get("reason", {}).get("message", "") for finding in report["findings"])


class Gates(KubeCase):
    """The command of the printed Job, run here against an API server that answers what a real one did, with a dashboard behind
    it. The Job's exit code is the command's."""

    SAVED = {"/api/version": "version", "/api/v0/nodes": "nodes", "/api/jobs/": "jobs"}

    def dashboard(self, request):
        path = request.path.partition("/proxy")[2].partition("?")[0]
        if path == "/api/authentication_mode":
            return json_reply(request, 200, {"authentication_mode": "disabled"})
        return path in self.SAVED and reply(request, 200, "application/json", (EXAMPLE / "ray" / f"{self.SAVED[path]}.json").read_bytes())

    def job(self, *arguments, policy=None, fault=None):
        """(exit code, stages, outcome) of the printed Job."""
        text = self.run_cli("manifest", "job", *arguments, expect=OK).stdout
        script = text.split("- >-\n", 1)[1].split("- dlc-check\n", 1)[0]
        script = " ".join(line.strip() for line in script.splitlines())
        self.assertIn("/evidence/$POD_NAME", script)
        evidence, config = self.dir / "evidence", self.dir / "config"
        evidence.mkdir(exist_ok=True)
        config.mkdir(exist_ok=True)
        if policy is not None:
            (config / "policy.yaml").write_text(policy)
        script = script.replace("/evidence/", f"{evidence}/").replace("/config/", f"{config}/")
        server = self.api(fault or self.dashboard)
        pod = f"pod-{len(list(evidence.iterdir()))}"
        # The image's registry is on disk here.
        extra = ["--image", f"oci:{EXAMPLE / 'image'}"] if "image" in script.partition("--only ")[2].split()[0] else []
        env = {**self.env, "PATH": f"{DLC_CHECK.parent}:{self.env['PATH']}", "POD_NAME": pod, "KUBECONFIG": str(self.config_of(server))}
        done = subprocess.run(["/bin/sh", "-c", script.replace('"$@"', '"$@" ' + " ".join(extra)), "dlc-check"], capture_output=True, text=True, env=env, timeout=self.patience)
        predicate = json.loads((evidence / pod / "evidence.statement.json").read_text())["predicate"]
        self.said = done.stdout + done.stderr
        return done.returncode, predicate["observations"]["run"]["stages"], text

    def test_it_passes_when_all_is_well_and_fails_when_not(self):
        code, stages, _ = self.job()
        self.assertEqual((code, stages), (OK, ["gpu", "nccl"]), self.said)
        policy = "apiVersion: dlc-check/v1\nkind: Policy\ngpu: {perWorkerPod: %d}\n"
        self.assertEqual(self.job(policy=policy % 4)[0], OK, self.said)
        self.assertEqual(self.job(policy=policy % 8)[0], FAILED, self.said)

    def test_what_was_not_seen_is_no_pass(self):
        self.assertEqual(self.job(fault=lambda r: json_reply(r, 403, status(403, "Forbidden")) if "/nodes" in r.path and "proxy" not in r.path else self.dashboard(r))[0], INCOMPLETE, self.said)

    def test_with_stage_image_the_policy_has_to_say_what_is_not_seen(self):
        policy = re.sub("^stages:.*\n", "", (EXAMPLE / "policy.yaml").read_text(), flags=re.M)
        code, stages, text = self.job("--only", "image,gpu,nccl", policy=policy)
        self.assertEqual((code, stages), (INCOMPLETE, ["image", "gpu", "nccl"]), self.said)
        severity = "".join(line[4:] + "\n" for line in text.splitlines() if re.match(r"#   severity:|#     \S+/\S+: warn", line))
        self.assertEqual(severity.count(": warn"), 4)
        self.assertEqual(self.job("--only", "image,gpu,nccl", policy=policy + severity)[0], OK, self.said)
        # Each of them is needed.
        lines = severity.splitlines(keepends=True)
        for i in range(1, len(lines)):
            self.assertEqual(self.job("--only", "image,gpu,nccl", policy=policy + "".join(lines[:i] + lines[i + 1:]))[0], INCOMPLETE, lines[i])
        moved = policy.replace("digest: sha256:9e7", "digest: sha256:9e8")
        self.assertNotEqual(moved, policy)
        self.assertEqual(self.job("--only", "image,gpu,nccl", policy=moved + severity)[0], FAILED, self.said)


class Behaves(KubeCase):
    def test_a_whole_look_over_tls_with_a_token(self):
        server = self.api(jobs=True)
        report, err, _ = self.look(self.config_of(server), expect=FAILED)  # for what the RayJob installs
        self.assertEqual(self.observation("pods")["state"], "seen")
        self.assertEqual(len(self.observation("nodes")["value"]), 3)
        verdicts = self.findings(report)
        self.assertTrue(all(verdict == "pass" for verdict, _ in verdicts["image-digest/pod-runs-accepted-digest"]), verdicts)
        self.assertTrue(all(headers.get("Authorization") == f"Bearer {TOKEN}" for _, _, headers, _ in server.seen))
        self.assertIn("cluster: listing rayclusters in namespace ray-train", err)
        statement = json.loads((self.out / "evidence.statement.json").read_text())["predicate"]
        self.assertEqual(statement["run"]["mode"], "live")
        self.assertIn("runtime_env variable HF_TOKEN (1 value)", statement["redaction"]["applied"])
        self.assertNotIn("hf_abc", json.dumps(statement))
        # The RayJob object's torch is a finding although no dashboard was asked.
        self.assertIn(("fail", "qwen"), verdicts["job-packages/protected-package"])

    def test_plain_secrets_in_manifests_and_jobs_are_seen_nowhere(self):
        def with_secrets(request):
            path = request.path.partition("?")[0]
            if "/proxy/api/authentication_mode" in path:
                return json_reply(request, 200, {"authentication_mode": "disabled"})
            if path.endswith("/proxy/api/jobs/"):
                return json_reply(request, 200, [{"submission_id": "j", "status": "RUNNING", "entrypoint": "X_KEY=hush-1 python t.py --token hush-2 && pip install torch==2.4.0",
                                                  "runtime_env": {"working_dir": "https://ci:hush-3@h/w.zip?X-Amz-Signature=hush-4", "env_vars": {"OPTS": "--password=hush-5"}}}])
            for name in ("rayclusters", "rayjobs", "pods"):
                if path.endswith(f"/{name}"):
                    body = json.loads(recorded(name)[2])
                    for item in body["items"]:
                        spec = item["spec"]
                        if name == "rayclusters":
                            spec["headGroupSpec"].setdefault("rayStartParams", {})["redis-password"] = "hush-6"
                        if name == "pods":
                            spec["containers"][0].update(command=["python", "--api-key"], args=["hush-7", "sh -c 'train --token=hush-8'"])
                            item["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "Error", "message": "cannot get https://h/?token=hush-9"}}
                        if name == "rayjobs":
                            spec["entrypoint"] = "curl -H 'Authorization: Bearer hush-10' https://u:hush-11@h/?a=hush-12"
                    return json_reply(request, 200, body)
            return False

        config = self.config_of(self.api(with_secrets, jobs=True))
        report, err, _ = self.look(config, expect=FAILED)
        self.run_cli("snapshot", "--kubeconfig", config, "--image", f"oci:{EXAMPLE / 'image'}", "--out", self.dir / "snap", expect=OK)
        written = [path for top in (self.out, self.dir / "snap") for path in top.rglob("*") if path.is_file()]
        self.assertGreater(len(written), 3)
        for text in [json.dumps(report), err, *(path.read_text() for path in written)]:
            self.assertNotIn("hush", text)
        statement = json.loads((self.out / "evidence.statement.json").read_text())["predicate"]
        self.assertTrue({"credentials in a container's command (6 values)", "credentials in a container's message (3 values)", "credentials in a job's entrypoint (2 values)",
                         "credentials in a job's runtime_env (1 value)", "rayStartParams redis-password (1 value)", "runtime_env variable OPTS (1 value)"} <= set(statement["redaction"]["applied"]),
                        statement["redaction"])
        # What is judged of the command line is still there.
        self.assertIn(("fail", "j"), self.findings(report)["job-packages/environment-replaced"])

    def test_snapshot_and_judge_find_the_same(self):
        server = self.api()
        config = self.config_of(server)
        report, *_ = self.look(config)
        self.run_cli("snapshot", "--kubeconfig", config, "--image", f"oci:{EXAMPLE / 'image'}", "--out", self.dir / "snap", expect=OK)
        observations = json.loads((self.dir / "snap" / "observations.json").read_text())
        self.assertEqual(observations["run"]["mode"], "live")
        self.assertNotIn(TOKEN, (self.dir / "snap" / "observations.json").read_text())
        # The snapshot is of all stages, the run of three: the snapshot's findings on those three are the run's.
        observations["run"]["stages"] = ["image", "gpu", "nccl"]
        observations["run"]["inputs"] = json.loads((self.out / "evidence.statement.json").read_text())["predicate"]["observations"]["run"]["inputs"]
        saved = self.write("observations.json", observations)
        for evidence in (saved, self.out / "evidence.statement.json"):
            judged = json.loads(self.run_cli("judge", evidence, "--policy", EXAMPLE / "policy.yaml", "--format", "json", expect=INCOMPLETE).stdout)
            self.assertEqual(self.findings(judged), self.findings(report), evidence)

    def test_kubeconfig_comes_from_the_environment_too(self):
        server = self.api()
        config = self.config_of(server)
        self.run_cli("snapshot", "--out", self.dir / "a", "--image", f"oci:{EXAMPLE / 'image'}", "-n", "ray-train", env={**self.env, "KUBECONFIG": f"/absent:{config}"}, expect=OK)
        (self.dir / ".kube").mkdir()
        (self.dir / ".kube" / "config").write_text(config.read_text())
        self.run_cli("snapshot", "--out", self.dir / "b", "--image", f"oci:{EXAMPLE / 'image'}", "-n", "ray-train", expect=OK)
        cfg = self.write("c.yaml", f"apiVersion: dlc-check/v1\nkind: Config\nimage: {{reference: 'oci:{EXAMPLE / 'image'}'}}\ncluster: {{kubeconfig: {config.name}, context: test}}\n")
        (self.dir / ".kube" / "config").unlink()
        self.run_cli("snapshot", "-c", cfg, "--out", self.dir / "c", expect=OK)
        for name in "abc":
            self.assertEqual(json.loads((self.dir / name / "observations.json").read_text())["cluster"]["pods"]["state"], "seen")

    def test_tls_server_name_and_client_certificate(self):
        # The certificate is for another name than the address: right only with tls-server-name.
        asked = []

        def name_of(request):
            asked.append((request.connection.getpeercert(), request.headers["Host"]))
            return False

        server = self.api(name_of, name="named", names="DNS:kubernetes.default")
        key, certificate = make_certificate(self.dir, "client", subject="me", names="DNS:me")
        server.http.socket.context.load_verify_locations(certificate)
        server.http.socket.context.verify_mode = ssl.CERT_REQUIRED
        user = {"client-certificate": "client.crt", "client-key": "client.key"}
        self.look(self.config_of(server, user, **{"tls-server-name": "kubernetes.default"}))
        self.assertEqual(self.observation("nodes")["state"], "seen")
        self.assertEqual(asked[0][0]["subject"], ((("commonName", "me"),),))
        self.assertEqual(asked[0][1], f"127.0.0.1:{server.port}")
        report, *_ = self.look(self.config_of(server, user, name="other"))
        self.assertIn("is for another host name", self.reasons(report))
        self.assertIn("tls-server-name", json.dumps(report))

    def test_an_insecure_server_is_asked_and_said_to_be_insecure(self):
        server = self.api()
        config = self.write("kubeconfig", kubeconfig(server.url, {"token": TOKEN}, **{"insecure-skip-tls-verify": True}))
        _, err, *_ = self.look(config)
        self.assertIn("warning: ", err)
        self.assertIn("insecure-skip-tls-verify", err)

    def test_a_given_proxy_is_used(self):
        # It sees CONNECT alone: the token is inside TLS.
        import socketserver
        import socket
        seen = []

        class Tunnel(socketserver.BaseRequestHandler):
            def handle(self):
                head = b""
                while b"\r\n\r\n" not in head:
                    head += self.request.recv(4096)
                seen.append(head)
                host, port = head.split()[1].decode().rsplit(":", 1)
                with socket.create_connection((host, int(port))) as upstream:
                    self.request.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    back = threading.Thread(target=pump, args=(upstream, self.request), daemon=True)
                    back.start()
                    pump(self.request, upstream)

        def pump(source, target):
            try:
                while data := source.recv(65536):
                    target.sendall(data)
            except OSError:
                pass

        server = self.api()
        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Tunnel) as proxy:
            proxy.daemon_threads = True
            threading.Thread(target=proxy.serve_forever, daemon=True).start()
            self.look(self.config_of(server, **{"proxy-url": f"http://127.0.0.1:{proxy.server_address[1]}"}))
            proxy.shutdown()
        self.assertEqual(self.observation("nodes")["state"], "seen")
        self.assertTrue(seen and all(head.startswith(f"CONNECT 127.0.0.1:{server.port} ".encode()) and TOKEN.encode() not in head for head in seen))


class Usage(KubeCase):
    def test_errors_that_stop_before_anything_is_written(self):
        server = self.api()
        config = self.config_of(server)
        out = self.dir / "never"
        for arguments, needles in [
            ([], ["no kubeconfig", "--kubeconfig"]),
            (["--kubeconfig", "absent"], ["absent"]),
            (["--kubeconfig", config, "--context", "other"], ["context 'other' does not exist", "test"]),
            (["--kubeconfig", config, "--ray-cluster", "other"], ["no RayCluster 'other'", "there is ray-train-cluster"]),
            (["--kubeconfig", config, "-f", EXAMPLE / "pods.json"], ["name a live cluster, and files are given"]),
        ]:
            with self.subTest(arguments=arguments):
                done = self.run_cli("cluster", *arguments, "--no-sign", "--out", out, expect=USAGE)
                for needle in needles:
                    self.assertIn(needle, done.stderr)
                self.assertFalse(out.exists())

    def test_several_clusters_are_listed(self):
        cluster = json.loads(recorded("rayclusters")[2])
        twin = json.loads(json.dumps(cluster["items"][0]))
        twin["metadata"]["name"] = "second"
        cluster["items"].append(twin)
        server = self.api(lambda request: "/rayclusters" in request.path and json_reply(request, 200, cluster))
        config = self.config_of(server)
        done = self.run_cli("cluster", "--kubeconfig", config, "--no-sign", "--out", self.dir / "never", expect=USAGE)
        self.assertIn("2 RayClusters in namespace ray-train: ray-train-cluster, second", done.stderr)
        # It fails: the pods that this server lists, whatever is asked for, are not the second's.
        self.look(config, "--ray-cluster", "second", expect=FAILED)
        self.assertEqual([one["name"] for one in self.observation("rayClusters")["value"]], ["second"])


class Faults(KubeCase):
    def only(self, part, answer):
        """Answers so where the path holds `part`, and behaves elsewhere."""
        return self.api(lambda request: part in request.path and answer(request))

    def faulty_nodes(self, answer, *needles, state="error", **look):
        report, err, peak = self.look(self.config_of(self.only("/nodes", answer)), **look)
        nodes = self.observation("nodes")
        self.assertEqual(nodes["state"], state, nodes)
        for needle in needles:
            self.assertIn(needle, json.dumps(nodes) + err)
        self.assertEqual(self.observation("pods")["state"], "seen")
        self.assertIn("nodes", self.reasons(report))
        if not os.environ.get("DLC_SANITIZED"):  # which keep what was freed
            self.assertLess(peak, 200 * MEGABYTE)

    def test_401(self):
        self.faulty_nodes(lambda r: json_reply(r, 401, status(401, "Unauthorized")), "does not accept the credential", "user 'someone'")

    def test_403(self):
        self.faulty_nodes(lambda r: json_reply(r, 403, status(403, "Forbidden", "nodes is forbidden")), "needs list on nodes (403 Forbidden", state="not_looked_at")

    def test_404(self):
        self.faulty_nodes(lambda r: reply(r, 404, "text/plain", b"404 page not found\n"), "knows no nodes")

    def test_410_for_ever(self):
        self.faulty_nodes(lambda r: json_reply(r, 410, status(410, "Expired")), "410 Expired")

    def test_410_once(self):
        calls = []

        def expire(request):
            calls.append(request.path)
            name = "nodes-page-1" if "continue=" not in request.path else "continue-invalid" if len(calls) == 2 else "nodes-page-2"
            return reply(request, *recorded(name))

        report, err, *_ = self.look(self.config_of(self.only("/nodes", expire)))
        self.assertEqual(len(self.observation("nodes")["value"]), 3)
        self.assertIn("starting over", err)
        self.assertTrue(report)

    def test_429_is_waited_for_as_asked(self):
        times = []

        def busy(request):
            times.append(time.monotonic())
            return len(times) == 1 and json_reply(request, 429, status(429, "TooManyRequests"), Retry_After="1")

        self.look(self.config_of(self.only("/nodes", busy)))
        self.assertEqual(self.observation("nodes")["state"], "seen")
        self.assertGreaterEqual(times[1] - times[0], 0.9)

    def test_500(self):
        self.faulty_nodes(lambda r: json_reply(r, 500, status(500, "InternalError", "etcd is gone")), "500 InternalError: etcd is gone", "in 5 attempts")

    def test_truncated_json(self):
        _, kind, body = recorded("nodes")
        self.faulty_nodes(lambda r: reply(r, 200, kind, body[: len(body) // 2]), "breaks off")

    def test_a_connection_cut_in_the_body(self):
        def cut(request):
            request.send_response(200)
            request.send_header("Content-Type", "application/json")
            request.send_header("Content-Length", "1000000")
            request.end_headers()
            request.wfile.write(b'{"kind":"NodeList","metadata":{},"items":[')
            request.close_connection = True
            return True

        self.faulty_nodes(cut, "transfer from 127.0.0.1")

    def test_html_of_a_login_page(self):
        self.faulty_nodes(lambda r: reply(r, 200, "text/html", b"<html>log in"), "answers text/html where an API server answers JSON")

    def test_100_mb_of_json(self):
        item = json.dumps({"metadata": {"name": "x" * 1000}}).encode()

        def flood(request):
            request.send_response(200)
            request.send_header("Content-Type", "application/json")
            request.send_header("Content-Length", str(100 * MEGABYTE))
            request.end_headers()
            request.wfile.write(b'{"kind":"NodeList","metadata":{},"items":[' + item)
            for _ in range(100):
                request.wfile.write((b"," + item) * (MEGABYTE // (len(item) + 1)))
            return True

        self.faulty_nodes(flood, "longer than the limit")

    def test_an_endless_body(self):
        def endless(request):
            request.send_response(200)
            request.send_header("Content-Type", "application/json")
            request.end_headers()
            request.wfile.write(b'{"kind":"NodeList","metadata":{},"items":[')
            while True:
                request.wfile.write(b'{"metadata":{"name":"n"}},' * 10_000)

        self.faulty_nodes(endless, "longer than the limit")

    def test_pages_without_end(self):
        body = json.dumps({"kind": "NodeList", "metadata": {"continue": "again"}, "items": []}).encode()
        self.faulty_nodes(lambda r: reply(r, 200, "application/json", body), "more than 1000 pages")

    def test_a_redirect_to_another_host_gets_nothing(self):
        thief = self.api(name="thief")
        self.faulty_nodes(lambda r: reply(r, 302, "text/plain", b"", Location=thief.url + "/api/v1/nodes"), "to another host")
        self.assertEqual(thief.seen, [])

    def test_a_wrong_tls_name_gets_nothing(self):
        server = self.api(name="elsewhere", names="DNS:elsewhere.example")
        report, *_ = self.look(self.config_of(server))
        self.assertIn("is for another host name", self.reasons(report))
        self.assertEqual(server.seen, [])
        self.assertEqual(self.observation("nodes")["state"], "error")

    def test_an_unknown_authority_gets_nothing(self):
        server = self.api()
        stranger = self.api(name="stranger")
        report, *_ = self.look(self.config_of(server, **{"certificate-authority": str(stranger.certificate)}))
        self.assertIn("certificate authority that is not trusted", self.reasons(report))
        self.assertEqual(server.seen, [])

    def test_nothing_listens(self):
        server = self.api()
        config = self.config_of(server)
        server.close()
        report, *_ = self.look(config)
        self.assertIn("refused: nothing listens there", self.reasons(report))

    def test_ctrl_c_ends_a_list_that_hangs(self):
        asked, over = threading.Event(), threading.Event()
        self.addCleanup(over.set)

        def hang(request):
            asked.set()
            over.wait(self.patience)
            return True

        self.look(self.config_of(self.only("/nodes", hang)), expect=130, interrupt=asked)
        self.assertEqual(self.observation("nodes")["error"]["code"], "interrupted")
        self.assertEqual(self.observation("rayClusters")["state"], "seen")

    def test_no_credential_over_plain_http(self):
        config = self.write("kubeconfig", kubeconfig("http://192.0.2.1:8080", {"token": TOKEN}))
        done = self.run_cli("cluster", "--kubeconfig", config, "--no-sign", expect=USAGE)
        self.assertIn("plain http", done.stderr)
        self.assertNotIn(TOKEN, done.stderr)


class Plugins(KubeCase):
    def plugin(self, body):
        path = self.write("plugin", "#!/bin/sh\n" + body)
        path.chmod(0o755)
        return {"exec": {"command": "./plugin", "apiVersion": "client.authentication.k8s.io/v1beta1", "installHint": "get it from the shelf"}}

    def test_a_token_that_dies_in_the_middle_is_renewed(self):
        credential = '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"%s-%d"}}'
        user = self.plugin(f"echo x >>{self.dir}/runs\nprintf '{credential}' {TOKEN} $(wc -l <{self.dir}/runs)")
        alive = threading.Event()  # set: the first token is dead

        def expire(request):
            if "/rayclusters" in request.path:
                alive.set()
                return False
            dead = alive.is_set() and request.headers["Authorization"].endswith("-1")
            return dead and json_reply(request, 401, status(401, "Unauthorized"))

        server = self.api(expire)
        self.look(self.config_of(server, user))
        self.assertEqual(self.observation("nodes")["state"], "seen")
        self.assertEqual(self.observation("pods")["state"], "seen")
        self.assertEqual((self.dir / "runs").read_text(), "x\nx\n", "two lists were refused at once: one renewal serves both")

    def test_a_plugin_that_fails_is_quoted(self):
        server = self.api()
        report, *_ = self.look(self.config_of(server, self.plugin("echo Unable to locate credentials >&2; exit 255")))
        self.assertIn("ended with exit code 255: Unable to locate credentials", self.reasons(report))
        self.assertEqual(server.seen, [])

    def test_a_plugin_that_is_not_there_gives_its_hint(self):
        server = self.api()
        user = {"exec": {"command": "dlc-no-such-plugin", "apiVersion": "client.authentication.k8s.io/v1beta1", "installHint": "get it from the shelf"}}
        report, *_ = self.look(self.config_of(server, user))
        self.assertIn("'dlc-no-such-plugin' cannot be run", self.reasons(report))
        self.assertIn("get it from the shelf", json.dumps(report))


if __name__ == "__main__":
    unittest.main(verbosity=2)

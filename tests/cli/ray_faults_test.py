"""`dlc-check` against dashboards that answer wrongly: every run is INCOMPLETE, says what to do, and gives no credential away.
What the dashboard answers otherwise was recorded from a real Ray 2.58.
"""
import itertools
import json
import socket
import tempfile
import unittest

import registry_servers as servers
from harness import INCOMPLETE, OK, TESTDATA, USAGE, Case
from registry_servers import Fake, Reply

TOKEN = "hush-hush-0123456789abcdef"
MODE, VERSION, NODES, JOBS = "/api/authentication_mode", "/api/version", "/api/v0/nodes", "/api/jobs/"
NAME = {VERSION: "version", NODES: "nodes", JOBS: "jobs"}
JSON = {"Content-Type": "application/json; charset=utf-8"}


def recorded(path, locked=True):
    if path == MODE:
        return Reply(200, {"authentication_mode": "token" if locked else "disabled"}, JSON)
    return Reply(200, (TESTDATA / "ray" / "2.58.0" / f"{NAME[path]}.json").read_bytes(), JSON)


class RayCase(Case):
    def setUp(self):
        super().setUp()
        self.numbers = itertools.count()
        self.env.update(RAY_AUTH_TOKEN=TOKEN)

    def dashboard(self, changed, locked=True, tls=None):
        """`changed`: path -> Reply, or None for one that this Ray does not know."""
        def answer(request):
            path = request["path"]
            if path in changed:
                return changed[path] or Reply(404, b"404: Not Found", {"Content-Type": "text/plain"})
            if path != MODE and locked and request["headers"].get("Authorization") != f"Bearer {TOKEN}":
                return Reply(401, b"Unauthorized: Missing authentication token")
            return recorded(path, locked)
        fake = Fake(answer, tls)
        self.addCleanup(fake.stop)
        return fake

    def look(self, address, *flags, expect=INCOMPLETE):
        """state and text of version, nodes and jobs; nothing that was said or written holds a secret."""
        out = self.dir / f"out{next(self.numbers)}"
        done = self.run_cli("image", "--ray-address", address, *flags, "--no-sign", "--format", "json", "--out", out, "-v", expect=expect)
        self.said = done.stdout + done.stderr + "".join(path.read_text() for path in out.rglob("*") if path.is_file())
        self.assertNotIn("hush", self.said)
        if expect == USAGE:
            return {}
        self.assertEqual(json.loads(done.stdout)["outcome"], "INCOMPLETE")
        ray = json.loads((out / "evidence.statement.json").read_text())["predicate"]["observations"]["ray"]
        return {name: (ray[name]["state"], json.dumps(ray[name])) for name in NAME.values()}

    def sent(self, fake):
        return [request["path"] for request in fake.requests if TOKEN in str(request["headers"])]


class Faults(RayCase):
    def test_a_healthy_one_is_seen(self):
        fake = self.dashboard({})
        self.assertEqual({state for state, _ in self.look(f"http://{fake.host}").values()}, {"seen"})
        self.assertEqual(self.sent(fake), [VERSION, NODES, JOBS])

    def test_one_answer_that_is_wrong(self):
        whole = recorded(NODES).body
        for name, reply, needle in (
                ("401", Reply(401, b"Unauthorized"), "does not accept the token of RAY_AUTH_TOKEN"),
                ("403", Reply(403, b"Forbidden: Invalid authentication token"), "does not accept the token of RAY_AUTH_TOKEN"),
                ("404", None, "port 8265"),
                ("500", Reply(500, b"Traceback (most recent call last):\n  secrets"), "in 5 attempts"),
                ("cut JSON", Reply(200, whole[:len(whole) // 2], JSON), "GET http://"),
                ("cut transfer", Reply(200, whole[:100], JSON, announce=len(whole)), "failed"),
                ("HTML", Reply(200, b"<html>log in</html>", {"Content-Type": "text/html"}), "answers text/html"),
                ("100 MB", Reply(200, b"[" + b" " * (100 << 20), JSON), "longer than the limit")):
            for path in (NODES,) if name in ("500", "cut transfer", "100 MB") else NAME:
                with self.subTest(name, path=path):
                    seen = self.look(f"http://{self.dashboard({path: reply}).host}")
                    state, text = seen.pop(NAME[path])
                    self.assertEqual(state, "error", text)
                    self.assertIn(needle, text)
                    self.assertEqual({other for other, _ in seen.values()}, {"seen"})

    def test_a_redirect_to_another_host(self):
        other = self.dashboard({}, locked=False)
        for path in (MODE, *NAME):
            fake = self.dashboard({path: Reply(302, headers={"Location": f"http://{other.host}{path}"})})
            seen = self.look(f"http://{fake.host}")
            for name in NAME.values() if path == MODE else (NAME[path],):
                self.assertEqual(seen[name][0], "error")
                self.assertIn("redirects to another host", seen[name][1])
        self.assertEqual(other.requests, [])

    def test_before_ray_knew_tokens(self):
        fake = self.dashboard({MODE: None}, locked=False)
        self.assertEqual({state for state, _ in self.look(f"http://{fake.host}").values()}, {"seen"})
        self.assertEqual(self.sent(fake), [])

    def test_a_token_that_nobody_wants_is_not_sent(self):
        fake = self.dashboard({}, locked=False)
        self.look(f"http://{fake.host}")
        self.assertEqual(self.sent(fake), [])

    def test_an_answer_that_repeats_the_token(self):
        echo = [{"submission_id": TOKEN, "status": TOKEN, "entrypoint": f"curl -H {TOKEN}", "runtime_env": {"env_vars": {"A": TOKEN}, "pip": [TOKEN]}}]
        self.look(f"http://{self.dashboard({JOBS: Reply(200, echo, JSON), VERSION: Reply(400, TOKEN.encode())}).host}")
        self.assertIn("(redacted)", self.said)

    def test_silence(self):
        fake = self.dashboard({NODES: Reply(200, b"[", JSON, announce=100, stall=True)})
        config = self.write("slow.yaml", "apiVersion: dlc-check/v1\nkind: Config\nray: {timeoutSeconds: 1}\n")
        seen = self.look(f"http://{fake.host}", "-c", config)
        self.assertIn("timed_out", seen["nodes"][1])

    def test_nobody_there(self):
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        for state, text in self.look(f"http://127.0.0.1:{port}").values():
            self.assertEqual(state, "error")
            self.assertIn("Ray dashboard runs", text)

    def test_plain_http_beyond_loopback(self):
        """The environment's proxy leads every host here."""
        fake = self.dashboard({})
        self.env.update(http_proxy=f"http://{fake.host}")
        for state, text in self.look("http://ray.example:8265").values():
            self.assertEqual(state, "not_looked_at")
            self.assertIn("not sent to ray.example:8265 over plain http", text)
        self.assertEqual([request["target"] for request in fake.requests], ["http://ray.example:8265" + MODE])
        self.assertEqual(self.sent(fake), [])

    def test_tls(self):
        with tempfile.TemporaryDirectory() as directory:
            authority = servers.Authority(directory, "ca")
            good = self.dashboard({}, tls=authority.issue("good", "IP:127.0.0.1"))
            other = self.dashboard({}, tls=authority.issue("other", "DNS:ray.example"))
            config = self.write("tls.yaml", f"apiVersion: dlc-check/v1\nkind: Config\nray: {{ca: '{authority.pem}'}}\n")
            self.assertEqual({state for state, _ in self.look(f"https://{good.host}", "-c", config).values()}, {"seen"})
            for fake, flags, needle in ((other, ("-c", config), "another host name"), (good, (), "not trusted")):
                for state, text in self.look(f"https://{fake.host}", *flags).values():
                    self.assertEqual(state, "error")
                    self.assertIn(needle, text)
            self.assertEqual(other.requests, [])


class Choice(RayCase):
    def config(self, part):
        return self.write(f"config{next(self.numbers)}.yaml", "apiVersion: dlc-check/v1\nkind: Config\n" + part)

    def test_a_saved_answer_and_an_address(self):
        saved = TESTDATA / "ray" / "2.58.0" / "version.json"
        fake = self.dashboard({}, locked=False)
        config = self.config(f"ray: {{version: '{saved}'}}\n")
        self.look(f"http://{fake.host}", "-c", config, expect=USAGE)
        self.assertIn("--ray-address cannot be used with ray.version", self.said)
        both = self.config(f"ray: {{version: '{saved}', address: 'http://{fake.host}'}}\n")
        done = self.run_cli("image", "-c", both, "--no-sign", expect=USAGE)
        self.assertIn("line 3: 'ray.address' cannot be used with ray.version", done.stderr)
        self.assertEqual(fake.requests, [])
        # The environment's is asked for the rest.
        self.run_cli("image", "-c", config, "--no-sign", "--out", self.dir / "env", expect=INCOMPLETE, env=self.env | {"RAY_ADDRESS": f"http://{fake.host}"})
        self.assertEqual([request["path"] for request in fake.requests], [MODE, NODES, JOBS])

    def test_a_runtime_env_that_is_not_submitted_yet(self):
        fake = self.dashboard({}, locked=False)
        config = self.config(f"ray: {{address: 'http://{fake.host}', runtimeEnv: '{self.write('env.json', {'pip': ['x']})}'}}\n")
        self.run_cli("image", "-c", config, "--no-sign", "--out", self.dir / "env", expect=INCOMPLETE)
        self.assertEqual([request["path"] for request in fake.requests], [MODE, VERSION, NODES])

    def test_the_stages_that_read_nothing_of_ray_ask_nothing(self):
        fake = self.dashboard({}, locked=False)
        self.run_cli("nccl", "--ray-address", f"http://{fake.host}", "--no-sign", "--out", self.dir / "nccl", expect=INCOMPLETE)
        self.assertEqual(fake.requests, [])
        # And then RAY_ADDRESS may be whatever it is.
        manifest = self.example() / "raycluster.yaml"
        done = self.run_cli("nccl", "-f", manifest, "--no-sign", "--out", self.dir / "nccl2", env=self.env | {"RAY_ADDRESS": "ray://head:10001"})
        self.assertNotEqual(done.returncode, USAGE, done.stderr)

    def test_addresses_that_are_no_dashboard(self):
        for address in ("ray://head:10001", "head:6379", "auto", "http://u:hush@head:8265"):
            for done in (self.run_cli("image", "--ray-address", address, "--no-sign", expect=USAGE),
                         self.run_cli("image", "-c", self.config(f"ray: {{address: '{address}'}}\n"), "--no-sign", expect=USAGE),
                         self.run_cli("image", "-f", EXAMPLE_MANIFEST, "--no-sign", expect=USAGE, env=self.env | {"RAY_ADDRESS": address})):
                self.assertIn(":8265", done.stderr)
                self.assertNotIn("hush", done.stderr)

    def test_ranks_want_a_dashboard(self):
        config = self.write("ranks.yaml", "apiVersion: dlc-check/v1\nkind: Config\ntarget: {type: ray, ranks: 2}\npolicy: {stages: [fsdp]}\n")
        done = self.run_cli("fsdp", "-c", config, "--no-sign", "--out", self.dir / "out", expect=USAGE)
        self.assertIn("ranks.yaml: line 3: target ray needs Ray's dashboard, and none is named", done.stderr)
        self.assertFalse((self.dir / "out").exists())
        # One that says what a Ray says, and takes no jobs: the ranks are an error, and nothing is a pass.
        fake = self.dashboard({}, locked=False)
        done = self.run_cli("fsdp", "-c", config, "--no-sign", "--format", "json", "--out", self.dir / "out", expect=INCOMPLETE,
                            env=self.env | {"RAY_ADDRESS": f"http://{fake.host}"})
        ranks = json.loads((self.dir / "out" / "evidence.statement.json").read_text())["predicate"]["observations"]["fsdpRanks"]
        self.assertEqual(ranks["state"], "error", ranks)
        self.assertNotIn("fail", {finding["verdict"] for finding in json.loads(done.stdout)["findings"]})

    def test_a_snapshot_is_judged_again_without_the_dashboard(self):
        fake = self.dashboard({}, locked=False)
        self.run_cli("snapshot", "--ray-address", f"http://{fake.host}", "--out", self.dir / "snap", expect=OK)
        before = len(fake.requests)
        saved = next((self.dir / "snap").iterdir())
        done = self.run_cli("judge", saved, "--format", "json", expect=INCOMPLETE)
        self.assertIn("2.58.0", done.stdout)
        self.assertEqual(len(fake.requests), before)


EXAMPLE_MANIFEST = TESTDATA.parents[1] / "examples" / "local" / "raycluster.yaml"

if __name__ == "__main__":
    unittest.main()

"""What the command-line tests share: running the built programs, fresh directories, and a tiny HTTP server.

Set by ctest: DLC_BIN, the directory that holds dlc-check and dlc-probe.
"""
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["DLC_BIN"])
DLC_CHECK = BIN / "dlc-check"
EXAMPLE = ROOT / "examples" / "local"
TESTDATA = ROOT / "tests" / "testdata"

OK, FAILED, USAGE, INCOMPLETE, NOT_TRUSTWORTHY, NOT_WRITTEN, LEFTOVERS = range(7)
PREDICATE_TYPE = "urn:dlc-check:preflight:v1"


def clean_environment(**extra):
    """The environment without what could leak in from the machine: proxies, credentials, colours."""
    env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "TSAN_OPTIONS", "DLC_BIN")}
    env["LC_ALL"] = "C.UTF-8"
    env.update(extra)
    return env


def check_in(directory):
    """dlc-check in a new directory, for it takes the dlc-probe beside it: another may stand there."""
    directory.mkdir()
    check = directory / "dlc-check"
    try:
        os.link(DLC_CHECK, check)
    except OSError:  # another file system
        shutil.copy(DLC_CHECK, check)
    return check


class Case(unittest.TestCase):
    maxDiff = 4000
    patience = 120  # seconds for one command; one that needs them has failed

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="dlc-check-test-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.env = clean_environment(HOME=str(self.dir))

    def run_cli(self, *arguments, expect=None, cwd=None, stdin=None, env=None):
        """Runs dlc-check; `expect` is the exit code, checked with both streams in the message."""
        done = subprocess.run([str(DLC_CHECK), *map(str, arguments)], capture_output=True, text=True, timeout=self.patience,
                              cwd=cwd or self.dir, input=stdin, env=env or self.env)
        if expect is not None:
            self.assertEqual(done.returncode, expect, f"$ dlc-check {' '.join(map(str, arguments))}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}")
        return done

    def write(self, name, text):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text, indent=2))
        return path

    def keys(self, kind="p256"):
        directory = self.dir / f"keys-{kind}"
        if not directory.exists():
            self.run_cli("keygen", "--out-dir", directory, "--type", kind, expect=OK)
        return directory / "dlc-check.key", directory / "dlc-check.pub"

    def example(self, name="example"):
        """A copy of examples/local that a test may change."""
        copy = self.dir / name
        shutil.copytree(EXAMPLE, copy)
        return copy

    def findings(self, report):
        """rule -> list of (verdict, subject name) of a --format json report."""
        table = {}
        for finding in report["findings"]:
            table.setdefault(finding["rule"], []).append((finding["verdict"], finding["subject"]["name"]))
        return table


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Server:
    """An HTTP server on a fresh loopback port. `handler(request)` gets the BaseHTTPRequestHandler."""

    def __init__(self, handler):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                handler(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


def answer(request, status, body=b"", **headers):
    request.send_response(status)
    request.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)


def interrupt_when(event, process, number=signal.SIGINT):
    """Sends the signal once the event is set, without guessing how long that takes."""
    def wait():
        if event.wait(60):
            process.send_signal(number)
    threading.Thread(target=wait, daemon=True).start()

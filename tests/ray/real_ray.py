"""A head of a real Ray, on fresh loopback ports and in a fresh directory, for tests and for recording its answers.

DLC_RAY_PYTHON names a python that can import ray[default]; tests/ray/install.sh makes one.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

PYTHON = os.environ.get("DLC_RAY_PYTHON", "")
PATIENCE = 120  # seconds for a head to come up, or a job to end


def free_ports(count):
    """Ports that nothing listens on now: Ray chooses none by itself for its dashboard."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def ray_version():
    done = subprocess.run([PYTHON, "-c", "import ray; print(ray.__version__)"], capture_output=True, text=True, timeout=PATIENCE, check=True)
    return done.stdout.strip()


class Started:
    """A `ray start --block` with all that it started. `enter` is what a command starts with to run on its node."""

    def __init__(self, directory, enter):
        self.directory, self.enter = directory, enter
        self.process = None

    def start(self, options, env):
        argv = [*self.enter, PYTHON, "-m", "ray.scripts.scripts", "start", "--block", *options, "--node-manager-port=0", "--object-manager-port=0",
                "--memory=500000000", "--object-store-memory=80000000", "--disable-usage-stats"]
        self.process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        cwd=self.directory, start_new_session=True)
        timer = threading.Timer(PATIENCE, self._kill)
        timer.start()
        said = []
        for line in self.process.stdout:
            said.append(line)
            # Printed when the dashboard has told where it listens.
            if "Ray runtime started" in line:
                break
        else:
            raise RuntimeError("Ray did not start:\n" + "".join(said))
        timer.cancel()
        # Ray goes on printing: a full pipe would stop it.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def _kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def descendants(self):
        """Ray's daemons lead process groups of their own."""
        parents = {}
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
        found, queue = [], [self.process.pid]
        while queue:
            for child in parents.get(queue.pop(), []):
                found.append(child)
                queue.append(child)
        return found

    def stop(self):
        if self.process:
            children = self.descendants()
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self._kill()
            for child in children:
                try:
                    os.kill(child, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process.wait(30)


class Head(Started):
    """`ray start --head --block`; `gpus` is what it is told, whatever this machine has. The dashboard listens on `host`."""

    def __init__(self, gpus, token=None, host="127.0.0.1", cpus=1, enter=(), node_ip="127.0.0.1"):
        self.host, self.node_ip, self.cpus = host, node_ip, cpus
        # Ray's sockets lie below it, and their paths may have 107 characters.
        super().__init__(tempfile.mkdtemp(prefix="dlc-ray-", dir="/tmp"), enter)
        self.token = token
        self.address = ""
        try:
            self._start(gpus)
        except BaseException:
            self.stop()
            raise

    def _start(self, gpus):
        gcs, dashboard, client, agent, agent_grpc, metrics, runtime_env = free_ports(7)
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("RAY_") and "proxy" not in name.lower()}
        env.update(HOME=self.directory, RAY_USAGE_STATS_ENABLED="0", PYTHONUNBUFFERED="1",
                   PATH=f"{pathlib.Path(PYTHON).parent}:{os.environ['PATH']}")
        if self.token:
            env.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=self.token)
        else:
            env["RAY_AUTH_MODE"] = "disabled"
        self.environment = env
        self.gcs = f"{self.node_ip}:{gcs}"
        self.start(["--head", f"--node-ip-address={self.node_ip}",
                    f"--port={gcs}", f"--dashboard-port={dashboard}", f"--dashboard-host={self.host}",
                    f"--ray-client-server-port={client}", f"--dashboard-agent-listen-port={agent}",
                    f"--dashboard-agent-grpc-port={agent_grpc}", f"--metrics-export-port={metrics}",
                    f"--runtime-env-agent-port={runtime_env}",
                    f"--num-gpus={gpus}", f"--num-cpus={self.cpus}",
                    f"--temp-dir={self.directory}/t", "--include-dashboard=true"], env)
        self.port = dashboard
        self.address = f"http://{self.host}:{dashboard}"

    def ask(self, path, body=None, method=None):
        """The bytes of the dashboard's answer, whatever it is."""
        request = urllib.request.Request(self.address + path, data=json.dumps(body).encode() if body else None, method=method)
        if body:
            request.add_header("Content-Type", "application/json")
        if self.token:
            request.add_header("Authorization", "Bearer " + self.token)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=PATIENCE) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            return error.read()

    def submit(self, submission_id, entrypoint, runtime_env):
        """Asks again while the head's agent, which takes jobs, is not up: nothing tells when it is."""
        body = {"submission_id": submission_id, "entrypoint": entrypoint, "runtime_env": runtime_env}
        end = time.monotonic() + PATIENCE
        while True:
            answer = self.ask("/api/jobs/", body)
            try:
                return json.loads(answer)
            except ValueError:
                if time.monotonic() > end:
                    raise RuntimeError("the job was not taken: " + answer.decode(errors="replace")) from None
            threading.Event().wait(0.5)

    def attach(self, code):
        """A driver that no job was submitted for."""
        subprocess.run([PYTHON, "-c", code], env=self.environment | {"RAY_ADDRESS": self.gcs}, cwd=self.directory, timeout=PATIENCE, check=True,
                       capture_output=True)

    def stop(self):
        super().stop()
        shutil.rmtree(self.directory, ignore_errors=True)


class Worker(Started):
    """Another node of that head's cluster; `more` is what its environment, and that of all that runs on it, has beside the head's."""

    def __init__(self, head, gpus, cpus, enter, node_ip, more=None):
        super().__init__(head.directory, enter)
        agent, agent_grpc, metrics, runtime_env = free_ports(4)
        try:
            self.start([f"--address={head.gcs}", f"--node-ip-address={node_ip}", f"--dashboard-agent-listen-port={agent}",
                        f"--dashboard-agent-grpc-port={agent_grpc}", f"--metrics-export-port={metrics}", f"--runtime-env-agent-port={runtime_env}",
                        f"--num-gpus={gpus}", f"--num-cpus={cpus}"], head.environment | (more or {}))
        except BaseException:
            self.stop()
            raise

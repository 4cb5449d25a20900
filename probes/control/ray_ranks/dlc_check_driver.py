"""Carries dlc-probe to the ranks of a Ray cluster: one actor a rank, and nothing that dlc-check could do itself. When the ranks have
ended it starts dlc_check_trainer.py, where that is asked for.

dlc-check submits it as a job, with dlc-probe beside it in the working_dir, and talks to it both ways through what the Jobs API has:

- an order, that dlc-check puts where packages are kept (Ray's internal KV) and puts again, changed, as long as it lives. An order
  that stays as it is for leaseSeconds has lost its dlc-check, and "stop" in it asks the ranks to stop;
- frames in the job's log, each with its number and the sha256 of what it carries: JSON lines, of which the last closes the stream.
"""
import base64
import hashlib
import json
import os
import queue
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

import ray
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get
from ray.util import get_node_ip_address, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

Message = Dict[str, Any]

LOOK_SECONDS = 0.5  # between looks at the order
TOLD_AGAIN_SECONDS = 15  # that it still waits
STOP_SECONDS = 40  # for ranks to clean up; dlc-probe's own limits are shorter
FRAME_BYTES = 48 * 1024
PIPE_BYTES = 1 << 16
WORDS_BYTES = 8192  # of what dlc_check_trainer.py said last, where it failed
WORDS_LINES = 20
KEPT_LINES = 1000  # of a rank's output, waiting to be fetched: then the rank waits too


class Stream:
    """JSON lines in frames, each written at once: nothing of another writer gets into one."""

    def __init__(self) -> None:
        self.number = 0
        self.digests = hashlib.sha256()
        self.pending: List[bytes] = []

    def say(self, message: Message) -> None:
        self.pending.append(json.dumps(message).encode() + b"\n")

    def flush(self) -> None:
        data = b"".join(self.pending)
        self.pending = []
        for start in range(0, len(data), FRAME_BYTES):
            piece = data[start:start + FRAME_BYTES]
            self._write(piece)

    def _write(self, piece: bytes) -> None:
        text = base64.b64encode(piece)
        digest = hashlib.sha256(piece).hexdigest().encode()
        line = b"\n@dlc-check %d %s %s\n" % (self.number, digest, text)
        self.digests.update(digest)
        self.number += 1
        while line:
            line = line[os.write(1, line):]

    def close(self) -> None:
        self.flush()
        end = {"event": "end", "frames": self.number, "sha256": self.digests.hexdigest()}
        self._write(json.dumps(end).encode() + b"\n")


class Rank:
    """The actor: a dlc-probe, started as a training process of this worker would be."""

    def __init__(self) -> None:
        self.lines: "queue.Queue[Tuple[str, str]]" = queue.Queue(KEPT_LINES)
        self.process: Optional["subprocess.Popen[bytes]"] = None
        self.listener: Optional[socket.socket] = None
        self.readers: List[threading.Thread] = []

    def where(self, sha256: str) -> Message:
        """Where this is, and that its dlc-probe is the one that was sent: Ray keeps packages by their names alone."""
        probe = os.path.abspath("dlc-probe")
        with open(probe, "rb") as file:
            found = hashlib.sha256(file.read()).hexdigest()
        if found != sha256:
            raise RuntimeError(f"{probe} has sha256 {found}, and {sha256} was sent")
        os.chmod(probe, 0o755)  # Ray unpacks without the mode
        context = ray.get_runtime_context()
        return {"node": context.get_node_id(), "ip": get_node_ip_address(), "gpus": [str(gpu) for gpu in ray.get_gpu_ids()]}

    def listen(self) -> int:
        """The port that the ranks meet at, held until dlc-probe has it."""
        try:
            self.listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        except (OSError, ValueError):
            self.listener = socket.create_server(("", 0))
        return int(self.listener.getsockname()[1])

    def start(self, plan: str, secret: str, environment: Dict[str, str]) -> None:
        reading, writing = os.pipe()
        os.write(writing, secret.encode())
        os.close(writing)
        added = dict(environment, DLC_CHECK_RUN_SECRET_FD=str(reading))
        passed = [reading]
        if self.listener:
            added["DLC_CHECK_LISTEN_FD"] = str(self.listener.fileno())
            passed.append(self.listener.fileno())
        self.process = subprocess.Popen([os.path.abspath("dlc-probe"), "run", "--leashed", "--plan", "-"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ, **added), pass_fds=passed)
        os.close(reading)
        if self.listener:
            self.listener.close()
        for name, pipe in (("out", self.process.stdout), ("err", self.process.stderr)):
            self.readers.append(threading.Thread(target=self._read, args=(name, pipe), daemon=True))
            self.readers[-1].start()
        try:
            self.process.stdin.write(plan.encode())  # type: ignore[union-attr]
            self.process.stdin.close()  # type: ignore[union-attr]
        except BrokenPipeError:
            pass  # how it ended says more

    def _read(self, name: str, pipe: Any) -> None:
        for line in pipe:
            self.lines.put((name, line.decode(errors="replace").rstrip("\n")))

    def turn(self) -> Message:
        """What it wrote since, waiting a moment for it; "exit" once there is no more."""
        ended = not any(reader.is_alive() for reader in self.readers)
        taken: List[Tuple[str, str]] = []
        try:
            taken.append(self.lines.get(timeout=0 if ended else LOOK_SECONDS))
            while True:
                taken.append(self.lines.get_nowait())
        except queue.Empty:
            pass
        answer: Message = {"lines": taken}
        if ended and self.lines.empty() and self.process:
            answer["exit"] = self.process.wait()
        return answer

    def signal(self, number: int) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)


class Order:
    """What dlc-check wants now."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.seen: Optional[bytes] = None
        self.changed = time.monotonic()
        self.lease = float("inf")
        self.terminated = False
        signal.signal(signal.SIGTERM, self._terminate)

    def _terminate(self, *_: Any) -> None:
        self.terminated = True

    def read(self) -> Optional[Message]:
        value = _internal_kv_get(self.key)
        if value != self.seen:
            self.seen, self.changed = value, time.monotonic()
        return json.loads(value) if value else None

    def why_stop(self) -> str:
        """Empty: go on."""
        if self.terminated:
            return "terminated"
        wanted = self.read()
        if wanted and wanted["stop"]:
            return "asked"
        if time.monotonic() - self.changed > self.lease:
            return "lease"
        return ""


def delete_when_ended(submission_id: str) -> None:
    """For a dlc-check that may be gone by then: in a process that outlives the job. More than once, for Ray's own look at the job
    (each second) may write it down again as one that failed."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    code = ("import sys, time\nfrom ray.job_submission import JobSubmissionClient\nclient = JobSubmissionClient()\n"
            "gone = 0\nfor _ in range(90):\n    try:\n        client.delete_job(sys.argv[1])\n        gone = 0\n"
            "    except RuntimeError as error:\n        gone = gone + 1 if 'does not exist' in str(error) else 0\n"
            "    if gone > 4:\n        break\n    time.sleep(1)\n")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.chdir("/")
    os.execv(sys.executable, [sys.executable, "-c", code, submission_id])


class Run:
    def __init__(self, wanted: Message, order: Order, stream: Stream) -> None:
        self.wanted, self.order, self.stream = wanted, order, stream
        self.group: Any = None
        self.actors: List[Any] = []

    def say(self, event: str, **more: Any) -> None:
        self.stream.say(dict(event=event, **more))

    def say_free(self, event: str, **more: Any) -> None:
        total, free = ray.cluster_resources(), ray.available_resources()
        self.say(event, resources={name: [free.get(name, 0), total.get(name, 0)] for name in ("GPU", "CPU")}, **more)

    def place(self) -> str:
        """Waits until the ranks have their places; else why not."""
        bundle = {name: amount for name, amount in (("CPU", 1), ("GPU", self.wanted["gpusPerRank"])) if amount}
        self.group = placement_group([bundle] * self.wanted["ranks"], strategy=self.wanted["strategy"])
        ready = self.group.ready()
        end = time.monotonic() + self.wanted["waitSeconds"]
        told = float("-inf")
        while not ray.wait([ready], timeout=LOOK_SECONDS)[0]:
            why = self.order.why_stop()
            if why:
                return why
            if time.monotonic() > end:
                return "busy"
            if time.monotonic() - told > TOLD_AGAIN_SECONDS:
                told = time.monotonic()
                self.say_free("waiting")
                self.stream.flush()
        return ""

    def until(self, refs: List[Any]) -> List[Any]:
        """Their values; whoever asks to stop meanwhile is heard."""
        while len(ray.wait(refs, num_returns=len(refs), timeout=LOOK_SECONDS)[0]) < len(refs):
            why = self.order.why_stop()
            if why:
                raise InterruptedError(why)
        values: List[Any] = ray.get(refs)
        return values

    def start(self) -> None:
        resources = {"num_cpus": 1, "num_gpus": self.wanted["gpusPerRank"]}
        made = [ray.remote(Rank).options(scheduling_strategy=PlacementGroupSchedulingStrategy(self.group, index), **resources).remote()
                for index in range(self.wanted["ranks"])]
        places = self.until([actor.where.remote(self.wanted["probeSha256"]) for actor in made])
        # As Ray Train has it: a node's ranks in a row, and its GPUs visible to each of them.
        nodes = list(dict.fromkeys(place["node"] for place in places))
        order = sorted(range(len(made)), key=lambda i: (nodes.index(places[i]["node"]), places[i]["gpus"]))
        self.actors = [made[i] for i in order]
        places = [places[i] for i in order]
        port = self.until([self.actors[0].listen.remote()])[0]
        secret = secrets.token_hex(32)
        started = []
        for rank, place in enumerate(places):
            here = [p for p in places if p["node"] == place["node"]]
            environment = {"RANK": str(rank), "WORLD_SIZE": str(len(places)), "LOCAL_RANK": str(here.index(place)),
                           "MASTER_ADDR": places[0]["ip"], "MASTER_PORT": str(port)}
            gpus = sorted(gpu for p in here for gpu in p["gpus"])
            if gpus:
                environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
            started.append(self.actors[rank].start.remote(self.wanted["plan"], secret, environment))
        self.until(started)
        self.say("started", nodes=len(nodes), master=places[0]["ip"])

    def follow(self) -> str:
        """Until all ranks have ended, or shall and do not. Why they were asked to; empty: they were not."""
        turns = {actor.turn.remote(): rank for rank, actor in enumerate(self.actors)}
        why, end = "", float("inf")
        while turns and time.monotonic() < end:
            self.stream.flush()
            if not why:
                why = self.order.why_stop()
                if why:
                    end = time.monotonic() + STOP_SECONDS
                    self.say("stopping", why=why)
                    for actor in self.actors:
                        actor.signal.remote(signal.SIGTERM)
            for ref in ray.wait(list(turns), num_returns=len(turns), timeout=LOOK_SECONDS)[0]:
                rank = turns.pop(ref)
                try:
                    answer = ray.get(ref)
                except ray.exceptions.RayError as error:
                    self.say("lost", rank=rank, text=str(error)[:2000])
                    continue
                for name, line in answer["lines"]:
                    self.say(name, rank=rank, line=line)
                if "exit" in answer:
                    self.say("exit", rank=rank, code=answer["exit"])
                else:
                    turns[self.actors[rank].turn.remote()] = rank
        for rank in turns.values():
            self.say("lost", rank=rank, text="it did not end when it was asked to")
        return why

    def clean(self) -> None:
        for actor in self.actors:
            ray.kill(actor)
        self.actors = []
        if self.group is not None:
            remove_placement_group(self.group)
            self.group = None

    def train(self) -> None:
        """TorchTrainer's part, in a process that cleans up by itself when this one is gone: it is then no more asked to go on."""
        words = tempfile.TemporaryFile()
        process = subprocess.Popen([sys.executable, "-B", "dlc_check_trainer.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=words, start_new_session=True)
        lines: "queue.Queue[Optional[bytes]]" = queue.Queue()

        def read() -> None:
            for line in process.stdout:  # type: ignore[union-attr]
                lines.put(line)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        process.stdin.write(json.dumps(self.wanted["trainer"]).encode() + b"\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        why, end = "", float("inf")
        while time.monotonic() < end:
            self.stream.flush()
            try:
                line = lines.get(timeout=LOOK_SECONDS)
                if line is None:
                    break
                self.say("training", **json.loads(line))
            except queue.Empty:
                pass
            if not why:
                why = self.order.why_stop()
                if why:
                    end = time.monotonic() + STOP_SECONDS
                    self.say("stopping", why=why)
                    process.stdin.close()  # type: ignore[union-attr]
        else:
            return  # it goes on cleaning by itself; that it was not seen to end is told
        code = process.wait()
        words.seek(max(words.seek(0, os.SEEK_END) - WORDS_BYTES, 0))
        lines_said = words.read().decode(errors="replace").splitlines() if code else []
        self.say("training", what="closed", code=code, lines=lines_said[-WORDS_LINES:])


def main() -> int:
    key, submission_id = sys.argv[1:]
    ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    order, stream = Order(key), Stream()
    wanted = order.read()
    if wanted is None:
        print("dlc-check: its order is gone:", key, file=sys.stderr)
        return 1
    order.lease = wanted["leaseSeconds"]
    run = Run(wanted, order, stream)
    try:
        why = run.place()
        if why:
            run.say_free("not-placed", why=why)
        else:
            run.start()
            stopped = run.follow()
            run.clean()
            if wanted.get("trainer") and not stopped:
                run.train()
    except InterruptedError as stopped:
        run.say("not-placed", why=str(stopped))
    except Exception as error:  # whatever it is: dlc-check tells it
        run.say("failed", text=f"{type(error).__name__}: {error}"[:4000])
    finally:
        run.clean()
        stream.close()
        # dlc-check says "stop" too when it has all of this.
        while not order.why_stop():
            time.sleep(LOOK_SECONDS)
        _internal_kv_del(key)
        ray.shutdown()
        delete_when_ended(submission_id)
    return 0


if __name__ == "__main__":
    sys.exit(main())

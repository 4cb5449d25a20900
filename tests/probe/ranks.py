"""Starts ranks of dlc-probe as torchrun would, and reads what they write."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

PLENTY = 60  # seconds; a test that needs them has failed


def probe():
    """The program under test, where a caller names no other."""
    return os.environ["DLC_PROBE"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def plan(steps, faults=(), gather=False, join_ms=20000, **more):
    return dict({"apiVersion": "dlc-check/rank-plan/v1", "runId": secrets.token_hex(8),
                 "joinDeadlineMs": join_ms, "gather": gather, "steps": steps,
                 "faults": list(faults)}, **more)


def step(kind, deadline_ms=20000, name=None, **parameters):
    return {"name": name or kind, "kind": kind, "deadlineMs": deadline_ms,
            "parameters": parameters}


class Rank:
    """One finished rank."""

    def __init__(self, rank, code, out, err):
        self.rank, self.code, self.out, self.err = rank, code, out, err
        try:
            lines = [json.loads(line) for line in out.splitlines()]
        except ValueError as e:
            raise ValueError(f"rank {rank}, exit code {code}: {e} in {out!r}; {err}") from e
        self.events = [line for line in lines if "event" in line]
        documents = [line for line in lines if "apiVersion" in line]
        assert len(documents) <= 1, out
        assert not documents or lines[-1] is documents[0], "the document is the last line"
        self.document = documents[0] if documents else None

    def seen(self, rank=None):
        """The observations of a rank in this rank's document."""
        wanted = self.rank if rank is None else rank
        for report in self.document["ranks"]:
            if report.get("rank", 0) == wanted:
                return report["seen"]["value"]
        raise KeyError(wanted)


def start(size, the_plan, secret=None, port=None, only=None, env=None, unset=(), program=None, flags=()):
    """Processes by rank. `the_plan` and `env` are the same for all, or functions of the rank; what `env` sets wins over
    what torchrun would set, and `unset` takes names away."""
    port = port or free_port()
    secret = secret or secrets.token_hex(16)
    processes = {}
    for rank in range(size) if only is None else only:
        with tempfile.TemporaryFile() as file:
            text = the_plan(rank) if callable(the_plan) else the_plan
            file.write(text if isinstance(text, bytes) else json.dumps(text).encode())
            file.seek(0)
            whole = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank),
                         MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                         DLC_CHECK_RUN_SECRET=secret)
            whole.update((env(rank) if callable(env) else env) or {})
            for name in unset:
                whole.pop(name, None)
            processes[rank] = subprocess.Popen(
                [program or probe(), "run", *flags, "--plan", "-"], stdin=file, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, env=whole)
    return processes


def end(processes):
    """Kills what still runs."""
    for process in processes.values():
        if process.poll() is None:
            process.kill()
            process.communicate()


def finish(processes, timeout=PLENTY):
    """The ranks, each waited for so many seconds; one that needs longer ends them all."""
    ranks = []
    try:
        for rank, process in processes.items():
            out, err = process.communicate(timeout=timeout)
            ranks.append(Rank(rank, process.returncode, out, err))
    finally:
        end(processes)
    return ranks


def run(size, the_plan, timeout=PLENTY, **more):
    return finish(start(size, the_plan, **more), timeout)


def leftover_processes(marker):
    """Processes that still have `marker` in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if marker.encode() in file.read() and int(pid) != os.getpid():
                    found.append(int(pid))
        except OSError:
            pass
    return found

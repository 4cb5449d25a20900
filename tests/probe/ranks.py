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

PROBE = os.environ["DLC_PROBE"]
PLENTY = 60  # seconds; a test that needs them has failed


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
        lines = [json.loads(line) for line in out.splitlines()]
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


def start(size, the_plan, secret=None, port=None, only=None, env=None):
    port = port or free_port()
    secret = secret or secrets.token_hex(16)
    processes = {}
    for rank in range(size) if only is None else only:
        with tempfile.TemporaryFile() as file:
            text = the_plan(rank) if callable(the_plan) else the_plan
            file.write(text if isinstance(text, bytes) else json.dumps(text).encode())
            file.seek(0)
            processes[rank] = subprocess.Popen(
                [PROBE, "run", "--plan", "-"], stdin=file, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True,
                env=dict(os.environ, RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank),
                         MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                         DLC_CHECK_RUN_SECRET=secret, **(env or {})))
    return processes


def finish(processes):
    ranks = []
    try:
        for rank, process in processes.items():
            out, err = process.communicate(timeout=PLENTY)
            ranks.append(Rank(rank, process.returncode, out, err))
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.kill()
                process.communicate()
    return ranks


def run(size, the_plan, **more):
    return finish(start(size, the_plan, **more))


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

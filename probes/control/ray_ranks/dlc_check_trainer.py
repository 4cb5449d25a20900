"""Keeps TorchTrainer's driver, dlc_check_fit.py: makes and removes the directory, starts it, ends it, and sees that nothing of it stays.

dlc_check_driver.py starts it when the ranks have left their places, and writes its work to stdin: a line of JSON, TrainerWork of
probes/control/launcher/launcher.h. When stdin ends it stops. Lines of JSON on stdout tell what there is to tell.

It is a process of its own so that it can kill the one that drives: what that had started in the cluster, Ray ends with it.
"""
from __future__ import annotations

import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from dlc_check_fit import LOOK_SECONDS, Json, until_stdin_ends, words_of

START_FIT = "import dlc_check_fit; dlc_check_fit.fit()"  # as a module: Ray's workers are to find it as one
START_SECONDS = 180  # for workers that have their places, to load Ray Train and torch
ABORT_SECONDS = 10  # for TorchTrainer to end by itself
CLEANER_SECONDS = 8  # for Ray Train's own to see that it is no more needed
GONE_SECONDS = 30  # for actors of a driver that is gone
# Actors that Ray Train makes to outlive its driver, and that write nothing: one ends some seconds after its controller, but for the times
# that it does not (seen in 2.60: its thread ends and it stays), one is the cluster's, which Ray makes once for all jobs and keeps.
CLEANER, COORDINATOR = "PlacementGroupCleaner", "_AutoscalingCoordinatorActor"
STAYS_GONE_SECONDS = 1  # that a directory must, when all who wrote there are said to be gone


def end_softly(child: "subprocess.Popen[bytes]") -> None:
    """Ray Train 2 ends what it started on SIGINT; on SIGKILL it may leave its detached PlacementGroupCleaner."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
    try:
        child.wait(ABORT_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


class Keeper:
    def __init__(self) -> None:
        self.events: queue.Queue[Json | None] = queue.Queue()
        self.job = self.node = ""

    def say(self, **message: Any) -> None:
        try:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()
        except OSError:
            pass  # the driver is gone; what is left to do is to clean

    def run(self) -> None:
        work = json.loads(sys.stdin.buffer.readline())
        made = pathlib.Path(work["directory"])
        try:
            made.mkdir()
        except OSError as error:
            self.say(what="failed", words=f"the driver of TorchTrainer, on {socket.gethostname()}, cannot make {made}: {error.strerror}")
            return
        try:
            self.follow(work)
        except Exception as error:
            self.say(what="failed", words=f"dlc_check_trainer.py: {words_of(error)['words']}")
        finally:
            self.wait_for_actors({CLEANER, COORDINATOR})
            self.remove(made)
            self.wait_for_actors({COORDINATOR})
            self.say(what="cleaned")

    def follow(self, work: Json) -> None:
        child = subprocess.Popen([sys.executable, "-B", "-c", START_FIT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert child.stdin and child.stdout
            child.stdin.write(json.dumps(work).encode() + b"\n")
            child.stdin.flush()
            threading.Thread(target=self.read, args=(child.stdout,), daemon=True).start()
            threading.Thread(target=self.wait_for_stop, daemon=True).start()
            why = self.until_ended(work)
        finally:
            end_softly(child)
        if why:
            self.say(what=why)
        elif child.returncode:
            self.say(what="died", code=child.returncode)

    def read(self, pipe: Any) -> None:
        for line in pipe:
            self.events.put(json.loads(line))
        self.events.put(None)

    def wait_for_stop(self) -> None:
        until_stdin_ends()
        self.events.put({"what": "stopped"})

    def until_ended(self, work: Json) -> str:
        """Empty, or why it is ended."""
        now = time.monotonic()
        end, placed = now + work["deadlineSeconds"], now + work["waitSeconds"] + START_SECONDS
        while True:
            try:
                event = self.events.get(timeout=max(min(end, placed) - time.monotonic(), 0))
            except queue.Empty:
                return "timed-out" if end <= placed else "not-placed"
            if event is None:
                return ""
            if event["what"] == "stopped":
                return "stopped"
            if event["what"] == "job":
                self.job, self.node = event["id"], event["node"]
                continue
            if event["what"] == "run":
                placed = time.monotonic() + work["waitSeconds"] + START_SECONDS
            if event["what"] in ("here", "ended"):
                placed = float("inf")
            self.say(**event)

    def wait_for_actors(self, but: set[str]) -> None:
        """Until Ray has ended the driver's: they may write."""
        if not self.job:
            return
        from ray.util.state import list_actors

        start = time.monotonic()
        left = ["unknown"]
        while time.monotonic() < start + GONE_SECONDS:
            try:
                found = list_actors(filters=[("job_id", "=", self.job), ("state", "!=", "DEAD")], timeout=GONE_SECONDS)
                left = [one.class_name for one in found if one.class_name not in but]
                if CLEANER in left and time.monotonic() > start + CLEANER_SECONDS:
                    self.kill_cleaners(found)
            except Exception:  # Ray may be ending itself
                pass
            if not left:
                return
            time.sleep(LOOK_SECONDS)
        self.say(what="left", text=f"actors of Ray's job {self.job} ({', '.join(sorted(set(left)))}): ray list actors --filter job_id={self.job}")

    def kill_cleaners(self, found: list[Any]) -> None:
        """A detached actor without a name has no handle any more, and its process is one of this node: Ray Train puts it on the head,
        where jobs run."""
        for one in found:
            if one.class_name == CLEANER and one.node_id == self.node:
                title = pathlib.Path(f"/proc/{one.pid}/cmdline").read_bytes()
                if title.startswith(f"ray::{CLEANER}".encode()):
                    os.kill(one.pid, signal.SIGKILL)

    def remove(self, made: pathlib.Path) -> None:
        stays = time.monotonic() + STAYS_GONE_SECONDS
        end = time.monotonic() + GONE_SECONDS
        reason = ""
        while time.monotonic() < min(stays, end):
            try:
                shutil.rmtree(made)
                stays = time.monotonic() + STAYS_GONE_SECONDS
            except FileNotFoundError:
                reason = ""
            except OSError as error:
                reason = error.strerror or str(error)
                stays = time.monotonic() + STAYS_GONE_SECONDS
            time.sleep(LOOK_SECONDS / 5)
        if made.exists():
            self.say(what="left", text=f"{made}: {reason or 'it comes back'}")


if __name__ == "__main__":
    Keeper().run()

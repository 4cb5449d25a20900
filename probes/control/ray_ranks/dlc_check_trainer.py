"""Has Ray Train's TorchTrainer do what train_framework.py does, and tells what its workers say. It judges nothing.

dlc_check_driver.py starts it when the ranks have left their places, and writes its work to stdin: a line of JSON, TrainerWork of
probes/control/launcher/launcher.h. When stdin ends it stops. Lines of JSON on stdout tell what there is to tell.

It is two processes. The first keeps: it makes and removes the directory, and can kill the second, which is TorchTrainer's driver: what
that had started in the cluster, Ray ends with it.
"""
from __future__ import annotations

import contextlib
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
import traceback
from typing import Any, Callable, Iterator

import train_framework as framework

Json = dict[str, Any]

LOOK_SECONDS = 0.5
START_SECONDS = 180  # for workers that have their places, to load Ray Train and torch
ABORT_SECONDS = 10  # for TorchTrainer to end by itself
CLEANER_SECONDS = 8  # for Ray Train's own to see that it is no more needed
GONE_SECONDS = 30  # for actors of a driver that is gone
# Actors that Ray Train makes to outlive its driver, and that write nothing: one ends some seconds after its controller, but for the times
# that it does not (seen in 2.60: its thread ends and it stays), one is the cluster's, which Ray makes once for all jobs and keeps.
CLEANER, COORDINATOR = "PlacementGroupCleaner", "_AutoscalingCoordinatorActor"
STAYS_GONE_SECONDS = 1  # that a directory must, when all who wrote there are said to be gone
WORDS = 2000
LINES = 30
LOG_BYTES = 1 << 20


class Told:
    """An actor: what the workers tell, until it is fetched."""

    def __init__(self) -> None:
        self.messages: list[Json] = []

    def tell(self, message: Json) -> None:
        self.messages.append(message)

    def take(self) -> list[Json]:
        taken, self.messages = self.messages, []
        return taken


# In a worker of Ray Train.


class Teller:
    def __init__(self, told: Any, rank: int) -> None:
        self.told, self.rank = told, rank
        self.start = time.monotonic()

    def tell(self, what: str, **more: Any) -> None:
        """When this returns it is kept, also if this worker is lost."""
        import ray

        ray.get(self.told.tell.remote(dict(what=what, rank=self.rank, seconds=time.monotonic() - self.start, **more)))

    def say(self, text: str) -> None:
        self.tell("said", text=text)


class InRayTrain(framework.Launched):
    """Ray Train has arranged how the ranks meet, and where the checkpoint goes."""

    def __init__(self, checkpoint: Any) -> None:
        self.checkpoint = checkpoint

    def gpu(self, place: framework.Place) -> int:
        from ray.train.torch import get_device

        return int(get_device().index or 0)

    def join(self, job: framework.Job, place: framework.Place) -> str:
        import torch.distributed as dist

        return str(dist.get_backend())

    def save(self, job: framework.Job, engine: Any) -> None:
        """To a directory of this rank, of which Ray Train copies all ranks' into one. Below the run's own, so that nothing of a worker
        that is lost stays on its node."""
        import ray.train

        mine = pathlib.Path(job.directory, f"saved-by-{os.environ['RANK']}")
        try:
            mine.mkdir()
        except FileNotFoundError:
            raise RuntimeError(f"{mine.parent}, which the driver of TorchTrainer made, is not there on {socket.gethostname()}: "
                               "the storage path is not shared") from None
        engine.save(str(mine))
        ray.train.report({"step": job.steps}, checkpoint=ray.train.Checkpoint.from_directory(str(mine)))
        shutil.rmtree(mine)

    def load(self, job: framework.Job, engine: Any) -> None:
        with self.checkpoint.as_directory() as directory:
            engine.load(directory)

    def leave(self) -> None:
        import torch.distributed as dist

        dist.barrier()


@contextlib.contextmanager
def nccl_log(wanted: bool, tell: Callable[[str], None]) -> Iterator[None]:
    """What NCCL of this process logs from here on. Ray Train has made the process group; NCCL starts with its first collective."""
    if not wanted:
        yield
        return
    log = os.memfd_create("nccl.log")
    os.environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,ENV,NET,GRAPH", NCCL_DEBUG_FILE=f"/proc/self/fd/{log}")
    try:
        yield
    finally:
        tell(os.pread(log, LOG_BYTES, 0).decode(errors="replace"))


def planted(kind: str) -> None:
    if kind == "exit":
        os._exit(1)
    if kind in ("crash", "kill"):
        os.kill(os.getpid(), signal.SIGSEGV if kind == "crash" else signal.SIGKILL)
    while kind == "sleep":
        time.sleep(60)


def train_loop(config: Json) -> None:
    import ray

    place = framework.Place.of_environment()
    tell = Teller(config["told"], place.rank)
    tell.tell("here", host=socket.gethostname(), actor=ray.get_runtime_context().get_actor_id())
    try:
        job = framework.Job(**config["otherJobs"].get(str(place.rank), config["job"]))
        planted(config["plant"].get(str(place.rank), ""))
        facts = framework.begun(job, place)
        if not facts["missing"]:
            with nccl_log(job.device == "cuda", lambda text: tell.tell("nccl", text=text)):
                framework.run(job, place, tell, facts, InRayTrain(config["checkpoint"]))
        tell.tell("result", facts=json.dumps(facts, allow_nan=False))
    except Exception as error:
        tell.tell("raised", **words_of(error))
        raise


def words_of(error: BaseException) -> Json:
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__)).splitlines()
    words = traceback.format_exception_only(type(error), error)[-1].strip()
    return {"words": words[:WORDS], "lines": [line[:400] for line in lines if line.strip()][-LINES:]}


# The second process.


class Fit:
    def __init__(self, work: Json, say: Callable[..., None]) -> None:
        import ray

        self.work, self.say = work, say
        ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
        context = ray.get_runtime_context()
        say(what="job", id=context.get_job_id(), node=context.get_node_id())
        self.told = ray.remote(Told).options(num_cpus=0).remote()
        self.rank_of_actor: dict[str, int] = {}
        self.relaying = threading.Lock()
        threading.Thread(target=self.relay, daemon=True).start()

    def take(self) -> None:
        import ray

        with self.relaying:
            for message in ray.get(self.told.take.remote()):
                if message["what"] == "here":
                    self.rank_of_actor[message["actor"]] = message["rank"]
                self.say(**message)

    def relay(self) -> None:
        while True:
            self.take()
            time.sleep(LOOK_SECONDS)

    def trainer(self, run: Json, checkpoint: Any) -> Any:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        work = self.work
        resources = {name: amount for name, amount in (("CPU", 1), ("GPU", work["gpusPerWorker"])) if amount}
        # Ray Train before 2 holds a CPU for its own actor, which 2 does not; the ranks had places for themselves alone.
        own: Json = {} if is_version_2() else {"trainer_resources": {"CPU": 0}}
        config = {"told": self.told, "job": run["job"], "otherJobs": run["otherJobs"], "plant": run["plant"], "checkpoint": checkpoint}
        return TorchTrainer(
            train_loop, train_loop_config=config,
            torch_config=TorchConfig(backend="nccl" if run["job"]["device"] == "cuda" else "gloo", timeout_s=int(work["deadlineSeconds"]) + 1),
            scaling_config=ScalingConfig(num_workers=work["workers"], use_gpu=bool(work["gpusPerWorker"]), resources_per_worker=resources,
                                         placement_strategy=work["strategy"], **own),
            run_config=RunConfig(name=work["name"] + "-" + run["name"], storage_path=work["storage"], failure_config=FailureConfig(max_failures=0)))

    def runs(self) -> None:
        checkpoint = None
        for run in self.work["runs"]:
            self.say(what="run", run=run["name"])
            end: Json = {"how": "finished"}
            try:
                checkpoint = self.trainer(run, checkpoint).fit().checkpoint
                self.take()
            except Exception as error:
                self.take()
                end = how_it_failed(error, self.rank_of_actor)
            self.say(what="ended", **end)
            if end["how"] != "finished":
                return


def is_version_2() -> bool:
    try:
        from ray.train.v2._internal.constants import is_v2_enabled
    except ImportError:
        return False
    return bool(is_v2_enabled())


def loss_in(failure: Any) -> Any:
    """What Ray says of the actor that it lost, where that is why."""
    import ray

    seen = 0
    while failure is not None and seen < 8:
        if isinstance(failure, ray.exceptions.RayActorError):
            return failure
        failure = getattr(failure, "health_check_failure", None) or getattr(failure, "cause", None) or failure.__cause__
        seen += 1
    return None


def how_it_failed(error: BaseException, rank_of_actor: dict[str, int]) -> Json:
    """Which workers Ray lost, where it says so. A worker that raised has told itself."""
    losses = {rank: loss_in(failure) for rank, failure in getattr(error, "worker_failures", {}).items()}
    losses = {rank: loss for rank, loss in losses.items() if loss is not None}
    first = next(iter(losses.values()), None) or loss_in(error)
    if first is None:
        return {"how": "raised", **words_of(error)}
    # Ray Train before 2 names none by its rank.
    ranks = list(losses) or [rank for actor, rank in rank_of_actor.items() if actor == getattr(first, "actor_id", None)]
    return {"how": "lost", "lost": ranks, "words": " ".join(str(first).split())[:WORDS]}


def lacking(error: BaseException | None) -> str:
    """The package that is not there, if that is why an import failed. Ray words some anew, without the name."""
    words = ""
    while error is not None:
        if isinstance(error, ModuleNotFoundError):
            if error.name:
                return error.name
            words = words or str(error)
        error = error.__cause__ or error.__context__
    return words


def until_stdin_ends() -> None:
    """Without Python's buffer, which a thread may not hold when the interpreter ends."""
    while os.read(0, 1 << 16):
        pass


def fit() -> None:
    work = json.loads(sys.stdin.buffer.readline())
    # Ray Train prints.
    out = os.dup(1)
    os.dup2(2, 1)
    writing = threading.Lock()

    def say(**message: Any) -> None:
        line = json.dumps(message).encode() + b"\n"
        with writing:
            while line:
                line = line[os.write(out, line):]

    def end_with_keeper() -> None:
        until_stdin_ends()
        os._exit(1)

    threading.Thread(target=end_with_keeper, daemon=True).start()
    try:
        import ray.train.torch  # noqa: F401
    except ImportError as error:
        package = lacking(error)
        say(what="run", run=work["runs"][0]["name"])
        say(what="ended", **({"how": "missing", "words": package} if package else {"how": "raised", **words_of(error)}))
        return
    Fit(work, say).runs()
    os._exit(0)  # what is still there of this driver's is Ray's to end


# The first process.


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
        child = subprocess.Popen([sys.executable, "-B", "-c", "import dlc_check_trainer; dlc_check_trainer.fit()"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
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

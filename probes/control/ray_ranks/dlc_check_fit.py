"""TorchTrainer's driver, and what it has its workers do: what train_framework.py does, told as it goes. It judges nothing.

dlc_check_trainer.py starts it, writes its work to stdin, a line of JSON, and ends it by ending stdin. Lines of JSON on stdout tell what
there is to tell.
"""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from typing import Any, Callable, Iterator

import train_framework as framework

Json = dict[str, Any]

LOOK_SECONDS = 0.5
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


# In TorchTrainer's driver.


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

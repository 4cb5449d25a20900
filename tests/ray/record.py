"""Records what a real Ray's dashboard answers, for the tests that run without one: tests/testdata/ray/VERSION/.

    DLC_RAY_PYTHON=.../bin/python python3 tests/ray/record.py
"""
import json
import pathlib
import threading

import real_ray

QUESTIONS = {"authentication_mode": "/api/authentication_mode", "version": "/api/version",
             "nodes": "/api/v0/nodes?detail=1&limit=10000", "jobs": "/api/jobs/"}
# Shaped as a secret is, and none: it must not be seen in what is made of it.
JOBS = {
    "pip-job": ("python train.py", {"pip": ["transformers==4.46.3", "--extra-index-url https://ci:hush-hush@wheels.invalid/simple"],
                                    "env_vars": {"HF_TOKEN": "hush-hush", "FI_PROVIDER": "efa"}}),
    "plain-job": ("echo done", {}),
}
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


def record(directory, token):
    head = real_ray.Head(gpus=4, token=token)
    try:
        for name, (entrypoint, runtime_env) in JOBS.items():
            head.submit(name, entrypoint, runtime_env)
        head.attach("import ray; ray.init(runtime_env={'env_vars': {'FI_PROVIDER': 'efa'}}); ray.shutdown()")
        while json.loads(head.ask("/api/jobs/plain-job"))["status"] not in ENDED:
            threading.Event().wait(0.5)
        for name, path in QUESTIONS.items():
            answer = head.ask(path)
            if answer.startswith((b"{", b"[")):  # a Ray before 2.52 has no authentication to ask for
                (directory / f"{name}.json").write_bytes(answer.replace(real_ray.PYTHON.encode(), b"python"))
    finally:
        head.stop()


def main():
    directory = pathlib.Path(__file__).resolve().parents[1] / "testdata" / "ray" / real_ray.ray_version()
    directory.mkdir(parents=True, exist_ok=True)
    record(directory, token=None)
    print(directory)


if __name__ == "__main__":
    main()

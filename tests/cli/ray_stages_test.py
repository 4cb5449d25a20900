"""All stages of `dlc-check cluster` in one run on a real Ray of a head and two workers, signed, verified and judged again.

Real: Ray, its dashboard, jobs, placement groups and workers, on three nodes (nodes.py: namespaces of one machine); dlc-check, its way
to the ranks and back, libfabric, training, saving and loading, signatures. Fake: the GPUs. Ray is told of two on each worker, and this
machine has none: where a test says so, NVML, libcuda and NCCL are those of tests/fakes, found as the image's own would be, by the
environment of Ray's workers, and dlc-probe is the one with the CPU twin in the place of CUDA. Made up: the image and what Kubernetes
says of the pods (examples/local).

It runs where DLC_RAY_PYTHON names a python that can import ray[default] and nodes may be made; else ctest skips it.
"""
import base64
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import unittest

import nodes
from harness import DLC_CHECK, FAILED, NOT_TRUSTWORTHY, OK, check_in
from ray_ranks_test import LEASE, PATIENCE, SKIPPED, Cluster, ForClass, real_ray

FAKE_GPUS, FAKE_NCCL = (pathlib.Path(os.environ[name]) for name in ("DLC_FAKE_GPU_DIR", "DLC_FAKE_NCCL_DIR"))
HEAD, WORKERS = "ray-train-cluster-head-7x2kq", ("ray-train-cluster-gpu-workers-worker-4fbzd", "ray-train-cluster-gpu-workers-worker-9qmtn")
WORKER_ADDRESSES = ("127.0.0.2", "127.0.0.3")
GPUS = 2  # of each worker
STAGES = ("image", "gpu", "nccl", "fsdp", "checkpoint")
MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:00:00 UTC 2025\n"
LIBRARIES = {"libcuda.so.1": FAKE_GPUS, "libcuda.so.580.95.05": FAKE_GPUS, "libnvidia-ml.so.1": FAKE_GPUS, "libnccl.so.2": FAKE_NCCL}


class Stages(Cluster):
    @classmethod
    def setUpClass(cls):
        cls.case = ForClass(cls)
        # Empty but where a test puts the fakes into it.
        cls.libraries = cls.case.dir / "lib"
        cls.libraries.mkdir()
        head, *workers = [nodes.Node(cls.case, name) for name in (HEAD, *WORKERS)]
        cls.head = real_ray.Head(gpus=0, cpus=1, enter=head.enter())
        cls.addClassCleanup(cls.head.stop)
        for number, node in enumerate(workers):
            node.run("mkdir", "-p", cls.head.directory)
            node.mount_tmpfs(cls.head.directory)
            root = cls.case.dir / f"root{number}"
            (root / "dev").mkdir(parents=True)
            for name in [f"nvidia{i}" for i in range(GPUS)] + ["nvidiactl", "nvidia-uvm"]:
                (root / "dev" / name).touch()
            (root / "proc/driver/nvidia").mkdir(parents=True)
            (root / "proc/driver/nvidia/version").write_text(MODULE)
            more = {"LD_LIBRARY_PATH": str(cls.libraries), "FAKE_NCCL_NETWORK": "Libfabric",
                    "DLC_FAKE_GPU": f"gpus={GPUS};first={GPUS * number};root={root}"}
            worker = real_ray.Worker(cls.head, gpus=GPUS, cpus=GPUS, enter=node.enter(), node_ip=WORKER_ADDRESSES[number], more=more)
            cls.addClassCleanup(worker.stop)
        cls.addresses = dict(zip((HEAD, *WORKERS), (cls.await_nodes(), *WORKER_ADDRESSES)))

    @classmethod
    def await_nodes(cls):
        """Until Ray's own list has all of them; the head's address in it, which is not the loopback address that it was given."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = json.loads(cls.head.ask("/api/v0/nodes?detail=1&limit=10000"))["data"]["result"]["result"]
            alive = {node["node_ip"]: node["is_head_node"] for node in answer if node["state"] == "ALIVE"}
            if len(alive) == 1 + len(WORKERS):
                return next(address for address, is_head in alive.items() if is_head)
            threading.Event().wait(0.2)
        raise RuntimeError(f"Ray lists {alive}")

    def setUp(self):
        super().setUp()
        self.program = DLC_CHECK

    def use_fakes(self):
        for name, directory in LIBRARIES.items():
            (self.libraries / name).symlink_to(directory / name)
            self.addCleanup((self.libraries / name).unlink)
        self.program = check_in(self.dir / "bin")
        self.program.with_name("dlc-probe").symlink_to(FAKE_GPUS / "bin" / "dlc-probe")  # the one with the twin

    def config(self, target=""):
        """What Kubernetes would say is examples/local's, with this Ray's addresses and numbers."""
        ray, python = real_ray.ray_version(), subprocess.run([real_ray.PYTHON, "-c", "import platform; print(platform.python_version())"],
                                                             capture_output=True, text=True, check=True).stdout.strip()
        copy = self.example()
        pods = json.loads((copy / "pods.json").read_text())
        for pod in pods["items"]:
            pod["status"]["podIP"] = self.addresses[pod["metadata"]["name"]]
            pod["spec"]["nodeSelector"] = {}
            resources = pod["spec"]["containers"][0]["resources"]
            for kind in resources.values():
                kind.pop("vpc.amazonaws.com/efa", None)
                if "nvidia.com/gpu" in kind:
                    kind["nvidia.com/gpu"] = str(GPUS)
        self.write("example/pods.json", pods)
        cluster = (copy / "raycluster.yaml").read_text()
        cluster = cluster.replace('rayVersion: "2.58.0"', f'rayVersion: "{ray}"').replace('num-gpus: "4"', f'num-gpus: "{GPUS}"')
        cluster = cluster.replace('nvidia.com/gpu: "4"', f'nvidia.com/gpu: "{GPUS}"').replace(', vpc.amazonaws.com/efa: "1"', "")
        self.write("example/raycluster.yaml", cluster)
        versions = f"ray: {ray}, python: {python}, efaInstaller: 1.49.0"
        self.write("example/pod-versions.yaml", "".join(f"- {{pod: {pod}, {versions}}}\n" for pod in self.addresses))
        digest = re.search(r"digest: (sha256:\w+)", (copy / "policy.yaml").read_text())[1]
        return self.write("example/stages.yaml", f"""apiVersion: dlc-check/v1
kind: Config
target: {{type: ray, ranks: {2 * GPUS}, leaseSeconds: {LEASE}{target}}}
image: {{reference: 'oci:image:train-ml-cuda-v1.1.0', manifests: [raycluster.yaml, pods.json, nodes.json]}}
ray: {{address: '{self.head.address}', podVersions: pod-versions.yaml}}
gpu: {{seconds: 0.1}}
checkpoint: {{path: {self.shared}}}
workload: {{model: qwen2.5-1.5b, workers: {2 * GPUS}, gpusPerWorker: 1, nodes: 2, steps: 5}}
policy:
  stages: [{', '.join(STAGES)}]
  image: {{digest: '{digest}', containerType: training, efaInstaller: 1.49.0}}
  ray: {{version: {ray}, python: "{python}"}}
  gpu: {{perWorkerPod: {GPUS}, workerPods: 2, devices: required}}
  fabric: {{efa: no}}
  nccl: {{measure: required, transport: EFA_LOGGED, sizes: [8, 65536]}}
  fsdp: {{measure: required, models: [qwen2-tiny], training: {{backend: cpu, model: qwen2-tiny}}}}
  checkpoint: {{backend: cpu}}
  storage: {{metadataFiles: 0, maxBytesPerRank: 4194304}}
""")

    @staticmethod
    def unwanted(table):
        return {(rule, f["verdict"], f["severity"]) for rule, some in table.items() for f in some if f["verdict"] in ("fail", "unknown")}

    @staticmethod
    def verdicts(findings):
        return sorted((f["rule"], f["subject"]["name"], f["verdict"]) for f in findings)

    def key(self):
        """A key of openssl's making."""
        key, public = self.dir / "key.pem", self.dir / "public.pem"
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key], check=True, capture_output=True)
        key.chmod(0o600)
        subprocess.run(["openssl", "ec", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)
        return key, public

    def stages(self, expect, target=""):
        """The findings by rule, and the report."""
        key, self.public = self.key()
        self.out = self.dir / "out"
        done = subprocess.run([self.program, "cluster", "-c", self.config(target), "--sign-key", key, "--format", "json", "--out", self.out, "-v"],
                              capture_output=True, text=True, timeout=self.patience, env=self.env, cwd=self.dir)
        report = json.loads(done.stdout) if done.stdout.startswith("{") else {"findings": []}
        table = {}
        for finding in report["findings"]:
            table.setdefault(finding["rule"], []).append(finding)
        told = [f"{f['verdict']} ({f['severity']}) {f['rule']} {f['subject']['name']}: {f['reason']['message']}"
                for some in table.values() for f in some if f["verdict"] in ("fail", "unknown")]
        self.assertEqual(done.returncode, expect, "\n".join([*told, done.stderr[-3000:]]))
        self.seen = json.loads((self.out / "evidence.statement.json").read_text())["predicate"]["observations"]
        self.assert_clean()
        return table, report


class All(Stages):
    def test_a_run_of_all_stages_is_signed_verified_and_judged_again(self):
        """GPUs and NCCL are the fakes."""
        self.use_fakes()
        table, report = self.stages(OK)
        self.assertEqual(report["outcome"], "PASSED")
        self.assertEqual({one for one in self.unwanted(table) if one[2] != "warn"}, set())
        # The image is the example's, of another Ray.
        self.assertIn(("ray-version/spec-matches-image", "fail", "warn"), self.unwanted(table))
        passed = {rule for rule, some in table.items() if "pass" in {f["verdict"] for f in some}}
        for rule in ("image-digest/pod-runs-accepted-digest", "ray-version/one-running-version", "ray-version/ray-nodes-alive",
                     "gpu-allocation/ray-advertises-limit", "gpu-allocation/ranks-hold-limit", "gpu-visible/own-gpu",
                     "gpu-visible/visible-devices-list", "gpu-driver/cuda-starts", "gpu-compute/computes", "gpu-compute/right-product",
                     "fabric-bandwidth/right-data", "nccl-transport/level",
                     "nccl-collectives/right-results", "nccl-collectives/completes", "fsdp-layout/right-elements", "fsdp-training/unsharded-model",
                     "storage-shared/files-visible", "storage-speed/transfers-complete", "checkpoint-reload/same-state", "checkpoint-resume/state"):
            self.assertIn(rule, passed)
        for stage in ("gpu", "nccl", "fsdp", "checkpoint"):
            hosts = self.hosts(stage)
            self.assertEqual((hosts[:GPUS], hosts[GPUS:]), ([hosts[0]] * GPUS, [hosts[-1]] * GPUS), stage)
            self.assertEqual({hosts[0], hosts[-1]}, set(WORKERS), stage)
        # As Ray Train has it, each rank is shown all GPUs of its node's ranks, and works on its own.
        self.assertEqual({note for f in table["gpu-visible/visible-devices-list"] for note in f["notes"]}, {"CUDA_VISIBLE_DEVICES='0,1'"})
        self.assertEqual(len({f["subject"]["name"] for f in table["gpu-compute/right-product"]}), 2 * GPUS)
        self.verify_and_judge(table)

    def hosts(self, stage):
        """Of each rank in turn."""
        run = self.seen[f"{stage}Ranks"]["value"]
        self.assertEqual(run["launcher"], "ray")
        facts = [rank["seen"]["value"]["facts"] for rank in run["ranks"]]
        self.assertEqual([fact.get("rank", 0) for fact in facts], list(range(2 * GPUS)))
        return [fact["host"] for fact in facts]

    def verify_and_judge(self, table):
        bundle = self.out / "evidence.sigstore.json"
        self.run_cli("report", "verify", bundle, "--key", self.public, expect=OK)
        self.assert_openssl_verifies(bundle)
        self.assertEqual(self.verdicts(json.loads(self.run_cli("judge", bundle, "--format", "json", expect=OK).stdout)["findings"]),
                         self.verdicts(f for some in table.values() for f in some))
        stricter = self.write("stricter.yaml", "apiVersion: dlc-check/v1\nkind: Policy\nstages: [gpu]\ngpu: {model: H200}\n")
        again = json.loads(self.run_cli("judge", bundle, "--policy", stricter, "--format", "json", expect=FAILED).stdout)
        self.assertIn(("gpu-visible/as-policy", "fail"), {(f["rule"], f["verdict"]) for f in again["findings"]})
        envelope = json.loads(bundle.read_text())
        payload = base64.b64decode(envelope["dsseEnvelope"]["payload"])
        changed = payload.replace(WORKERS[0].encode(), WORKERS[1].encode())
        self.assertNotEqual(changed, payload)
        envelope["dsseEnvelope"]["payload"] = base64.b64encode(changed).decode()
        self.run_cli("report", "verify", self.write("changed.json", envelope), "--key", self.public, expect=NOT_TRUSTWORTHY)

    def assert_openssl_verifies(self, bundle):
        envelope = json.loads(bundle.read_text())["dsseEnvelope"]
        payload = base64.b64decode(envelope["payload"])
        self.assertEqual(payload, (self.out / "evidence.statement.json").read_bytes())
        kind = envelope["payloadType"]
        (self.dir / "message").write_bytes(f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload)
        (self.dir / "signature").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
        done = subprocess.run(["openssl", "dgst", "-sha256", "-verify", self.public, "-signature", self.dir / "signature", self.dir / "message"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_fault_in_each_stage_is_found_at_its_rank(self):
        """GPUs and NCCL are the fakes."""
        self.use_fakes()
        steps = {"gpu-compute": "gpu-compute/right-memory", "fabric-pairs": "fabric-bandwidth/right-data", "nccl-float32": "nccl-collectives/right-results",
                 "fsdp-layout": "fsdp-layout/right-elements", "checkpoint-load": "checkpoint-reload/same-state"}
        table, _ = self.stages(FAILED, ", plantedFaults: [" + ", ".join(f"{{rank: 3, step: {step}, kind: flip-bit}}" for step in steps) + "]")
        for rule in steps.values():
            failed = [f for f in table[rule] if f["verdict"] == "fail"]
            self.assertTrue(failed, rule)
            self.assertIn("rank 3", " ".join([f["subject"]["name"] + f["reason"]["message"] for f in failed]), rule)
        self.assertIn(("coverage/no-planted-faults", "unknown", "required"), self.unwanted(table))

    def test_gpus_that_are_only_declared_are_said_to_be_missing(self):
        """Nothing is fake but what Ray was told: four GPUs, where there are none and no driver."""
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this host has a GPU")
        table, report = self.stages(FAILED)
        self.assertEqual(report["outcome"], "FAILED")
        self.assertEqual(set(self.hosts("gpu")), set(WORKERS))
        # Ray gives them out: its word agrees with the pods', and is said to be only that.
        self.assertEqual({f["verdict"] for f in table["gpu-allocation/ray-advertises-limit"]}, {"pass"})
        self.assertIn("its count is only declared", " ".join(note for f in table["gpu-allocation/ray-advertises-limit"] for note in f["notes"]))
        given = table["gpu-visible/gpu-given"]
        self.assertEqual([f["verdict"] for f in given], ["fail"] * 2 * GPUS)
        for finding in given:
            for part in ("/dev/nvidia0", "libcuda.so.1"):
                self.assertIn(part, finding["reason"]["message"])
        # No other rule about them passes, and the later stages were not looked at for that reason.
        named = ("gpu-visible/", "gpu-driver/", "gpu-compute/", "nccl-", "fabric-bandwidth/", "fsdp-", "storage-", "checkpoint-")
        passed = {rule for rule, some in table.items() for f in some if f["verdict"] == "pass"}
        self.assertEqual({rule for rule in passed if rule.startswith(named) or rule == "gpu-allocation/ranks-hold-limit"}, set())
        for stage in ("nccl", "fsdp", "checkpoint"):
            self.assertEqual(self.seen[f"{stage}Ranks"]["state"], "not_looked_at")
            self.assertIn("gpu-allocation/ranks-hold-limit", json.dumps(self.seen[f"{stage}Ranks"]))


if __name__ == "__main__":
    if not real_ray.PYTHON:
        print("SKIPPED: no real Ray: set DLC_RAY_PYTHON to a python with ray[default] (bash tests/ray/install.sh DIR)")
        sys.exit(SKIPPED)
    if not nodes.may_make_nodes():
        print("SKIPPED: no right to make mount namespaces: no second node")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""Writes the hermetic inputs hx01..hx07 beside this file. Digests, names and addresses are invented;
the digests of hx01 are the real sha256 of the files in its OCI layout. README.md tells what each is for.
Run it again after a change here and commit what it wrote: the tests read the files, not this script."""

import copy
import hashlib
import json
import pathlib
import shutil

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = "public.ecr.aws/deep-learning-containers/ray"
OLD = "sha256:" + "1" * 64  # of v1.0, invented
NEW = "sha256:" + "2" * 64  # of v1.1, invented


def write(path, value):
    path = HERE / path
    path.parent.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value, indent=1) + "\n"
    path.write_text(text)


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def pod(name, kind, node, ip, image, image_id, gpus="4", efa="1"):
    head = kind == "head"
    limits = {"cpu": "4", "memory": "16Gi"} if head else {"cpu": "40", "nvidia.com/gpu": gpus,
                                                         "vpc.amazonaws.com/efa": efa}
    container = "ray-head" if head else "ray-worker"
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "ray-train", "uid": "uid-" + name,
                     "labels": {"ray.io/cluster": "ray-train-cluster", "ray.io/node-type": kind,
                                "ray.io/group": "headgroup" if head else "gpu-workers",
                                "ray.io/is-ray-node": "yes"}},
        "spec": {"nodeName": node,
                 "containers": [{"name": container, "image": image, "imagePullPolicy": "IfNotPresent",
                                 "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}] if head else [],
                                 "resources": {"limits": limits, "requests": limits}}]},
        "status": {"phase": "Running", "podIP": ip,
                   "containerStatuses": [{"name": container, "image": image, "imageID": image_id,
                                          "ready": True, "restartCount": 0,
                                          "state": {"running": {"startedAt": "2026-11-30T10:00:00Z"}}}]},
    }


def pods(items):
    return {"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": items}


def node(name, instance_type="g6.12xlarge", gpus="4", efa="1", zone="us-west-2a", role="gpu-worker"):
    allocatable = {"cpu": "47", "memory": "180Gi", "pods": "234"}
    if gpus is not None:
        allocatable["nvidia.com/gpu"] = gpus
    if efa is not None:
        allocatable["vpc.amazonaws.com/efa"] = efa
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"role": role, "kubernetes.io/arch": "amd64",
                                                  "node.kubernetes.io/instance-type": instance_type,
                                                  "topology.kubernetes.io/zone": zone}},
            "spec": {},
            "status": {"allocatable": allocatable, "capacity": allocatable,
                       "conditions": [{"type": "Ready", "status": "True"}],
                       "nodeInfo": {"architecture": "amd64", "kubeletVersion": "v1.36.0"}}}


def nodes(*items):
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


SYSTEM_NODE = node("system-1", "m5.xlarge", None, None, "us-west-2b", "system")


def cluster(image=REPOSITORY + "@" + NEW, ray_version='rayVersion: "2.58.0"', head_params='num-gpus: "0"',
            head_env=True, worker_params='num-gpus: "4"', limits='nvidia.com/gpu: "4", vpc.amazonaws.com/efa: "1"',
            requests=None, init="", selector="role: gpu-worker"):
    requests = limits if requests is None else requests
    env = "\n            env:\n              - { name: NVIDIA_VISIBLE_DEVICES, value: \"void\" }" if head_env else ""
    version = "\n  " + ray_version if ray_version else ""
    head_line = "{ " + head_params + " }"
    return f"""apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: ray-train-cluster
  namespace: ray-train
spec:{version}
  headGroupSpec:
    rayStartParams: {head_line}
    template:
      spec:
        containers:
          - name: ray-head
            image: "{image}"{env}
            resources:
              limits: {{ cpu: "4", memory: 16Gi }}
  workerGroupSpecs:
    - groupName: gpu-workers
      replicas: 2
      minReplicas: 2
      maxReplicas: 2
      rayStartParams: {{ {worker_params} }}
      template:
        spec:
          nodeSelector: {{ {selector} }}{init}
          containers:
            - name: ray-worker
              image: "{image}"
              env:
                - {{ name: FI_PROVIDER, value: "efa" }}
              resources:
                limits: {{ {limits} }}
                requests: {{ {requests} }}
"""


def policy(body):
    return "apiVersion: dlc-check/v1\nkind: Policy\n" + body


def ray_nodes(head_gpus, worker_gpus=(4, 4)):
    def one(ip, head, gpus):
        resources = {"CPU": 4.0, "memory": 1.6e10, f"node:{ip}": 1.0}
        if head:
            resources["node:__internal_head__"] = 1.0
        if gpus:
            resources["GPU"] = float(gpus)
        return {"node_id": "n" + ip.replace(".", ""), "node_ip": ip, "is_head_node": head, "state": "ALIVE",
                "state_message": None, "node_name": ip, "resources_total": resources, "labels": {}}
    listed = [one("10.0.0.1", True, head_gpus)]
    listed += [one(f"10.0.0.{i + 2}", False, gpus) for i, gpus in enumerate(worker_gpus)]
    dead = one("10.0.0.9", False, 4)
    dead["state"] = "DEAD"
    listed.append(dead)
    return {"result": True, "msg": "", "data": {"result": {
        "total": len(listed), "num_after_truncation": len(listed), "num_filtered": len(listed), "result": listed,
        "partial_failure_warning": "", "warnings": None}}}


def hx01():
    layout = HERE / "hx01" / "layout"
    shutil.rmtree(layout, ignore_errors=True)
    blobs = {}

    def blob(value):
        data = json.dumps(value, separators=(",", ":")).encode()
        blobs[digest(data)] = data
        return {"digest": digest(data), "size": len(data)}

    def manifest(architecture):
        config = blob({"architecture": architecture, "os": "linux", "created": "1970-01-01T00:00:00Z",
                       "config": {"Env": ["DLC_CONTAINER_TYPE=training", "FI_PROVIDER=efa"],
                                  "Entrypoint": ["/usr/local/bin/entrypoint.sh"],
                                  "Labels": {"framework": "ray", "framework_version": "2.58.0",
                                             "dlc_major_version": "1", "dlc_minor_version": "1"}},
                       "rootfs": {"type": "layers", "diff_ids": []}})
        entry = blob({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                      "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **config},
                      "layers": []})
        return {"mediaType": "application/vnd.oci.image.manifest.v1+json", **entry,
                "platform": {"architecture": architecture, "os": "linux"}}, config["digest"]

    amd64, amd64_config = manifest("amd64")
    arm64, _ = manifest("arm64")
    attestation = blob({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                        "config": {"mediaType": "application/vnd.oci.image.config.v1+json",
                                   **blob({"architecture": "unknown", "os": "unknown"})}, "layers": []})
    # amd64 is not the first entry: taking manifests[0] is a trap.
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
        {"mediaType": "application/vnd.oci.image.manifest.v1+json", **attestation,
         "platform": {"architecture": "unknown", "os": "unknown"},
         "annotations": {"vnd.docker.reference.type": "attestation-manifest",
                         "vnd.docker.reference.digest": amd64["digest"]}},
        arm64, amd64]}
    entry = blob(index)
    (HERE / "hx01" / "index.json").parent.mkdir(parents=True, exist_ok=True)
    (HERE / "hx01" / "index.json").write_bytes(blobs[entry["digest"]])
    write("hx01/layout/oci-layout", '{"imageLayoutVersion": "1.0.0"}\n')
    write("hx01/layout/index.json", {"schemaVersion": 2, "manifests": [
        {"mediaType": index["mediaType"], **entry,
         "annotations": {"org.opencontainers.image.ref.name": "train-ml-cuda-v1.1.0"}}]})
    for name, data in blobs.items():
        target = layout / "blobs" / "sha256" / name.removeprefix("sha256:")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    image = f"{REPOSITORY}@{entry['digest']}"

    def two(head_id, worker_id):
        return pods([pod("ray-head", "head", "system-1", "10.0.0.1", image, head_id),
                     pod("ray-worker-1", "worker", "gpu-1", "10.0.0.2", image, worker_id)])

    index_id = f"{REPOSITORY}@{entry['digest']}"
    write("hx01/pods.json", two(index_id, f"{REPOSITORY}@{amd64['digest']}"))
    write("hx01/pods-config-digest.json", two(index_id, amd64_config))
    write("hx01/pods-arm64.json", two(index_id, f"{REPOSITORY}@{arm64['digest']}"))
    write("hx01/pods-attestation.json", two(index_id, f"{REPOSITORY}@{attestation['digest']}"))
    write("hx01/pods-prefix.json", two(f"docker-pullable://{REPOSITORY}@{entry['digest']}",
                                       f"mirror.example.com/ray@{amd64['digest']}"))
    write("hx01/nodes.json", nodes(SYSTEM_NODE, node("gpu-1")))
    write("hx01/policy.yaml", policy(f"image:\n  digest: {entry['digest']}\n"))


def hx02():
    image = REPOSITORY + ":train-ml-cuda"

    def three(*digests):
        names = [("ray-head", "head", "system-1"), ("ray-worker-1", "worker", "gpu-1"),
                 ("ray-worker-2", "worker", "gpu-2")]
        return pods([pod(name, kind, where, f"10.0.0.{i + 1}", image, f"{REPOSITORY}@{digests[i]}")
                     for i, (name, kind, where) in enumerate(names)])

    write("hx02/pods.json", three(NEW, NEW, OLD))
    write("hx02/pods-all-old.json", three(OLD, OLD, OLD))
    write("hx02/policy.yaml", policy(f"""image:
  digests: [{NEW}, {OLD}]
  releases:
    - name: v1.0
      digest: {OLD}
      contents: {{ ray: 2.58.0, efa-installer: 1.47.0 }}
      knownProblems: ["broadcast can hang where all-reduce passes"]
    - name: v1.1
      digest: {NEW}
      contents: {{ ray: 2.58.0, efa-installer: 1.49.0, aws-ofi-nccl: 1.20.0 }}
"""))


def hx03():
    names = ("ray-head", "ray-worker-1", "ray-worker-2")
    write("hx03/raycluster.yaml", cluster(ray_version='rayVersion: "2.57.0"'))
    write("hx03/raycluster-no-version.yaml", cluster(ray_version=""))
    write("hx03/raycluster-same-version.yaml", cluster())
    write("hx03/version.json", {"version": "4", "ray_version": "2.58.0", "ray_commit": "c0ffee",
                                "session_name": "session_2026-11-30_10-00-00_000000_1"})

    def versions(**changed):
        rows = [{"pod": n, "ray": "2.58.0", "python": "3.13.2", "torch": "2.13.0+cu130", "nccl": "2.29.7",
                 "efaInstaller": "1.49.0"} for n in names]
        rows[2].update(changed)
        return rows

    write("hx03/pod-versions.json", versions())
    write("hx03/pod-versions-other-ray.json", versions(ray="2.57.0"))
    write("hx03/pod-versions-other-python.json", versions(python="3.13.1"))
    write("hx03/pods.json", pods([
        pod(n, "head" if i == 0 else "worker", ("system-1", "gpu-1", "gpu-2")[i], f"10.0.0.{i + 1}",
            f"{REPOSITORY}@{NEW}", f"{REPOSITORY}@{NEW}") for i, n in enumerate(names)]))


def hx04():
    def job(runtime_env):
        return {"type": "SUBMISSION", "job_id": None, "submission_id": "raysubmit_Ab12Cd34Ef56",
                "driver_info": None, "status": "RUNNING", "entrypoint": "python train.py",
                "message": "Job is currently running.", "error_type": None, "start_time": 1764500000000,
                "end_time": None, "metadata": {}, "runtime_env": runtime_env,
                "driver_agent_http_address": "http://10.0.0.1:52365", "driver_node_id": "n10001",
                "driver_exit_code": None}

    override = ["torch==2.9.0", "nvidia-nccl-cu13"]
    write("hx04/job.json", job({"pip": {"packages": override, "pip_check": False},
                                "env_vars": {"HF_TOKEN": "not-to-be-copied", "NCCL_DEBUG": "INFO"}}))
    write("hx04/job-pip-list.json", job({"pip": override}))
    write("hx04/job-uv.json", job({"uv": {"packages": override, "uv_version": "==0.8.0"}}))
    write("hx04/job-conda.json", job({"conda": {"name": "x", "channels": ["conda-forge"], "dependencies": [
        "python=3.13", {"pip": override}]}}))
    write("hx04/job-index-option.json", job({"pip": [
        "--extra-index-url https://download.example.com/whl/cu126", *override]}))
    write("hx04/job-other-spelling.json", job({"pip": ["Torch==2.9.0", "nvidia_nccl_cu13"]}))
    write("hx04/job-requests.json", job({"pip": ["requests"]}))
    write("hx04/job-no-runtime-env.json", job({}))
    write("hx04/jobs.json", [job({"pip": override}), job({})])
    write("hx04/runtime-env.yaml", "pip:\n  - requests\nworking_dir: .\n")


def hx05():
    head = dict(head_params='dashboard-host: "0.0.0.0"', head_env=False)
    write("hx05/raycluster.yaml", cluster(**head))
    write("hx05/raycluster-head-zero.yaml", cluster())
    write("hx05/raycluster-worker-eight.yaml", cluster(worker_params='num-gpus: "8"'))
    write("hx05/raycluster-number.yaml", cluster(worker_params="num-gpus: 4", head_params="num-gpus: 0"))
    write("hx05/ray-nodes.json", ray_nodes(8))
    write("hx05/ray-nodes-head-zero.json", ray_nodes(0))
    write("hx05/ray-nodes-worker-eight.json", ray_nodes(0, (8, 8)))
    write("hx05/ray-list-nodes.json", ray_nodes(0)["data"]["result"]["result"])
    image = REPOSITORY + "@" + NEW
    write("hx05/pods.json", pods([pod("ray-head", "head", "system-1", "10.0.0.1", image, image),
                                  pod("ray-worker-1", "worker", "gpu-1", "10.0.0.2", image, image),
                                  pod("ray-worker-2", "worker", "gpu-2", "10.0.0.3", image, image)]))
    write("hx05/nodes.json", nodes(SYSTEM_NODE, node("gpu-1"), node("gpu-2")))
    write("hx05/policy.yaml", policy("gpu:\n  perWorkerPod: 4\n  workerPods: 2\n"))


def hx07():
    gpus = 'nvidia.com/gpu: "4"'
    efa = ', vpc.amazonaws.com/efa: "1"'
    init = """
          initContainers:
            - name: warm-up
              image: busybox
              resources:
                limits: { vpc.amazonaws.com/efa: "1" }"""
    write("hx07/raycluster.yaml", cluster(limits=gpus))
    write("hx07/raycluster-request-only.yaml", cluster(limits=gpus, requests=gpus + efa))
    write("hx07/raycluster-init-limit.yaml", cluster(limits=gpus, init=init))
    write("hx07/raycluster-one-of-32.yaml", cluster(limits='nvidia.com/gpu: "8"' + efa,
                                                    worker_params='num-gpus: "8"'))
    write("hx07/raycluster-right.yaml", cluster())
    write("hx07/nodes.json", nodes(SYSTEM_NODE, node("gpu-1"), node("gpu-2")))
    write("hx07/nodes-no-efa.json", nodes(SYSTEM_NODE, node("gpu-1", "g6.4xlarge", "4", None),
                                          node("gpu-2", "g6.4xlarge", "4", None)))
    p5 = [node(f"gpu-{i}", "p5.48xlarge", "8", "32") for i in (1, 2)]
    write("hx07/nodes-p5.json", nodes(SYSTEM_NODE, *p5))
    apart = copy.deepcopy([node("gpu-1"), node("gpu-2", zone="us-west-2b")])
    write("hx07/nodes-two-zones.json", nodes(SYSTEM_NODE, *apart))
    image = REPOSITORY + "@" + NEW
    write("hx07/pods-right.json", pods([pod("ray-head", "head", "system-1", "10.0.0.1", image, image),
                                        pod("ray-worker-1", "worker", "gpu-1", "10.0.0.2", image, image),
                                        pod("ray-worker-2", "worker", "gpu-2", "10.0.0.3", image, image)]))
    write("hx07/policy.yaml", policy("fabric:\n  efa: when-available\n"))


for make in (hx01, hx02, hx03, hx04, hx05, hx07):
    make()

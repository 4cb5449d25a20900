#!/usr/bin/env python3
"""How long a look at a large cluster takes, and how much memory. Not a test: it prints numbers and judges none.

  KUBEBUILDER_ASSETS=DIR kubernetes_bench.py BIN_DIR [--nodes 1000] [--pods 10000] [--runs 5]

A real kube-apiserver is filled through its API; then `dlc-check snapshot` and, in the same run and in turn, `kubectl get
pods,nodes,rayclusters -A -o json` to nowhere. The pods are all of one RayCluster, so that both read the same objects.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import kube_server  # noqa: E402
from kube_server import NAMESPACE, KubeServer  # noqa: E402

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "local"
RAY = f"/apis/ray.io/v1/namespaces/{NAMESPACE}"


def fill(server, nodes, pods):
    node = json.loads((EXAMPLE / "nodes.json").read_text())["items"][1]
    worker = json.loads((EXAMPLE / "pods.json").read_text())["items"][1]
    server.namespace()
    server.create(f"{RAY}/rayclusters", (EXAMPLE / "raycluster.yaml").read_bytes(), {"state": "ready"}, "application/yaml")
    server.create_all([("/api/v1/nodes", {**node, "metadata": {**node["metadata"], "name": f"node-{i}"}}, None) for i in range(nodes)])

    def pod(i):
        copy = json.loads(json.dumps(worker))
        copy["metadata"].update(name=f"worker-{i}", uid="")
        copy["spec"]["nodeName"] = f"node-{i % nodes}"
        container = copy["spec"]["containers"][0]
        # What KubeRay and the pods of real clusters carry.
        container["env"] = container.get("env", []) + [{"name": f"SETTING_{n}", "value": f"value-{n}-" + "x" * 40} for n in range(20)]
        container["volumeMounts"] = [{"name": "shared-mem", "mountPath": "/dev/shm"}]
        copy["spec"]["volumes"] = [{"name": "shared-mem", "emptyDir": {"medium": "Memory"}}]
        return f"/api/v1/namespaces/{NAMESPACE}/pods", copy, copy["status"]

    server.create_all([pod(i) for i in range(pods)])


def measured(command, **options):
    """(seconds, peak MiB)"""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)
    process.stderr.read()
    _, code, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    process.stderr.close()
    if process.returncode != 0:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    return time.monotonic() - started, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    kubectl = shutil.which("kubectl")
    if not kube_server.available() or kubectl is None:
        sys.exit("needs KUBEBUILDER_ASSETS with etcd and kube-apiserver, and kubectl")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the servers must not stay
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="dlc-check-bench-"))
    server = KubeServer()
    try:
        server.start()
        started = time.monotonic()
        fill(server, arguments.nodes, arguments.pods)
        print(f"filled in {time.monotonic() - started:.0f} s: {arguments.nodes} nodes, {arguments.pods} pods")
        config = str(server.kubeconfig())
        env = {**os.environ, "HOME": str(scratch), "KUBECONFIG": config}
        version = subprocess.run([kubectl, "version", "--client", "-o", "json"], capture_output=True, text=True, env=env).stdout
        print("kubectl", json.loads(version)["clientVersion"]["gitVersion"])
        ours, theirs = [], []
        for run in range(arguments.runs + 1):  # the first warms both up and is dropped
            out = scratch / f"out-{run}"
            one = measured([str(arguments.bin_dir / "dlc-check"), "snapshot", "--kubeconfig", config, "--image", f"oci:{EXAMPLE / 'image'}", "--out", str(out)], env=env)
            cluster = json.loads((out / "observations.json").read_text())["cluster"]
            if (len(cluster["pods"]["value"]), len(cluster["nodes"]["value"])) != (arguments.pods, arguments.nodes):
                sys.exit("the snapshot is not whole")
            other = measured([kubectl, "get", "pods,nodes,rayclusters", "-A", "-o", "json"], env=env)
            if run > 0:
                ours.append(one)
                theirs.append(other)
        print(f"{'':10} {'median s':>9} {'min s':>7} {'max s':>7} {'peak MiB':>9}")
        for name, rows in (("snapshot", ours), ("kubectl", theirs)):
            seconds = [row[0] for row in rows]
            print(f"{name:10} {statistics.median(seconds):9.2f} {min(seconds):7.2f} {max(seconds):7.2f} {max(row[1] for row in rows):9.0f}")
        print(f"ratio (snapshot / kubectl): time {statistics.median(r[0] for r in ours) / statistics.median(r[0] for r in theirs):.2f}, "
              f"memory {max(r[1] for r in ours) / max(r[1] for r in theirs):.2f}")
    finally:
        server.close()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()

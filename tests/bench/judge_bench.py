#!/usr/bin/env python3
"""How long `judge` takes on a large cluster, and `--version` on nothing. Not a test: it prints numbers and judges none.

  judge_bench.py BIN_DIR [--nodes 1000] [--pods 10000] [--runs 5]

The reference in the same run is `jq empty` on the same file: what it takes another tool to read the document at all.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "local"


def seen(value):
    return {"state": "seen", "value": value}


GPUS_PER_WORKER = 8


def large(small, nodes, pods):
    """The example's observations as a healthy cluster: a worker on every node that holds its 8 GPUs, and pods of other
    workloads up to `pods`."""
    document = json.loads(json.dumps(small))
    copied = lambda value, **changes: dict(json.loads(json.dumps(value)), **changes)
    cluster = document["cluster"]
    head, worker = cluster["pods"]["value"][0], cluster["pods"]["value"][1]
    head_node = next(n for n in cluster["nodes"]["value"] if n["name"] == head["node"])
    node = next(n for n in cluster["nodes"]["value"] if n["name"] == worker["node"])
    address = lambda i: f"10.{1 + (i >> 16)}.{i >> 8 & 255}.{i & 255}"
    amounts = {"nvidia.com/gpu": str(GPUS_PER_WORKER), "vpc.amazonaws.com/efa": "32"}

    def with_amounts(spec):
        for kind in ("limits", "requests"):
            spec["containers"][0][kind].update(amounts)
        return spec

    workers = [copied(worker, name=f"worker-{i:05d}", uid=f"uid-{i:05d}", node=f"node-{i:04d}", podIP=address(i)) for i in range(nodes)]
    for pod in workers:
        with_amounts(pod["spec"])
    others = []
    for i in range(nodes, pods - 1):
        other = copied(worker, name=f"other-{i:05d}", uid=f"uid-{i:05d}", node=f"node-{i % nodes:04d}", podIP=address(i))
        other["spec"]["containers"][0].update(image="example/other:1", limits={"cpu": "100m"}, requests={"cpu": "100m"})
        for key in ("rayCluster", "rayNodeType", "rayGroup"):
            other.pop(key, None)
        others.append(other)
    cluster["pods"] = seen([head, *workers, *others])
    cluster["nodes"] = seen([head_node] + [
        copied(node, name=f"node-{i:04d}", instanceType="p5.48xlarge", allocatable=node["allocatable"] | amounts | {"cpu": "190", "memory": "2000Gi", "pods": "250"})
        for i in range(nodes)])
    ray_head, ray_worker = document["ray"]["nodes"]["value"][:2]
    document["ray"]["nodes"] = seen([ray_head] + [
        copied(ray_worker, nodeId=f"{i:056x}", nodeIp=pod["podIP"], nodeName=pod["podIP"], resources=ray_worker["resources"] | {"GPU": float(GPUS_PER_WORKER)})
        for i, pod in enumerate(workers)])
    version = document["ray"]["podVersions"]["value"][0]
    document["ray"]["podVersions"] = seen([copied(version, pod=p["name"]) for p in [head, *workers]])
    group = cluster["rayClusters"]["value"][0]["workers"][0]
    group.update(replicas=nodes, minReplicas=nodes, maxReplicas=nodes)
    group["rayStartParams"]["num-gpus"] = str(GPUS_PER_WORKER)
    with_amounts(group["pod"])
    document["run"]["stages"] = ["image", "gpu", "nccl"]  # what the policy asks for
    document["run"]["workload"] = {**document["run"].get("workload", {}), "workers": nodes * GPUS_PER_WORKER, "nodes": nodes}
    return document


def policy_for(nodes):
    text = (EXAMPLE / "policy.yaml").read_text()
    for old, new in [("perWorkerPod: 4", f"perWorkerPod: {GPUS_PER_WORKER}"), ("workerPods: 2", f"workerPods: {nodes}"),
                     ("interfacesPerWorkerPod: 1", "interfacesPerWorkerPod: 32")]:
        assert old in text, old
        text = text.replace(old, new)
    return text


def timed(command, runs):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times), done.returncode


def peak_kib(command):
    """Peak resident set of one run, from the kernel's accounting of that child alone."""
    code = ("import resource,subprocess,sys; subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL,stderr=subprocess.DEVNULL); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    return int(subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    tool = str(options.bin_dir / "dlc-check")
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        subprocess.run([tool, "snapshot", "-c", str(EXAMPLE / "dlc-check.yaml"), "--out", str(work / "snapshot"), "-q"], check=True, stdout=subprocess.DEVNULL)
        small = json.loads((work / "snapshot" / "observations.json").read_text())
        big = work / "observations.json"
        big.write_text(json.dumps(large(small, options.nodes, options.pods)))
        policy = work / "policy.yaml"
        policy.write_text(policy_for(options.nodes))
        command = [tool, "judge", str(big), "--policy", str(policy), "--format", "json"]
        judge, code = timed(command, options.runs)
        outcome = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
        print(f"observations: {options.nodes} nodes, {options.pods} pods, {options.nodes * GPUS_PER_WORKER} GPUs, {big.stat().st_size / 1e6:.1f} MB")
        print(f"judge --format json: median of {options.runs}: {judge:.3f} s, peak {peak_kib(command) / 1024:.0f} MiB, exit {code}, "
              f"{len(outcome['findings'])} findings, {outcome['outcome']}")
        for finding in outcome["findings"]:
            if finding["severity"] == "required" and finding["verdict"] in ("fail", "unknown"):
                print(f"  not healthy: {finding['rule']} {finding['subject']['name']}: {finding['reason']['message'] or finding['actual']}"[:200])
        if shutil.which("jq"):
            reference, _ = timed(["jq", "empty", str(big)], options.runs)
            print(f"reference, jq empty on the same file: {reference:.3f} s, peak {peak_kib(['jq', 'empty', str(big)]) / 1024:.0f} MiB; ratio judge/jq {judge / reference:.2f}")
        version, _ = timed([tool, "--version"], 20)
        true, _ = timed(["true"], 20)
        print(f"--version: median of 20: {version * 1000:.1f} ms; reference `true`: {true * 1000:.1f} ms; ratio {version / true:.1f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How long `judge` takes on a large cluster, and `--version` on nothing. Not a test: it prints numbers and judges none.

  judge_bench.py BIN_DIR [--nodes 1000] [--pods 10000] [--gpus 8000] [--runs 5]

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


def large(small, nodes, pods, gpus):
    """The example's observations with its worker, node and Ray node repeated under other names."""
    document = json.loads(json.dumps(small))
    cluster = document["cluster"]
    head, worker = cluster["pods"]["value"][0], cluster["pods"]["value"][1]
    node = next(n for n in cluster["nodes"]["value"] if n.get("instanceType", "").startswith("g6"))
    # GPUs fill the first pods; the rest are pods of other workloads in the same list.
    with_gpu = min(pods - 1, gpus // 4)
    all_pods = [head]
    for i in range(pods - 1):
        pod = json.loads(json.dumps(worker))
        pod.update(name=f"worker-{i:05d}", uid=f"uid-{i:05d}", node=f"node-{i % nodes:04d}", podIP=f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}")
        if i >= with_gpu:
            pod["spec"]["containers"][0]["limits"] = {"cpu": "1"}
            pod["spec"]["containers"][0]["requests"] = {"cpu": "1"}
            for key in ("rayCluster", "rayNodeType", "rayGroup"):
                pod.pop(key, None)
        all_pods.append(pod)
    cluster["pods"] = seen(all_pods)
    cluster["nodes"] = seen([dict(json.loads(json.dumps(node)), name=f"node-{i:04d}") for i in range(nodes)])
    ray_node = document["ray"]["nodes"]["value"][1]
    document["ray"]["nodes"] = seen([document["ray"]["nodes"]["value"][0]] + [
        dict(ray_node, nodeId=f"{i:056x}", nodeIp=all_pods[i + 1]["podIP"], nodeName=all_pods[i + 1]["podIP"]) for i in range(with_gpu)])
    version = document["ray"]["podVersions"]["value"][0]
    document["ray"]["podVersions"] = seen([dict(version, pod=p["name"]) for p in all_pods[:with_gpu + 1]])
    group = cluster["rayClusters"]["value"][0]["workers"][0]
    group.update(replicas=with_gpu, minReplicas=with_gpu, maxReplicas=with_gpu)
    document["run"].get("workload", {}).pop("workers", None)
    return document


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
    parser.add_argument("--gpus", type=int, default=8000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    tool = str(options.bin_dir / "dlc-check")
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        subprocess.run([tool, "snapshot", "-c", str(EXAMPLE / "dlc-check.yaml"), "--out", str(work / "snapshot"), "-q"], check=True, stdout=subprocess.DEVNULL)
        small = json.loads((work / "snapshot" / "observations.json").read_text())
        big = work / "observations.json"
        big.write_text(json.dumps(large(small, options.nodes, options.pods, options.gpus)))
        policy = work / "policy.yaml"
        text = (EXAMPLE / "policy.yaml").read_text()
        policy.write_text("\n".join(l for l in text.splitlines() if "workerPods" not in l) + "\n")
        command = [tool, "judge", str(big), "--policy", str(policy), "--format", "json"]
        judge, code = timed(command, options.runs)
        outcome = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
        print(f"observations: {options.nodes} nodes, {options.pods} pods, {options.gpus} GPUs, {big.stat().st_size / 1e6:.1f} MB")
        print(f"judge --format json: median of {options.runs}: {judge:.3f} s, peak {peak_kib(command) / 1024:.0f} MiB, exit {code}, "
              f"{len(outcome['findings'])} findings, {outcome['outcome']}")
        if shutil.which("jq"):
            reference, _ = timed(["jq", "empty", str(big)], options.runs)
            print(f"reference, jq empty on the same file: {reference:.3f} s, peak {peak_kib(['jq', 'empty', str(big)]) / 1024:.0f} MiB; ratio judge/jq {judge / reference:.2f}")
        version, _ = timed([tool, "--version"], 20)
        true, _ = timed(["true"], 20)
        print(f"--version: median of 20: {version * 1000:.1f} ms; reference `true`: {true * 1000:.1f} ms; ratio {version / true:.1f}")


if __name__ == "__main__":
    main()

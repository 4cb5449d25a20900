#!/usr/bin/env python3
"""What only several GPUs of one host can show, through dlc-check itself: one rank a GPU. Needs dlc-check and dlc-probe, built with
CUDA, side by side, tests/device_report.py in the tree or beside this file, and a directory that has room for the checkpoint.

  several.py --dir DIR [--bin build/release/bin] [--library .../libnccl.so.2] [--ranks 2,4,8] [--model qwen2.5-1.5b]
             [--only one-node,hosts] [--stages gpu,nccl,fsdp,checkpoint] [--engine torch] [--out DIR]

  one-node  as the ranks are: `gpu-peers` sees them joined, NCCL goes from GPU to GPU (`nccl-transport/inside-node`), the level of
            the transport between nodes is not applicable; training and checkpoints, cut for half and a quarter of the ranks
  hosts     each with an NCCL_HOSTID of its own: sockets, which are named TCP_PROVEN

Every comparison is printed; the evidence and the numbers go to --out. Exits 1 on any mismatch, and 2 where there are fewer GPUs than
ranks: that is no pass. NVLink multicast is kept off. --fakes GPU_DIR,NCCL_DIR tries this script itself, without a GPU, on the stages gpu
and nccl. tests/nccl/device.py and tests/fsdp/device.py --own-gpus hold the same against an independent loop and an unsharded model."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))  # after this folder

from device_report import check, gpus_here, note, section, summary, title

# No multicast: a GPU that is lent need not allow it.
QUIET = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
FAKE_GPUS = "root={root};nvlinks=18;gpus={ranks};cuda={ranks}"
PLENTY = 540


def config(ranks, one_node, path):
    stages = [stage for stage in args.stages.split(",") if one_node or stage in ("nccl", "fsdp")]
    nccl = {"measure": "required", "transport": "any"}
    if one_node:
        nccl["insideNode"] = "P2P"
    if args.fakes:
        nccl["sizes"] = [8, 65536]
    training = {"model": args.model, "backend": "cuda", "rows": 1, "sequence": 128, "steps": 5}
    whole = {
        "apiVersion": "dlc-check/v1", "kind": "Config",
        "target": {"type": "local", "ranks": ranks, "timeoutSeconds": PLENTY - 60},
        "policy": {"stages": stages, "fabric": {"efa": "no"}, "gpu": {"devices": "required", "peerAccess": "required"}, "nccl": nccl}}
    if "fsdp" in stages:
        whole["policy"]["fsdp"] = {"training": training}
        if args.engine:
            whole["policy"]["fsdp"]["framework"] = {"engine": args.engine}
    if "checkpoint" in stages:
        whole["checkpoint"] = {"path": path}
        whole["policy"]["checkpoint"] = {"model": args.model, "backend": "cuda", "steps": 2}
    own = {"hostIdPerRank": True} if not one_node else {}
    if args.library:
        own["library"] = args.library
    if own:
        whole["nccl"] = own
    if "gpu" in stages and args.fakes:
        whole["gpu"] = {"seconds": 0.1}
    return whole


def program():
    """dlc-check, with dlc-probe beside it: of the fakes, the one that computes on the CPU."""
    ours = pathlib.Path(args.bin) / "dlc-check"
    if not args.fakes:
        return ours
    copy = pathlib.Path(args.dir) / "bin" / "dlc-check"
    if not copy.exists():
        copy.parent.mkdir(parents=True)
        shutil.copy(ours, copy)
        copy.with_name("dlc-probe").symlink_to(pathlib.Path(args.fakes.split(",")[0]) / "bin" / "dlc-probe")
    return copy


def environment(ranks):
    whole = dict(os.environ, **QUIET)
    if args.fakes:
        gpu, nccl = args.fakes.split(",")
        root = pathlib.Path(args.dir) / f"root{ranks}"
        (root / "dev").mkdir(parents=True, exist_ok=True)
        for name in ["nvidiactl", "nvidia-uvm", *(f"nvidia{i}" for i in range(ranks))]:
            (root / "dev" / name).touch()
        (root / "proc/driver/nvidia").mkdir(parents=True, exist_ok=True)
        (root / "proc/driver/nvidia/version").write_text(
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n")
        whole.update(LD_LIBRARY_PATH=f"{gpu}:{nccl}", DLC_FAKE_GPU=FAKE_GPUS.format(root=root, ranks=ranks), FAKE_NCCL_INSIDE=os.environ.get("FAKE_NCCL_INSIDE", "P2P/CUMEM"),
                     VIRTUAL_ENV="", PYTHONPATH="", PATH="/usr/bin:/bin")
    return whole


def run(label, ranks, one_node):
    """Findings by rule, and what was observed."""
    folder = pathlib.Path(args.out) / label
    path = pathlib.Path(args.dir) / f"checkpoint-{label}"
    path.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(ranks, one_node, str(path))))
    shutil.rmtree(folder / "evidence", ignore_errors=True)
    start = time.monotonic()
    done = subprocess.run([program(), "cluster", "-c", folder / "config.json", "--no-sign", "--format", "json", "--out", folder / "evidence"],
                          text=True, capture_output=True, env=environment(ranks), timeout=PLENTY)
    note(f"{label}: took", f"{time.monotonic() - start:.1f} s")
    (folder / "stderr.txt").write_text(done.stderr)
    if not done.stdout.startswith("{"):
        check(False, f"{label}: dlc-check tells its findings", done.stderr[-2000:])
        return {}
    table = {}
    for finding in json.loads(done.stdout)["findings"]:
        table.setdefault(finding["rule"], []).append(finding)
    bad = [f"{f['verdict']} {f['rule']}: {f['reason']['message']}" for some in table.values() for f in some
           if f["severity"] == "required" and f["verdict"] in ("fail", "unknown")]
    check(done.returncode == 0 and not bad, f"{label}: dlc-check passes", "; ".join([f"exit code {done.returncode}", *bad]))
    check(not list(path.iterdir()), f"{label}: nothing is left at the checkpoint's path", [str(one) for one in path.iterdir()])
    return table


def told(table, rule, verdict, part=""):
    """That all findings of a rule have the verdict, and say so much."""
    some = table.get(rule, [])
    texts = [" ".join([f["actual"], f["reason"]["message"], *f["notes"]]) for f in some]
    good = bool(some) and all(f["verdict"] == verdict for f in some) and all(part in text for text in texts)
    check(good, f"{rule}: {verdict}" + (f", '{part}'" if part else ""), texts)


def numbers(label, table):
    for rule in ("gpu-peers/nvlinks-active", "gpu-peers/peer-access", "nccl-bandwidth/bus-bandwidth", "fsdp-training/unsharded-model",
                 "fsdp-framework/losses", "fsdp-framework/steps-per-second", "checkpoint-reload/saved", "checkpoint-reload/other-world-sizes"):
        for finding in table.get(rule, []):
            note(f"{label}: {rule} {finding['subject']['name']}", {"actual": finding["actual"], "notes": finding["notes"]})


def one_node(ranks):
    label = f"one-node-{ranks}"
    title(f"{ranks} ranks, a GPU each, one node")
    table = run(label, ranks, True)
    if "gpu" in args.stages:
        told(table, "gpu-visible/own-gpu", "pass")
        told(table, "gpu-peers/peer-access", "pass", f"{ranks * (ranks - 1) // 2} of ")
    if "nccl" in args.stages:
        told(table, "nccl-transport/inside-node", "pass", "P2P")
        told(table, "nccl-transport/level", "not_applicable", "one node")
        told(table, "nccl-collectives/right-results", "pass")
    numbers(label, table)


def hosts(ranks):
    label = f"hosts-{ranks}"
    title(f"{ranks} ranks, a GPU and an NCCL_HOSTID each")
    table = run(label, ranks, False)
    if "nccl" in args.stages:
        told(table, "nccl-transport/level", "not_applicable", "TCP_PROVEN")
        told(table, "nccl-transport/inside-node", "not_applicable")
        told(table, "nccl-collectives/right-results", "pass")
    numbers(label, table)


def main():
    sizes = [int(size) for size in args.ranks.split(",")]
    if not args.fakes and gpus_here() < max(sizes):
        print(f"{gpus_here()} GPUs here, not {max(sizes)}: nothing was shown")
        return 2
    for size in sizes:
        for name, work in (("one-node", one_node), ("hosts", hosts)):
            if name in args.only.split(","):
                section(work, size)
    return summary(os.path.join(args.out, "several-summary.json"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--dir", required=True, help="for the checkpoint; 12 bytes a parameter, three times")
    parser.add_argument("--library", default="", help="the libnccl to use; without it as dlc-probe finds it")
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--model", default="qwen2.5-1.5b")
    parser.add_argument("--engine", default="", help="torch, deepspeed: the framework too")
    parser.add_argument("--only", default="one-node,hosts")
    parser.add_argument("--stages", default="gpu,nccl,fsdp,checkpoint")
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--fakes", default="")
    args = parser.parse_args()
    args.bin, args.out, args.dir = (os.path.abspath(one) for one in (args.bin, args.out, args.dir))
    sys.exit(main())

#!/usr/bin/env python3
"""What only a real GPU and a real NCCL can show of sharded training. Needs a dlc-probe that was built with CUDA, Python 3, and
tests/probe/ranks.py and tests/device_report.py, in the tree or beside this file.

  device.py [--probe build/release/bin/dlc-probe] [--library .../libnccl.so.2] [--only tiny,real,planted,torch] [--rows 1]
            [--sequence 128] [--torch FILE] [--ranks 2,4,8 --own-gpus [--one-node]] [--out DIR]

Ranks share one GPU, each with an NCCL_HOSTID of its own. With --own-gpus each has the GPU of its number, and with --one-node NCCL
sees one node, so that shards go from GPU to GPU.
  tiny     qwen2-tiny on 1, 2, 3 and 4 ranks (--ranks): whole numbers bit for bit, training within its bounds of the unsharded model
  planted  each damage that a rank can do to its own part is found, on 2 ranks
  real     qwen2.5-1.5b on 1 and 2 ranks (--ranks); tokens a second, and against those of the first number of ranks
  torch    qwen2.5-1.5b on 1 rank: loss and gradient norm of each step as PyTorch had them, which are stored; with another seed they
           are not
Documents go to --out as JSON. Exits 1 on any mismatch."""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parent / "probe")]  # after this folder

import ranks
from device_report import add_gpu_options, check, gpu_options, local_rank, note, section, summary, title, value

FAULTS = ["wrong-average", "skipped-shard", "padding-leak", "stale-gather", "dropped-micro-batch", "flip-bit"]
PLENTY = 280

# tests/bench/training_torch.py --json wrote each of them: float32, the yardstick, and bf16, of which this is one more.
STORED = HERE.parent / "testdata" / "training" / "qwen2.5-1.5b_torch.json"
# Relative, of the first step and of any: from then on weights go apart that a bf16 rounding made different. PyTorch's own bf16 run of
# 1 x 128 is 0.0086 from its float32 run in the fifth loss and 0.08 in the third norm.
BOUNDS = {"losses": (2**-10, 2**-8), "gradientNorms": (2**-8, 2**-2)}

documents = {}


def sizes(*usual):
    return [int(size) for size in args.ranks.split(",")] if args.ranks else usual


def step(model, **parameters):
    whole = {"backend": "cuda", "model": {"name": model}, "rows": 2, "sequence": 33, "microBatches": 1, "steps": 3, "seed": 7,
             "exact": True, "reference": "auto", "hostIdPerRank": not args.one_node, "predictModel": {"name": ""}}
    if args.library:
        whole["library"] = args.library
    whole.update(parameters)
    return ranks.step("fsdp-training", 250_000, "train", **whole)


def run(label, size, the_step, faults=()):
    start = time.monotonic()
    # No multicast: a GPU that is shared, or lent, need not allow it.
    environment = lambda rank: {"LOCAL_RANK": local_rank(rank, args), "NCCL_NVLS_ENABLE": "0"}
    done = ranks.run(size, ranks.plan([the_step], faults), PLENTY, program=args.probe, env=environment)
    note(f"{label}: took", f"{time.monotonic() - start:.1f} s")
    documents[label] = [one.document for one in done]
    for one in done:
        if one.document is None:
            sys.exit(f"rank {one.rank} told nothing: {one.err}")
    experiments = [one.seen()["fsdpTraining"][0] for one in done]
    for rank, one in enumerate(experiments):
        if one["seen"]["state"] != "seen":
            check(False, f"{label}: rank {rank} trains", f"{one['seen']} {one['end']}")
    return [value(one["seen"], {}) for one in experiments]


def comparisons(run):
    return run.get("own", []) + (value(run["reference"], []) if "reference" in run else [])


def beyond(run):
    return [c for c in comparisons(run) if c.get("error", 0) > c.get("bound", 0) or c.get("notFinite")]


def judge(label, seen, wanted_steps):
    for rank, one in enumerate(seen):
        check("stoppedBy" not in one, f"{label}: nothing stopped rank {rank}", one.get("stoppedBy", ""))
        runs = {r["name"]: r for r in one.get("runs", [])}
        check(sorted(runs) == ["exact", "training"], f"{label}: rank {rank} did both runs", sorted(runs))
        for name, r in runs.items():
            check(not r.get("notLookedAt"), f"{label} {name}: rank {rank} had the memory", r.get("notLookedAt"))
            check(not beyond(r), f"{label} {name}: rank {rank} is within every bound", beyond(r))
            check(r.get("reference", {}).get("state") == "seen", f"{label} {name}: rank {rank} had a reference", r.get("reference"))
            check(len(r.get("steps", [])) == (wanted_steps if name == "training" else min(2, wanted_steps)), f"{label} {name}: rank {rank} did every step")
            check(all(s.get("finite") for s in r.get("steps", [])), f"{label} {name}: rank {rank}'s numbers are finite")
        if "exact" in runs:
            missed = [c for c in runs["exact"].get("controls", []) if c.get("planted") and not c.get("caught")]
            check(bool(runs["exact"].get("controls")) and not missed, f"{label}: rank {rank} found all that was planted", missed)
    hashes = {name: {r["hash"] for one in seen for r in one.get("runs", []) if r["name"] == name} for name in ("exact", "training")}
    check(all(len(h) == 1 for h in hashes.values()), f"{label}: all ranks have one hash", hashes)
    for r in seen[0].get("runs", []) if seen else []:
        last = r["steps"][-1] if r.get("steps") else {}
        note(f"{label} {r['name']}", {"losses": [round(s.get("loss", 0), 6) for s in r.get("steps", [])],
                                      "norms": [round(s.get("gradientNorm", 0), 6) for s in r.get("steps", [])],
                                      "ms": [round(s["seconds"] * 1e3, 2) for s in r.get("steps", [])],
                                      "exposed ms": round(last.get("exposedSeconds", 0) * 1e3, 2),
                                      "optimizer ms": round(last.get("optimizerSeconds", 0) * 1e3, 2),
                                      "GiB needed, taken": [round(r.get(k, 0) / 2**30, 3) for k in ("neededBytes", "takenBytes")],
                                      "reference s": round(r.get("referenceSeconds", 0), 2),
                                      "worst": [(c["what"], c.get("error", 0), c.get("bound", 0)) for c in comparisons(r)]})
    return {r["name"]: r["hash"] for r in seen[0].get("runs", [])} if seen else {}


def tiny():
    title("qwen2-tiny")
    for size in sizes(1, 2, 3, 4):
        judge(f"tiny {size}", run(f"tiny {size}", size, step("qwen2-tiny")), 3)


def planted():
    title("planted")
    for fault in FAULTS:
        seen = run(f"planted {fault}", 2, step("qwen2-tiny"), [{"rank": 1, "step": "train", "kind": fault}])
        found = [(rank, r["name"], c["what"]) for rank, one in enumerate(seen) for r in one.get("runs", []) for c in beyond(r)]
        check(bool(found), f"planted {fault}: it is found", found)


def real():
    title("qwen2.5-1.5b")
    first = None
    for size in sizes(1, 2):
        seen = run(f"real {size}", size, step("qwen2.5-1.5b", rows=args.rows, sequence=args.sequence, steps=4))
        judge(f"real {size}", seen, 4)
        # The slowest rank's, without the first step, which allocates.
        seconds = [max(s["seconds"] for s in same) for same in zip(*([s for r in one.get("runs", []) if r["name"] == "training"
                                                                      for s in r["steps"][1:]] for one in seen))]
        if check(bool(seconds), f"real {size}: steps have times"):
            each = args.rows * args.sequence / statistics.median(seconds)  # of one rank, and as many of the others meanwhile
            first = first or each
            note(f"real {size}: speed", {"tokens/s of all ranks": round(each * size), "of one rank": round(each),
                                         "of the first's": round(each / first, 3)})


def torch():
    title("qwen2.5-1.5b as PyTorch trains it")
    for stored in json.loads(pathlib.Path(args.torch).read_text()):
        if stored["compute"] != "float32":
            continue
        label = f"torch {stored['rows']} x {stored['sequence']}"
        parameters = {key: stored[key] for key in ("rows", "sequence", "seed")}
        parameters.update(steps=len(stored["losses"]), exact=False, reference="no")
        for seed in (stored["seed"], stored["seed"] + 1):
            seen, = run(f"{label} seed {seed}", 1, step(stored["preset"], **parameters | {"seed": seed}))
            steps = [s for r in seen.get("runs", []) if r["name"] == "training" for s in r["steps"]]
            found = {"losses": [s.get("loss", 0) for s in steps], "gradientNorms": [s.get("gradientNorm", 0) for s in steps]}
            for key, (first, others) in BOUNDS.items():
                check(len(found[key]) == len(stored[key]), f"{label}: every step", found)
                errors = [abs(f - s) / abs(s) for f, s in zip(found[key], stored[key])]
                within = [error <= (others if number else first) for number, error in enumerate(errors)]
                note(f"{label} seed {seed} {key}", {"found": found[key], "stored": stored[key], "relative errors": errors})
                if seed == stored["seed"]:
                    check(all(within), f"{label}: {key} as PyTorch's in float32", errors)
                else:
                    check(not within[0], f"{label}: other weights and tokens have other {key}", errors)


def main():
    for name, one in (("tiny", tiny), ("planted", planted), ("real", real), ("torch", torch)):
        if name in args.only.split(","):
            section(one)
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "fsdp-documents.json").write_text(json.dumps(documents))
    return summary(out / "fsdp-summary.json")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probe", default="build/release/bin/dlc-probe")
    parser.add_argument("--library", default="", help="the libnccl to use; without it as dlc-probe finds it")
    parser.add_argument("--only", default="tiny,planted,real,torch")
    parser.add_argument("--torch", default=str(STORED))
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--ranks", default="", help="how many, of tiny and real")
    add_gpu_options(parser)
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    args = gpu_options(parser)
    sys.exit(main())

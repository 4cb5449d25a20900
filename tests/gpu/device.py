#!/usr/bin/env python3
"""What only a real GPU can show. Needs a built dlc-probe, Python 3 and tests/probe/ranks.py and tests/device_report.py, in the tree
or beside this file, where pack.sh puts them; takes some minutes.

  device.py [--probe build/debug/bin/dlc-probe] [--kernel-tests build/debug/bin/kernels_cuda_tests] [--out DIR]
            [--dlc-check DIR/bin/dlc-check [--lib-dir DIR/lib]]     as pack.sh lays them out
            [--only-dlc-check]

Runs gpu-node and gpu-compute on one rank and on two, with a bit flipped in every experiment, with CUDA_VISIBLE_DEVICES in
many forms, without NVML, without libcuda, beside a process that holds most of the memory; compares with nvidia-smi, and
bandwidths with PyTorch where that can be imported. With --dlc-check also the verdicts of `dlc-check gpu` on this GPU, as it is
and with things made bad. Every comparison is printed; documents go to --out ($OUT). Exits 1 on any
mismatch, and 2 where there is no GPU: that is no pass."""

import argparse
import contextlib
import csv
import io
import json
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(TESTS), str(TESTS / "probe")]  # after this folder, where a pack has them

import ranks
from device_report import check, facts, mismatches, note, section, summary, title, value

BUDGET = 10  # seconds per GPU
PLENTY = 240


# --- dlc-probe

def step(kind, deadline_s, name=None, **parameters):
    return ranks.step(kind, int(deadline_s * 1000), name, **parameters)


def run(label, steps, size=1, faults=(), env=None, unset=()):
    """The observations of every rank."""
    seen = []
    for rank in ranks.run(size, ranks.plan(steps, faults), PLENTY, program=args.probe, env=env, unset=unset):
        check(rank.code == 0, f"{label}: rank {rank.rank} writes its document", f"exit code {rank.code} {rank.err}")
        with open(os.path.join(args.out, f"{label}-{rank.rank}.json"), "w") as file:
            json.dump(rank.document, file, indent=1)
        seen.append(rank.seen())
    return seen


def reason(observed):
    return observed.get("error", observed.get("why", {})).get("message", "")


def node_of(rank, index=0):
    return value(rank["gpuNode"][index]["seen"])


def compute_of(rank, index=0):
    return value(rank["gpuCompute"][index]["seen"])


# --- what a healthy GPU's work looks like

def wrongs(work):
    """Wrong words or elements by experiment."""
    found = {f"memory {p['pattern']}": p.get("wrongWords", 0) for p in work.get("memory", [])}
    found.update({t["operation"]: t.get("wrongWords", 0) for t in work.get("transfers", [])})
    product = value(work["product"])
    if product:
        found["product"] = product.get("wrongElements", 0)
        found["reference"] = product.get("hostWrongElements", 0)
    return found


def check_complete(label, work):
    check(work["failure"].get("code", 0) == 0, f"{label}: no CUDA failure", work["failure"])
    caught = {t["experiment"]: t.get("caught", False) for t in work.get("selfTests", [])}
    check(len(caught) == 5 and all(caught.values()), f"{label}: every verifier caught its planted bit", caught)
    names = sorted(wrongs(work))
    check(names == sorted(["memory address", "memory walking-one", "memory walking-zero", "memory random", "read", "write",
                           "copy", "memcpy", "host-to-device", "device-to-host", "product", "reference"]),
          f"{label}: every experiment ran", ", ".join(names))


def check_clean(label, compute):
    check(compute["failure"].get("code", 0) == 0, f"{label}: GPUs are counted", compute["failure"])
    check(bool(compute.get("gpus")), f"{label}: there is a GPU to find clean")
    for work in compute.get("gpus", []):
        check_complete(label, work)
        bad = {k: v for k, v in wrongs(work).items() if v}
        check(not bad, f"{label}: nothing is wrong", bad)


def speeds(work):
    return {t["operation"]: t["bytesPerSecond"] for t in work.get("transfers", [])}


# --- nvidia-smi

def smi(*arguments):
    done = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, timeout=60)
    return done.stdout


def query(what, fields):
    rows = csv.reader(io.StringIO(smi(f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits")))
    return [dict(zip(fields, (cell.strip() for cell in row))) for row in rows if row]


GPU_FIELDS = ["index", "uuid", "name", "pci.bus_id", "driver_version", "memory.total", "persistence_mode", "compute_mode",
              "compute_cap", "mig.mode.current", "ecc.mode.current", "ecc.errors.corrected.volatile.total",
              "ecc.errors.uncorrected.volatile.total", "ecc.errors.corrected.aggregate.total",
              "ecc.errors.uncorrected.aggregate.total", "enforced.power.limit", "pcie.link.gen.max", "pcie.link.width.max",
              "clocks.max.sm", "clocks_event_reasons.active", "temperature.gpu", "power.draw", "memory.used",
              "pcie.link.gen.current", "pcie.link.width.current", "utilization.gpu"]


def same(label, field, ours, theirs, convert=str):
    """`ours` is an observation; nvidia-smi says [N/A] for what a GPU does not have."""
    if theirs.startswith("[") or theirs in ("N/A", ""):
        check(ours["state"] == "error", f"{label} {field}", f"nvidia-smi {theirs}, dlc-probe {ours}")
        return
    seen = value(ours)
    wanted = convert(theirs)
    close = isinstance(wanted, float) and seen is not None and abs(seen - wanted) < 0.51
    check(seen == wanted or close, f"{label} {field}", f"nvidia-smi {theirs}, dlc-probe {seen} {reason(ours)}")


def part(observed, key, default):
    """One member of an observed struct, as an observation."""
    seen = value(observed)
    return observed if seen is None else {"state": "seen", "value": seen.get(key, default)}


def compare_with_smi(node):
    title("dlc-probe and nvidia-smi tell the same")
    with open(os.path.join(args.out, "nvidia-smi-q.txt"), "w") as file:
        file.write(smi("-q"))
    print(smi("topo", "-m"))
    rows = query("gpu", GPU_FIELDS)
    gpus = value(node["nvml"]["gpus"], [])
    check(len(rows) == len(gpus) == value(node["nvml"]["counted"]), "GPUs counted", f"{len(rows)} by nvidia-smi, {len(gpus)}")
    for row, gpu in zip(rows, gpus):
        label = f"GPU {row['index']}"
        print(json.dumps(row))
        on = {"Enabled": True, "Disabled": False}.get
        same(label, "uuid", gpu["uuid"], row["uuid"])
        same(label, "name", gpu["name"], row["name"])
        same(label, "pci", gpu["pciAddress"], row["pci.bus_id"])
        same(label, "compute capability", gpu["computeCapability"], row["compute_cap"])
        mib = value(gpu["memory"], {}).get("totalBytes", 0) / 2**20
        check(abs(mib - float(row["memory.total"])) < 1, f"{label} memory", f"{row['memory.total']} MiB, {mib}")
        same(label, "persistence", gpu["persistence"], row["persistence_mode"], on)
        same(label, "compute mode", gpu["computeMode"], row["compute_mode"],
             lambda t: {"Default": "default", "Prohibited": "prohibited"}.get(t, t.lower().replace("_", "-")))
        same(label, "MIG", part(gpu["mig"], "enabled", False), row["mig.mode.current"], on)
        same(label, "ECC", part(gpu["ecc"], "enabled", False), row["ecc.mode.current"], on)
        for ours, theirs in [("volatileCorrected", "corrected.volatile"), ("volatileUncorrected", "uncorrected.volatile"),
                             ("aggregateCorrected", "corrected.aggregate"), ("aggregateUncorrected", "uncorrected.aggregate")]:
            same(label, f"ECC {theirs}", part(gpu["ecc"], ours, 0), row[f"ecc.errors.{theirs}.total"], int)
        same(label, "power limit", gpu["powerLimitWatts"], row["enforced.power.limit"], float)
        same(label, "PCIe max generation", gpu["maxPcieGeneration"], row["pcie.link.gen.max"], int)
        same(label, "PCIe max width", gpu["maxPcieWidth"], row["pcie.link.width.max"], int)
        same(label, "max SM clock", gpu["maxSmClockHz"], row["clocks.max.sm"], lambda t: int(t) * 1_000_000)
        same("driver", "version", node["nvml"]["driverVersion"], row["driver_version"])
        print("raw       state now:", json.dumps(gpu["state"]))
        print("raw       NVLink:", json.dumps(gpu["nvlinks"]), "fabric:", json.dumps(gpu["fabric"]))
        print("raw       retired:", json.dumps(gpu["retiredPages"]), "processes:", json.dumps(gpu["processes"]))
    names = ["gpu_uuid", "remapped_rows.correctable", "remapped_rows.uncorrectable", "remapped_rows.pending",
             "remapped_rows.failure"]
    for row in query("remapped-rows", names):
        print(json.dumps(row))
        ours = [gpu for gpu in gpus if value(gpu["uuid"]) == row.get("gpu_uuid")]
        for gpu in ours:
            same("remapped", "correctable", part(gpu["remappedRows"], "correctable", 0), row[names[1]], int)
            same("remapped", "uncorrectable", part(gpu["remappedRows"], "uncorrectable", 0), row[names[2]], int)
            same("remapped", "pending", part(gpu["remappedRows"], "pending", False), row[names[3]], lambda t: t not in ("No", "0"))
            same("remapped", "failure", part(gpu["remappedRows"], "failed", False), row[names[4]], lambda t: t not in ("No", "0"))
    print("raw       peers:", json.dumps(node["nvml"]["peers"]))


def check_node(node):
    title("the node as one process sees it")
    uuids = [value(gpu["uuid"]) for gpu in value(node["nvml"]["gpus"], [])]
    cuda = value(node["cuda"]["gpus"], [])
    check(node["cuda"]["failure"].get("code", 0) == 0, "libcuda works", node["cuda"]["failure"])
    check(bool(cuda) and {gpu["uuid"] for gpu in cuda} <= set(uuids), "CUDA's GPUs are NVML's, by uuid",
          f"{[g['uuid'] for g in cuda]} of {uuids}")
    check(node["cudaVisibleDevices"].get("expected") == len(cuda), "CUDA shows as many as expected", node["cudaVisibleDevices"])
    check(value(node["kernelModule"]) == value(node["nvml"]["driverVersion"]), "kernel module and NVML are of one driver",
          f"{node['kernelModule']} {node['nvml']['driverVersion']}")
    library = value(node["cuda"]["library"], {})
    check(os.path.realpath(library.get("path", "")) in node["cuda"].get("mapped", []) and library.get("version"),
          "the libcuda in use is mapped, its version in its name", f"{library} {node['cuda'].get('mapped')}")
    numbers = [file for file in value(node["deviceFiles"], []) if "number" in file]
    check(any(file.get("usable") for file in numbers), "a device file opens", numbers)
    minors = sorted(value(gpu["minorNumber"]) for gpu in value(node["nvml"]["gpus"], []) if value(gpu["uuid"]))
    note("minor numbers of permitted GPUs, and device files", f"{minors} {[(f['path'], f.get('usable')) for f in numbers]}")
    note("CUDA", {"driver": value(node["cuda"]["driverVersion"]), "runtime of the image": node["cuda"]["imageRuntime"],
                  "compat in use": node["cuda"].get("compat", False), "compat file": node["cuda"]["compatFile"]})
    note("NVML", value(node["nvml"]["library"]))
    note("NVIDIA_VISIBLE_DEVICES", node["nvidiaVisibleDevices"])


def check_compute(compute):
    title("one rank, all GPUs, one budget each")
    check_clean("alone", compute)
    for work in compute.get("gpus", []):
        label = f"{work['name']} {work['uuid']}"
        fast = speeds(work)
        check(fast["copy"] >= 0.95 * fast["memcpy"], "copy kernel at least 95 % of cudaMemcpy",
              f"{fast['copy'] / 1e12:.3f} of {fast['memcpy'] / 1e12:.3f} TB/s")
        for name, rate in fast.items():
            note(f"{name}, GB/s", round(rate / 1e9, 2))
        product = value(work["product"], {})
        note("product, TFLOP/s", {"mean": round(product.get("operationsPerSecond", 0) / 1e12, 1),
                                  "best": round(product.get("bestOperationsPerSecond", 0) / 1e12, 1),
                                  "type": product.get("type"), "products": product.get("products")})
        tested = sum(p["bytes"] for p in work["memory"]) / 4
        check(abs(tested - compute["memoryShare"] * work["freeBytes"]) < 64, "the tested share is what was asked for",
              f"{tested / 2**30:.1f} GiB of {work['freeBytes'] / 2**30:.1f} free")
        for one in work["memory"]:
            note(f"pattern {one['pattern']}, s", {"write": round(one["writeSeconds"], 4), "read": round(one["readSeconds"], 4)})
        for name in ("duringCopies", "duringProducts"):
            check(work[name]["state"] == "seen", f"NVML was asked {name}", reason(work[name]))
            note(f"{name} of {label}", value(work[name]))
        check(work["seconds"] <= BUDGET * 1.5, "the budget is kept", f"{work['seconds']:.1f} s of {BUDGET}")
    check(compute["gpuSeconds"] > 0, "GPU-seconds are told", compute["gpuSeconds"])
    return speeds(compute["gpus"][0]), value(compute["gpus"][0]["product"], {})


def two_ranks():
    title("two ranks at once")
    both = run("two-ranks", [step("meet", 20), step("gpu-node", 30), step("gpu-compute", 90, seconds=3)], size=2)
    for number, rank in enumerate(both):
        compute = compute_of(rank)
        check(len(compute.get("gpus", [])) == 1, f"rank {number} has one GPU", [g.get("uuid") for g in compute.get("gpus", [])])
        check_clean(f"rank {number}", compute)
        note(f"rank {number} on {compute['gpus'][0]['uuid']}, GB/s", {k: round(v / 1e9, 1) for k, v in speeds(compute["gpus"][0]).items()})


PLANTS = {"memory": ["memory address", "memory walking-one", "memory walking-zero", "memory random"],
          "transfer": ["write", "copy", "memcpy"], "host-copy": ["host-to-device", "device-to-host"], "product": ["product"]}


def planted():
    title("one flipped bit in each experiment is found there, alone")
    steps = [step("gpu-compute", 60, name=f"plant-{plant}", seconds=2, memoryShare=0.05, plant=plant) for plant in PLANTS]
    steps.append(step("gpu-compute", 60, name="by-fault", seconds=2, memoryShare=0.05))
    rank = run("planted", steps, faults=[{"rank": 0, "step": "by-fault", "kind": "flip-bit"}])[0]
    for index, plant in enumerate([*PLANTS, "memory"]):
        compute = compute_of(rank, index)
        check(compute["planted"] == plant, "the document says what was planted", compute["planted"])
        for work in compute["gpus"]:
            check_complete(f"planted in {plant}", work)
            bad = {k: v for k, v in wrongs(work).items() if v}
            check(bad == {name: 1 for name in PLANTS[plant]}, f"planted in {plant}: found once, there and nowhere else", bad)
            for one in work["memory"] if plant == "memory" else []:
                print("raw       ", json.dumps(one))
                check(int(one["expected"], 16) ^ int(one["reread"], 16) == int(one["flippedBits"], 16) == 1 << 17,
                      "the flipped bit is named", one["flippedBits"])
            if plant == "product":
                print("raw       ", json.dumps(value(work["product"])))


def contained():
    title("a step that dies or hangs costs that step alone")
    for kind, how in (("crash", "killed"), ("kill", "killed"), ("sleep", "timed-out")):
        rank = run(f"fault-{kind}", [step("gpu-compute", 6, name="first", seconds=1, memoryShare=0.02),
                                     step("gpu-compute", 60, name="second", seconds=1, memoryShare=0.02)],
                   faults=[{"rank": 0, "step": "first", "kind": kind}])[0]
        first, second = rank["gpuCompute"]
        check(first["end"]["how"] == how and first["seen"]["state"] == "error", f"{kind}: the step ends as {how}", first["end"])
        check_clean(f"after {kind}", value(second["seen"]))


def visible_variations(uuids):
    title("CUDA_VISIBLE_DEVICES as CUDA reads it")
    n, first = len(uuids), uuids[0]
    everything = ",".join(str(i) for i in range(n))
    variations = [None, "", "0", str(n), f"0,{n}", f"{n},0", "0,0", "-1", "0,-1", "x", "0,x", "0x", " 0", "00", "+0", everything,
                  first, first[:12], f"{first},{first}", "GPU-00000000-0000-0000-0000-000000000000",
                  f"GPU-bad,{first}", f"{first},GPU-bad", f"{first},0", f"0,{first}", "NoDevFiles", "all", "void", ",0", "0,",
                  first.upper(), "0 ", "MIG-0", "0;1", "0.0", "1e0"]
    for text in variations:
        env = {} if text is None else {"CUDA_VISIBLE_DEVICES": text}
        label = f"visible-{variations.index(text)}"
        rank = run(label, [step("gpu-node", 30)], env=env, unset=["CUDA_VISIBLE_DEVICES"] if text is None else [])[0]
        node = node_of(rank)
        shown = value(node["cuda"]["gpus"])
        code = node["cuda"]["failure"].get("code")
        ours = node["cudaVisibleDevices"]
        repeated = code == 101 and "repeats an earlier entry" in ours.get("problem", "")
        count = len(shown) if shown is not None else 0 if code == 100 or repeated else None
        detail = f"CUDA {count} {node['cuda']['failure'].get('name', '')}, expected {ours.get('expected')}, {ours.get('problem', '')}"
        check(ours.get("expected") == count, f"CUDA_VISIBLE_DEVICES={text!r}", detail)


@contextlib.contextmanager
def broken(library):
    """A directory whose `library` cannot be loaded."""
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, library), "w") as file:
            file.write("not a library, and longer than the header of one " * 20)
        yield directory


def without(library, expected):
    title(f"{library} cannot be loaded")
    with broken(library) as directory:
        path = directory + ":" + os.environ.get("LD_LIBRARY_PATH", "")
        rank = run(f"without-{library}", [step("gpu-node", 30), step("gpu-compute", 60, seconds=1, memoryShare=0.02)],
                   env={"LD_LIBRARY_PATH": path})[0]
        expected(node_of(rank), compute_of(rank))


def without_nvml(node, compute):
    check(node["nvml"]["library"]["state"] == "error", "NVML is an error with its reason", reason(node["nvml"]["library"]))
    check(bool(value(node["cuda"]["gpus"])), "CUDA is seen nevertheless", node["cuda"]["failure"])
    check("expected" not in node["cudaVisibleDevices"], "what CUDA should show cannot be told", node["cudaVisibleDevices"])
    check_clean("without NVML", compute)
    check(compute["gpus"][0]["duringProducts"]["state"] == "error", "the state under load is an error",
          reason(compute["gpus"][0]["duringProducts"]))


def without_cuda(node, compute):
    check(node["cuda"]["library"]["state"] == "error", "libcuda is an error with its reason", reason(node["cuda"]["library"]))
    check(bool(value(node["nvml"]["gpus"])), "NVML is seen nevertheless", node["nvml"]["gpus"]["state"])
    check(compute["failure"].get("code") == 35 and not compute.get("gpus"), "computing fails by name", compute["failure"])


HOLD = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code: sys.exit(f"{name}: {code}")
device, context, at = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
free, total = ctypes.c_size_t(), ctypes.c_size_t()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(free.value - (3 << 30)))
print("held", free.value - (3 << 30), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held_memory():
    """A process that holds all memory but 3 GiB; None where it did not get it."""
    holder = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        line = holder.stdout.readline()
        yield holder if check(line.startswith("held"), "the other process has its memory", line.strip()) else None
    finally:
        holder.communicate("")


def crowded(alone_free):
    title("another process holds all memory but 3 GiB")
    with held_memory() as holder:
        if holder is None:
            return
        rank = run("crowded", [step("gpu-node", 30), step("gpu-compute", 60, seconds=2)])[0]
        work = compute_of(rank)["gpus"][0]
        check(work["freeBytes"] < 4 << 30, "little is free, and that is told", f"{work['freeBytes'] / 2**30:.2f} GiB of {alone_free / 2**30:.2f}")
        check_clean("crowded", compute_of(rank))
        gpu = [g for g in value(node_of(rank)["nvml"]["gpus"], []) if value(g["uuid"]) == work["uuid"]][0]
        held = value(gpu["memory"], {}).get("usedBytes", 0)
        check(held > alone_free - (4 << 30), "NVML tells the used memory", f"{held / 2**30:.1f} GiB")
        note("processes that NVML lists beside the holder", f"{gpu['processes']}, its pid {holder.pid}")


def alone(work, arguments):
    """In a process of its own, whose CUDA context is gone afterwards: what follows must not find the GPU occupied by us."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found, told = pool.apply(tell, (work, arguments))
    mismatches.extend(found)
    facts.update(told)


def tell(work, arguments):
    mismatches.clear()
    facts.clear()
    work(*arguments)
    return mismatches, facts


def torch_reference(fast, product):
    title("against PyTorch")
    try:
        import torch
    except Exception as e:  # any reason is the same: no reference
        note("PyTorch", f"not here: {e}")
        return

    def best(work, seconds=1.5):
        """Of batches of 8, as dlc-probe times them."""
        work()
        torch.cuda.synchronize()
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        total, count, end = 0.0, 0, time.monotonic() + seconds
        while time.monotonic() < end:
            start.record()
            for _ in range(8):
                work()
            stop.record()
            stop.synchronize()
            total, count = total + start.elapsed_time(stop) / 1e3, count + 8
        return total / count

    a = torch.ones(1 << 30, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    rate = 2 * a.numel() / best(lambda: b.copy_(a))
    note("torch copy, GB/s", round(rate / 1e9, 1))
    check(fast["copy"] >= 0.95 * rate, "copy kernel at least 95 % of torch's copy", f"ratio {fast['copy'] / rate:.3f}")
    host = torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
    for name, work in (("host-to-device", lambda: device.copy_(host, non_blocking=True)),
                       ("device-to-host", lambda: host.copy_(device, non_blocking=True))):
        rate = host.numel() / best(work)
        note(f"torch {name}, GB/s", round(rate / 1e9, 2))
        check(fast[name] >= 0.9 * rate, f"{name} at least 90 % of torch's", f"ratio {fast[name] / rate:.3f}")
    n = product.get("size", 4096)
    x = torch.randint(-8, 9, (n, n), device="cuda").to(torch.bfloat16)
    rate = 2 * n**3 / best(lambda: torch.matmul(x, x.T))
    note(f"torch bfloat16 product of {n}, TFLOP/s", round(rate / 1e12, 1))
    note("our product of torch's (told, not judged)", round(product.get("operationsPerSecond", 0) / rate, 3))


def kernel_tests():
    title("the kernels' own tests, and compute-sanitizer where it is")
    if not args.kernel_tests:
        note("kernel tests", "not given")
        return
    done = subprocess.run([args.kernel_tests], capture_output=True, text=True, timeout=PLENTY)
    check(done.returncode == 0, "kernels_cuda_tests", done.stdout[-600:])
    check("no CUDA device here" not in done.stdout, "they found a device")
    if not shutil.which("compute-sanitizer"):
        note("compute-sanitizer", "not here")
        return
    for tool in ("memcheck", "racecheck", "initcheck"):
        done = subprocess.run(["compute-sanitizer", "--tool", tool, "--report-api-errors", "no", "--error-exitcode", "99",
                               args.kernel_tests], capture_output=True, text=True, timeout=PLENTY)
        check(done.returncode == 0, f"compute-sanitizer {tool}", (done.stdout + done.stderr)[-400:])


# --- the verdicts of dlc-check

OK, FAILED, INCOMPLETE = 0, 1, 3
FOUR = ("gpu-allocation", "gpu-visible", "gpu-driver", "gpu-compute")


def judge(label, expect, rules=(), gpu="devices: required", ranks=1, faults=(), timeout=None, before=(), seconds=1, share=0.02,
          only=False, **env):
    """Runs `dlc-check gpu`; compares its exit code, and that each of `rules` has the verdict. Gives the findings. With `only`
    no other required rule may fail or be unknown."""
    target = {"type": "local", "ranks": ranks}
    if faults:
        target["plantedFaults"] = list(faults)
    if timeout:
        target["timeoutSeconds"] = timeout
    out = os.path.join(args.out, f"judged-{label}")
    shutil.rmtree(out, ignore_errors=True)
    config = out + ".yaml"
    with open(config, "w") as file:
        file.write("apiVersion: dlc-check/v1\nkind: Config\n"
                   f"target: {json.dumps(target)}\ngpu: {{seconds: {seconds}, memoryShare: {share}}}\n"
                   f"policy: {{gpu: {{{gpu}}}}}\n")
    paths = [*before, args.lib_dir, os.environ.get("LD_LIBRARY_PATH", "")]
    whole = dict(os.environ, LD_LIBRARY_PATH=":".join(path for path in paths if path), **env)
    done = subprocess.run([args.dlc_check, "gpu", "-c", config, "--no-sign", "--format", "json", "--out", out],
                          capture_output=True, text=True, timeout=PLENTY, env=whole)
    check(done.returncode == expect, f"dlc-check, {label}: exit code {expect}", f"{done.returncode} {done.stderr[-600:] if done.returncode != expect else ''}")
    findings = json.loads(done.stdout)["findings"] if done.stdout.startswith("{") else []
    told = sorted({(f["rule"], f["verdict"], f["reason"].get("message", "") if f.get("reason") else "") for f in findings
                   if f["verdict"] in ("fail", "unknown")})
    for rule, verdict, message in told:
        print(f"raw       {verdict} {rule}: {message[:400]}")
    for rule, verdict in rules:
        seen = sorted({f["verdict"] for f in findings if f["rule"] == rule})
        check(verdict in seen, f"dlc-check, {label}: {rule} is {verdict}", seen)
    if only:
        wanted = {rule for rule, _ in rules}
        others = sorted({f["rule"] for f in findings if f["verdict"] in ("fail", "unknown") and f["severity"] == "required"} - wanted)
        check(not others, f"dlc-check, {label}: and nothing else", others)
    return findings


def judged_good(count, name):
    title("dlc-check gpu: all four checks pass on this GPU as it is")
    model = name.replace("NVIDIA ", "")
    findings = judge("good", OK, gpu=f"devices: required, perWorkerPod: {count}, model: {model}, minMemoryBytes: 1e9, "
                     "minDriver: 450.1, minCopyBytesPerSecond: 1e10, minHostCopyBytesPerSecond: 1e9, "
                     "minProductOperationsPerSecond: 1e12", only=True, seconds=5, share=0.25)
    for one in FOUR:
        verdicts = sorted({f["verdict"] for f in findings if f["check"] == one and f["severity"] == "required"})
        check("pass" in verdicts and set(verdicts) <= {"pass", "not_applicable"}, f"{one} passes", verdicts)
    for finding in findings:
        if finding["check"] in FOUR:
            print(f"raw       {finding['verdict']} {finding['rule']}: {finding.get('actual', '')} {finding.get('notes', '')}")


def judged_hidden(count, first):
    title("dlc-check gpu: CUDA_VISIBLE_DEVICES that hides")
    given, listed = ("gpu-visible/gpu-given", "fail"), ("gpu-visible/visible-devices-list", "fail")
    for label, value_ in (("empty", ""), ("out-of-range", str(count)), ("bad-uuid-first", f"GPU-bad,{first}"), ("twice", "0,0")):
        judge(f"hidden-{label}", FAILED, [given, listed, ("gpu-compute/computes", "unknown")], CUDA_VISIBLE_DEVICES=value_)
    judge("hidden-last", FAILED, [listed], CUDA_VISIBLE_DEVICES=f"0,{count}")
    judge("hidden-none", OK, only=True, CUDA_VISIBLE_DEVICES=first)


def judged_without(library, expect, rules):
    title(f"dlc-check gpu: {library} cannot be loaded")
    with broken(library) as directory:
        findings = judge(f"without-{library}", expect, rules, before=[directory])
    if expect == INCOMPLETE:
        check(not [f for f in findings if f["verdict"] == "fail" and f["severity"] == "required"], "nothing fails for want of NVML")


def judged_crowded():
    title("dlc-check gpu: another process holds all memory but 3 GiB")
    with held_memory() as holder:
        if holder is not None:
            judge("crowded", FAILED, [("gpu-compute/unoccupied", "fail"), ("gpu-compute/speed", "unknown"),
                                      ("gpu-compute/right-memory", "pass")],
                  gpu="devices: required, minCopyBytesPerSecond: 1")


def judged_planted():
    title("dlc-check gpu: planted faults are found, and never a pass")
    never = ("coverage/no-planted-faults", "unknown")
    for kind, rule in (("flip-bit", "right-memory"), ("flip-transfer", "right-transfers"), ("flip-host-copy", "right-transfers"),
                       ("flip-product", "right-product")):
        judge(f"planted-{kind}", FAILED, [(f"gpu-compute/{rule}", "fail"), never], only=True,
              faults=[{"rank": 0, "step": "gpu-compute", "kind": kind}])
    for kind in ("crash", "sleep"):
        judge(f"planted-{kind}", INCOMPLETE, [("gpu-compute/computes", "unknown"), never], timeout=20,
              faults=[{"rank": 0, "step": "gpu-compute", "kind": kind}])


def judged_limits(count):
    title("dlc-check gpu: what the policy demands and this GPU is not")
    judge("slow", FAILED, [("gpu-compute/speed", "fail")], gpu="minCopyBytesPerSecond: 1e15", only=True)
    judge("model", FAILED, [("gpu-visible/as-policy", "fail")], gpu="model: NoSuchModel", only=True)
    judge("driver", FAILED, [("gpu-driver/min-version", "fail")], gpu="minDriver: 9999.1", only=True)
    judge("more", FAILED, [("gpu-allocation/ranks-hold-limit", "fail")], gpu=f"perWorkerPod: {count + 1}", only=True)
    judge("shared", FAILED, [("gpu-visible/own-gpu", "fail")], ranks=count + 1)
    judge("none-asked", INCOMPLETE, [("gpu-visible/gpu-given", "not_applicable")], gpu="devices: no")


def verdicts(node):
    uuids = [gpu["uuid"] for gpu in value(node["cuda"]["gpus"], [])]
    section(judged_good, len(uuids), value(node["cuda"]["gpus"])[0]["name"])
    section(judged_hidden, len(uuids), uuids[0])
    section(judged_without, "libnvidia-ml.so.1", INCOMPLETE, [("gpu-visible/cuda-shows-permitted", "unknown"),
                                                              ("gpu-compute/right-product", "pass")])
    section(judged_without, "libcuda.so.1", FAILED, [("gpu-driver/cuda-starts", "fail")])
    section(judged_crowded)
    section(judged_planted)
    section(judged_limits, len(uuids))


def main():
    if not os.path.exists("/dev/nvidiactl"):
        print("no /dev/nvidiactl: there is no NVIDIA GPU here, and nothing was shown")
        return 2
    print(subprocess.run([args.probe, "--version"], capture_output=True, text=True, check=True).stdout)
    if args.only_dlc_check:
        verdicts(node_of(run("alone", [step("gpu-node", 30)])[0]))
        return summary(os.path.join(args.out, "summary.json"))
    steps = [step("gpu-node", 30), step("gpu-compute", BUDGET * 8 + 60, seconds=BUDGET), step("gpu-node", 30, name="after")]
    rank = run("alone", steps)[0]
    node, after, compute = node_of(rank), node_of(rank, 1), compute_of(rank)
    uuids = [value(gpu["uuid"]) for gpu in value(node["nvml"]["gpus"], []) if value(gpu["uuid"])]
    section(check_node, node)
    section(compare_with_smi, after)
    measured = section(check_compute, compute)
    if measured:
        section(alone, torch_reference, measured)
    section(two_ranks)
    section(planted)
    section(contained)
    section(visible_variations, uuids)
    section(without, "libnvidia-ml.so.1", without_nvml)
    section(without, "libcuda.so.1", without_cuda)
    section(crowded, compute["gpus"][0]["freeBytes"])
    section(kernel_tests)
    if args.dlc_check:
        verdicts(node)
    else:
        note("dlc-check", "not given")
    return summary(os.path.join(args.out, "summary.json"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probe", default="build/debug/bin/dlc-probe")
    parser.add_argument("--kernel-tests", default="")
    parser.add_argument("--dlc-check", default="")
    parser.add_argument("--lib-dir", default="", help="shared libraries that dlc-check needs")
    parser.add_argument("--only-dlc-check", action="store_true", help="only what needs --dlc-check")
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    args = parser.parse_args()
    if args.only_dlc_check and not args.dlc_check:
        parser.error("--only-dlc-check needs --dlc-check")
    os.makedirs(args.out, exist_ok=True)
    sys.exit(main())

#!/usr/bin/env python3
"""What only a real GPU and a real NCCL can show. Needs a dlc-probe, Python 3, and tests/probe/ranks.py, tests/device_report.py and
tests/nccl/parity.cpp, in the tree or beside this file.

  device.py [--probe build/release/bin/dlc-probe] [--library .../libnccl.so.2] [--ranks 1,2,4,8] [--only planted,healthy,parity]
            [--own-gpus [--one-node]] [--out DIR]

Ranks share one GPU, each with an NCCL_HOSTID of its own, so that NCCL takes each for a node and connects them over the network
that it finds, which is sockets. With --own-gpus each rank has the GPU of its number, and with --one-node NCCL sees one node: P2P.
  planted  what is wrong is found, names the rank, and ends by the deadline: a flipped bit, a rank killed or stopped in its
           operations, one that never arrives or never joins, another version or file of NCCL, mixed settings, an interface that
           is not there, a plugin that is not there (silent unless the network is asked for)
  parity   busbw of --parity-ranks ranks against parity.cpp, an independent loop as nccl-tests has it, built here with --cxx against
           --nccl-dir and --cuda-dir; the two in turn, and the medians within 3 %
  healthy  every collective, float32 and bfloat16, 8 B to 256 MiB: results, transport, bytes on the wire, library
Every comparison is printed; documents and numbers go to --out ($OUT) as JSON. What there was no time for (--budget) is a mismatch.
Exits 1 on any mismatch, and 2 where there is no GPU, or with --own-gpus too few of them: that is no pass. Takes about five minutes on 16 cores, with a dlc-probe that
was built to be fast: a debug build compares 256 MiB for minutes. --fakes DIR tries this script itself, without a GPU."""

import argparse
import concurrent.futures
import glob
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parent / "probe")]  # after this folder

import ranks
from device_report import add_gpu_options, check, gpu_options, gpus_here, local_rank, note, section, summary, title, value

ALL = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "send_recv"]
SIZES = [8, 65536, 1 << 20, 16 << 20, 256 << 20]
ITERATIONS = {1: 5, 2: 5, 4: 3, 8: 2}
PARITY_SIZES = [64 << 20, 128 << 20, 256 << 20]
PARITY_MOST = 0.03
AT_ONCE = 4
PLENTY = 300  # seconds; whoever needs them has failed

documents = {}  # by label, those of all ranks


def sizes():
    return [size for size in SIZES if size <= args.most_bytes]


def step(deadline_s=None, **parameters):
    whole = {"collectives": ALL, "sizesBytes": [8, min(1 << 20, args.most_bytes)], "warmUp": 1, "iterations": 2,
             "hostIdPerRank": not args.one_node}
    if args.library:
        whole["library"] = args.library
    whole.update(parameters)
    return ranks.step("nccl-collectives", int((deadline_s or args.deadline) * 1000), "nccl",
                      **{name: given for name, given in whole.items() if given is not None})


def start(size, the_step, faults=(), env=None, **more):
    def environment(rank):
        # No multicast: a GPU that is shared, or lent, need not allow it.
        whole = {"LOCAL_RANK": local_rank(rank, args), "NCCL_NVLS_ENABLE": "0"}
        if args.fakes:
            whole.update(LD_LIBRARY_PATH=args.fakes, PATH="/nowhere", VIRTUAL_ENV="", PYTHONPATH="")
        whole.update((env(rank) if callable(env) else env) or {})
        return whole
    return ranks.start(size, ranks.plan([the_step], faults, **more), program=args.probe, env=environment)


def own_document(out):
    """The last line of what a rank wrote; of one that died there is none."""
    lines = out.splitlines()
    last = json.loads(lines[-1]) if lines else {}
    return last if "apiVersion" in last else None


def run(label, size, the_step, faults=(), env=None, act=None, **more):
    """Each rank's document, the codes, and how long it took. `act` gets the processes while they run."""
    begin = time.monotonic()
    processes = start(size, the_step, faults, env, **more)
    found, codes, errors = [], [], []
    try:
        if act:
            act(processes)
        for process in processes.values():
            out, err = process.communicate(timeout=PLENTY)
            found.append(own_document(out))
            codes.append(process.returncode)
            errors.append(err)
    finally:
        ranks.end(processes)
    documents[label] = found
    return found, codes, errors, time.monotonic() - begin


def own(document, rank):
    """What a rank saw of itself."""
    return [r for r in document["ranks"] if r.get("rank", 0) == rank][0]["seen"]["value"]


def experiment_of(found, rank):
    return own(found[rank], rank)["ncclCollectives"][0]


def stopped_of(one):
    """Why an experiment did not go to its end: its message."""
    seen = value(one["seen"], {})
    error = seen.get("measured", {}).get("stoppedBy") or one["seen"].get("error", {})
    return error.get("message", "")


# ---- healthy

def wire_window(rows, size):
    """Bytes that ranks on as many nodes send together: 0.95 of what no algorithm does without, up to 1.2 of the ring; below 64 MiB
    LL may send twice as much."""
    least = most = 0
    for row in rows:
        once = {"all_reduce": 2 * (size - 1), "send_recv": size}.get(row["collective"], size - 1) * row.get("sizeBytes", 0)
        total = once * row["operations"]
        least += 0.95 * total
        most += 1.2 * total * (1 if row.get("sizeBytes", 0) >= 64 << 20 else 2)
    return least, most


def sent(experiments):
    """Bytes that all interfaces sent: the ranks are in one network namespace, and NCCL's nodes on one machine, so over loopback."""
    first = [{i["name"]: i.get("sentBytes", 0) for i in value(one["interfacesBefore"], [])} for one in experiments]
    last = [{i["name"]: i.get("sentBytes", 0) for i in value(one["interfacesAfter"], [])} for one in experiments]
    return sum(max(read.get(name, 0) for read in last) - min(read.get(name, 0) for read in first) for name in first[0])


def check_rows(label, one, wanted_sizes):
    rows = one["measured"].get("collectives", [])
    check("stoppedBy" not in one["measured"], f"{label}: nothing stopped it", one["measured"].get("stoppedBy", ""))
    check(one["reached"]["phase"] == "done", f"{label}: it came to its end", one["reached"])
    check(len(rows) == len(wanted_sizes) * 9, f"{label}: every row is there", len(rows))
    wrong = [(r["collective"], r.get("sizeBytes", 0), r["wrong"]) for r in rows if any(r.get("wrong", [1]))]
    check(not wrong, f"{label}: every result is right", wrong)
    unchecked = [(r["collective"], r["sizeBytes"]) for r in rows if r.get("sizeBytes") and not r.get("checkedElements")]
    check(not unchecked, f"{label}: every row with bytes was compared", unchecked)
    check(all(r.get("meanSeconds", 0) > 0 and r["minSeconds"] <= r["meanSeconds"] * 1.0001 <= r["maxSeconds"] * 1.0002
              for r in rows), f"{label}: every row has a time")
    return rows


def check_log(label, rank, size, one):
    log = value(one["log"], {})
    check(one["log"]["state"] == "seen", f"{label}: NCCL wrote a log", one["log"].get("error", ""))
    for key in ("damagedLines", "foldedLines", "unreadConnections", "dropped", "cut"):
        check(not log.get(key), f"{label}: the log has no {key}", f"{log.get(key)} {log.get('firstUnread', '')}")
    told = log.get("version", "").split("+")[0]  # NCCL logs it on rank 0 alone
    check(told == one["library"]["library"]["version"] or (rank > 0 and not told),
          f"{label}: the log and ncclGetVersion tell one version", f"{log.get('version')} {one['library']['library']['version']}")
    check(len(log.get("processes", [])) == 1, f"{label}: the log is of one process", log.get("processes"))
    mine = [c for c in log.get("communicators", []) if c.get("rank", 0) == rank and c["ranks"] == size]
    check(len(mine) == 1 and mine[0].get("complete"), f"{label}: its communicator is complete", log.get("communicators"))
    if size > 1 and args.one_node:
        check(bool(mine) and mine[0].get("nodes", 0) in (0, 1), f"{label}: the ranks are one node to NCCL", mine)
        ways = [c["transport"] for c in log.get("connections", [])]
        check(bool(ways) and set(ways) == {"P2P"}, f"{label}: GPU to GPU", ways)
    elif size > 1:
        check(bool(mine) and mine[0].get("nodes", 0) in (0, size), f"{label}: each rank is a node to NCCL", mine)
        net = [c for c in log.get("connections", []) if c["transport"] == "NET"]
        check(bool(net) and all(c["network"] == "Socket" for c in net), f"{label}: sockets carried the bytes", net)
        check(log.get("networks") == ["Socket"], f"{label}: the network is Socket", log.get("networks"))
        check(sum(c.get("sends", 0) for c in net) > 0 and sum(c.get("receives", 0) for c in net) > 0,
              f"{label}: connections send and receive", net)
    host_ids = [s for s in one["settings"] if s["name"] == "NCCL_HOSTID"]
    own_id = [] if args.one_node else [{"name": "NCCL_HOSTID", "value": f"dlc-check-{rank}", "source": "dlc-probe"}]
    check(host_ids == own_id, f"{label}: its NCCL_HOSTID is recorded as dlc-probe set it", host_ids)
    check(one["efaCountersBefore"]["state"] == one["efaCountersAfter"]["state"] == "not_looked_at",
          f"{label}: there are no EFA counters to look at", one["efaCountersBefore"])
    note(f"{label}: connections", [f"{c['transport']}/{c.get('network') or c.get('detail')} {c.get('sends', 0)} sends "
                                   f"{c.get('receives', 0)} receives {c.get('others', 0)}" for c in log.get("connections", [])])
    if log.get("warnings"):
        note(f"{label}: warnings", log["warnings"])


def check_library(label, one):
    library = one["library"]
    path = library["library"]["path"]
    content = pathlib.Path(path).read_bytes()
    check(value(library["file"]) == "sha256:" + hashlib.sha256(content).hexdigest(), f"{label}: the file's digest", path)
    inside = re.search(rb"NCCL version (\d+\.\d+\.\d+)", content)
    check(inside is not None and inside.group(1).decode() == library["library"]["version"],
          f"{label}: the version inside the file", f"{inside and inside.group(1)} {library['library']['version']}")
    copies = [p for p in one.get("mappedLibraries", []) if os.path.basename(p).startswith("libnccl.so")]
    check(copies == [os.path.realpath(path)], f"{label}: one NCCL is mapped, that one", copies)
    note(f"{label}: library", {"path": path, "foundBy": library["foundBy"], "gpu": one["gpuName"], "at": one["gpuPciAddress"]})


def table(rows):
    for r in rows:
        if r.get("sizeBytes"):
            print(f"          {r['collective']:15}{'in ' if r.get('inPlace') else 'out'} {r['sizeBytes']:>10} B  "
                  f"{r['meanSeconds'] * 1e6:10.1f} us  busbw {r.get('busBandwidthBytesPerSecond', 0) / 1e9:8.3f} GB/s")


def time_left():
    return args.budget - (time.monotonic() - BEGIN)


def healthy(size, kind):
    label = f"{size}-{kind}"
    title(f"{size} ranks, {kind}, on " + ("a GPU each" if args.own_gpus else "one GPU"))
    if not check(time_left() > 15, f"{label}: there is time for it", f"{time_left():.0f} s left"):
        return
    found, codes, errors, took = run(label, size, step(min(time_left(), 120), sizesBytes=sizes(), type=kind,
                                                       iterations=ITERATIONS.get(size, 2)))
    check(codes == [0] * size, f"{label}: every rank writes its document", f"{codes} {errors}")
    seen = []
    for rank in range(size):
        one = experiment_of(found, rank)
        if check(one["seen"]["state"] == "seen", f"{label}: rank {rank} measures", one["seen"].get("error", "")):
            seen.append(one["seen"]["value"])
            rows = check_rows(f"{label} rank {rank}", seen[-1], sizes())
            check_log(f"{label} rank {rank}", rank, size, seen[-1])
    if seen:
        check_library(label, seen[0])
        table(rows)
    if size > 1 and len(seen) == size and not args.fakes and not args.one_node:
        least, most = wire_window(rows, size)
        check(least <= sent(seen) <= most, f"{label}: as many bytes on the wire as the operations need",
              f"{sent(seen) / 1e9:.3f} GB, expected {least / 1e9:.3f} to {most / 1e9:.3f}")
    note(f"{label}: took", f"{took:.1f} s")


# ---- planted

def child_of(parent):
    """The experiment's own process of a rank that is not rank 0, which also has the meeting point."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[1] == str(parent):
                    return int(pid)
        except OSError:
            pass  # it ended meanwhile
    return None


def once_measuring(number):
    """Sends a signal to rank 1's experiment, whose operations do not end before that."""
    def act(processes):
        for line in processes[1].stdout:
            if "measuring all_reduce" in line:
                os.kill(child_of(processes[1].pid), number)
                return
    return act


ENDLESS = {"collectives": ["all_reduce"], "warmUp": 1000000}


def endless(**parameters):
    return step(sizesBytes=[min(64 << 20, args.most_bytes)], **ENDLESS, **parameters)


def library_path():
    if args.library:
        return args.library
    if args.fakes:
        return os.path.join(args.fakes, "libnccl.so.2")
    packages = importlib.util.find_spec("nvidia")
    for folder in packages.submodule_search_locations if packages else []:
        path = os.path.join(folder, "nccl", "lib", "libnccl.so.2")
        if os.path.exists(path):
            return path
    raise FileNotFoundError("no libnccl.so.2 beside this Python's packages: give --library")


def with_other_version(content):
    """The library with another number in the code of ncclGetVersion, or None where it is not to be found."""
    section_headers, = struct.unpack_from("<Q", content, 40)
    entry_bytes, count = struct.unpack_from("<HH", content, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", content, section_headers + i * entry_bytes) for i in range(count)]
    for _, kind, _, _, offset, length, link, _, _, _ in headers:
        if kind != 11:  # .dynsym
            continue
        names = headers[link][4]
        for at in range(offset, offset + length, 24):
            name, _, _, _, address, size = struct.unpack_from("<IBBHQQ", content, at)
            if content.startswith(b"ncclGetVersion\0", names + name):
                for _, _, _, start_address, start, extent, *_ in headers:
                    if start_address and start_address <= address < start_address + extent:
                        code = address - start_address + start
                        version = re.search(rb"NCCL version (\d+)\.(\d+)\.(\d+)", content)
                        number = int(version[1]) * 10000 + int(version[2]) * 100 + int(version[3])
                        where = content.find(struct.pack("<I", number), code, code + size)
                        return None if where < 0 else (content[:where] + struct.pack("<I", number - 1) + content[where + 4:])
    return None


def with_copies(folder, name, content):
    """An environment in which rank 1 finds `content` for libnccl and the others what there is."""
    for rank, data in ((0, pathlib.Path(library_path()).read_bytes()), (1, content)):
        path = pathlib.Path(folder) / name / str(rank) / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    return lambda rank: {"PATH": "/nowhere", "VIRTUAL_ENV": "", "PYTHONPATH": f"{folder}/{name}/{min(rank, 1)}"}


def judge_flip(found):
    for rank in range(2):
        rows = value(experiment_of(found, rank)["seen"], {}).get("measured", {}).get("collectives", [])
        check(len(rows) == 18, f"flip: rank {rank} has every row", len(rows))
        for r in [r for r in rows if r.get("sizeBytes")]:
            what = f"flip: {r['collective']} {'in' if r.get('inPlace') else 'out of'} place, {r['sizeBytes']} B"
            wanted = {"all_reduce": [1, 1], "all_gather": [1, 1], "broadcast": [0, 0], "send_recv": [1, 0]}.get(r["collective"])
            check(r["wrong"] == wanted if wanted else sum(r["wrong"]) == 1, what, r["wrong"])
            if r["collective"] in ("all_gather", "send_recv"):
                check(r["wrongFrom"] == [0, sum(wanted)], f"{what} came from rank 1", r["wrongFrom"])


def judge_names_rank_1(label):
    def judge(found):
        one = experiment_of(found, 0)
        check(one["end"]["how"] == "finished", f"{label}: rank 0's experiment ends by itself", one["end"])
        check("rank 1" in stopped_of(one), f"{label}: rank 0 names rank 1", stopped_of(one))
        note(f"{label}: rank 0 reached", value(one["seen"], {}).get("reached"))
    return judge


def judge_killed(found):
    judge_names_rank_1("killed")(found)
    check(experiment_of(found, 1)["end"].get("signalName") == "SIGKILL", "killed: rank 1's end is told", experiment_of(found, 1)["end"])


def judge_stopped(found):
    one = experiment_of(found, 0)
    check(one["end"]["how"] == "finished", "stopped: rank 0's experiment ends by itself", one["end"])
    check("did not end by its deadline" in stopped_of(one) and "all_reduce" in stopped_of(one),
          "stopped: rank 0 says where it stands", stopped_of(one))
    check(experiment_of(found, 1)["end"]["how"] == "timed-out", "stopped: rank 1's end is told", experiment_of(found, 1)["end"])
    seen = value(one["seen"], {})
    check(seen.get("reached", {}).get("phase") == "warm-up", "stopped: rank 0 tells how far it came", seen.get("reached"))
    if seen.get("library", {}).get("versionCode", 0) >= 22807 and not args.fakes:
        ras = value(seen["ras"], "")
        check('"communicators"' in ras and len(ras) <= 65536, "stopped: RAS tells of the communicator", ras[:2000] or seen["ras"])


def judge_never_arrives(found):
    told = own(found[0], 0)["rendezvous"]
    check(told["state"] == "error" and "rank 1 of 2" in told["error"]["message"] and "never arrived" in told["error"]["message"],
          "never arrives: rank 0 names rank 1", told)


def judge_fallback(found):
    for rank in range(2):
        seen = value(experiment_of(found, rank)["seen"], {})
        check("stoppedBy" not in seen["measured"] and len(seen["measured"]["collectives"]) == 18,
              f"fallback: rank {rank} runs as if all were well", seen["measured"].get("stoppedBy", ""))
        log = value(seen["log"], {})
        check(log.get("networks") == ["Socket"] and "/nowhere.so" in log.get("pluginNotLoaded", ""),
              f"fallback: rank {rank}'s log shows sockets, and that the plugin is not there",
              f"{log.get('networks')} {log.get('pluginNotLoaded')}")


def judge_asked_for(found):
    for rank in range(2):
        one = experiment_of(found, rank)
        seen = value(one["seen"], {})
        check("collectives" not in seen.get("measured", {}) and stopped_of(one), f"asked for: rank {rank} measures nothing", stopped_of(one))
        log = value(seen.get("log", {"state": ""}), {})
        check("/nowhere.so" in log.get("pluginNotLoaded", ""), f"asked for: rank {rank}'s log has the reason", log.get("pluginNotLoaded"))
        check(args.fakes or bool(log.get("warnings")), f"asked for: rank {rank}'s NCCL warns", log.get("warnings"))
        check({"name": "NCCL_NET", "value": "AWS Libfabric", "source": "dlc-probe"} in seen.get("settings", []),
              f"asked for: rank {rank} records NCCL_NET as set by dlc-probe")


def judge_wrong_interface(found):
    judge_names_rank_1("wrong interface")(found)
    one = experiment_of(found, 1)
    check(stopped_of(one) != "" and "did not end" not in stopped_of(one), "wrong interface: rank 1 says that it failed", stopped_of(one))
    note("wrong interface: rank 1's warnings", value(value(one["seen"], {}).get("log", {"state": ""}), {}).get("warnings"))


def judge_wrong_interfaces(found):
    for rank in range(2):
        one = experiment_of(found, rank)
        check("rank 0: ncclGetUniqueId" in stopped_of(one), f"wrong interfaces: rank {rank} names rank 0, which was to begin", stopped_of(one))


def scenarios(folder):
    """Label, what runs, and what judges it."""
    on_rank_1 = lambda name, given: lambda rank: {name: given} if rank == 1 else {}
    flip = [{"rank": 1, "step": "nccl", "kind": "flip-bit"}]
    content = pathlib.Path(library_path()).read_bytes()
    # No other run's, and not the one of the rank that is stopped.
    ports = [ranks.free_port(), ranks.free_port()]
    at_ras = lambda rank: {"NCCL_RAS_ADDR": f"127.0.0.1:{ports[rank]}"}
    listed = [
        ("killed", dict(the_step=endless(), act=once_measuring(signal.SIGKILL)), judge_killed),
        ("stopped", dict(the_step=endless(), act=once_measuring(signal.SIGSTOP), env=at_ras), judge_stopped),
        ("never joins", dict(the_step=step(), faults=[{"rank": 1, "step": "nccl", "kind": "sleep"}]), judge_names_rank_1("never joins")),
        ("wrong interface", dict(the_step=step(), env=on_rank_1("NCCL_SOCKET_IFNAME", "wrong0")), judge_wrong_interface),
        ("never arrives", dict(the_step=step(), faults=[{"rank": 1, "step": "", "kind": "never-arrive"}], join_ms=5000), judge_never_arrives),
        ("flip", dict(the_step=step(60), faults=flip), judge_flip),
        ("wrong interfaces", dict(the_step=step(), env={"NCCL_SOCKET_IFNAME": "wrong0"}), judge_wrong_interfaces),
        ("fallback", dict(the_step=step(60), env={"NCCL_NET_PLUGIN": "/nowhere.so"}), judge_fallback),
        ("asked for", dict(the_step=step(settings=["NCCL_NET=AWS Libfabric"]), env={"NCCL_NET_PLUGIN": "/nowhere.so"}), judge_asked_for),
        ("mixed settings", dict(the_step=step(), env=lambda rank: {"NCCL_PROTO": ["Simple", "LL"][rank]}), judge_names_rank_1("mixed settings")),
        ("another file", dict(the_step=step(library=None), env=with_copies(folder, "file", content + b"\0")), judge_names_rank_1("another file")),
    ]
    other = with_other_version(content)
    if other is None:
        note("another version", "the number is not in the code of ncclGetVersion: only another file was planted")
    else:
        listed.append(("another version", dict(the_step=step(library=None), env=with_copies(folder, "version", other)),
                       judge_names_rank_1("another version")))
    return listed


def planted():
    title(f"planted faults, {AT_ONCE} runs of 2 ranks at a time")
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = [(label, judge, pool.submit(run, label, 2, **what)) for label, what, judge in scenarios(folder)]
        for label, judge, future in waiting:
            def judged():
                found, codes, errors, took = future.result()
                longest = 75 if label in ("flip", "fallback") else args.deadline + 15
                check(took < longest, f"{label}: it ended by its deadline", f"{took:.1f} s")
                note(f"{label}: exit codes", f"{codes} {''.join(errors)[:500]}")
                judge(found)
            judged.__name__ = label
            section(judged)
    for bad in ("NCCL_DEBUG_FILE=/x", "NCCL_HOSTID=x", "LD_PRELOAD=/x.so"):
        _, codes, errors, _ = run("refused", 1, step(settings=[bad]))
        check(codes == [2] and bad.split("=")[0] in errors[0], f"refused: a plan that sets {bad}", f"{codes} {errors}")


# ---- parity

def cuda_dir():
    if args.cuda_dir:
        return args.cuda_dir
    near = os.path.dirname(os.path.dirname(os.path.dirname(library_path())))  # site-packages/nvidia
    for folder in ("/usr/local/cuda", *sorted(glob.glob(near + "/cu1*")), near + "/cuda_runtime"):
        if os.path.exists(os.path.join(folder, "include", "cuda_runtime.h")):
            return folder
    raise FileNotFoundError("no cuda_runtime.h: give --cuda-dir")


def build_parity(folder):
    """parity.cpp, with the very libnccl that dlc-probe is given."""
    source = next(path for path in (HERE / "parity.cpp", HERE.parent / "parity.cpp") if path.exists())
    library = os.path.realpath(library_path())
    nccl = args.nccl_dir or os.path.dirname(os.path.dirname(library_path()))
    cuda = cuda_dir()
    cxx = args.cxx or shutil.which("nvcc") or os.path.join(cuda, "bin", "nvcc")
    if not args.cxx and not os.path.exists(cxx):
        cxx = "g++"
    program = os.path.join(folder, "parity")
    rpath = os.path.dirname(library)
    command = [cxx, "-std=c++17", "-O2", "-o", program, str(source), f"-I{nccl}/include", f"-I{cuda}/include",
               f"-L{rpath}", f"-l:{os.path.basename(library)}"]
    if os.path.basename(cxx).startswith("nvcc"):
        command += ["-Xlinker", f"-rpath={rpath}"]
    else:
        runtime = sorted(glob.glob(f"{cuda}/lib*/libcudart.so*") + glob.glob(f"{cuda}/targets/*/lib/libcudart.so*"))
        if not runtime:
            raise FileNotFoundError(f"no libcudart.so below {cuda}")
        command += [f"-Wl,-rpath={rpath}:{os.path.dirname(runtime[-1])}", runtime[-1], "-pthread"]
    note("parity: built by", " ".join(command))
    done = subprocess.run(command, text=True, capture_output=True, timeout=PLENTY)
    check(done.returncode == 0, "parity: the independent loop is built", (done.stdout + done.stderr)[-3000:])
    return program if done.returncode == 0 else None


def run_parity(program, folder):
    """Bus bandwidth by collective, placement and size."""
    shared = os.path.join(folder, "shared")
    pathlib.Path(shared).write_bytes(bytes(4096))
    processes = []
    try:
        for rank in range(args.parity_ranks):
            host_id = {} if args.one_node else {"NCCL_HOSTID": f"dlc-check-{rank}"}
            processes.append(subprocess.Popen(
                [program, str(rank), str(args.parity_ranks), shared, args.parity_collectives, "1", str(args.parity_iterations),
                 *map(str, PARITY_SIZES)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=dict(os.environ, LOCAL_RANK=local_rank(rank, args), NCCL_NVLS_ENABLE="0", **host_id)))
        outputs = [process.communicate(timeout=PLENTY) for process in processes]
    finally:
        ranks.end(dict(enumerate(processes)))
    check(all(process.returncode == 0 for process in processes), "parity: the independent loop ends well", [err for _, err in outputs])
    rows = [line.split() for line in outputs[0][0].splitlines() if line.startswith("ROW ")]
    return {(name, where, int(size)): float(speed) for _, name, where, size, _, speed in rows}


def run_probe():
    found, codes, errors, _ = run("parity", args.parity_ranks, step(120, collectives=args.parity_collectives.split(","), sizesBytes=PARITY_SIZES, iterations=args.parity_iterations,
                                                    library=library_path()))
    check(not any(codes), "parity: dlc-probe ends well", errors)
    one = experiment_of(found, 0)
    check(stopped_of(one) == "", "parity: nothing stopped dlc-probe", stopped_of(one))
    return {(r["collective"], "in" if r.get("inPlace") else "out", r["askedBytes"]): r["busBandwidthBytesPerSecond"]
            for r in value(one["seen"], {}).get("measured", {}).get("collectives", [])}


def parity():
    title(f"dlc-probe and an independent loop in turn, {args.parity_rounds} times: {args.parity_ranks} ranks, float32")
    with tempfile.TemporaryDirectory() as folder:
        program = build_parity(folder)
        if program is None:
            return
        probe, loop = [], []
        for turn in range(args.parity_rounds):
            if not check(time_left() > 20, f"parity: there is time for turn {turn + 1}", f"{time_left():.0f} s left"):
                break
            probe.append(run_probe())
            loop.append(run_parity(program, folder))
            print(f"          turn {turn + 1} of {args.parity_rounds} done", flush=True)
    compared = 0
    for key in sorted(set().union(*probe, *loop)):
        ours, theirs = ([one[key] for one in side if key in one] for side in (probe, loop))
        name = f"parity: {key[0]} {key[1]} of place, {key[2] >> 20} MiB"
        if not check(len(ours) == len(theirs) == args.parity_rounds, f"{name}: both measured it each time", f"{len(ours)} {len(theirs)}"):
            continue
        ratio = statistics.median(ours) / statistics.median(theirs)
        compared += 1
        check(abs(ratio - 1) <= PARITY_MOST, f"{name}: within 3 %",
              f"dlc-probe {statistics.median(ours) / 1e9:.3f} GB/s, loop {statistics.median(theirs) / 1e9:.3f} GB/s, ratio {ratio:.4f}")
        note(f"{name}: each turn", {"dlc-probe": ours, "loop": theirs})
    check(compared == len(args.parity_collectives.split(",")) * 2 * len(PARITY_SIZES), "parity: every row was compared", compared)


def main():
    most = max(*map(int, args.ranks.split(",")), args.parity_ranks) if args.own_gpus else 1
    if not args.fakes and gpus_here() < most:
        print(f"{gpus_here()} GPUs here, not {most}: nothing was shown")
        return 2
    note("dlc-probe", subprocess.run([args.probe, "--version"], text=True, capture_output=True).stdout.strip())
    wanted = args.only.split(",")
    if "planted" in wanted:
        section(planted)
    if "parity" in wanted and not args.fakes:
        section(parity)
    if "healthy" in wanted:
        for size in map(int, args.ranks.split(",")):
            for kind in ("float32", "bfloat16"):
                section(healthy, size, kind)
    with open(os.path.join(args.out, "nccl-documents.json"), "w") as file:
        json.dump(documents, file)
    note("took", f"{time.monotonic() - BEGIN:.1f} s")
    return summary(os.path.join(args.out, "nccl-summary.json"))


if __name__ == "__main__":
    BEGIN = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probe", default="build/release/bin/dlc-probe")
    parser.add_argument("--library", default="", help="the libnccl to use; without it the one beside the Python's torch, as dlc-probe finds it")
    parser.add_argument("--nccl-dir", default="", help="holds include/nccl.h; without it the folder above the library's")
    parser.add_argument("--cuda-dir", default="", help="holds include/cuda_runtime.h; without it /usr/local/cuda or the Python's package")
    parser.add_argument("--cxx", default="", help="builds parity.cpp; without it nvcc, or else g++")
    parser.add_argument("--ranks", default="1,2,4,8")
    parser.add_argument("--most-bytes", type=int, default=256 << 20)
    parser.add_argument("--only", default="planted,parity,healthy")
    parser.add_argument("--parity-rounds", type=int, default=3)
    parser.add_argument("--parity-collectives", default=",".join(ALL[:4]))
    parser.add_argument("--parity-iterations", type=int, default=5)
    parser.add_argument("--parity-ranks", type=int, default=2)
    add_gpu_options(parser)
    parser.add_argument("--budget", type=float, default=345, help="seconds for all of it")
    parser.add_argument("--deadline", type=float, default=20, help="seconds, of a step that must fail")
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    parser.add_argument("--fakes", default="", help="tests/fakes/nccl as built: tries this script, and shows nothing of NCCL")
    args = gpu_options(parser)
    args.probe = os.path.abspath(args.probe)
    if args.fakes:
        args.most_bytes = min(args.most_bytes, 1 << 20)
    os.makedirs(args.out, exist_ok=True)
    sys.exit(main())

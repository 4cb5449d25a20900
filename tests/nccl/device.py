#!/usr/bin/env python3
"""What only a real GPU and a real NCCL can show. Needs a built dlc-probe, Python 3 and tests/probe/ranks.py
and tests/device_report.py, in the tree or beside this file; takes some minutes.

  device.py [--probe build/debug/bin/dlc-probe] [--library PATH] [--out DIR] [--ranks 1,2,4]

Runs nccl-collectives on one GPU: with one rank, and with several that share it, each with an NCCL_HOSTID of its own, so that NCCL
takes each for a node and connects them over the network that it finds, which is sockets. Sums must be right, a planted
flip must be found, the log must say that sockets carried the bytes, a killed rank must end the others by the deadline. --library: the
libnccl to use; without it the one beside the Python's torch, as dlc-probe finds it. Every comparison is printed; documents
go to --out ($OUT). Exits 1 on any mismatch, and 2 where there is no GPU: that is no pass."""

import argparse
import hashlib
import json
import os
import pathlib
import re
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(TESTS), str(TESTS / "probe")]  # after this folder

import ranks
from device_report import check, note, section, summary, title, value

PLENTY = 240
ALL = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "send_recv"]
SIZES = [8, 65536, 1 << 20, 16 << 20]


def step(deadline_s, **parameters):
    whole = {"collectives": ALL, "sizesBytes": SIZES, "warmUp": 1, "iterations": 5}
    if args.library:
        whole["library"] = args.library
    return ranks.step("nccl-collectives", int(deadline_s * 1000), "nccl", **dict(whole, **parameters))


def environment(rank):
    """All on the first GPU, each a node to NCCL. No multicast: a GPU that is shared, or lent, need not allow it."""
    return {"LOCAL_RANK": "0", "NCCL_HOSTID": f"dlc-check-{rank}", "NCCL_NVLS_ENABLE": "0"}


def start(size, the_step, faults=()):
    return ranks.start(size, ranks.plan([the_step], faults), program=args.probe, env=environment)


def run(label, size, the_step, faults=()):
    """The experiment of every rank."""
    seen = []
    for rank in ranks.finish(start(size, the_step, faults), PLENTY):
        check(rank.code == 0, f"{label}: rank {rank.rank} writes its document", f"exit code {rank.code} {rank.err}")
        with open(os.path.join(args.out, f"nccl-{label}-{rank.rank}.json"), "w") as file:
            json.dump(rank.document, file, indent=1)
        seen.append(rank.seen()["ncclCollectives"][0])
    return seen


def experiments(label, size, the_step, faults=()):
    """What was seen, on ranks that must all have seen it."""
    found = run(label, size, the_step, faults)
    for rank, one in enumerate(found):
        check(one["seen"]["state"] == "seen", f"{label}: rank {rank} measures", one["seen"].get("error", ""))
    return [value(one["seen"]) for one in found if one["seen"]["state"] == "seen"]


def check_rows(label, one):
    rows = one["measured"].get("collectives", [])
    check("stoppedBy" not in one["measured"], f"{label}: nothing stopped it", one["measured"].get("stoppedBy", ""))
    check(len(rows) == len(SIZES) * 9, f"{label}: every row is there", len(rows))
    wrong = [(r["collective"], r.get("sizeBytes", 0), r["wrong"]) for r in rows if any(r.get("wrong", [1]))]
    check(not wrong, f"{label}: every result is right", wrong)
    unchecked = [(r["collective"], r["sizeBytes"]) for r in rows if r.get("sizeBytes") and not r.get("checkedElements")]
    check(not unchecked, f"{label}: every row with bytes was compared", unchecked)
    check(all(r.get("meanSeconds", 0) > 0 and r["minSeconds"] <= r["meanSeconds"] * 1.0001 <= r["maxSeconds"] * 1.0002
              for r in rows), f"{label}: every row has a time")
    return rows


def transport(log):
    """As checks/nccl_evidence.cpp says it of a log, as far as TCP goes."""
    return "TCP_PROVEN" if any(c.get("network") == "Socket" for c in log.get("connections", [])) else "not TCP"


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
    if size > 1:
        check(bool(mine) and mine[0].get("nodes", 0) in (0, size), f"{label}: each rank is a node to NCCL", mine)
        check(transport(log) == "TCP_PROVEN", f"{label}: sockets carried the bytes", transport(log))
        check(log.get("networks") == ["Socket"], f"{label}: the network is Socket", log.get("networks"))
        net = [c for c in log["connections"] if c["transport"] == "NET"]
        check(sum(c.get("sends", 0) for c in net) > 0 and sum(c.get("receives", 0) for c in net) > 0,
              f"{label}: connections send and receive", net)
        loopback = [{i["name"]: i.get("sentBytes", 0) for i in value(one[key], [])}.get("lo", 0)
                    for key in ("interfacesBefore", "interfacesAfter")]
        note(f"{label}: bytes over loopback", loopback[1] - loopback[0])
    note(f"{label}: connections", [f"{c['transport']}/{c.get('network') or c.get('detail')} {c.get('sends', 0)} sends "
                                   f"{c.get('receives', 0)} receives {c.get('others', 0)}" for c in log.get("connections", [])])
    note(f"{label}: warnings", log.get("warnings", []))


def check_library(label, one):
    library = one["library"]
    path = library["library"]["path"]
    with open(path, "rb") as file:
        content = file.read()
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


def healthy(size):
    for kind in ("float32", "bfloat16"):
        title(f"{size} ranks on one GPU, {kind}")
        label = f"{size}-{kind}"
        found = experiments(label, size, step(90, type=kind))
        for rank, one in enumerate(found):
            rows = check_rows(f"{label} rank {rank}", one)
            check_log(f"{label} rank {rank}", rank, size, one)
            if rank == 0:
                check_library(label, one)
                table(rows)


def planted():
    title("one flipped bit on rank 1 of 2 is found, and where it came from")
    for one in experiments("flip", 2, step(90), faults=[{"rank": 1, "step": "nccl", "kind": "flip-bit"}]):
        rows = one["measured"].get("collectives", [])
        check(len(rows) == 36, "flip: every row is there", len(rows))
        for r in [r for r in rows if r.get("sizeBytes")]:
            wanted = {"all_reduce": [1, 1], "all_gather": [1, 1], "broadcast": [0, 0], "send_recv": [1, 0]}.get(r["collective"])
            good = r["wrong"] == wanted if wanted else sum(r["wrong"]) == 1
            check(good, f"flip: {r['collective']} {'in' if r.get('inPlace') else 'out of'} place, {r['sizeBytes']} B", r["wrong"])
            if r["collective"] == "all_gather":
                check(r["wrongFrom"] == [0, 2], "flip: it came from rank 1", r["wrongFrom"])


def failures():
    title("a killed rank, and a network that is not there, end by the deadline and say why")
    begin = time.monotonic()
    found = run("kill", 2, step(20), faults=[{"rank": 1, "step": "nccl", "kind": "kill"}])
    took = time.monotonic() - begin
    check(took < 40, "kill: it ended", f"{took:.1f} s")
    check(found[1]["end"]["how"] == "killed", "kill: rank 1 was killed", found[1]["end"])
    seen = value(found[0]["seen"], {})
    error = seen.get("measured", {}).get("stoppedBy") or found[0]["seen"].get("error", {})
    check("rank 1" in error.get("message", ""), "kill: rank 0 names rank 1", error)

    begin = time.monotonic()
    for rank, one in enumerate(run("network", 2, step(30, network="AWS Libfabric"))):
        seen = value(one["seen"], {})
        stopped = seen.get("measured", {}).get("stoppedBy", {})
        check("collectives" not in seen.get("measured", {}) and stopped, f"network: rank {rank} measures nothing", stopped)
        note(f"network: rank {rank}'s warnings", value(seen.get("log", {"state": ""}), {}).get("warnings"))
    took = time.monotonic() - begin
    check(took < 45, "network: it ended", f"{took:.1f} s")


def children_of(parent):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[1] == str(parent):
                    found.append(int(pid))
        except OSError:
            pass  # it ended meanwhile
    return found


def kill_once_measuring(process):
    """Kills the experiment's own process of a rank; gives whom it killed."""
    for line in process.stdout:
        if "measuring" in line:
            victims = children_of(process.pid)
            for victim in victims:
                os.kill(victim, 9)
            return victims
    return []


def mid_collective():
    title("a rank that is killed in the middle of its operations ends the other by the deadline")
    begin = time.monotonic()
    processes = start(2, step(25, sizesBytes=[64 << 20], collectives=["all_reduce"], iterations=1000000))
    try:
        victims = kill_once_measuring(processes[1])
        first, = ranks.finish({0: processes[0]}, PLENTY)
        processes[1].communicate(timeout=PLENTY)
    finally:
        ranks.end(processes)
    took = time.monotonic() - begin
    check(len(victims) == 1, "mid-collective: rank 1's experiment was killed", victims)
    one = first.seen()["ncclCollectives"][0]
    seen = value(one["seen"], {})
    stopped = seen.get("measured", {}).get("stoppedBy", {})
    check(bool(stopped), "mid-collective: rank 0 says what stopped it", stopped or one)
    check(one["end"]["how"] == "finished", "mid-collective: rank 0's experiment ends by itself", one["end"])
    check(took < 60, "mid-collective: it ended", f"{took:.1f} s")


def main():
    if not any(name.startswith("nvidia") and name[6:].isdigit() for name in os.listdir("/dev")):
        print("no GPU here: nothing was shown")
        return 2
    for size in map(int, args.ranks.split(",")):
        section(healthy, size)
    for work in (planted, failures, mid_collective):
        section(work)
    return summary(os.path.join(args.out, "nccl-summary.json"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--probe", default="build/debug/bin/dlc-probe")
    parser.add_argument("--library", default="")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--out", default=os.environ.get("OUT", "."))
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    sys.exit(main())

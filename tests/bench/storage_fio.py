#!/usr/bin/env python3
"""Writes with fsync and reads of ours beside fio's, in turn in one run. Not a test: it prints numbers and judges none.

  storage_fio.py DLC_PROBE DIRECTORY [--jobs 1,4] [--file-mib 256] [--block-mib 4] [--repetitions 5] [--modes buffered,direct]

Needs fio (Debian: fio). Same directory, block size, file size and number of ranks or jobs, each with a file of its own. A ratio
above 1 is in our favour. Writes end with fsync (fio: end_fsync=1) and allocate as they go (fallocate=none: nobody who saves a
checkpoint allocates first). Before buffered reads the pages are dropped by fadvise (fio: invalidate=1), after fsync; on tmpfs that
drops nothing, and a read is of memory. Both read what they themselves wrote.

Ours compares every byte that it reads; fio compares nothing. What ours takes for that with O_DIRECT, while the file system has nothing
to do, is not in its time. Rates are all bytes over the time from the first start to the
last end.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "probe"))
import ranks  # noqa: E402

PATIENCE = 600
MIB = 1 << 20


def aggregate(transfers):
    for one in transfers:
        if one.get("error"):
            sys.exit(f"ours: {one['direction']}: {one['error']} ({one.get('detail')})")
    begin = min(one.get("startSeconds", 0) for one in transfers)
    end = max(one.get("startSeconds", 0) + one["seconds"] for one in transfers)
    return sum(one["bytes"] for one in transfers) / (end - begin)


def ours(probe, directory, jobs, file_bytes, block_bytes):
    """{(mode, direction): bytes per second}, and why the buffered reads were cold."""
    step = ranks.step("storage-speed", PATIENCE * 1000, path=directory, fileBytes=file_bytes, blockBytes=[block_bytes], direct=True)
    seen = []
    for rank in ranks.run(jobs, ranks.plan([step]), timeout=PATIENCE, program=probe):
        if rank.document is None:
            sys.exit(f"rank {rank.rank} told nothing: {rank.err}")
        speed = rank.seen()["storageSpeed"][0]["seen"]
        if speed["state"] != "seen":
            sys.exit(f"rank {rank.rank}: {speed}")
        seen.append(speed["value"]["transfers"])
    rates = {}
    for together in zip(*seen):
        first = together[0]
        mode = "direct" if first.get("direct") else "buffered"
        if mode == "direct" and first.get("error") in ("EINVAL", "ENOTSUP", "EOPNOTSUPP", "ENOENT"):
            continue
        rates[mode, first["direction"]] = aggregate(together)
    return rates, {one[1].get("coldBecause") or "not cold" for one in seen}


def fio(directory, jobs, file_bytes, block_bytes, mode, direction):
    """Bytes per second of all jobs; the files of a write stay for the read."""
    command = ["fio", "--name=bench", f"--directory={directory}", "--filename_format=fio.$jobnum", f"--rw={direction}",
               f"--bs={block_bytes}", f"--size={file_bytes}", f"--numjobs={jobs}", "--ioengine=psync", f"--direct={int(mode == 'direct')}",
               "--fallocate=none", "--invalidate=1", "--group_reporting", "--thread=0", "--output-format=json"]
    if direction == "write":
        command += ["--end_fsync=1", "--create_on_open=1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != 0:
        return None
    job, = json.loads(done.stdout[done.stdout.index("{"):])["jobs"]
    side = job[direction]
    assert side["io_bytes"] == file_bytes * jobs, side
    return side["io_bytes"] / (side["runtime"] / 1000)


def theirs(directory, jobs, file_bytes, block_bytes, modes):
    rates = {}
    for mode in modes:
        home = tempfile.mkdtemp(dir=directory, prefix="fio-")
        try:
            for direction in ("write", "read"):
                rates[mode, direction] = fio(home, jobs, file_bytes, block_bytes, mode, direction)
        finally:
            shutil.rmtree(home)
    return rates


def filesystem(directory):
    return subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True, check=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe")
    parser.add_argument("directory")
    parser.add_argument("--jobs", default="1,4")
    parser.add_argument("--file-mib", type=int, default=256)
    parser.add_argument("--block-mib", type=int, default=4)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--modes", default="buffered,direct")
    options = parser.parse_args()
    if not shutil.which("fio"):
        sys.exit("no fio: install fio")
    file_bytes, block_bytes = options.file_mib * MIB, options.block_mib * MIB
    modes = options.modes.split(",")
    print(f"{filesystem(options.directory)}, {options.file_mib} MiB a file, {options.block_mib} MiB blocks, {options.repetitions} repetitions, "
          f"{os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f} at the start")
    for jobs in map(int, options.jobs.split(",")):
        pairs, cold = {}, set()
        for turn in range(options.repetitions):
            if turn % 2:
                their, (mine, why) = theirs(options.directory, jobs, file_bytes, block_bytes, modes), ours(options.probe, options.directory, jobs, file_bytes, block_bytes)
            else:
                (mine, why), their = ours(options.probe, options.directory, jobs, file_bytes, block_bytes), theirs(options.directory, jobs, file_bytes, block_bytes, modes)
            cold |= why
            for key, rate in their.items():
                if rate and mine.get(key):
                    pairs.setdefault(key, []).append((mine[key], rate))
        print(f"{jobs} at once; buffered reads of ours: {', '.join(sorted(cold))}")
        for (mode, direction), rows in pairs.items():
            ratios = [a / b for a, b in rows]
            a, b = (statistics.median(column) for column in zip(*rows))
            print(f"= {mode:<8} {direction:<5} ours {a / 1e6:8.0f} fio {b / 1e6:8.0f} MB/s  ratio {statistics.median(ratios):.2f} "
                  f"(from {min(ratios):.2f} to {max(ratios):.2f})")
        for mode in modes:
            if (mode, "write") not in pairs:
                print(f"= {mode}: refused here")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Where a GPU's time goes, kernel by kernel, from what Nsight Compute wrote:

    ncu --metrics gpu__time_duration.sum --csv --cache-control none --clock-control none \\
        bin/cuda_training_bench --rows 4 --sequence 1024 --steps 2 > profile.csv
    tests/bench/kernel_profile.py profile.csv

One pass per kernel: throughputs would need replays, which save and restore all of the model's memory around each kernel. Starting
the weights counts too (NormalValues, and what is cast once); ncu runs kernels one at a time, so that what overlaps is told apart.
"""
import collections
import csv
import pathlib
import re
import sys


def short(kernel):
    """'dlc::<unnamed>::AdamW<..>(float *, ..)' -> 'AdamW'; cuBLAS's names stay, cut."""
    name = re.sub(r"\(.*", "", kernel.replace("<unnamed>::", "").replace("void ", ""))
    return re.sub(r"<.*", "", name).removeprefix("dlc::")[:60]


def rows(path):
    lines = pathlib.Path(path).read_text().splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        sys.exit(f"{path}: no table of ncu --csv in it")
    return list(csv.DictReader(lines[start:]))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    times = collections.defaultdict(list)
    for row in rows(sys.argv[1]):
        scale = {"ns": 1e-6, "us": 1e-3, "usecond": 1e-3, "nsecond": 1e-6, "ms": 1.0}.get(row["Metric Unit"])
        if row["Metric Name"] != "gpu__time_duration.sum" or scale is None:
            sys.exit(f"{sys.argv[1]}: {row['Metric Name']} in {row['Metric Unit']}, expected gpu__time_duration.sum as a time")
        times[short(row["Kernel Name"])].append(float(row["Metric Value"].replace(",", "")) * scale)
    total = sum(sum(all_of) for all_of in times.values())
    print(f"{'kernel':60} {'calls':>6} {'ms':>9} {'share':>6}")
    for name, all_of in sorted(times.items(), key=lambda item: -sum(item[1])):
        print(f"{name:60} {len(all_of):6} {sum(all_of):9.3f} {sum(all_of) / total:6.1%}")
    print(f"{'all':60} {sum(map(len, times.values())):6} {total:9.3f}")


main()

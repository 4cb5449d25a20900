#!/usr/bin/env python3
"""Messages and collectives of ours beside other tools', in turn in one run. Not a test: it prints numbers and judges none.

  fabric_bench.py BIN_DIR [--provider 'tcp;ofi_rxm'] [--repetitions 5]

Needs the target fabric_bench (cmake --build ... --target fabric_bench) and fi_pingpong (Debian: libfabric-bin). With torch, also
all-reduce against Gloo. A ratio above 1 is in our favour.

Half a round trip is compared with fi_pingpong's usec/xfer, which is the same; bandwidth with its MB/sec. fi_pingpong has one
message on its way and ours a window of them: that is how each is meant to be used.
"""
import argparse
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import time

SMALL, LARGE = 8, 1 << 20
ALL_REDUCE, ALL_REDUCE_RANKS = 64 << 20, 4
PATIENCE = 300

GLOO = """
import sys, time, torch, torch.distributed as dist
rank, size, port, elements, warm_up, iterations = map(int, sys.argv[1:])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
data = torch.full((elements,), 1.0 + rank)
dist.all_reduce(data)
assert data[0].item() == sum(1.0 + r for r in range(size)), data[0].item()
for _ in range(warm_up):
    dist.all_reduce(data)
dist.barrier()
start = time.perf_counter()
for _ in range(iterations):
    dist.all_reduce(data)
print((time.perf_counter() - start) / iterations)
dist.barrier()
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def rows(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def ours(bench, provider, size, iterations):
    """(seconds of half a round trip, bytes per second)"""
    row, = rows([bench, "pairs", provider, str(size), str(iterations)])
    assert row["wrong"] == 0, row
    return row["latency_seconds"], row["bandwidth"]


def wait_until_it_listens(port, process):
    """Looking at the kernel's table: a connection would be taken for the client's."""
    wanted = f":{port:04X} "
    while process.poll() is None:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            if any(wanted in line and " 0A " in line for line in open(table)):
                return
        time.sleep(0.01)
    sys.exit(f"fi_pingpong ended before it listened: {process.communicate()[1]}")


def pingpong(provider, size, iterations):
    """The same two of fi_pingpong."""
    port = free_port()
    command = ["fi_pingpong", "-e", "rdm", "-m", "tagged", "-p", provider, "-I", str(iterations), "-S", str(size)]
    server = subprocess.Popen(command + ["-B", str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until_it_listens(port, server)
        client = subprocess.run(command + ["-P", str(port), "127.0.0.1"], capture_output=True, text=True, timeout=PATIENCE)
    finally:
        if server.poll() is None:
            try:
                server.wait(timeout=10)
            except subprocess.TimeoutExpired:
                server.kill()
        server.communicate()
    if client.returncode != 0:
        sys.exit(f"fi_pingpong: {client.stderr.strip()}")
    head, row = [line.split() for line in client.stdout.splitlines() if line.strip()][-2:]
    table = dict(zip(head[-3:], row[-3:]))
    return float(table["usec/xfer"]) * 1e-6, float(table["MB/sec"]) * 1e6


def ours_all_reduce(bench, provider, iterations):
    """Seconds, in place as Gloo does it."""
    table = rows([bench, "collective", "all_reduce", provider, str(ALL_REDUCE_RANKS), str(ALL_REDUCE), str(iterations)])
    row, = [r for r in table if r["in_place"]]
    assert row["wrong"] == 0, row
    return row["mean_seconds"]


def gloo_all_reduce(python, iterations):
    port = free_port()
    ranks = [subprocess.Popen([python, "-c", GLOO, *map(str, (rank, ALL_REDUCE_RANKS, port, ALL_REDUCE // 4, 1, iterations))],
                              stdout=subprocess.PIPE, text=True, env=dict(os.environ, GLOO_SOCKET_IFNAME="lo"))
             for rank in range(ALL_REDUCE_RANKS)]
    seconds = [float(rank.communicate(timeout=PATIENCE)[0]) for rank in ranks]
    return statistics.mean(seconds)


def compare(title, unit, scale, more_is_better, pairs):
    """Medians over the repetitions, and of the ratios of neighbours: what the machine did meanwhile hit both alike."""
    ratios = [(a / b) if more_is_better else (b / a) for a, b in pairs]
    for a, b in pairs:
        print(f"  {title:<34} {a * scale:12.2f} {b * scale:12.2f} {unit}")
    mine, theirs = (statistics.median(column) for column in zip(*pairs))
    print(f"= {title:<34} {mine * scale:12.2f} {theirs * scale:12.2f} {unit:<5} ratio {statistics.median(ratios):.2f} "
          f"(from {min(ratios):.2f} to {max(ratios):.2f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("--provider", default="tcp;ofi_rxm")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--small-iterations", type=int, default=2000)
    parser.add_argument("--large-iterations", type=int, default=200)
    parser.add_argument("--operations", type=int, default=5, help="of all-reduce")
    parser.add_argument("--python", default=sys.executable, help="the one that has torch")
    options = parser.parse_args()
    bench = str(options.bin_dir / "fabric_bench")
    if not shutil.which("fi_pingpong"):
        sys.exit("no fi_pingpong: install libfabric-bin")
    load = os.getloadavg()[0]
    print(f"{options.repetitions} repetitions, {os.cpu_count()} CPUs, load average {load:.1f} at the start; provider {options.provider}")
    print(f"  {'':<34} {'ours':>12} {'fi_pingpong':>12}")
    small = [(ours(bench, options.provider, SMALL, options.small_iterations)[0],
              pingpong(options.provider, SMALL, options.small_iterations)[0]) for _ in range(options.repetitions)]
    compare(f"half a round trip, {SMALL} bytes", "us", 1e6, False, small)
    large = [(ours(bench, options.provider, LARGE, options.large_iterations)[1],
              pingpong(options.provider, LARGE, options.large_iterations)[1]) for _ in range(options.repetitions)]
    compare("bandwidth, 1 MiB", "MB/s", 1e-6, True, large)
    if subprocess.run([options.python, "-c", "import torch.distributed"], capture_output=True).returncode != 0:
        print(f"no torch in {options.python}: all-reduce is not compared with Gloo")
        return
    print(f"  {'':<34} {'ours':>12} {'Gloo':>12}")
    reduce = [(ours_all_reduce(bench, options.provider, options.operations), gloo_all_reduce(options.python, options.operations))
              for _ in range(options.repetitions)]
    compare(f"all-reduce, 64 MiB, {ALL_REDUCE_RANKS} ranks", "ms", 1e3, False, reduce)


if __name__ == "__main__":
    main()

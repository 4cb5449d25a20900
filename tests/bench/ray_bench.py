#!/usr/bin/env python3
"""How long it takes from `dlc-check cluster` to the first byte of a rank in a Ray cluster. Not a test: it prints numbers and judges none.

  DLC_RAY_PYTHON=.../bin/python ray_bench.py BIN_DIR [--runs 3] [--stripped]

A real Ray of two nodes (tests/cli/nodes.py: namespaces of one machine) with two ranks, one on each; the stage fsdp on the CPU. All that
dlc-check sends to the dashboard goes through a relay that counts it. Of the runs with one dlc-probe the first finds a cluster that does
not have it. --stripped: after those, as many with a dlc-probe that `strip` has taken symbols and debug information from.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
MIB = 1 << 20


def run(program, config, relay, out):
    """Prints one line."""
    relay.seen.clear()
    started = time.monotonic()
    process = subprocess.Popen([program, "cluster", "-c", config, "--no-sign", "--out", out, "-v"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    first = None
    said = []
    for line in process.stderr:
        said.append(line)
        if first is None and ": rank " in line:
            first = time.monotonic() - started
    if process.wait() != 0 or first is None:
        sys.exit(f"dlc-check ended with {process.returncode}:\n{''.join(said[-20:])}")
    whole = time.monotonic() - started
    sent = [(size, seconds) for _, method, path, size, seconds in relay.seen if method == "PUT" and not path.endswith("-order.zip")]
    taken = next(began + seconds - started for began, method, path, _, seconds in relay.seen if method == "POST" and path == "/api/jobs/")
    upload = f"{sent[0][0] / MIB:6.1f} MiB in {sent[0][1]:5.2f} s" if sent else "no, the cluster has it"
    print(f"  first byte of a rank {first:6.2f} s   job taken {taken:6.2f} s   upload {upload:24}   whole run {whole:6.2f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--stripped", action="store_true")
    options = parser.parse_args()
    os.environ["DLC_BIN"] = options.bin
    from nodes import may_make_nodes
    import ray_ranks_test
    if not ray_ranks_test.real_ray.PYTHON or not may_make_nodes():
        sys.exit("it needs DLC_RAY_PYTHON (bash tests/ray/install.sh DIR) and the right to make mount namespaces")

    class Bench(ray_ranks_test.Cluster):
        def test_bench(self):
            relay = ray_ranks_test.Relay(self.head.port)
            self.addCleanup(relay.close)
            config = self.config("stages: [fsdp]", address=relay.address)
            print("Ray", ray_ranks_test.real_ray.ray_version(), "load", os.getloadavg()[0], "of", os.cpu_count(), "CPUs")
            for stripped in [False, True][:1 + options.stripped]:
                programs = self.dir / f"bin{int(stripped)}"
                programs.mkdir()
                for name in ("dlc-check", "dlc-probe"):
                    shutil.copy(pathlib.Path(options.bin) / name, programs)
                if stripped:
                    subprocess.run(["strip", programs / "dlc-probe"], check=True)
                print("dlc-probe", "stripped" if stripped else "as built", f"{(programs / 'dlc-probe').stat().st_size / MIB:.1f} MiB")
                for number in range(options.runs):
                    run(programs / "dlc-check", config, relay, self.dir / f"out{int(stripped)}{number}")

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Bench).run(result)
    for _, text in result.errors + result.failures:
        sys.exit(text)


if __name__ == "__main__":
    main()

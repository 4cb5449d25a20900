#!/usr/bin/env python3
"""Writes outputs of nccl-tests beside it: the format of src/common.cu at 2.19.6, as in NVIDIA/nccl-tests issues 107, 182 and 294."""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
HEAD = ["# nccl-tests version 2.19.6 nccl-headers=22907 nccl-library=22907",
        "# Collective test starting: all_reduce_perf",
        "# nThread 1 nGpus 1 minBytes 67108864 maxBytes 1073741824 step: 4(factor) warmup iters: 1 iters: 20 agg iters: 1 "
        "validation: 1 graph: 0",
        "#",
        "# Using devices"]
COLUMNS = ["#",
           "#                                                              out-of-place                       in-place",
           "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong",
           "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)"]


def rank(number, host, pid=None):
    return f"#  Rank {number:2d} Group  0 Pid {pid or 100 + number:6d} on {host:>10s} device {number % 8:2d} [0000:10:1c] NVIDIA L4"


def rows(wrong="0"):
    return [f"{size:>12d} {size // 4:>13d}     float     sum      -1  {size / 4e3:.2f}    4.00    7.50  {wrong:>6s}  "
            f"{size / 4e3:.2f}    4.00    7.50       0" for size in (64 << 20, 256 << 20, 1 << 30)]


def tail(out_of_bounds="0 OK"):
    return [f"# Out of bounds values : {out_of_bounds}", "# Avg bus bandwidth    : 7.5000", "#",
            "# Collective test concluded: all_reduce_perf"]


def write(name, lines):
    (HERE / name).write_text("\n".join(lines) + "\n")


def main():
    sixteen = [rank(n, "node-a" if n < 8 else "node-b") for n in range(16)]
    good = HEAD + sixteen + COLUMNS + rows() + tail()
    write("two_hosts.txt", good)
    write("two_hosts_tagged.txt", ["[1,0]<stdout>:" + line for line in good])
    one = [HEAD + [rank(0, f"node-{host}", pid)] + COLUMNS + rows() + tail() for host, pid in (("a", 41), ("b", 57))]
    write("two_tables.txt", [line for pair in zip(*one) for line in pair])
    write("one_host.txt", HEAD + [rank(n, "node-a") for n in range(16)] + COLUMNS + rows() + tail())
    write("not_finished.txt", HEAD + sixteen + COLUMNS + rows()[:2])
    write("wrong.txt", HEAD + sixteen + COLUMNS + rows(wrong="12") + tail("36 FAILED"))
    write("not_compared.txt", HEAD + sixteen + COLUMNS + rows(wrong="N/A") + tail())


def json_output(**changes):
    """What -J writes (src/util.cu, file version 2): booleans and the root are text, env is the whole environment."""
    timing = {"time": 67108.86, "alg_bw": 4.0, "bus_bw": 7.5, "nwrong": 0.0}
    document = {"version": 2, "start_time": "2026-11-30 10:00:00", "args": ["/usr/local/bin/all_reduce_perf", "-b", "64M"],
                "env": ["HOME=/home/ubuntu", "SECRET_TOKEN=hunter2"], "nccl_version": 22907,
                "config": {"nthreads": 1, "ngpus": 1, "devices": [{"rank": n, "group": 0, "pid": 100 + n, "hostname": "node-a" if n < 8 else "node-b",
                                                                   "device": n % 8} for n in range(16)]},
                "results": [{"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": timing,
                             "in_place": timing, "actual_iterations": 20} for size in (64 << 20, 256 << 20, 1 << 30)],
                "out_of_bounds": {"count": 0, "okay": "true"}, "average_bus_bandwidth": {"bandwidth": 7.5, "okay": "unchecked"},
                "errors": [], "end_time": "2026-11-30 10:01:00"}
    document.update(changes)
    return [json.dumps({key: value for key, value in document.items() if value is not None}, indent=1)]


def write_json():
    write("two_hosts.json", json_output())
    write("not_finished.json", json_output(end_time=None, average_bus_bandwidth=None))
    write("eight_gpus_a_process.json", json_output(config={"nthreads": 1, "ngpus": 8, "devices": [
        {"rank": 0, "pid": 41, "hostname": "node-a"}, {"rank": 8, "pid": 57, "hostname": "node-b"}]}))


if __name__ == "__main__":
    main()
    write_json()

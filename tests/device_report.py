"""What the scripts for a machine with a GPU share (gpu/device.py, nccl/device.py): each comparison is printed as it is made, and
mismatches and numbers are kept for a summary."""

import json
import os
import sys
import traceback

mismatches = []
facts = {}  # all numbers, for one summary at the end


def check(good, what, detail=""):
    print(("ok        " if good else "MISMATCH  ") + what + (f": {detail}" if detail != "" else ""), flush=True)
    if not good:
        mismatches.append(f"{what}: {detail}")
    return good


def note(what, detail):
    print(f"note      {what}: {detail}", flush=True)
    facts[what] = detail


def title(text):
    print(f"\n== {text}", flush=True)


def gpus_here():
    return sum(name.startswith("nvidia") and name[6:].isdigit() for name in os.listdir("/dev"))


def add_gpu_options(parser):
    """For ranks that have a GPU each."""
    parser.add_argument("--own-gpus", action="store_true", help="each rank has the GPU of its number")
    parser.add_argument("--one-node", action="store_true", help="no NCCL_HOSTID of its own for each rank; needs --own-gpus")


def gpu_options(parser):
    """What was given, as one of the two needs the other."""
    args = parser.parse_args()
    if args.one_node and not args.own_gpus:
        parser.error("--one-node needs --own-gpus: NCCL refuses two ranks of a node on one GPU")
    return args


def local_rank(rank, args):
    return str(rank if args.own_gpus else 0)


def value(observed, default=None):
    return observed.get("value", default) if observed["state"] == "seen" else default


def section(work, *arguments):
    """One part's surprise must not hide what the others show."""
    try:
        return work(*arguments)
    except Exception:  # whatever it is, it is a mismatch
        traceback.print_exc(file=sys.stdout)
        check(False, f"{work.__name__} ran to its end", traceback.format_exc(limit=-1).splitlines()[-1])
        return None


def summary(path):
    """Written to `path`, and the exit code."""
    title("summary")
    with open(path, "w") as file:
        json.dump({"mismatches": mismatches, "facts": facts}, file, indent=1, default=str)
    print(f"{len(mismatches)} mismatches")
    for line in mismatches:
        print("  " + line)
    return 1 if mismatches else 0

"""usage: DLC_PROBE=.../dlc-probe repeat_smoke.py [COUNT]

Runs a 4-rank smoke COUNT (200) times in a row: every run must end in time with every rank's view complete, and leave no
process and no file."""

import time

from ranks import *


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    directory = tempfile.mkdtemp(prefix="dlc-probe-smoke-")
    marker = "DLC_SMOKE=" + secrets.token_hex(8)
    slowest = 0
    begin = time.monotonic()
    for i in range(count):
        start_of_run = time.monotonic()
        ranks = run(4, plan([step("meet"), step("storage-shared", path=directory,
                                                visibleWithinMs=5000)], gather=True),
                    env=dict([marker.split("=")]))
        for rank in ranks:
            seen = rank.seen()
            states = [seen["meet"][0]["seen"]["state"], seen["storageShared"][0]["seen"]["state"]]
            assert rank.code == 0 and states == ["seen", "seen"], (i, rank.code, rank.err, seen)
            peers = seen["storageShared"][0]["seen"]["value"]["peers"]["value"]
            assert [p["state"] for p in peers] == ["same"] * 3, (i, peers)
        assert all(r["seen"]["state"] == "seen" for r in ranks[0].document["ranks"]), i
        left = leftover_processes(marker), os.listdir(directory)
        assert left == ([], []), (i, left)
        slowest = max(slowest, time.monotonic() - start_of_run)
    os.rmdir(directory)
    print(f"{count} runs of 4 ranks: all complete, nothing left; {time.monotonic() - begin:.1f} s, "
          f"slowest run {slowest:.2f} s")


if __name__ == "__main__":
    main()

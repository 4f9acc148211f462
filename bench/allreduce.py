#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How does allreduce between the threads of one process compare with MPI's between processes?

Runs `fast bench allreduce --transport threads` and the peer, bench/peer_allreduce.c under mpirun,
in turn, so that both see the same machine, and prints medians over the rounds and their ratio:

    cmake --build --preset release --target fast bench_peer_allreduce
    nice -n -19 bench/allreduce.py

Expected: at least 3 times the peer's GB/s for 4 MiB and 32 MiB, and no slower from 1 KiB to 64 KiB.
--check ends with 1 where that is not so. With --fresh both sides write their vectors before each
call, as training does, so that no core finds the other's numbers in its cache. --report writes
results/allreduce-threads.csv, or allreduce-threads-fresh.csv.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
import results  # noqa: E402

COLUMNS = ["bytes of the vector", "FAST, us", "FAST, GB/s", "Open MPI, us", "Open MPI, GB/s", "times faster"]
SIZES = [1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20, 32 << 20]
LEAST = {1 << 10: 1, 8 << 10: 1, 64 << 10: 1, 4 << 20: 3, 32 << 20: 3}


def rows(command, environment=None):
    """Run a command and read the JSON objects that it prints, one a line."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def short(number):
    """Three digits, or all of a whole number."""
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="folder of the release build")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--algorithm", default="direct")
    parser.add_argument("--check", action="store_true", help="fail below the expected ratios")
    parser.add_argument("--fresh", action="store_true", help="new values before each call")
    parser.add_argument("--report", action="store_true", help="write the table to results/, and make the pages")
    options = parser.parse_args()

    sizes = [str(size) for size in SIZES]
    fast = [os.path.join(options.build, "fast"), "bench", "allreduce", "--transport", "threads",
            "--workers", str(options.workers), "--algorithm", options.algorithm,
            "--bytes", ",".join(sizes), "--json", *(["--fresh"] if options.fresh else [])]
    peer = ["mpirun", "--oversubscribe", "-np", str(options.workers),
            os.path.join(options.build, "bench_peer_allreduce"),
            *(["fresh"] if options.fresh else []), *sizes]
    # Containers run as root, which Open MPI wants to be told.
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    times = {size: ([], []) for size in SIZES}
    for _ in range(options.rounds):
        for side, measured in enumerate((rows(fast), rows(peer, environment))):
            for row in measured:
                times[row["bytes"]][side].append(row["us"])

    print(f"{'bytes':>10} {'fast us':>12} {'fast GB/s':>10} {'peer us':>12} {'peer GB/s':>10} "
          f"{'ratio':>7}")
    slow, table = [], []
    for size in SIZES:
        mine, other = (statistics.median(side) for side in times[size])
        print(f"{size:>10} {mine:>12.2f} {size / mine / 1e3:>10.2f} {other:>12.2f} "
              f"{size / other / 1e3:>10.2f} {other / mine:>7.2f}", flush=True)
        table.append([f"{size >> 20} MiB" if size >> 20 else f"{size >> 10} KiB", short(mine), short(size / mine / 1e3),
                      short(other), short(size / other / 1e3), short(other / mine)])
        if other / mine < LEAST.get(size, 0):
            slow.append(size)
    if options.report:
        head = {"machine": results.machine(), "date": results.today(), "note": [],
                "command": ["nice -n -19 bench/allreduce.py " + " ".join(sys.argv[1:])]}
        results.publish([("allreduce-threads" + ("-fresh" if options.fresh else ""), head, COLUMNS, table)])
    if options.check and slow:
        sys.exit(f"slower than expected at {slow} bytes")


if __name__ == "__main__":
    main()

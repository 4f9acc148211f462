#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long does one process take for 5 steps of thousands of simulated workers, and how much memory?

Trains mlp:hidden=64 with each system and number of workers, one run after the other, in a process of
its own whose memory is limited, and prints the processor time of the whole command, its peak memory
and the time of a worker compared with that among the fewest workers. A vector of the model takes
204 kB: weights, gradient and one message in transit are 0.6 GB for each 1,000 workers.

    cmake --build --preset release --target fast
    bench/simulated_workers.py --report

Processor time, not time by the clock: other programs may use the machine meanwhile. --large lists
the systems that are also run with --most workers; --report writes results/simulated_workers.csv.
"""
import argparse
import os
import resource
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
import results  # noqa: E402

SYSTEMS = "bsp,ssp,d-psgd,easgd,ad-psgd,gosgd"
OPTIONS = ("--data digits:train=40000,test=100 --model mlp:hidden=64 --batch 4 --transport sim --steps 5 "
           "--seed 3 --store none")


def run(options, system, workers):
    """Processor seconds, wall seconds and peak bytes of one run; None if it has no memory."""
    command = [os.path.join(options.build, "fast"), "train", *OPTIONS.split(), "--workers", str(workers),
               "--system", system]

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (options.memory << 30, options.memory << 30))

    begin = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limit)
    text = child.stderr.read().decode()
    _, status, use = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        print(f"{system} with {workers} workers: {text.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return use.ru_utime + use.ru_stime, time.monotonic() - begin, use.ru_maxrss * 1024


def cells(found, workers, fewest):
    """Columns of one number of workers: time, time of a worker compared with the fewest, memory."""
    if found is None:
        return ["-", "-", "-"]
    times = "1.0" if fewest is None else f"{found[0] / workers / fewest:.2f}"
    return [f"{found[0]:.1f} s", times, f"{found[2] / 1e6:,.0f} MB"]


def measure(options, system):
    """The row of a system."""
    row, fewest = [system], None
    for workers in options.workers + [options.most]:
        large = workers != options.most or system in options.large
        found = run(options, system, workers) if large else None
        row += cells(found, workers, fewest)
        if fewest is None and found:
            fewest = found[0] / workers
    print("  ".join(row), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="folder of the release build")
    parser.add_argument("--systems", default=SYSTEMS, help="separated by commas")
    parser.add_argument("--workers", default="500,4000", help="numbers of workers for all systems")
    parser.add_argument("--large", default="ssp,d-psgd,gosgd", help="systems that are run with --most too")
    parser.add_argument("--most", type=int, default=10000, help="workers of the systems of --large")
    parser.add_argument("--memory", type=int, default=14, help="GiB of addresses of a run at most")
    parser.add_argument("--report", action="store_true", help="write the table of results/, and the pages")
    options = parser.parse_args()
    options.workers = [int(n) for n in options.workers.split(",")]
    options.large = options.large.split(",") if options.large else []
    rows = [measure(options, system) for system in options.systems.split(",")]
    columns = ["system"]
    for workers in options.workers + [options.most]:
        columns += [f"{workers:,} workers", "of a worker", "memory"]
    if options.report:
        note = ("The time is that of the processor for the whole command, with the data and an evaluation. `of a "
                "worker`: the time of a worker, compared with that among the fewest.")
        head = {"machine": results.machine(), "date": results.today(), "note": [note],
                "command": ["bench/simulated_workers.py --report"]}
        results.publish([("simulated_workers", head, columns, rows)])


if __name__ == "__main__":
    main()

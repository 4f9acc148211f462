#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much faster do two workers with a split model train than one worker with the whole of it?

Runs each case with one worker and with two, in alternating rounds, with the same model, data, batch
and number of micro-batches: a step has the same arithmetic in both. Prints medians over the rounds:
samples a second of both, their ratio, and the ratio of processor time for each sample. The processor
time of a run of one step is subtracted. Other programs only slow a run down, and two workers more
than one, so "of the fastest" compares the fastest run of each. The bound of a pipeline is
2 M / (M + 1) for M micro-batches, since one of its workers waits while it fills and drains; that of
shards is 2.

    cmake --build --preset release --target fast
    chrt -f 50 bench/split.py --report

A third column is one worker with the micro-batches of a step in one batch, which has no use for
them. Under chrt the runs go before other programs of the machine; without the right to it, leave it
out. --report writes results/split-speed.csv; a machine with other programs wants more --rounds.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
import results  # noqa: E402

COLUMNS = ["model", "mesh", "micro-batches", "one worker", "in one batch", "two workers", "ratio", "in each round", "of the fastest",
           "of bound", "processor time"]
DIGITS = "digits:train=8192,test=64"
# Model, data, mesh, size of a micro-batch, micro-batches in a step, steps of one to three seconds.
CASES = {
    "resnet20": ("resnet20", DIGITS, "pipe=2", 16, 16, 12),
    "gpt": ("gpt", "copy", "pipe=2", 16, 16, 12),
    "mlp": ("mlp:hidden=2048x2048", DIGITS, "tensor=2", 128, 1, 120),
    "mlp-one": ("mlp:hidden=2048", DIGITS, "tensor=2", 128, 1, 600),
}


def train(options, case, mesh, steps, whole=False):
    """Samples a second of one run, and its processor seconds."""
    model, data, _, batch, micro, _ = case
    command = [os.path.join(options.build, "fast"), "train", "--store", "none", "--json", "--quiet", "--evaluate", "no",
               "--engine", "cpu", "--lr", "0.001", "--model", model, "--data", data, "--steps", str(steps), "--batch",
               str(batch * micro if whole else batch), "--accumulate", str(1 if whole else micro),
               *(["--mesh", mesh] if mesh else ["--workers", "1"]), *options.more.split()]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = child.stdout.read(), child.stderr.read()
    _, status, use = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)}: {err.strip()}")
    return json.loads(out.splitlines()[-1])["samples_per_s"], use.ru_utime + use.ru_stime


def measure(options, case):
    """Rates of one worker, of one with a whole batch and of two; ratios of rates and of processor time."""
    steps = options.steps or case[5]
    runs = {"one": (None, False), "whole": (None, True), "two": (case[2], False)}
    start = {name: train(options, case, mesh, 1, whole)[1] for name, (mesh, whole) in runs.items()}
    rates = {name: [] for name in runs}
    ratios, costs = [], []
    for turn in range(options.rounds):
        order = list(runs)[turn % 3:] + list(runs)[:turn % 3]
        run = {name: train(options, case, runs[name][0], steps, runs[name][1]) for name in order}
        for name in runs:
            rates[name].append(run[name][0])
        ratios.append(run["two"][0] / run["one"][0])
        costs.append((run["two"][1] - start["two"]) / (run["one"][1] - start["one"]))
    return rates, ratios, statistics.median(costs)


def row_of(case, rates, ratios, cost):
    model, _, mesh, batch, micro, _ = case
    bound = 2 * micro / (micro + 1) if mesh.startswith("pipe") else 2
    ratio = statistics.median(ratios)
    return [model, mesh, f"{micro} of {batch}", *(f"{statistics.median(rates[name]):.0f}/s" for name in ("one", "whole", "two")),
            f"{ratio:.2f}", " ".join(f"{one:.2f}" for one in sorted(ratios)), f"{max(rates['two']) / max(rates['one']):.2f}",
            f"{100 * ratio / bound:.0f}%", f"{cost:.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="folder of the release build")
    parser.add_argument("--cases", default=",".join(CASES), help="separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="of a run; 0: about a second's")
    parser.add_argument("--more", default="", help="other options of all runs, as in '--bind core'")
    parser.add_argument("--report", action="store_true", help="write the table of results/, and the pages")
    options = parser.parse_args()

    before = os.getloadavg()[0]
    print(f"{results.machine()}; {options.rounds} rounds; load {before:.1f} at the start")
    rows = []
    for name in options.cases.split(","):
        rows.append(row_of(CASES[name], *measure(options, CASES[name])))
        print("{:22} {:9} {:>9} {:>9} {:>9} {:>9}   {} ({}), fastest {}, {} of the bound, cpu {}".format(*rows[-1]), flush=True)
    if options.report:
        head = {"page": "workers", "order": "28", "code": "model mesh",
                "title": "A split model on two workers beside the whole one on one",
                "question": "How much faster do two workers with a split model train than one with the whole of it?",
                "machine": results.machine(), "date": results.today(),
                "command": [("chrt -f 50 " if os.sched_getscheduler(0) == os.SCHED_FIFO else "")
                            + "bench/split.py " + shlex.join(sys.argv[1:])],
                "note": [f"Load of the machine {before:.1f} at the start, {os.getloadavg()[0]:.1f} at the end. "
                         f"Medians of {options.rounds} rounds. Half of a model fits caches better, "
                         "so that a ratio can pass its bound."]}
        results.publish([("split-speed", head, COLUMNS, rows)])


if __name__ == "__main__":
    main()

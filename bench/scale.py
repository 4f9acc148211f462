#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much faster than one worker are several on the cores of this machine?

Trains the same model with one worker, the program without any exchange, and with several under each
strategy, in turn, so that all see the same machine, and prints medians over the rounds: samples a
second, and how often those of one worker of the same round.

    cmake --build --preset release --target fast
    nice -n -19 bench/scale.py

`ensemble` exchanges nothing: what the machine's cores, caches and memory allow at most. Workers are
2, 4, 8, ... up to the cores, and their number. Evaluation is left out. --markdown prints the table
as Markdown, --report writes it to results/workers-two-busy.csv, or to the table that it names.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
import results  # noqa: E402

COLUMNS = ["model", "workers", "strategy", "samples/s", "times one worker", "in each round"]
STRATEGIES = ["ensemble", "allreduce:share=no", "allreduce:share=yes", "hogwild", "ps", "local"]
STEPS = {"lenet": 200, "mlp": 400}


def counts(cores):
    """2, 4, 8, ... and the number of cores."""
    found = [1 << i for i in range(1, 12) if 1 << i < cores]
    return found + [cores] if cores > 1 else [2]


def rate(options, model, workers, strategy):
    """Samples a second of one run."""
    command = [os.path.join(options.build, "fast"), "train", "--store", "none", "--model", model, "--data",
               options.data, "--steps", str(options.steps or STEPS.get(model, 200)), "--lr",
               str(0.01 / workers), "--evaluate", "no", "--workers", str(workers), "--json"]
    if strategy:
        command += ["--strategy", strategy]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])["samples_per_s"]


def measure(options, model):
    """A list of rates for each case: (1, "") and all others."""
    cases = [(n, s) for n in options.workers for s in options.strategies]
    rates = {case: [] for case in [(1, "")] + cases}
    for _ in range(options.rounds):
        for workers, strategy in rates:
            rates[workers, strategy].append(rate(options, model, workers, strategy))
    return rates


def show(options, model, rates):
    """Print the table of a model and return its rows."""
    one, rows = rates[1, ""], []
    line = "| {} | {} | {} | {} | {} | {} |" if options.markdown else "{:8} {:>7} {:24} {:>10} {:>7}   {}"
    for (workers, strategy), values in rates.items():
        ratios = [value / alone for value, alone in zip(values, one)]
        rows.append([model, workers, f"`{strategy}`" if strategy else "one worker", f"{statistics.median(values) / 1e3:.1f} k",
                     f"{statistics.median(ratios):.2f}", " ".join(f"{ratio:.2f}" for ratio in sorted(ratios))])
        print(line.format(*rows[-1]).replace("`", "" if not options.markdown else "`"), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="folder of the release build")
    parser.add_argument("--models", default="lenet,mlp")
    parser.add_argument("--strategies", default=" ".join(STRATEGIES), help="separated by blanks")
    parser.add_argument("--workers", default="", help="as in 2,4; else up to the cores")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="of a run; 0: about a second's")
    parser.add_argument("--data", default="digits:train=12800,test=100")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--report", nargs="?", const="workers-two-busy", metavar="TABLE",
                        help="write a table of results/, and make the pages [%(const)s]")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    options.workers = ([int(n) for n in options.workers.split(",")] if options.workers
                       else counts(cores))
    options.strategies = options.strategies.split()

    print(f"{cores} cores; {options.rounds} rounds; the ratios of all rounds are behind the median")
    if options.markdown:
        print("\n| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
    rows = [row for model in options.models.split(",") for row in show(options, model, measure(options, model))]
    if options.report:
        head = {"machine": results.machine(), "date": results.today(), "note": [],
                "command": ["nice -n -19 bench/scale.py " + " ".join(sys.argv[1:])]}
        results.publish([(options.report, head, COLUMNS, rows)])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of the speed of workers that exchange nothing does each strategy reach?

Trains a model with each strategy on all cores, each run beside one of `ensemble`, whose workers
exchange nothing, with the same model, data, rule and batch. Which of the two is first changes from
round to round. Prints medians over the rounds: samples a second, their ratio to the `ensemble`
beside them, and the same ratio of processor time for each sample, which other programs on the
machine disturb less. The processor time of a run of one step is subtracted. --parts adds, in
microseconds of a step, what the workers of the fastest round compute (mean, and of the fastest and
slowest worker; with `allreduce` and `hogwild` the updates of the backward pass are in it), exchange
and wait: where computing is longer than `ensemble`'s, memory is the cause; waits that the slowest
worker explains are of the machine; bench_barrier has the bound of all synchronous strategies.

    cmake --build --preset release --target fast
    nice -n -19 bench/workers.py --report

A ratio below 1 is what the exchange costs. --workers is the number of cores unless it is given;
--report writes results/workers-ratio-N.csv for N workers; --against is a second program, the last
release's for example, that is measured in the same rounds.
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

COLUMNS = ["model", "strategy", "program", "samples/s", "of ensemble", "in each round", "processor time"]
# Synchronous, SSP, Hogwild and EASGD as the presets have them, and a parameter server without bound.
STRATEGIES = ["allreduce", "ps:slack=3,cache_age=3", "hogwild", "elastic", "ps"]
BASE = "ensemble"
STEPS = {"lenet": 400, "mlp": 800, "resnet8": 48}
DATA = {"resnet8": "digits:train=6400,test=100"}


def train(options, program, model, strategy, steps):
    """The result of one run, with its processor seconds as `cpu_s`."""
    command = [program, "train", "--store", "none", "--model", model, "--data",
               options.data or DATA.get(model, "digits:train=12800,test=100"), "--steps", str(steps), "--lr",
               str(0.01 / options.workers), "--evaluate", "no", "--workers", str(options.workers), "--json",
               "--strategy", strategy, "--batch", str(options.batch), *options.more.split()]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = child.stdout.read(), child.stderr.read()
    _, status, use = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)}: {err.strip()}")
    return json.loads(out.splitlines()[-1]) | {"cpu_s": use.ru_utime + use.ru_stime}


def parts(run):
    """What the workers of a run did in a step, in microseconds, as text."""
    step = {name: [1e6 * s / n for s, n in zip(run[f"worker_{name}_s"], run["worker_steps"])]
            for name in ("compute", "exchange", "wait")}
    compute = step["compute"]
    return (f"step {1e6 * run['step_s']:.0f}: compute {statistics.mean(compute):.0f} ({min(compute):.0f} to "
            f"{max(compute):.0f}), exchange {statistics.mean(step['exchange']):.0f}, wait "
            f"{statistics.mean(step['wait']):.0f} ({min(step['wait']):.0f} to {max(step['wait']):.0f})")


def measure(options, model):
    """For each (strategy, program): rates, ratios of rates, ratios of processor time; with --parts
    print what the workers of the fastest run of each strategy do."""
    steps = options.steps or max(STEPS.get(model, 100), 2)
    cases = [(s, p) for s in options.strategies for p in options.programs]
    start = {case: train(options, case[1], model, case[0], 1)["cpu_s"]
             for case in cases + [(BASE, options.programs[0])]}
    found, best = {case: ([], [], []) for case in cases}, {}
    for turn in range(options.rounds):
        for case in cases:
            pair = [(BASE, options.programs[0]), case]
            run = {s: train(options, s[1], model, s[0], steps) for s in (pair if turn % 2 else pair[::-1])}
            cost = [run[s]["cpu_s"] - start[s] for s in pair]
            rates, ratios, costs = found[case]
            rates.append(run[case]["samples_per_s"])
            ratios.append(rates[-1] / run[pair[0]]["samples_per_s"])
            costs.append(cost[1] / cost[0])
            best |= {s: run[s] for s in pair if s not in best or run[s]["step_s"] < best[s]["step_s"]}
    for (strategy, _), run in best.items() if options.parts else ():
        print(f"{model:8} {strategy:24} {parts(run)}", flush=True)
    return found


def show(options, model, found):
    """Print the table of a model and return its rows."""
    rows = []
    for (strategy, program), (rates, ratios, costs) in found.items():
        rows.append([model, strategy, "this" if program == options.programs[0] else "earlier",
                     f"{statistics.median(rates) / 1e3:.1f} k", f"{statistics.median(ratios):.2f}",
                     " ".join(f"{ratio:.2f}" for ratio in sorted(ratios)), f"{statistics.median(costs):.2f}"])
        print("{:8} {:24} {:8} {:>9} {:>6}   {}   cpu {}".format(*rows[-1]), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="folder of the release build")
    parser.add_argument("--against", help="another program `fast`, measured beside this one")
    parser.add_argument("--models", default="lenet,mlp,resnet8")
    parser.add_argument("--strategies", default=" ".join(STRATEGIES), help="separated by blanks")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="of a run; 0: about two seconds'")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--data", default="")
    parser.add_argument("--more", default="", help="other options of all runs, as in '--bind core'")
    parser.add_argument("--parts", action="store_true", help="print what workers do in a step")
    parser.add_argument("--report", action="store_true", help="write the table of results/, and the pages")
    options = parser.parse_args()
    options.strategies = options.strategies.split()
    options.programs = [os.path.join(options.build, "fast")] + ([options.against] if options.against else [])

    print(f"{results.machine()}; {options.workers} workers; {options.rounds} rounds; "
          f"load {os.getloadavg()[0]:.1f} at the start")
    rows = [row for model in options.models.split(",") for row in show(options, model, measure(options, model))]
    if options.report:
        head = {"page": "workers", "order": str(20 + options.workers), "code": "strategy",
                "title": f"{options.workers} workers beside {options.workers} that exchange nothing",
                "question": "How much of the speed of workers that exchange nothing does each strategy reach, "
                            "and how much processor time does it take for a sample?",
                "machine": results.machine(), "date": results.today(),
                "command": ["nice -n -19 bench/workers.py " + shlex.join(sys.argv[1:])],
                "note": [f"Load {os.getloadavg()[0]:.1f} at the end. Medians of {options.rounds} rounds."]}
        results.publish([(f"workers-ratio-{options.workers}", head, COLUMNS, rows)])


if __name__ == "__main__":
    main()

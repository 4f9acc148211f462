#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do the named systems learn? Every preset of `fast systems` beside synchronous SGD (the preset bsp).

    tools/learn.py run    train each preset with its documented settings: lenet on Fashion-MNIST, 4 epochs, 4 workers
                          on threads and 8 in the simulator; a line of CSV for each run, as it finishes
    tools/learn.py tune   choose each preset's learning rate, by one rule for all
    tools/learn.py again  try other settings (AGAIN) of presets whose rate alone does not do
    tools/learn.py apply  write the chosen rates to the presets' flags, in src/strategy/systems_*.c
    tools/learn.py table  write what `run` measured to results/learning.csv, and make its page

The rule of `tune`: every preset gets the same trials, the standard rate of its update rule times 1/4, 1/2, 1, 2 and 4,
and a next one, twice at most, where the best so far is the first or the last of them; each with 8 simulated workers for
an epoch (two where a preset warms up, in its rate or its codec), tested on a tenth of the training set that is held out (--holdout). The rate with the best accuracy wins, of
equal ones the lower.

Presets that stay below with that get further trials: AGAIN has for each the settings that were tried, smaller batches,
shorter periods, or half the rate where the chosen one is at the edge, 4 epochs each on the same held-out data. The best
are written to the presets by hand. No trial has seen the test set; the results of `run` on the test set decided which
presets got further trials, and how many.

Batches are of 16 samples a worker, as 8 workers of the usual 64 take too few steps in 4 epochs; a preset that is about
the batch has its own.

A run that is in the output file is not repeated. A run on threads takes as many of the jobs as it has workers.
"""
import argparse
import concurrent.futures
import csv
import json
import os
import re
import subprocess
import sys
import threading
import time

import results

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WITHIN = 1.5  # points of accuracy
RUNS = [("threads", 4), ("sim", 8)]
FACTORS = [1 / 4, 1 / 2, 1, 2, 4]
FURTHER = 2  # further factors, at most, where the best is the first or the last
TRIALS = [("sim", 8)]
# Presets that lose accuracy according to the literature, and where it says so: reported, not failed.
DEGRADE = {
    "parallel-sgd": "averages once, at the end: models of a network that is not convex have drifted apart "
                    "(Ben-Nun and Hoefler 2019, section 7.4.2)",
    "sparknet": "has 50 steps between averages (Ben-Nun and Hoefler 2019, section 7.4.2)",
    "downpour": "has unbounded staleness, with several gradients in a push (Zhang et al. 2015; Langer et al. 2020, section 3.3.3)",
}
# Further trials of presets that are below, or close to it, with the best rate: {preset: [options in place of its own]}.
AGAIN = {
    "bsp": [""],
    "dynsgd": ["lr=0.2", "batch=8 lr=0.2"],
    "crossbow": ["lr=0.05", "lr=0.025", "batch=8 lr=0.05", "batch=8 lr=0.025"],
    "ad-psgd": ["lr=0.1"],
    "malt": ["lr=0.1"],
    "terngrad": ["lr=0.05"],
    "mxnet": ["lr=0.1", "batch=8 lr=0.1", "batch=8 lr=0.05"],
    "project-adam": ["lr=0.05", "batch=8 lr=0.05", "batch=8 lr=0.025"],
    "lars-32k": ["lr=1", "lr=2.5", "batch=8 lr=2.5", "batch=8 lr=5 optimizer=lars:weight_decay=0.0005"],
    "strom": ["lr=0.8", "codec=threshold:tau=0.004+entropy", "lr=0.8 codec=threshold:tau=0.004+entropy",
              "batch=8 lr=0.4", "batch=8 lr=0.8"],
    "sparknet": ["batch=8", "batch=4", "batch=4 lr=0.025",
            "batch=4 lr=0.0125"],
    "fedavg": ["batch=8", "batch=8 lr=0.2", "batch=4 lr=0.2"],
    "konecny": ["batch=8", "batch=8 lr=0.2", "batch=4 lr=0.2"],
    "diloco": ["batch=8", "batch=8 lr=0.002", "batch=4 lr=0.002"],
    "downpour": ["batch=4", "batch=4 lr=0.0025", "batch=4 lr=0.01",
                 "batch=4 lr=0.005 strategy=ps:servers=2,fetch=5,push=5,warm=0.4",
                 "batch=4 lr=0.01 strategy=ps:servers=2,fetch=5,push=5,warm=0.4"],
    "gpu-a-sgd": ["batch=8", "batch=8 lr=0.05", "batch=4"],
    "gosgd": ["batch=8 lr=0.05", "batch=4 lr=0.05", "batch=4 lr=0.025"],
    "keuper-asgd": ["batch=8", "batch=8 lr=0.2", "batch=4 lr=0.2",
            "batch=4 lr=0.1",
                    "batch=8 lr=0.2 strategy=partial:how=states,part=1",
                    "batch=4 lr=0.2 strategy=partial:how=states,part=1",
                    "batch=8 lr=0.025 optimizer=momentum", "batch=8 lr=0.05 optimizer=momentum"],
    "partial-comm": ["", "lr=0.1", "lr=0.05", "batch=8 lr=0.05"],
    "ensemble": ["batch=8", "batch=4", "batch=4 lr=0.025"],  # with --shard sample; it has all now
    "eager-sgd": ["", "lr=0.05", "batch=8", "batch=8 lr=0.05"],
    "neighbour-exchange": ["", "lr=0.1", "batch=8 lr=0.1"],
    "post-local-sgd": ["", "batch=8", "batch=8 lr=0.05"],
    "slowmo": ["", "batch=8", "batch=8 lr=0.025"],
    "petuum": ["", "batch=8", "batch=8 lr=0.025"],
    "essp": ["", "batch=8", "batch=8 lr=0.025",
            "batch=4 lr=0.0125", "batch=4 lr=0.025"],
    "stalest-first": ["", "batch=8", "batch=8 lr=0.025"],
    "d-psgd": ["", "batch=8", "batch=8 lr=0.2"],
    "mpca-sgd": ["", "batch=8", "batch=8 lr=0.2",
            "batch=4 lr=0.1", "batch=4 lr=0.2"],
    "momentum-correction": ["", "batch=8", "batch=8 lr=0.2"],
    "bunch": ["", "lr=0.1", "batch=4 lr=0.1"],
    "dgc": ["lr=0.2", "codec=dgc:ratio=0.001"],
    "activation-exchange": ["lr=0.05"],
    "easgd": ["batch=8 lr=0.2 strategy=elastic:period=4", "batch=4 lr=0.1 strategy=elastic:period=10",
              "batch=4 lr=0.2 strategy=elastic:period=10", "batch=4 lr=0.2 strategy=elastic:period=4",
            "batch=4 lr=0.2 strategy=elastic:period=1", "batch=4 lr=0.2 strategy=elastic:alpha=0.25,period=4"],
    "eamsgd": ["batch=8 lr=0.025 strategy=elastic:period=10", "batch=8 lr=0.025 strategy=elastic:period=4",
               "batch=8 lr=0.05 strategy=elastic:period=4",
            "batch=4 lr=0.025 strategy=elastic:period=4", "batch=4 lr=0.025 strategy=elastic:alpha=0.25,period=4"],
    "sync-easgd": ["batch=8 lr=0.1 strategy=elastic_sync:period=1", "batch=8 lr=0.2 strategy=elastic_sync:period=1",
                   "batch=4 lr=0.2 strategy=elastic_sync:period=4",
            "batch=4 lr=0.2 strategy=elastic_sync:period=1", "batch=4 lr=0.2 strategy=elastic_sync:alpha=0.25,period=4"],
    "tree-easgd": ["batch=8 lr=0.2", "batch=4 lr=0.1", "batch=4 lr=0.2"],
    "dc-asgd": ["lr=0.05", "batch=8 lr=0.05", "batch=8 lr=0.1"],
    "agn": ["batch=8 lr=0.1", "batch=8 lr=0.2"],
    "ako": ["batch=8 lr=0.2", "batch=4 lr=0.2"],
    "statement-1": ["batch=8 lr=0.1", "batch=4 lr=0.1"],
    "variance-batch": ["batch=8 lr=0.05", "batch=8 lr=0.1",
            "batch=4 lr=0.05"],
    "distillation": ["batch=8 lr=0.05 strategy=distill:temperature=2,share=0.5,teach=0.4",
                     "batch=8 lr=0.05 strategy=distill:temperature=2,share=0.5,teach=0.25",
                     "batch=8 lr=0.05 strategy=distill:temperature=2,share=0.25,teach=0.25",
                     "batch=4 lr=0.025 strategy=distill:temperature=2,share=0.5,teach=0.25"],
}
FIELDS = ["system", "seed", "transport", "workers", "accuracy", "difference", "seconds", "verdict"]
AGAIN_FIELDS = ["system", "settings", "transport", "workers", "accuracy", "seconds"]
TUNE_FIELDS = ["system", "lr", "transport", "workers", "accuracy", "seconds"]


class Slots:
    """Jobs that run at once, counted in cores."""

    def __init__(self, count):
        self.free, self.count, self.changed = count, count, threading.Condition()

    def take(self, cores):
        cores = min(cores, self.count)
        with self.changed:
            self.changed.wait_for(lambda: self.free >= cores)
            self.free -= cores
        return cores

    def give(self, cores):
        with self.changed:
            self.free += cores
            self.changed.notify_all()


class Output:
    """A CSV file that lines are appended to, each at once."""

    def __init__(self, path, fields):
        self.path, self.fields, self.lock, self.rows = path, fields, threading.Lock(), []
        if os.path.exists(path):
            with open(path, newline="") as file:
                self.rows = [row for row in csv.DictReader(file) if None not in row.values()]
        else:
            with open(path, "w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(fields)

    def add(self, **row):
        with self.lock:
            row = {key: str(value) for key, value in row.items()}
            self.rows.append(row)
            with open(self.path, "a", newline="") as file:
                csv.DictWriter(file, self.fields, lineterminator="\n").writerow(row)
            print("  ".join(row[key] for key in self.fields), flush=True)

    def find(self, **wanted):
        with self.lock:
            return [row for row in self.rows if all(row[key] == str(value) for key, value in wanted.items())]


def systems_of(args):
    lines = subprocess.run([args.fast, "systems", "--json"], capture_output=True, text=True, check=True).stdout
    return [s for s in map(json.loads, lines.splitlines()) if re.search(args.only, s["name"])]


def epochs_of(args, system):
    warms_up = args.what == "tune" and ("warmup=" in system["flags"] or "codec=dgc" in system["flags"])
    return str(args.epochs + (1 if warms_up else 0))


def train(args, slots, system, transport, workers, *more):
    """The last JSON object of a run, with its seconds; None where it failed."""
    command = [args.fast, "train", "--json", "--store", "none", "--system", system["name"], "--model", args.model,
               "--data", args.data, "--epochs", epochs_of(args, system), "--workers", str(workers), "--transport", transport,
               "--evaluate", "end", *more]
    if "batch=" not in system["flags"] and "--batch" not in more:
        command += ["--batch", str(args.batch)]
    if transport == "sim" and "strategy=hogwild" in system["flags"]:
        command += ["--cluster", "laptop"]  # shared memory is that of one machine
    cores = slots.take(workers if transport == "threads" else 1)
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=args.limit,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
        result = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
        if result is None:
            print(f"{system['name']}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        print(f"{system['name']}: {error}", file=sys.stderr)
        result = None
    finally:
        slots.give(cores)
    return {"accuracy": (result or {}).get("test_accuracy") or 0.0, "seconds": time.monotonic() - start}


def each(args, work):
    """Do all pieces of work, functions of one argument, with as many threads as jobs."""
    slots = Slots(args.jobs)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for future in [pool.submit(piece, slots) for piece in work]:
            future.result()


def verdict_of(name, accuracy, difference):
    if accuracy == 0:
        return "failed"
    if difference >= -WITHIN:
        return "within"
    return "degrades" if name in DEGRADE else "below"


def run(args):
    out = Output(args.out, FIELDS)
    systems = systems_of(args)
    reference = {"name": "bsp", "flags": ""}
    transports = [r for r in RUNS if args.transport in ("all", r[0])]

    def piece(system, seed, transport, workers):
        def work(slots):
            where = {"seed": seed, "transport": transport, "workers": workers}
            if out.find(system=system["name"], **where):
                return
            got = train(args, slots, system, transport, workers, "--seed", str(seed))
            base = out.find(system="bsp", **where)
            accuracy = 100 * got["accuracy"]
            difference = accuracy - (float(base[0]["accuracy"]) if base else accuracy)
            out.add(system=system["name"], **where, accuracy=f"{accuracy:.2f}", difference=f"{difference:+.2f}",
                    seconds=f"{got['seconds']:.1f}", verdict=verdict_of(system["name"], accuracy, difference))
        return work

    others = sorted((s for s in systems if not s["alias_of"] and s["name"] != "bsp"), key=smallest_first)
    each(args, [piece(reference, seed, *where) for seed in args.seeds for where in transports])
    each(args, [piece(s, seed, *where) for seed in args.seeds for where in transports for s in others])
    bad = [row for row in out.rows if row["verdict"] in ("below", "failed")]
    for row in bad:
        print(f"{row['system']} on {row['transport']}, seed {row['seed']}: {row['verdict']}, {row['difference']} points")
    return 1 if bad else 0


def smallest_first(system):
    """A key by which presets of small batches, which take longest, come first."""
    found = re.search(r"batch=([0-9]+)", system["flags"])
    return (int(found[1]) if found else 16, "strategy=distill" not in system["flags"])


# ---- learning rates ------------------------------------------------------------------------------

def standard_rates(args):
    """{update rule: its standard rate}, as `fast train` says it at its start."""
    rates = {}
    for rule in ("sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "adamw", "lars", "lamb"):
        said = subprocess.run([args.fast, "train", "--data", "digits:train=64,test=16", "--model", "mlp:hidden=2",
                               "--optimizer", rule, "--epochs", "0"], capture_output=True, text=True)
        rates[rule] = float(re.search(r"with lr ([0-9.e+-]+)", said.stdout + said.stderr)[1])
    return rates


def rule_of(system):
    found = re.search(r"optimizer=([a-z]+)", system["flags"])
    return found[1] if found else "momentum"


def rates_of(system, standard):
    return [f"{standard[rule_of(system)] * factor:.3g}" for factor in FACTORS]


def tune(args):
    out = Output(args.out, TUNE_FIELDS)
    standard = standard_rates(args)

    def piece(system, rate, transport, workers):
        def work(slots):
            if out.find(system=system["name"], lr=rate, transport=transport, workers=workers):
                return
            got = train(args, slots, system, transport, workers, "--lr", rate, "--holdout", "0.1", "--seed", "1000")
            out.add(system=system["name"], lr=rate, transport=transport, workers=workers,
                    accuracy=f"{100 * got['accuracy']:.2f}", seconds=f"{got['seconds']:.1f}")
        return work

    systems = [s for s in systems_of(args) if not s["alias_of"]]
    rates = {s["name"]: rates_of(s, standard) for s in systems}
    for _ in range(1 + FURTHER):
        each(args, [piece(s, rate, *where) for s in systems for rate in rates[s["name"]] for where in TRIALS])
        best = best_rates(out)
        for name, tried in rates.items():
            if best[name] == tried[0]:
                tried.insert(0, f"{float(tried[0]) / 2:.3g}")
            elif best[name] == tried[-1]:
                tried.append(f"{float(tried[-1]) * 2:.3g}")
    for name, rate in best.items():
        print(f"{name}: lr={rate}")
    return 0


def again(args):
    out = Output(args.out, AGAIN_FIELDS)
    transports = [r for r in RUNS if args.transport in ("all", r[0])]

    def piece(system, settings, transport, workers):
        def work(slots):
            if out.find(system=system["name"], settings=settings, transport=transport, workers=workers):
                return
            more = [word for pair in settings.split() for word in ("--" + pair.split("=", 1)[0], pair.split("=", 1)[1])]
            got = train(args, slots, system, transport, workers, *more, "--holdout", "0.1", "--seed", "1000")
            out.add(system=system["name"], settings=settings, transport=transport, workers=workers,
                    accuracy=f"{100 * got['accuracy']:.2f}", seconds=f"{got['seconds']:.1f}")
        return work

    named = {s["name"]: s for s in systems_of(args)}
    trials = [(named[name], settings) for name, tried in AGAIN.items() if name in named for settings in tried]
    trials.sort(key=lambda trial: smallest_first({"flags": trial[1]}))
    each(args, [piece(*trial, *where) for where in transports for trial in trials])
    return 0


def best_rates(out):
    """{system: rate} of those whose trials are all there."""
    means = {}
    for row in out.rows:
        means.setdefault(row["system"], {}).setdefault(row["lr"], []).append(float(row["accuracy"]))
    best = {}
    for name, rates in means.items():
        if len(rates) >= len(FACTORS) and all(len(list_) == len(TRIALS) for list_ in rates.values()):
            best[name] = min(rates, key=lambda rate: (-sum(rates[rate]), float(rate)))
    return best


def with_rate(flags, rate, is_standard):
    """Flags with this rate after the optimizer, or without any where it is the rule's own."""
    words = [word for word in flags.split(" ") if not word.startswith("lr=")]
    if not is_standard:
        places = [i for i, word in enumerate(words) if word.startswith(("strategy=", "topology=", "optimizer="))]
        words.insert(places[-1] + 1, f"lr={rate}")
    return " ".join(words)


def apply(args):
    best = best_rates(Output(args.out, TUNE_FIELDS))
    standard = standard_rates(args)
    systems = {s["name"]: s for s in systems_of(args)}
    folder = os.path.join(HERE, "src", "strategy")
    for file_name in sorted(os.listdir(folder)):
        if not re.fullmatch(r"systems_[a-z]+\.c", file_name):
            continue
        path = os.path.join(folder, file_name)
        with open(path) as file:
            text = file.read()

        def replace(match):
            system = systems.get(match[2])
            first = (system["alias_of"] or system["name"]) if system else None
            if first not in best:
                return match[0]
            flags = "".join(re.findall(r'"([^"]*)"', match[4]))
            flags = with_rate(flags, best[first], float(best[first]) == standard[rule_of(system)])
            return f'{match[1]}{match[3]}"{flags}",'

        new = re.sub(r'((?:\.name = "([a-z0-9-]+)"))((?:(?!\.name = ).)*?\.flags = )((?:"[^"]*"\s*)+),', replace, text,
                     flags=re.S)
        if new != text:
            with open(path, "w") as file:
                file.write(new)
            subprocess.run(["clang-format", "-i", path], check=False)
            print(path)
    return 0


# ---- the table ------------------------------------------------------------------------------------

def cell_of(out, name, transport, workers):
    """(mean accuracy, mean difference to bsp of the same seed, seeds) of a preset; None where it was not run."""
    last = {row["seed"]: row for row in out.find(system=name, transport=transport, workers=workers)}
    bases = {row["seed"]: float(row["accuracy"]) for row in out.find(system="bsp", transport=transport, workers=workers)}
    got = [(float(row["accuracy"]), float(row["accuracy"]) - bases[seed]) for seed, row in last.items() if seed in bases]
    return [sum(part) / len(got) for part in zip(*got)] + [sorted(last)] if got else None


def table(args):
    out = Output(args.out, FIELDS)
    systems = systems_of(args)
    runs = [r for r in RUNS if out.find(transport=r[0], workers=r[1])]
    seeds = {r: cell_of(out, "bsp", *r)[2] for r in runs}
    rows = []
    seen, counts = set(), {}
    for system in systems:
        name = system["alias_of"] or system["name"]
        cells, verdicts = [], []
        for run_ in runs:
            cell = cell_of(out, name, *run_)
            note = "" if not cell or cell[2] == seeds[run_] else f", seed {', '.join(cell[2])}"
            cells.append(f"{cell[0]:.2f}% ({cell[1]:+.2f}{note})" if cell else "")
            verdicts.append(verdict_of(name, cell[0], cell[1]) if cell else "")
        worst = next((v for v in ("failed", "below", "degrades", "within") if v in verdicts), "")
        if not system["alias_of"]:
            counts[worst] = counts.get(worst, 0) + 1
        seen.add(name if worst == "degrades" else "")
        note = f"as `{system['alias_of']}`" if system["alias_of"] else worst or "not measured"
        rows.append([system["name"], *cells, note])
    said = "Presets with flags of their own: " + ", ".join(f"{count} {what or 'not measured'}"
                                                           for what, count in counts.items()) + "."
    # Notes on how settings were chosen are the file's own; those on the verdicts are made here.
    old = results.read_table(os.path.join(HERE, "results", "learning.csv")).head["note"]
    notes = [said] + [f"`{name}` degrades: it {why}." for name, why in DEGRADE.items() if name in seen]
    notes += [note for note in old if not note.startswith("Presets with flags") and " degrades" not in note]
    commands = [f"tools/learn.py run --jobs 16 --transport {r[0]} --seeds {','.join(seeds[r])} --out learn.csv" for r in runs]
    head = {"machine": results.machine(), "date": results.today(), "note": notes, "code": "system",
            "command": commands + ["tools/learn.py table --out learn.csv"]}
    results.publish([("learning", head, ["system", *(f"{t}, {w} workers" for t, w in runs), "verdict"], rows)])
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "tune", "again", "apply", "table"])
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cores to use")
    parser.add_argument("--build", default=os.path.join(HERE, "build", "release"), help="folder of the program")
    parser.add_argument("--only", default="", help="systems whose names match")
    parser.add_argument("--out", help="CSV file; learn.csv, tune.csv or again.csv")
    parser.add_argument("--transport", choices=["all", "threads", "sim"], default="all", help="run: of these runs")
    parser.add_argument("--seeds", default="2", help="run: of the weights and orders, as in 2,3 [2]")
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--model", default="lenet")
    parser.add_argument("--batch", type=int, default=16, help="samples of a worker's step [16]")
    parser.add_argument("--epochs", type=int, help="run: 4, tune: 1 where nothing else is said")
    parser.add_argument("--limit", type=float, default=1800, help="seconds that a run takes at most")
    args = parser.parse_args()
    args.epochs = args.epochs or (1 if args.what == "tune" else 4)
    args.seeds = [int(seed) for seed in args.seeds.split(",")]
    args.fast = os.path.join(args.build, "fast")
    args.out = args.out or {"tune": "tune.csv", "apply": "tune.csv", "again": "again.csv"}.get(args.what, "learn.csv")
    return {"run": run, "tune": tune, "again": again, "apply": apply, "table": table}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())

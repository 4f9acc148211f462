#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do the named systems learn? Every preset of `fast systems` beside synchronous SGD (the preset bsp).

    tools/learn.py split   write the three sets, as IDX files
    tools/learn.py choose  choose each preset's learning rate, on the validation set
    tools/learn.py test    train with the chosen rates and five fresh seeds, and read the test set once
    tools/learn.py table   write what `test` measured to results/learning.csv, and make its page

The protocol, the same for all presets and written before any run on the test set:

- The 70,000 images of Fashion-MNIST are shuffled: 40,000 train, 20,000 validate, 10,000 test. The set that
  the publishers call their test set is spread over all of them. No run of before has read this test set: an earlier
  round, in which one trial chose the rate, read another one, which is now the second half of the validation set.
- The job is 4 epochs of a small convolutional network (examples/networks/small.net) with 8 simulated workers.
  Batches are of 16 samples a worker where the preset has no batch of its own.
- A preset gets six rates: that of its flags (else the standard rate of its update rule) times 1/4, 1/2, 1, 2, 4
  and 8, each with the seeds 1000 to 1009. The rate whose worst accuracy on the validation set is best wins, of equal ones
  the lower: one at which one seed of ten diverges does not. The next trial is always of the rate that leads, so
  that trials which cannot change the choice are left out. All other settings are the preset's.
- Then the same job with that rate and each of the seeds 201 to 205, and one look at the test set.
- Verdict: *within* if the mean over the seeds of the difference to bsp with the same seed is at least -1.5 points; else
  *degrades* if the literature says that the system loses accuracy (DEGRADE), else *below*.
- Presets with a model of their own train that one, also bsp beside them; those with data of their own, which are
  drawn anew for each seed, train on them.
- A fresh seed with which bsp itself diverged compares with nothing: it is left out, and named. (Written after round 3, in
  which it happened with one seed; counted, it would add 16 points to the difference of every preset of that round.)
- Presets that are new or have changed since are measured in a later round: --round N shuffles the images with another
  seed, and has the trial seeds 1000 N to 1000 N + 9 and the fresh seeds 200 N + 1 to 200 N + 5. bsp runs in every
  round, and a preset is compared with bsp of its own round.

A run that is in the output file is not repeated; rows of presets that are not in it stay as they are in the table.
"""
import argparse
import concurrent.futures
import csv
import gzip
import json
import os
import random
import re
import subprocess
import sys
import threading
import time

import results

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WITHIN = 1.5  # points of accuracy
DIVERGED = 0.5  # of the best seed's accuracy, below which bsp diverged
WORKERS = 8
FACTORS = [1 / 4, 1 / 2, 1, 2, 4, 8]
MODEL, EPOCHS = os.path.join("examples", "networks", "small.net"), 4
SMALL = {"gpt": "depth=2,width=32", "alexnet": "width=4,hidden=64", "cots": "filters=2x4x4"}  # for a job of seconds: models of presets
SPLIT_SEED = 20261116  # of round 1
SETS = {"train": 40000, "validation": 20000, "test": 10000}
FOLDER = os.path.join("build", "learn")
SOURCE = "/usr/share/datasets/fashion-mnist"
# Presets that lose accuracy according to the literature: {where it says so: {preset: its mechanism}}. Reported, not
# failed. Written before the test set was read, of the presets whose mean accuracy in the trials of the chosen rate is more
# than half of the bound below that of bsp; those that are not here have no excuse.
LITERATURE = {
    # "accuracy degradation as a result of infrequent averaging"
    "Ben-Nun and Hoefler 2019, section 7.4.2": {
        "parallel-sgd": "averages once, at the end",
        "sparknet": "has 50 local steps between two averages",
        "model-averaging": "has 8 local steps between two averages, and nothing but the average",
        "fedavg": "has an epoch of local steps between two averages, hence 5 rounds in this job",
        "federated-scale": "has an epoch of local steps between two averages, of part of the devices",
        "konecny": "has an epoch of local steps between two averages, whose updates are quantised",
        "konecny-structured": "has an epoch of local steps between two averages, in a random subspace",
        "diloco": "has 100 local steps between two averages",
    },
    # "tau should ideally be large, which often leads to sub-optimal convergence rates"; best is at most 10
    "Langer et al. 2020, section 3.3.2": {
        "slowmo": "has 12 local steps between two averages",
        "post-local-sgd": "has 16 local steps between two averages",
        "easgd": "pulls workers and centre together every fourth step",
        "mpca-sgd": "takes local steps while models are gathered along a tree",
    },
    # "Staleness has serious implications on model training"
    "Langer et al. 2020, section 3.3.3": {
        "dogwild": "has unbounded staleness, and messages get lost",
        "eager-sgd": "adds late gradients to a later step",
        "downpour": "has unbounded staleness, and fetches every fifth step",
        "reject-late": "uses gradients of weights that are up to 4 updates old, and drops older ones",
        "rudra": "uses stale gradients, at a rate that is divided by their staleness",
        "pipedream": "has gradients of weights that are an update old in its first stage",
        **dict.fromkeys(["pipedream-2bw", "stale-pipeline", "pipelined-backprop", "spectrain", "pipemare", "ampnet"],
                        "has gradients of older weights in its first stage"),
        "ako": "adds parts of gradients that waited for several steps",
    },
    # "the potential loss in training quality or convergence speed when workers perform training on a stale DL model"
    "Mayer and Jacobsen 2020, section 3.3.2": {
        "ssp-global": "uses weights that are up to 3 rounds old",
        "petuum": "lets workers be up to 3 rounds ahead",
        "dynsgd": "lets workers be up to 3 rounds ahead, and scales late updates down",
        "dynamic-tree": "forwards updates of 4 steps along a tree",
        "corrected-gossip": "broadcasts updates of 4 steps in rounds",
        "statement-1": "sends a quarter of its updates at a time, at a constant learning rate",
        "parameter-server": "lets workers be up to 8 rounds ahead",
        "bosen": "lets workers be up to 30 rounds ahead",
    },
    # "over time, the workers diverge and eventually arrive at incompatible models"
    "Langer et al. 2020, section 3.2.2": {
        "keuper-asgd": "merges parts of the models of random workers",
        "tree-easgd": "is represented by the root's model, which exchanges with its neighbours only",
        "malt": "averages with few neighbours, without waiting",
        "gosgd": "averages with a random worker every tenth step",
        **dict.fromkeys(["gossip-sgd", "random-pairs", "randomised-gossip"], "averages in pairs"),
        "d-psgd": "averages with two neighbours",
    },
    # "binary or ternary values, while still attaining convergence with marginally reduced accuracy"; "it is important to
    # carry the quantization error to the next gradient"
    "Ben-Nun and Hoefler 2019, section 7.3.1": {
        "one-bit": "sends one bit of a gradient's value",
        "one-bit-adam": "sends one bit of a momentum's value",
        "terngrad": "sends three levels of a gradient's value, without error feedback",
        "qsgd": "sends 4 bits of a gradient's value, without error feedback",
    },
    # "the accuracy loss as a result of sparsification"
    "Ben-Nun and Hoefler 2019, section 7.3.2": {
        **dict.fromkeys(["strom", "deeplearning4j-sharing"], "sends residuals that reach a threshold"),
        "ef21": "sends 5% of the values",
        "dgc": "sends 0.1% of the values",
        "kylix": "sends 2% of the gradient's values",
        **dict.fromkeys(["top-k", "sparcml"], "sends 1% of the gradient's values"),
        "deep-compression": "sends 10% of the gradient's values, as one of 32",
    },
}
DEGRADE = {name: f"{why} ({source})" for source, presets in LITERATURE.items() for name, why in presets.items()}
FIELDS = {"choose": ["system", "lr", "seed", "accuracy", "seconds"], "test": ["system", "lr", "seed", "accuracy", "seconds"]}


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


def trial_seeds(args):
    return range(1000 * args.round, 1000 * args.round + 10)


def fresh_seeds(args):
    return range(200 * args.round + 1, 200 * args.round + 6)


def systems_of(args):
    lines = subprocess.run([args.fast, "systems", "--json"], capture_output=True, text=True, check=True).stdout
    return [s for s in map(json.loads, lines.splitlines()) if re.search(args.only, s["name"])]


# ---- the three sets -------------------------------------------------------------------------------

def read_idx(name, header):
    with gzip.open(os.path.join(SOURCE, name)) as file:
        return file.read()[header:]


def write_idx(path, dimensions, parts):
    """An IDX file of bytes, gzipped in the same way every time."""
    head = bytes([0, 0, 8, len(dimensions)]) + b"".join(n.to_bytes(4, "big") for n in dimensions)
    with open(path, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0) as file:
        file.write(head + b"".join(parts))


def split(args):
    images = read_idx("train-images-idx3-ubyte.gz", 16) + read_idx("t10k-images-idx3-ubyte.gz", 16)
    labels = read_idx("train-labels-idx1-ubyte.gz", 8) + read_idx("t10k-labels-idx1-ubyte.gz", 8)
    order = list(range(len(labels)))
    random.Random(SPLIT_SEED + args.round - 1).shuffle(order)
    os.makedirs(args.sets, exist_ok=True)
    for name, count in SETS.items():
        chosen, order = order[:count], order[count:]
        write_idx(os.path.join(args.sets, f"{name}-images.gz"), [count, 28, 28],
                  [images[784 * i:784 * (i + 1)] for i in chosen])
        write_idx(os.path.join(args.sets, f"{name}-labels.gz"), [count], [labels[i:i + 1] for i in chosen])
        print(f"{name}: {count} images")
    return 0


def data_of(folder, train, test):
    """The spec of two of the sets that `split` wrote."""
    return (f"idx:images={folder}/{train}-images.gz,labels={folder}/{train}-labels.gz,"
            f"test_images={folder}/{test}-images.gz,test_labels={folder}/{test}-labels.gz")


# ---- runs -----------------------------------------------------------------------------------------

def flag(system, name):
    """The value of one of a preset's flags, or ""."""
    found = re.search(rf"(?:^| ){name}=(\S+)", system["flags"])
    return found[1] if found else ""


def model_of(system):
    """The model that a preset trains."""
    own = flag(system, "model")
    small = SMALL.get(own.partition(":")[0])
    return own + (f"{',' if ':' in own else ':'}{small}" if small else "") or f"file:{MODEL}"


def base_name(system):
    """The name of bsp with the model of a preset."""
    return "bsp" if not flag(system, "model") else f"bsp on {model_of(system)}"


def bases_of(systems):
    """bsp with each of the models that presets have of their own."""
    bases = {base_name(s): s for s in systems if flag(s, "model")}
    data = {name: flag(s, "data") for name, s in bases.items()}
    return [{"name": name, "system": "bsp", "alias_of": None,
             "flags": f"strategy=allreduce lr=0.1 model={model_of(s)}" + (f" data={data[name]}" if data[name] else "")}
            for name, s in bases.items()]


def train(args, system, data, rate, seed):
    """(accuracy in percent, seconds) of a run; 0 where it failed or diverged."""
    command = [args.fast, "train", "--json", "--store", "none", "--system", system.get("system", system["name"]),
               "--model", model_of(system), "--data", flag(system, "data") or data, "--epochs", str(EPOCHS),
               "--workers", str(WORKERS), "--transport", "sim", "--evaluate", "end", "--lr", rate, "--seed", str(seed)]
    mesh = flag(system, "mesh")
    if "data=" in mesh:  # as many replicas as there are workers for
        command += ["--mesh", ",".join(part for part in mesh.split(",") if not part.startswith("data="))]
    if not flag(system, "batch"):
        command += ["--batch", "16"]
    if "strategy=hogwild" in system["flags"]:
        command += ["--cluster", "laptop"]  # shared memory is that of one machine
    start, result = time.monotonic(), {}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=args.limit,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode == 0:
            result = json.loads(done.stdout.splitlines()[-1])
        else:
            print(f"{system['name']}, lr {rate}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        print(f"{system['name']}, lr {rate}: {error}", file=sys.stderr)
    return 100 * (result.get("test_accuracy") or 0.0), time.monotonic() - start


def each(args, work):
    """Do all pieces of work, functions without arguments, as many at once as there are jobs."""
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for future in [pool.submit(piece) for piece in work]:
            future.result()


def smallest_first(system):
    """A key by which presets of small batches, which take longest, come first."""
    found = re.search(r"batch=([0-9]+)", system["flags"])
    return (int(found[1]) if found else 16, "strategy=distill" not in system["flags"])


def presets_of(args):
    systems = [s for s in systems_of(args) if not s["alias_of"]]
    return sorted(systems + bases_of(systems), key=smallest_first)


def rate_of(args, system, known={}):
    """The rate of a preset's flags, else its update rule's standard one, as `fast train` says it."""
    found = re.search(r"(?:^| )lr=([0-9.e-]+)", system["flags"])
    if found:
        return float(found[1])
    rule = re.search(r"optimizer=([a-z]+)", system["flags"])
    rule = rule[1] if rule else "momentum"
    if rule not in known:
        said = subprocess.run([args.fast, "train", "--data", "digits:train=64,test=16", "--model", "mlp:hidden=2",
                               "--optimizer", rule, "--epochs", "0", "--store", "none"], capture_output=True, text=True)
        known[rule] = float(re.search(r"with lr ([0-9.e+-]+)", said.stdout + said.stderr)[1])
    return known[rule]


def choose(args):
    out = Output(args.choices, FIELDS["choose"])
    data, seeds = data_of(args.sets, "train", "validation"), trial_seeds(args)

    def accuracy_of(system, rate, seed):
        found = out.find(system=system["name"], lr=rate, seed=seed)
        if not found:
            accuracy, seconds = train(args, system, data, rate, seed)
            out.add(system=system["name"], lr=rate, seed=seed, accuracy=f"{accuracy:.2f}", seconds=f"{seconds:.1f}")
            found = out.find(system=system["name"], lr=rate, seed=seed)
        return float(found[0]["accuracy"])

    def piece(system):
        def work():
            worst = {f"{rate_of(args, system) * factor:.4g}": [101.0, 0] for factor in FACTORS}  # accuracy, seeds tried
            while True:
                rate = best_of({rate: accuracy for rate, (accuracy, tried) in worst.items()})
                accuracy, tried = worst[rate]
                if tried == len(seeds):
                    return
                worst[rate] = [min(accuracy, accuracy_of(system, rate, seeds[tried])), tried + 1]
        return work

    each(args, [piece(s) for s in presets_of(args)])
    return 0


def best_of(worst):
    """The rate whose worst accuracy is best, of equal ones the lower."""
    return min(worst, key=lambda rate: (-worst[rate], float(rate)))


def trials_of(args):
    """{system: {rate: [accuracy of each seed that was tried]}}."""
    trials = {}
    for row in Output(args.choices, FIELDS["choose"]).rows:
        trials.setdefault(row["system"], {}).setdefault(row["lr"], []).append(float(row["accuracy"]))
    return trials


def chosen_of(args):
    """{system: rate} of those whose trials are all there."""
    trials = trials_of(args)
    best = {name: best_of({rate: min(values) for rate, values in rates.items()})
            for name, rates in trials.items() if len(rates) == len(FACTORS)}
    return {name: rate for name, rate in best.items() if len(trials[name][rate]) == len(trial_seeds(args))}


def test(args):
    out = Output(args.out, FIELDS["test"])
    data, chosen = data_of(args.sets, "train", "test"), chosen_of(args)

    def piece(system, seed):
        def work():
            name = system["name"]
            if not out.find(system=name, seed=seed):
                accuracy, seconds = train(args, system, data, chosen[name], seed)
                out.add(system=name, lr=chosen[name], seed=seed, accuracy=f"{accuracy:.2f}", seconds=f"{seconds:.1f}")
        return work

    each(args, [piece(s, seed) for s in presets_of(args) for seed in fresh_seeds(args) if s["name"] in chosen])
    return 0


# ---- the table ------------------------------------------------------------------------------------

def verdict_of(name, accuracies, differences):
    if min(accuracies) == 0:
        return "failed"
    if sum(differences) / len(differences) >= -WITHIN:
        return "within"
    return "degrades" if name in DEGRADE else "below"


def trial_note(args):
    """The number of trials, and the presets whose best rate has no neighbour on one side."""
    chosen = chosen_of(args)
    trials = {name: rates for name, rates in trials_of(args).items() if name in chosen}
    lowest = [name for name, rates in trials.items() if chosen[name] == min(rates, key=float)]
    highest = [name for name, rates in trials.items() if chosen[name] == max(rates, key=float)]
    text = f"{sum(len(values) for rates in trials.values() for values in rates.values()):,} trials on the validation set."
    for word, names in (("lowest", lowest), ("highest", highest)):
        if names:
            text += f" The chosen rate is the {word} of six for {', '.join(f'`{name}`' for name in sorted(names))}."
    return text if lowest or highest else text + " No chosen rate is the lowest or highest of its six."


def table(args):
    out, rows, counts, verdicts = Output(args.out, FIELDS["test"]), [], {}, {}
    old = results.read_table(os.path.join(HERE, "results", "learning.csv"))
    stored = {row[0]: row for row in old.rows}
    every = {name: {row["seed"]: float(row["accuracy"]) for row in out.find(system=name)}
             for name in dict.fromkeys(row["system"] for row in out.rows) if name.split(" ")[0] == "bsp"}
    bases = {name: {seed: value for seed, value in base.items() if value >= DIVERGED * max(base.values())}
             for name, base in every.items()}
    lost = {name: [seed for seed in base if seed not in bases[name]] for name, base in every.items()}
    for system in systems_of(args):
        name = system["alias_of"] or system["name"]
        base = bases.get(base_name(system), {})
        got = {row["seed"]: row for row in out.find(system=name) if row["seed"] in base}
        if not base or len(got) < len(base) or (name == "bsp" and args.round > 1):
            row = stored.get(system["name"], [system["name"], "", "", "", "", "not measured", ""])
            rows.append(row)
            if row[2] and not system["alias_of"]:
                verdicts[name] = row[5]
                counts[row[5]] = counts.get(row[5], 0) + 1
            continue
        accuracies = [float(row["accuracy"]) for row in got.values()]
        differences = [float(row["accuracy"]) - base[seed] for seed, row in got.items()]
        verdict = verdicts[name] = verdict_of(name, accuracies, differences)
        if not system["alias_of"]:
            counts[verdict] = counts.get(verdict, 0) + 1
        rows.append([system["name"], next(iter(got.values()))["lr"], f"{sum(accuracies) / len(accuracies):.2f}",
                     f"{max(accuracies) - min(accuracies):.2f}", f"{sum(differences) / len(differences):+.2f}",
                     f"as `{system['alias_of']}`" if system["alias_of"] else verdict, str(args.round)])
    said = f"Round {args.round}:"
    notes = ["Presets with flags of their own: " + ", ".join(f"{n} {what}" for what, n in counts.items()) + ".",
             f"The job is {EPOCHS} epochs of a small convolutional network on {SETS['train']:,} images of Fashion-MNIST, with "
             f"{WORKERS} workers in the simulator, and batches of 16 samples a worker where the preset has none of its own.",
             "The rule was written before the runs, in `tools/learn.py`: three sets, six rates with ten seeds each on the "
             "validation set for every preset, of which the one with the best worst seed is taken, "
             f"{len(fresh_seeds(args))} fresh seeds, one look at the test set. Accuracy is the mean over the seeds, spread the "
             "largest less the smallest, and the difference the mean of those to `bsp` with the same seed. Presets that are new or "
             "have changed are in a later round, with other sets and seeds and a `bsp` of its own.",
             *(note for note in old.head.get("note", []) if re.match(r"Round [0-9]+[:,]", note) and not note.startswith(said)),
             f"{said} {args.machine or results.machine()}, {args.date or results.today()}. {trial_note(args)}"
             + "".join(f" `{name}` has {sum(base.values()) / len(base):.2f}% in this round"
                       + (f", and diverged with seed {', '.join(lost[name])}, which is left out" if lost[name] else "") + "."
                       for name, base in bases.items()),
             *(f"Round {args.round}, besides: {note}" for note in args.note)]
    notes += [f"`{name}` degrades: it {why}." for name, why in DEGRADE.items() if verdicts.get(name) == "degrades"]
    head = {**old.head,
            "machine": "that of each round, see below", "date": "that of each round", "note": notes,
            "command": [f"tools/learn.py {step}" for step in ("split", "choose", "test", "table")]}
    fields = ["system", "learning rate", "test accuracy, %", "spread", "difference to bsp", "verdict", "round"]
    results.publish([("learning", head, fields, rows)])
    for name, verdict in verdicts.items():
        if verdict in ("below", "failed"):
            print(f"{name}: {verdict}")
    return 1 if set(verdicts.values()) & {"below", "failed"} else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = {"split": split, "choose": choose, "test": test, "table": table}
    parser.add_argument("what", choices=list(steps))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at once [all cores]")
    parser.add_argument("--build", default=os.path.join(HERE, "build", "release"), help="folder of the program")
    parser.add_argument("--only", default="", help="systems whose names match; bsp is needed for a table")
    parser.add_argument("--round", type=int, default=1, help="of the presets that --only names [%(default)s]")
    parser.add_argument("--sets", default=FOLDER, help="folder of the three sets [%(default)s]")
    parser.add_argument("--choices", default="choices.csv", help="what choose writes [%(default)s]")
    parser.add_argument("--out", default="learn.csv", help="what test writes [%(default)s]")
    parser.add_argument("--machine", help="table: the processor of the runs, where it is not this one")
    parser.add_argument("--date", help="table: the day and the commit of the runs, where they are not those of this moment")
    parser.add_argument("--note", action="append", default=[], help="table: a remark, as on trials of another machine or commit")
    parser.add_argument("--limit", type=float, default=1800, help="seconds that a run takes at most")
    args = parser.parse_args()
    args.fast = os.path.join(args.build, "fast")
    return steps[args.what](args)


if __name__ == "__main__":
    sys.exit(main())

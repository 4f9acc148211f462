#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What codecs cost in accuracy and gain in time, measured in the simulator.

    bench/codecs.py                    everything
    bench/codecs.py choose --jobs 2    choose rule and rate of every codec on the validation set, two runs at a time
    bench/codecs.py learns             accuracy of every codec beside none: about 45 minutes of a core, with choose
    bench/codecs.py pays               time to 88% on slow links: candidates, none, and auto
    bench/codecs.py --report           write results/codec-*.csv and the pages from the runs that are there

The sets are those of `tools/learn.py split`: rule and learning rate of each codec are chosen on the
validation set, with as many trials for each, and run with five fresh seeds on the test set; `pays` chooses by
the steps to its target. Time is virtual: the
simulator's, hence the same on every machine. Results are JSON lines in a file; a run that is there is not repeated,
so that a stopped measurement continues.
"""
import argparse
import concurrent.futures
import os
import statistics
import sys

from claims import Runs, accuracy_of, tables
from learn import EPOCHS as LENGTH, FOLDER, MODEL, data_of

FIELDS = ["test_accuracy", "time_to_target_s", "virtual_time_s", "bytes_sent", "codec", "codec_down",
          "codec_ratio", "codec_s", "compute_s", "exchange_s", "wait_s", "break_even_mbit_per_s",
          "step_s", "steps", "stop", "codec_note"]
WAY = ["--workers", "4", "--transport", "sim"]
JOB = [*WAY, "--model", f"file:{MODEL}", "--data", data_of(FOLDER, "train", "test"), "--batch", "16"]
LENET = [*WAY, "--model", "lenet", "--data", data_of(FOLDER, "train", "test")]
SEEDS = [101, 102, 103, 104, 105]
POINT = 0.01  # of accuracy that a codec may cost

# What is encoded: gradients to servers that wait for all workers, and to servers that wait for none.
SIDES = {"synchronous": ["--strategy", "ps:slack=0"], "asynchronous": ["--strategy", "ps"]}
EPOCHS = ["--epochs", str(LENGTH), "--evaluate", "end", "--cluster", "ethernet-1g"]
# How settings are chosen: the same job, tested on the validation set, by the worst of three seeds that are not reported.
TRIALS = [["--data", data_of(FOLDER, "train", "validation"), "--seed", seed] for seed in ("1000", "1001", "1002")]

# Every codec, and none, gets the same number of trials: the run's own rule (momentum) at two rates, and plain SGD with a
# warm-up at two: codecs that delay much of a gradient often need that, as momentum adds delayed parts once more.
# Late gradients need smaller rates than those that are waited for.
MOMENTUM = {"--optimizer": "momentum:weight_decay=0.0005"}
PLAIN = {"--optimizer": "sgd:weight_decay=0.0005"}
WARM = {"--schedule": "cosine:warmup=1"}


def settings(*groups):
    return [{**flags, "--lr": rate} for flags, rates in groups for rate in rates]


USUAL = {"synchronous": settings((MOMENTUM, ["0.05", "0.1"]), ({**PLAIN, **WARM}, ["0.25", "0.5"])),
         "asynchronous": settings((MOMENTUM, ["0.0125", "0.025"]), ({**PLAIN, **WARM}, ["0.0625", "0.125"]))}
# vote moves each weight by the rate, and decay is not voted on; dgc has the momentum inside, so that its rates are those of
# momentum.
VOTES = {"synchronous": settings(({"--optimizer": "momentum"}, ["0.0001", "0.0002"]),
                                 ({"--optimizer": "sgd"}, ["0.001", "0.002"]))}
INSIDE = {side: settings((PLAIN, rates), ({**PLAIN, **WARM}, rates)) for side, rates in (
    ("synchronous", ["0.1", "0.2"]), ("asynchronous", ["0.0125", "0.025"]))}

# Codecs with both kinds of servers, and those with synchronous ones only: of each kind of codec there is one in the first.
BOTH = ["none", "fp16", "bf16", "int8", "qsgd", "terngrad", "topk", "onebit", "sign", "powersgd:rank=4",
        "threshold:tau=0.004", "randk:ratio=0.1"]
WAITING = ["fixed", "flexpoint", "natural", "dorefa", "sketch", "significant", "adaptive", "structured"]
LEARNS = {**dict.fromkeys(BOTH, USUAL), "dgc:ratio=0.01,warmup=1": INSIDE,
          **dict.fromkeys(WAITING, {"synchronous": USUAL["synchronous"]}), "vote": VOTES}

EXACT = ["none", "fp16", "bf16", "int8"]
DIVERGED = 0.7  # accuracy of a trial that learned nothing, or fell again

# Shown once more without the error feedback that makes them converge.
WITHOUT = ["onebit", "sign", "topk", "adaptive", "threshold:tau=0.004"]

TARGET = "0.88"
CLUSTERS = ["ethernet-1g", "wan", "edge"]
WAYS = {"allreduce": ["--strategy", "allreduce"], "servers": ["--strategy", "ps:slack=0"]}
# What is tried, up and back.
CANDIDATES = [("none", "none"), ("bf16", "none"), ("int8", "none"), ("int8", "int8"),
              ("qsgd:code=elias", "none"), ("qsgd:code=elias", "int8"), ("terngrad", "none"), ("terngrad", "int8"),
              ("topk:ratio=0.01", "none"), ("topk:ratio=0.01", "int8")]


class Known(Runs):
    """Runs nothing: a run that is not in the file is an error."""

    def run(self, flags):
        return self.known.get(self.command(flags)) or {
            "error": "not measured yet", **{field: None for field in self.fields}}


def merged(*sources):
    flags = {}
    for source in sources:
        pairs = source.items() if isinstance(source, dict) else zip(source[::2], source[1::2])
        flags.update(pairs)
    return [word for pair in flags.items() for word in pair]


def points(value):
    return "diverged" if not value else f"{100 * value:.2f}"


# ---- learns --------------------------------------------------------------------------------------

def tuned(runs):
    """{(side, codec): the settings whose worst seed was best on the validation set, of equal ones the first}. Settings with
    which the job is at the edge are out: without a codec, or with one that only rounds, it diverged."""
    trials = {(side, codec): [[runs.submit(merged(JOB, EPOCHS, job, trial, choice, ["--codec", codec])) for trial in TRIALS]
                              for choice in grids[side]]
              for side, job in SIDES.items() for codec, grids in LEARNS.items() if side in grids}
    reached = {key: [min(accuracy_of(future.result()) for future in seeds) for seeds in choices]
               for key, choices in trials.items()}
    chosen = {}
    for (side, codec), found in reached.items():
        rated = zip(LEARNS[codec][side], found)
        if LEARNS[codec][side] is USUAL[side]:
            worst = [min(same) for same in zip(*(reached[side, name] for name in EXACT))]
            rated = ((choice, value) for (choice, value), least in zip(rated, worst) if least > DIVERGED)
        chosen[side, codec] = max(rated, key=lambda pair: pair[1])[0]
    return chosen


def choose(runs):
    for (side, codec), choice in tuned(runs).items():
        print(f"{side:12}  {codec:24}  {spoken(choice)}")
    return []


def learns(runs):
    chosen = tuned(runs)
    bare = [("synchronous", codec) for codec in WITHOUT]
    waiting = {}
    for (side, codec), choice in chosen.items():
        for feedback in ("auto", "no") if (side, codec) in bare else ("auto",):
            waiting[side, codec, feedback] = [
                runs.submit(merged(JOB, EPOCHS, SIDES[side], choice,
                                   ["--codec", codec, "--feedback", feedback, "--seed", str(seed)])) for seed in SEEDS]
    results = {key: [future.result() for future in futures] for key, futures in waiting.items()}
    made = []
    for side in SIDES:
        base = mean_of(results[side, "none", "auto"])
        rows = []
        for codec in (codec for codec in LEARNS if side in LEARNS[codec]):
            got = results[side, codec, "auto"]
            failed = next((entry["error"] for entry in got if "error" in entry), None)
            if failed:
                rows.append([codec, "", "", failed, "", "", "", ""])
                continue
            without = results.get((side, codec, "no"))
            reached = [accuracy_of(entry) for entry in got]
            gap = base - mean_of(got)
            rows.append([codec, spoken(chosen[side, codec]), f"{got[0]['codec_ratio'] or 1:.1f}", points(mean_of(got)),
                         f"{100 * (max(reached) - min(reached)):.2f}", f"{100 * gap:.2f}",
                         "yes" if gap <= POINT + 1e-9 else "**no**", points(mean_of(without)) if without else ""])
        waits = "all workers (`ps:slack=0`)" if side == "synchronous" else "no worker (`ps`)"
        made.append((f"codec-accuracy-{side}", {
            "page": "codecs", "order": str(1 + list(SIDES).index(side)), "title": f"Accuracy, {side} servers",
            "question": "What does a codec cost in accuracy? a small convolutional network on 40,000 images of "
                        f"Fashion-MNIST, 4 workers, {LENGTH} epochs, one parameter server "
                        f"that waits for {waits}: test accuracy in percent, the mean of seeds {', '.join(map(str, SEEDS))}, and "
                        "their spread (largest less smallest). *Behind* is the distance to no codec; a codec should be within "
                        "one point.",
            "machine": tables.VIRTUAL, "date": runs.date or tables.today(), "command": ["tools/learn.py split", "bench/codecs.py learns"],
            "note": ["The sets are those of [learning.md](learning.md). Each codec, and none, got four settings of update rule and "
                     "learning rate, each with three seeds on the validation set; that whose worst seed was best was run with "
                     "five fresh seeds on the test set, which was read once.",
                     "A setting with which no codec, or one that only rounds (`fp16`, `bf16`, `int8`), diverged in a trial is "
                     "out for all codecs."],
            "code": "codec"},
            ["codec", "rule and learning rate", "times smaller", "accuracy", "spread", "behind", "within a point",
             "without feedback"], rows))
    return made


def mean_of(entries):
    return statistics.mean(map(accuracy_of, entries))


def spoken(choice):
    rule = choice["--optimizer"].split(":")[0]
    return f"{rule} {choice['--lr']}" + (", warm-up" if "--schedule" in choice else "")


# ---- pays ----------------------------------------------------------------------------------------

def codec_flags(up, down):
    return ["--codec", up, "--codec-down", down]


def steps_of(entry):
    """The rank of a run: its steps to the target; where it did not reach it, after all that did, by its accuracy."""
    return (0, entry["steps"]) if entry.get("stop") == "target" else (1, -accuracy_of(entry))


def trained(runs, way, up, down):
    """(the settings whose slowest seed reached the target first on the validation set, the runs of the fresh seeds). The next
    trial is always of the setting that leads: those that cannot change the choice are left out."""
    job = ["--epochs", "6", "--evaluate", "39steps", "--target", TARGET, "--cluster", "infiniband"]
    tried = [[] for _ in USUAL["synchronous"]]
    while True:
        at = min(range(len(tried)), key=lambda i: max(map(steps_of, tried[i]), default=(-1,)))
        choice = USUAL["synchronous"][at]
        flags = merged(LENET, job, WAYS[way], choice, codec_flags(up, down))
        if len(tried[at]) == len(TRIALS):
            break
        tried[at].append(runs.submit(merged(flags, TRIALS[len(tried[at])])).result())
    return choice, [future.result() for future in [runs.submit(merged(flags, {"--seed": str(seed)})) for seed in SEEDS]]


def pays(runs):
    """Synchronous training does not depend on the cluster: its model has the same bits. So each way and codec is trained to
    the target once for each seed, and its step is timed on each cluster."""
    short = ["--steps", "24", "--evaluate", "no", "--lr", "0.1"]
    timed = {(cluster, way, up, down): runs.submit(merged(LENET, short, flags, ["--cluster", cluster], codec_flags(up, down)))
             for cluster in CLUSTERS for way, flags in WAYS.items() for up, down in [*CANDIDATES, ("auto", "auto")]}
    timed = {key: future.result() for key, future in timed.items()}
    chosen = {(cluster, way): (got.get("codec") or "none", got.get("codec_down") or "none")
              for (cluster, way, up, _), got in timed.items() if up == "auto"}
    pairs = {(way, *pair): None for way in WAYS
             for pair in dict.fromkeys([*CANDIDATES, *(pair for (_, w), pair in chosen.items() if w == way)])}
    with concurrent.futures.ThreadPoolExecutor(len(pairs)) as side_by_side:
        waiting = {key: side_by_side.submit(trained, runs, *key) for key in pairs}
        reached = {key: future.result() for key, future in waiting.items()}

    def steps(way, up, down):
        """The steps of each seed to the target; infinite where it was not reached."""
        return [entry["steps"] if entry.get("stop") == "target" else float("inf") for entry in reached[way, up, down][1]]

    def seconds(cluster, way, up, down):
        """Virtual time to the target: the median of its steps by the time of one."""
        pair = chosen[cluster, way] if up == "auto" else (up, down)
        step = timed[cluster, way, up, down]
        return float("inf") if "error" in step else statistics.median(steps(way, *pair)) * step["step_s"]

    def name(up, down):
        return f"`{up}`" if down == "none" or up == "auto" else f"`{up}`, back `{down}`"

    made = []
    for way in WAYS:
        rows, notes = [], []
        for up, down in [*CANDIDATES, ("auto", "auto")]:
            got = sorted(steps(way, up, down)) if up != "auto" else []
            known = [value for value in got if value < float("inf")]
            middle = statistics.median(got) if got else float("inf")
            said = f"{middle:.0f} ({got[0]:.0f} to {known[-1]:.0f})" if middle < float("inf") else "-"
            cells = [f"{seconds(cluster, way, up, down):.1f}".replace("inf", "not reached") for cluster in CLUSTERS]
            rows.append([name(up, down), spoken(reached[way, up, down][0]) if got else "", said,
                         f"{len(known)} of {len(got)}" if got else "", *cells])
        for cluster in CLUSTERS:
            times = {pair: seconds(cluster, way, *pair) for pair in CANDIDATES}
            best = min(times, key=times.get)
            if times[best] == float("inf"):
                continue
            auto = seconds(cluster, way, "auto", "auto")
            ratio = auto / times[best]
            notes.append(f"{cluster}: best is {name(*best)}, {times['none', 'none'] / times[best]:.2f} times as fast as no codec; "
                         f"`auto` takes {name(*chosen[cluster, way])}, {100 * (ratio - 1):+.1f}% of the best"
                         f"{'' if ratio <= 1.1 else ' (**more than 10%**)'}.")
        notes.append("Synchronous training does not depend on the cluster, so each codec is trained once for each seed: the figures "
                     "are the median of its steps to the target times the step time of the simulator on each cluster.")
        notes.append("The sets are those of [learning.md](learning.md). Each codec, and none, got four settings of update rule and "
                     "learning rate, each with up to three seeds on the validation set; that whose slowest seed reached the target "
                     f"first was run with seeds {', '.join(map(str, SEEDS))} on the test set.")
        made.append((f"codec-time-{way}", {
            "page": "codecs", "order": str(3 + list(WAYS).index(way)), "title": f"Time to {float(TARGET):.0%}, {way}",
            "question": f"Which codec reaches {float(TARGET):.0%} first on slow links, with `{' '.join(WAYS[way])}`? Virtual "
                        "seconds, lenet, 4 workers, tested four times an epoch, the median of five seeds. `auto` should be at "
                        "most 10% behind the best of all codecs that were tried.",
            "machine": tables.VIRTUAL, "date": runs.date or tables.today(),
            "command": ["tools/learn.py split", "bench/codecs.py pays"], "note": notes},
            ["codec", "rule and learning rate", "steps", "reached", *CLUSTERS], rows))
    return made


PARTS = {"choose": choose, "learns": learns, "pays": pays}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts: choose, learns, pays; all if none")
    parser.add_argument("--fast", default="build/release/fast", help="the program [%(default)s]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time [all cores]")
    parser.add_argument("--results", default="codecs.jsonl", help="file of results [%(default)s]")
    parser.add_argument("--report", nargs="?", const=tables.HERE, metavar="ROOT",
                        help="write the tables to ROOT/results, and make the pages [this repository]")
    parser.add_argument("--date", help="the day and the commit of the runs, where they are not those of this moment")
    parser.add_argument("--known", action="store_true", help="run nothing: tables of the runs that are there")
    args = parser.parse_args()
    wanted = [part for name, part in PARTS.items() if not args.names or name in args.names]
    if not wanted:
        sys.exit("no such part; there are: " + ", ".join(PARTS))
    runs = (Known if args.known else Runs)(args.fast, args.results, args.jobs, FIELDS)
    runs.date = args.date
    made = [table for part in wanted for table in part(runs)]
    print("\n".join(line for one in made for line in tables.page_of_table(tables.Table(*one))))
    if args.report:
        tables.publish(made, args.report)


if __name__ == "__main__":
    main()

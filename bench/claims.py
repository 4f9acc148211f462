#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claims of the literature about strategies, measured in the simulator.

    bench/claims.py                       all claims, about two hours of a core
    bench/claims.py ssp gossip --jobs 16  some of them, 16 runs at a time
    bench/claims.py --report              write results/claim-*.csv and the pages from the runs that are there

Every arm of a claim gets the same number of tuning trials: one a learning rate of the same grid, on
a tenth of the training set that is held out (--holdout), with a seed that is not reported. The rate
that reached the target first (else: that ended with the best accuracy) is then run with each of five
fresh seeds, on the test set. Arms that train alike share trials and rate (representative, termination).
The digits are drawn anew for each seed, so no choice has seen a test set. A claim holds if all seeds say
so, leans if most do. Time is virtual: the simulator's, hence the same on every machine.
Results are JSON lines in a file; a run that is there is not repeated.

Three claims (completeness, state-momentum, state-adam) were questions first: seeds 101 to 105 were read before they had
statements. So they were measured anew with the seeds below, and other digits; the tables of the others have the seed of
their runs in their command.
"""
import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
import results as tables  # noqa: E402

RATES = ["0.0125", "0.025", "0.05", "0.1", "0.2", "0.4", "0.8"]
TUNING_SEED = 2000
SEEDS = [201, 202, 203, 204, 205]
POINT = 1.0  # of accuracy, by which runs that are called alike may differ
JOB = ["--data", "digits:train=12000,test=2000", "--model", "lenet", "--optimizer", "sgd",
       "--schedule", "constant", "--transport", "sim", "--batch", "16"]
FIELDS = ["test_accuracy", "time_to_target_s", "virtual_time_s", "samples", "bytes_sent",
          "staleness_mean", "staleness_max", "divergence", "completeness", "stop"]


class Claim:
    """Arms that are compared, and how. `arms` is {label: flags}."""

    def __init__(self, name, says, job, arms, verdict, rates=RATES, after=None, rate_of=None):
        self.name, self.says, self.job, self.arms = name, says, job, arms
        self.verdict, self.rates = verdict, rates
        self.after = after  # arms that need what others measured: {label: (arm, function -> flags)}
        self.rate_of = rate_of or (lambda arm: arm)  # the arm whose trials choose the rate of another


# ---- verdicts: from {arm: [result of each seed]} to a sentence -----------------------------------

def time_of(result):
    return result["time_to_target_s"] if result["time_to_target_s"] is not None else float("inf")


def accuracy_of(result):
    return result["test_accuracy"] or 0


def rises(results):
    """Does accuracy rise with completeness, over all runs?"""
    found = correlation(results, lambda r: r["completeness"], accuracy_of)
    return (f"**{'holds' if found >= 0.5 else 'does not hold'}**, rank correlation {found:.2f}; of divergence and accuracy "
            f"{correlation(results, lambda r: r['divergence'], accuracy_of):.2f}")


def word(wins, count):
    return "holds" if wins == count else "leans" if wins > count / 2 else "does not hold"


def earlier(results, first, others):
    """Is `first` earlier at the target than each of the others, seed by seed?"""
    said = []
    for other in others:
        pairs = list(zip(map(time_of, results[first]), map(time_of, results[other])))
        wins = sum(a < b for a, b in pairs)
        ratio = statistics.median([b / a if a < float("inf") else 0.0 for a, b in pairs])
        holds = word(wins, len(pairs))
        times = "never reached by it" if ratio == float("inf") else f"median ratio {ratio:.2f}"
        said.append(f"{first} before {other}: **{holds}** ({wins} of {len(pairs)} seeds, {times})")
    return "; ".join(said)


def better(results, first, other):
    """Is `first` more accurate than `other`, seed by seed?"""
    pairs = list(zip(map(accuracy_of, results[first]), map(accuracy_of, results[other])))
    wins = sum(a > b for a, b in pairs)
    gap = 100 * statistics.median([a - b for a, b in pairs])
    holds = word(wins, len(pairs))
    return f"{first} better than {other}: **{holds}** ({wins} of {len(pairs)} seeds, median {gap:+.2f} points)"


def alike(results, arms):
    """No arm wins on all seeds, in accuracy or time, over all others."""
    said = []
    for what, value, sign in (("accuracy", accuracy_of, 1), ("time to target", time_of, -1)):
        best = None
        for arm in arms:
            if all(sign * value(a) > sign * value(b) for other in arms if other != arm
                   for a, b in zip(results[arm], results[other])):
                best = arm
        said.append(f"by {what}: " + ("**holds**, no arm is first on all seeds" if best is None
                                      else f"**does not hold**, {best} is first on all seeds"))
    return "; ".join(said)


def correlation(results, x, y):
    """Spearman's rank correlation over all runs."""
    points = [(x(r), y(r)) for runs in results.values() for r in runs if x(r) is not None]

    def ranks(values):
        order = sorted(range(len(values)), key=lambda i: values[i])
        out = [0.0] * len(values)
        i = 0
        while i < len(order):
            k = i
            while k + 1 < len(order) and values[order[k + 1]] == values[order[i]]:
                k += 1
            for j in range(i, k + 1):
                out[order[j]] = (i + k) / 2
            i = k + 1
        return out

    if len(points) < 3:
        return float("nan")
    a, b = ranks([p[0] for p in points]), ranks([p[1] for p in points])
    ma, mb = statistics.mean(a), statistics.mean(b)
    var = (sum((p - ma) ** 2 for p in a) * sum((q - mb) ** 2 for q in b)) ** 0.5
    return sum((p - ma) * (q - mb) for p, q in zip(a, b)) / var if var else float("nan")


def bears(results, name, parts):
    """Does a strategy lose at most a point by terminated workers, seed by seed and at all moments?"""
    lost = {part: [100 * (accuracy_of(b) - accuracy_of(a))
                   for a, b in zip(results[f"{name}, {part}%"], results[f"{name}, nobody"])] for part in parts}
    good = sum(max(at_seed) <= POINT for at_seed in zip(*lost.values()))
    return (f"{name}: **{word(good, len(SEEDS))}** ({good} of {len(SEEDS)} seeds; points lost, median: " +
            ", ".join(f"{statistics.median(values):.2f} at {part}%" for part, values in lost.items()) + ")")


def stands(results, name, policy):
    """Is a policy at most a point behind the best of all policies of a strategy, seed by seed?"""
    arms = [arm for arm in results if arm.startswith(name + ",")]
    gaps = [100 * (max(accuracy_of(results[arm][i]) for arm in arms) - accuracy_of(results[f"{name}, {policy}"][i]))
            for i in range(len(SEEDS))]
    good = sum(gap <= POINT for gap in gaps)
    best = max(arms, key=lambda arm: statistics.median(map(accuracy_of, results[arm])))
    return (f"{name}: **{word(good, len(gaps))}** ({good} of {len(gaps)} seeds, median {statistics.median(gaps):.2f} points "
            f"behind; best in the median is {best.split(', ')[1]})")


def falls(results, arm, reference, sizes):
    """The distance of an arm from the reference, by size."""
    gaps = {n: 100 * statistics.median(
        accuracy_of(b) - accuracy_of(a)
        for a, b in zip(results[f"{arm} {n}"], results[f"{reference} {n}"])) for n in sizes}
    small = statistics.mean(gaps[n] for n in sizes if n <= 32)
    large = statistics.mean(gaps[n] for n in sizes if n > 32)
    holds = "holds" if large > small + 0.5 else "does not hold"
    return (f"points behind {reference}: " + ", ".join(f"{gaps[n]:.2f} at {n}" for n in sizes) +
            f"; {arm} falls further behind past 32: **{holds}** ({small:.2f} up to 32, {large:.2f} beyond)")


# ---- the claims ----------------------------------------------------------------------------------

def spectrum(cluster):
    return {"BSP": ["--strategy", "ps:slack=0,servers=4", "--cluster", cluster],
            "SSP(3)": ["--strategy", "ps:slack=3,servers=4", "--cluster", cluster],
            "ASP": ["--strategy", "ps:servers=4", "--cluster", cluster]}


TIMED = ["--workers", "8", "--epochs", "8", "--evaluate", "12steps", "--target", "0.95"]
PLAIN = ["--workers", "8", "--epochs", "6", "--evaluate", "end"]
NODES = [8, 32, 128]
PERIODS = [1, 4, 16, 64]


def claims():
    yield Claim("ssp-hetero", "With stragglers SSP reaches the target before BSP and before unbounded "
                "asynchrony (cluster hetero, nodes also slowed at random to half).",
                TIMED, spectrum("hetero:speed_jitter=1"),
                lambda r: earlier(r, "SSP(3)", ["BSP", "ASP"]))
    yield Claim("ssp-wan", "The same over a wide area network, nodes slowed at random to half.",
                TIMED, spectrum("wan:speed_jitter=1"),
                lambda r: earlier(r, "SSP(3)", ["BSP", "ASP"]))
    yield Claim("homogeneous", "On a homogeneous fast cluster synchronous, bounded and unbounded "
                "asynchronous training cannot be told apart (cluster infiniband).",
                TIMED, {"BSP": ["--strategy", "allreduce", "--cluster", "infiniband"],
                        "SSP(3)": ["--strategy", "ps:slack=3,servers=0", "--cluster", "infiniband"],
                        "ASP": ["--strategy", "ps:servers=0", "--cluster", "infiniband"]},
                lambda r: alike(r, ["BSP", "SSP(3)", "ASP"]))
    yield Claim("easgd", "EASGD beats Downpour at large periods (cluster hetero, period = steps between "
                "exchanges).", PLAIN,
                {f"{name} {tau}": ["--strategy", flags.format(t=tau), "--cluster", "hetero"]
                 for tau in PERIODS for name, flags in (("EASGD", "elastic:period={t}"),
                                                        ("Downpour", "ps:fetch={t},push={t}"))},
                lambda r: "; ".join(better(r, f"EASGD {tau}", f"Downpour {tau}") for tau in PERIODS))
    yield Claim("gossip", "Gossip's accuracy falls as nodes grow past 32 (4 samples a worker and step, "
                "6 epochs, random pairs).", ["--batch", "4", "--epochs", "6", "--evaluate", "end",
                                             "--cluster", "ethernet-10g"],
                {f"{name} {n}": ["--strategy", flags, "--workers", str(n)]
                 for n in NODES for name, flags in (("gossip", "gossip_async"),
                                                    ("allreduce", "allreduce"))},
                lambda r: falls(r, "gossip", "allreduce", NODES))
    for cluster in ("ethernet-1g", "wan"):
        yield Claim(f"dpsgd-{cluster}", f"D-PSGD on a ring beats a single parameter server on slow links "
                    f"(cluster {cluster}, 16 workers).",
                    ["--workers", "16", "--epochs", "12", "--evaluate", "12steps", "--target", "0.95"],
                    {"D-PSGD": ["--strategy", "gossip", "--topology", "ring", "--cluster", cluster],
                     "one PS": ["--strategy", "ps:slack=0", "--cluster", cluster],
                     "one PS, async": ["--strategy", "ps", "--cluster", cluster]},
                    lambda r: earlier(r, "D-PSGD", ["one PS", "one PS, async"]))
    yield Claim("completeness", "The more updates reach all workers, the better the model: accuracy rises with "
                "completeness, by drop rate times fan-out (D-PSGD, 16 workers; rank correlation of at least 0.5).",
                ["--workers", "16", "--epochs", "6", "--evaluate", "end", "--cluster", "ethernet-10g"],
                {f"{graph.split(':')[0]}, drop {drop}":
                 ["--strategy", f"gossip:drop={drop}", "--topology", graph]
                 for graph in ("ring", "random:degree=4", "full") for drop in ("0", "0.5", "0.9", "0.99")}, rises)
    for rule, rates in (("momentum", RATES), ("adam", ["0.00025", "0.0005", "0.001", "0.002", "0.004", "0.008", "0.016"])):
        yield Claim(f"state-{rule}", f"Under partial communication {rule}'s state should be averaged like the "
                    f"weights, not stay with its worker, be reset, or be at a server (8 workers, period 8; "
                    f"gossip drops half of the links).",
                    PLAIN + ["--optimizer", rule, "--cluster", "hetero"],
                    {**{f"local, {s}": ["--strategy", f"local:period=8,state={s}"]
                        for s in ("local", "average", "reset")},
                     **{f"gossip, {s}": ["--strategy", f"gossip:drop=0.5,state={s}"]
                        for s in ("local", "average", "reset")},
                     "server": ["--strategy", "ps:fetch=8,push=8"]},
                    lambda r: "; ".join([better(r, f"{name}, average", f"{name}, {other}")
                                         for name in ("local", "gossip") for other in ("local", "reset")] +
                                        [better(r, "local, average", "server")]),
                    rates=rates)
    yield Claim("representative", "The average stands for replicas that differ: it is at most a point behind the "
                "best policy (8 workers, one rate for all policies of a strategy, by the trials of its average).",
                PLAIN + ["--cluster", "hetero"],
                {f"{name}, {policy}": ["--strategy", flags, "--representative", policy]
                 for name, flags in (("gossip", "gossip:drop=0.9"), ("partial", "partial:how=scatter,period=16"))
                 for policy in ("average", "best", "consensus", "worker", "ensemble")},
                lambda r: "; ".join(stands(r, name, "average") for name in ("gossip", "partial")),
                rate_of=lambda arm: arm.split(",")[0] + ", average")
    yield Claim("termination", "Workers may be terminated at any time: half of them at 25, 50 or 75% of the run's "
                "virtual time cost at most a point (8 workers; rates by the trials of runs that lose nobody).",
                PLAIN + ["--cluster", "ethernet-10g", "--timeout", "5"],
                {f"{name}, nobody": ["--strategy", flags] for name, flags in SURVIVORS.items()},
                lambda r: "; ".join(bears(r, name, (25, 50, 75)) for name in SURVIVORS),
                after={f"{name}, {part}%": (f"{name}, nobody", crashes(flags, part))
                       for name, flags in SURVIVORS.items() for part in (25, 50, 75)})


SURVIVORS = {"ASP": "ps", "EASGD": "elastic", "AD-PSGD": "gossip_async", "MALT": "partial:how=scatter"}


def crashes(flags, part):
    def make(result):
        at = result["virtual_time_s"] * part / 100
        return ["--strategy", flags, "--faults", "; ".join(f"crash {n} at {at:.3f}s" for n in range(4, 8))]
    return make


# ---- running -------------------------------------------------------------------------------------

class Runs:
    """Runs `fast train`, once for each command ever, and appends the results to a file of JSON lines."""

    def __init__(self, program, path, jobs, fields=FIELDS):
        self.program, self.path, self.fields = program, path, fields
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)
        self.lock = threading.Lock()
        self.known = {}
        self.count = 0
        if os.path.exists(path):
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    entry = json.loads(line)
                    self.known[entry["command"]] = entry

    @staticmethod
    def command(flags):
        return " ".join(["fast", "train", *(f"'{f}'" if ";" in f or " " in f else f for f in flags)])

    def run(self, flags):
        command = self.command(flags)
        with self.lock:
            if command in self.known:
                return self.known[command]
        done = subprocess.run([self.program, "train", *flags, "--store", "none", "--quiet", "--json"],
                              capture_output=True, text=True, check=False)
        entry = {"command": command}
        if "not a finite number" in done.stderr:
            entry.update({field: None for field in self.fields}, test_accuracy=0, stop="diverged")
        elif done.returncode != 0 or not done.stdout.strip():
            entry["error"] = (done.stderr.strip().splitlines() or ["no output"])[-1]
            entry.update({field: None for field in self.fields})
        else:
            result = json.loads(done.stdout.strip().splitlines()[-1])
            entry.update({field: result.get(field) for field in self.fields})
        with self.lock:
            if "error" not in entry:
                self.known[command] = entry
                with open(self.path, "a", encoding="utf-8") as out:
                    out.write(json.dumps(entry) + "\n")
            self.count += 1
            print(f"{self.count:5d}  {entry.get('error') or entry['test_accuracy']}  {command[:150]}",
                  file=sys.stderr, flush=True)
        return entry

    def submit(self, flags):
        return self.pool.submit(self.run, flags)


def flags_of(claim, arm, seed, rate, holdout=False):
    flags = {}
    for source in (JOB, claim.job, arm):
        for key, value in zip(source[::2], source[1::2]):
            flags[key] = value
    flags["--seed"] = str(seed)
    flags["--lr"] = rate
    if holdout:
        flags["--holdout"] = "0.1"
    return [word for pair in flags.items() for word in pair]


def measure(claim, runs):
    """{arm: (rate, [result a seed])}: tuning of all arms, then their seeds, all side by side."""
    trials = {(arm, rate): runs.submit(flags_of(claim, claim.arms[arm], TUNING_SEED, rate, True))
              for arm in dict.fromkeys(map(claim.rate_of, claim.arms)) for rate in claim.rates}

    def rank(arm, rate):
        result = trials[claim.rate_of(arm), rate].result()
        return time_of(result), -accuracy_of(result)

    chosen = {arm: min(claim.rates, key=lambda rate: rank(arm, rate)) for arm in claim.arms}
    waiting = {arm: [runs.submit(flags_of(claim, flags, seed, chosen[arm])) for seed in SEEDS]
               for arm, flags in claim.arms.items()}
    results = {arm: [w.result() for w in waiting[arm]] for arm in claim.arms}
    later = {label: [runs.submit(flags_of(claim, make(results[arm][i]), seed, chosen[arm]))
                     for i, seed in enumerate(SEEDS)]
             for label, (arm, make) in (claim.after or {}).items()}
    for label, waits in later.items():
        results[label] = [w.result() for w in waits]
        chosen[label] = chosen[claim.after[label][0]]
    return chosen, results


# ---- the tables ------------------------------------------------------------------------------------

def spread(values, form):
    values = [v for v in values if v is not None]
    if not values:
        return "-"
    low, mid, high = min(values), statistics.median(values), max(values)
    return form.format(mid) if low == high else f"{form.format(mid)} ({form.format(low)} to {form.format(high)})"


COLUMNS = ["arm", "learning rate", "test accuracy, %", "reached target", "time to it, s", "virtual time, s",
           "MB sent", "staleness", "divergence", "completeness"]


def table(claim, order, date, chosen, results):
    """The table of a claim: name, head, columns and rows."""
    rows = []
    for arm, runs in results.items():
        errors = [r["error"] for r in runs if "error" in r]
        if errors:
            rows.append([arm, chosen[arm], f"failed {len(errors)} of {len(runs)}: {errors[0]}"] + [""] * 7)
            continue
        reached = [r["time_to_target_s"] for r in runs if r["time_to_target_s"] is not None]
        timed = "--target" in claim.job
        rows.append([
            arm, chosen[arm], spread([100 * accuracy_of(r) for r in runs], "{:.2f}"),
            f"{len(reached)} of {len(runs)}" if timed else "-",
            spread(reached, "{:.2f}") if timed else "-",
            spread([r["virtual_time_s"] for r in runs], "{:.2f}"),
            spread([(r["bytes_sent"] or 0) / 1e6 for r in runs], "{:.0f}"),
            spread([r["staleness_mean"] for r in runs], "{:.1f}"),
            spread([r["divergence"] for r in runs], "{:.3g}"),
            spread([r["completeness"] for r in runs], "{:.3f}")])
    edge = [f"{arm} ({rate})" for arm, rate in chosen.items() if rate in (claim.rates[0], claim.rates[-1])]
    notes = [f"The chosen rate is the lowest or highest of the trials for {'; '.join(edge)}."] if edge else []
    first = next(iter(claim.arms))
    head = {"page": "claims", "order": str(order), "title": claim.name, "question": "Claim: " + claim.says,
            "machine": tables.VIRTUAL, "date": date,
            "command": [f"bench/claims.py {claim.name}", results[first][0]["command"]],
            "note": [f"Measured: {claim.verdict(results)}.", *notes]}
    return f"claim-{claim.name}", head, COLUMNS, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="claims by name, or its beginning; all if none")
    parser.add_argument("--fast", default="build/release/fast", help="the program [%(default)s]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time [all cores]")
    parser.add_argument("--results", default="claims.jsonl", help="file of results [%(default)s]")
    parser.add_argument("--report", nargs="?", const=tables.HERE, metavar="ROOT",
                        help="write the tables to ROOT/results, and make the pages [this repository]")
    parser.add_argument("--date", help="the day and the commit of the runs, where they are not those of this moment")
    args = parser.parse_args()
    everything = list(claims())
    wanted = [c for c in everything if not args.names or any(c.name.startswith(n) for n in args.names)]
    if not wanted:
        sys.exit("no such claim; there are: " + ", ".join(c.name for c in everything))
    runs = Runs(args.fast, args.results, args.jobs)
    with concurrent.futures.ThreadPoolExecutor(len(wanted)) as side_by_side:
        measured = list(side_by_side.map(lambda claim: measure(claim, runs), wanted))
    numbers = {claim.name: number for number, claim in enumerate(everything, 1)}
    made = [table(claim, numbers[claim.name], args.date or tables.today(), *m) for claim, m in zip(wanted, measured)]
    print("\n".join(line for one in made for line in tables.page_of_table(tables.Table(*one))))
    if args.report:
        tables.publish(made, args.report)


if __name__ == "__main__":
    main()

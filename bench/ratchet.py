#!/usr/bin/env python3
"""Did FAST get slower, against the program of the baseline commit and against PyTorch?

The question of `make bench`, answered in about five minutes. The program of this tree and that of
the commit in bench/baseline (the last release, or whatever was measured well since) take the same
measurements in alternating order; the answer is the median of the ratios of neighbouring runs, so
that a machine that slows down for a while hurts both. The expected answer is 1 or more.

Noise: a figure is slower if the median ratio is below 1 by more than --limit and at most one round in
eight says otherwise. It is then measured again, and reported only if the second measurement agrees: of
programs of equal speed less than one figure in a hundred is reported. The spread is printed, so that
one sees which difference could have been found.

Beside PyTorch it prints the ratio of bench/peer.py, and the one of results/cpu.csv for the same
processor and instruction set, if it is there; lower by more than twice the limit is slower.

Exits with 1 if something got slower.

usage: bench/ratchet.py [--fast build/release/fast] [--baseline COMMIT | --old PROGRAM] [--isa avx2]
                        [--limit 0.05] [--seconds 200] [--no-peer] [MEASUREMENT ...]
"""
import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

from peer import LIMITS

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(HERE, "build", "baseline")
ROUNDS = (4, 12)  # a figure has at least and at most this number of rounds
TRAIN = ["train", "--store", "none", "--model", "lenet", "--data", "digits:train=2048,test=64",
         "--workers", "2", "--steps", "80", "--evaluate", "no", "--json"]
# A measurement's name: (the program's words, the keys of its figures, the key that names a row).
MEASUREMENTS = {
    "mlp": (["bench", "engine", "--model", "mlp", "--json"], ["samples_per_s"], "layer"),
    "lenet": (["bench", "engine", "--model", "lenet", "--json"], ["samples_per_s"], "layer"),
    "resnet8": (["bench", "engine", "--model", "resnet8", "--json"], ["samples_per_s"], "layer"),
    "two workers, allreduce": (TRAIN + ["--strategy", "allreduce"], ["samples_per_s"], None),
    "two workers, ps": (TRAIN + ["--strategy", "ps:slack=2"], ["samples_per_s"], None),
    "allreduce of 1 MiB": (["bench", "allreduce", "--workers", "2", "--bytes", "1Mi", "--algorithm",
                            "ring", "--json"], ["gb_per_s"], None),
    "topk": (["bench", "codec", "--codec", "topk", "--json"],
             ["encode_gb_per_s", "decode_gb_per_s"], None),
    "qsgd": (["bench", "codec", "--codec", "qsgd", "--json"],
             ["encode_gb_per_s", "decode_gb_per_s"], None),
    "simulator": (["bench", "sim", "--actors", "64", "--json"], ["events_per_s"], None),
}


def measure(program, home, name):
    """{figure: value} of one run, None if the program fails. Figures of layers contain a slash."""
    words, keys, row_key = MEASUREMENTS[name]
    done = subprocess.run([program, *words], capture_output=True, text=True,
                          env=dict(os.environ, OMP_NUM_THREADS="1", FAST_HOME=home))
    if done.returncode:
        return None
    figures = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        where = f"/{row[row_key]}" if row_key and row.get(row_key) else ""
        for key in keys:
            what = f", {key.split('_')[0]}" if len(keys) > 1 else ""
            figures.setdefault(f"{name}{what}{where}", row[key])
    return figures


def compare(programs, homes, name, rounds, ratios):
    """Add the ratios new / old of `rounds` pairs of runs to ratios[figure]. False if a program fails."""
    for i in range(rounds):
        values = {}
        for k in ((0, 1) if i % 2 else (1, 0)):
            values[k] = measure(programs[k], homes[k], name)
            if values[k] is None:
                return False
        for figure in values[0].keys() & values[1].keys():
            ratios.setdefault(figure, []).append(values[0][figure] / values[1][figure])
    return True


def slower(ratios, limit):
    """Tell whether these ratios say that the program got slower."""
    against = sum(ratio >= 1 for ratio in ratios)
    return statistics.median(ratios) < 1 - limit and against <= len(ratios) // 8


def row(figure, ratios, word):
    print(f"{figure:32} {statistics.median(ratios):6.3f} {min(ratios):8.3f} .. {max(ratios):.3f} "
          f"{len(ratios):7}   {word}".rstrip(), flush=True)


def layers_of(figure, ratios, limit):
    """Print the layers of a slower model that are slower themselves."""
    for name, values in sorted(ratios.items()):
        if name.startswith(figure + "/") and statistics.median(values) < 1 - limit:
            row("  " + name.split("/", 1)[1], values, "slower")


def against_baseline(programs, homes, names, limit, seconds):
    """Compare two programs in all measurements; return the names of figures that got slower."""
    ratios, bad, missing, start = {name: {} for name in names}, [], set(), time.monotonic()
    for name in names:  # the first run also makes the plan, and counts for nothing
        if not all(measure(program, home, name) for program, home in zip(programs, homes)):
            missing.add(name)
    start, done = time.monotonic(), 0
    while done < ROUNDS[1]:
        for name in names:
            if name not in missing and not compare(programs, homes, name, 2, ratios[name]):
                missing.add(name)
        done += 2
        spent = time.monotonic() - start
        if done >= ROUNDS[0] and spent * (done + 2) / done > seconds:
            break
    print("figure                            median    of rounds      rounds")
    for name in names:
        if name in missing:
            print(f"{name:32} not measured: one of the programs fails")
            continue
        for figure in [figure for figure in ratios[name] if "/" not in figure]:
            first, word = ratios[name][figure], ""
            if slower(first, limit):
                again = {}
                compare(programs, homes, name, done, again)
                first = first + again[figure]
                word = "SLOWER" if slower(again[figure], limit) else "not slower when measured again"
                bad += [figure] * (word == "SLOWER")
            row(figure, first, word)
            if word == "SLOWER":
                layers_of(figure, again, limit)
    return bad


def recorded(isa, processor):
    """{model: ratio} of results/cpu.csv for a processor and instruction set."""
    path = os.path.join(HERE, "results", "cpu.csv")
    if not os.path.exists(path):
        return {}
    with open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {r["model"]: float(r["ratio"]) for r in rows
                if (r["processor"], r["instruction set"]) == (processor, isa)}


def against_peer(program, isa, limit):
    """Print the ratios to PyTorch; return the models whose ratio is below the recorded one."""
    path, bad = os.path.join(BUILD, "peer.csv"), []
    if os.path.exists(path):
        os.remove(path)
    done = subprocess.run([os.path.join(HERE, "bench", "peer.py"), "--fast", program, "--steps", "100",
                           "--csv", path, *(["--isa", isa] if isa else []), "mlp", "lenet", "resnet8"],
                          capture_output=True, text=True)
    if done.returncode:
        print(f"PyTorch was not measured: {done.stderr.strip().splitlines()[-1:]}")
        return []
    print("\nmodel        FAST / PyTorch   recorded")
    with open(path, newline="", encoding="utf-8") as file:
        for r in csv.DictReader(line for line in file if not line.startswith("#")):
            ratio = float(r["ratio"])
            before = recorded(r["instruction set"], r["processor"]).get(r["model"])
            word = "SLOWER" if before and ratio < (1 - 2 * limit) * before else ""
            bad += [f"{r['model']} beside PyTorch"] * bool(word)
            print(f"{r['model']:12} {ratio:14.2f}   {before or 'no row of this processor'}  {word}".rstrip())
    return bad


def build_baseline(commit):
    """Build the program of a commit in build/baseline, unless it is there; return its path."""
    program, source = os.path.join(BUILD, "build", "fast"), os.path.join(BUILD, "source")
    stamp = os.path.join(BUILD, "commit")
    if os.path.exists(stamp) and open(stamp, encoding="utf-8").read() == commit:
        return program
    print(f"building the program of {commit[:12]} in build/baseline", flush=True)
    shutil.rmtree(source, ignore_errors=True)
    os.makedirs(source)
    launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    archive = subprocess.Popen(["git", "-C", HERE, "archive", commit], stdout=subprocess.PIPE)
    unpacked = subprocess.run(["tar", "-x", "-C", source], stdin=archive.stdout)
    if archive.wait() or unpacked.returncode:
        sys.exit(f"this clone has no commit {commit}: run git fetch --unshallow, or give --baseline COMMIT")
    with open(os.path.join(BUILD, "log"), "w", encoding="utf-8") as log:
        for command in (["cmake", "-S", source, "-B", os.path.dirname(program), "-G", "Ninja",
                         "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-O3 -g1", "-DFAST_UI=OFF",
                         "-DFAST_TESTS=OFF", *launcher],
                        ["cmake", "--build", os.path.dirname(program), "--target", "fast"]):
            if subprocess.run(command, stdout=log, stderr=log).returncode:
                sys.exit(f"the baseline does not build: see {log.name}")
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(commit)
    return program


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="MEASUREMENT", help=", ".join(MEASUREMENTS))
    parser.add_argument("--fast", default=os.path.join(HERE, "build", "release", "fast"))
    parser.add_argument("--baseline", help="a commit, instead of the one in bench/baseline")
    parser.add_argument("--old", help="a program, instead of one built from a commit")
    parser.add_argument("--isa", choices=list(LIMITS), help="limit all programs to it")
    parser.add_argument("--limit", type=float, default=0.05, help="smallest loss that counts")
    parser.add_argument("--seconds", type=float, default=200, help="time for the baseline's comparison")
    parser.add_argument("--no-peer", action="store_true", help="leave PyTorch out")
    args = parser.parse_args()
    names = args.names or list(MEASUREMENTS)
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        parser.error(f"no measurement {unknown[0]!r}; there are {', '.join(MEASUREMENTS)}")
    if args.isa:
        os.environ.update(LIMITS[args.isa])
    with open(os.path.join(HERE, "bench", "baseline"), encoding="utf-8") as file:
        commit = args.baseline or file.read().split()[0]
    programs = [args.fast, args.old or build_baseline(commit)]
    homes = [os.path.join(BUILD, "home", which) for which in ("new", "old")]
    for home in homes:  # plans are made anew: they may name methods that have changed
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(home)
    bad = against_baseline(programs, homes, names, args.limit, args.seconds)
    if not args.no_peer and not args.names:
        bad += against_peer(args.fast, args.isa, args.limit)
    print("\nslower: " + ", ".join(bad) if bad else "\nnothing got slower")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

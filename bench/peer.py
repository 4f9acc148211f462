#!/usr/bin/python3
"""Is FAST faster than PyTorch on one thread, and as accurate?

The question: samples/s of one worker, one thread, batch 64, on Fashion-MNIST, for mlp, lenet and
resnet8, FAST and PyTorch (Debian's python3-torch) alternating in the same run, so that a noisy
machine hurts both; the medians' ratio is the answer. The expected answer and the bounds are in
results/performance.md. With --epochs 3 or so it also compares the test accuracies.

The larger models (resnet20 and resnet56 on 32x32 images, an LSTM of 512 units on texts of 64 tokens,
a GPT of 6 layers, 384 wide, on texts of 256) train on arrays drawn at random, for a speed alone.

--isa avx2 limits both programs, with all their libraries, to that instruction set, so that the
figures of a smaller processor can be taken on a larger one; --isa avx2,best measures both. Both get
the kernels of OpenBLAS that fit it, whatever OPENBLAS_... says in the environment: an OpenBLAS that
is older than the processor would take those of SSE3.

--quick takes as many steps of each model as a speed needs, seconds instead of an epoch. A number of
steps counts from the second on: the first one pays for memory that the operating system clears, for
half of gpt's time in a run of three. PyTorch's program starts its clock later; of FAST two runs of
different length are subtracted. --csv writes the medians, with the processor and the commit, in the
place of the row of the same processor, instruction set and model, and makes the pages of results/
and docs/speed.md again. All models with AVX2 and AVX-512, in about eight minutes:

    bench/peer.py --quick --isa avx2,best --csv results/cpu.csv all

On a busy machine put `chrt -f 50 taskset -c 1` before it, so that other programs wait; or take
--clock cpu, which counts the processor's time, though other programs disturb its caches.

usage: bench/peer.py [--fast build/release/fast] [--isa avx2,best] [--rounds 3] [--clock cpu]
                     [--epochs 1 | --steps N | --quick] [--csv results/cpu.csv] [--seeds] [MODEL ...]
MODEL: mlp, lenet, resnet8, resnet20, resnet56, lstm, gpt, or all of them
FMNIST in the environment names the folder of the data set.
"""
import argparse
import csv
import datetime
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
import results  # noqa: E402

FOLDER = os.environ.get("FMNIST", "/usr/share/datasets/fashion-mnist")
ENV = {}  # of both programs, by set_environment()
# What limits FAST, and PyTorch with each library that it may be built with. OpenBLAS is in both.
LIMITS = {
    "avx2": {"FAST_ISA": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
             "DNNL_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
             "OPENBLAS_CORETYPE": "Haswell"},
    "base": {"FAST_ISA": "base", "ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41",
             "DNNL_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
             "OPENBLAS_CORETYPE": "Nehalem"},
}
# The kernels of OpenBLAS that fit the processor.
BLAS = {"avx512": {"OPENBLAS_CORETYPE": "SkylakeX"}, "avx2": {"OPENBLAS_CORETYPE": "Haswell"}}
COLUMNS = ["processor", "instruction set", "model", "PyTorch, samples/s", "FAST, samples/s", "ratio",
           "commit", "date"]


NOTES = [  # the head of a new table, as tools/results.py wants it
    "# page: performance", "# order: 13", "# title: One worker beside PyTorch 1.13, by instruction set",
    "# question: Is FAST faster than PyTorch on one thread, with AVX2 and with AVX-512? Batch 64 (gpt: 16); "
    "medians of alternating runs, steps after the first.",
    "# machine: the processor of each row", "# date: of each row",
    "# command: bench/peer.py --quick --isa avx2,best --csv results/cpu.csv all"]


# The larger models: FAST's text, what they read, and the steps that take seconds on one core.
LARGE = {
    "resnet20": ("resnet20", "images", 16),
    "resnet56": ("resnet56", "images", 6),
    "lstm": ("lstm:hidden=512,embedding=128", 64, 8),
    "gpt": ("gpt:width=384,heads=6,depth=6", 256, 3),
}


QUICK = {"mlp": 900, "lenet": 200, "resnet8": 60}
BATCH = {"gpt": 16}  # 4096 tokens; a step of 64 texts takes PyTorch most of a minute
ROUNDS = {"gpt": 2}  # at most
RUN_S_MAX = 600  # of one run: a measurement of the whole table ends


def write_arrays(folder, kind, samples):
    """Write x.npy and y.npy: images with a class, or tokens with the next one at each position."""
    import numpy as np
    draw = np.random.default_rng(1)
    if kind == "images":
        x = draw.standard_normal((samples, 3, 32, 32), dtype=np.float32)
        y = np.arange(samples, dtype=np.int64) % 10
    else:
        text = draw.integers(0, 64, (samples, kind + 1))
        text[0, :64] = range(64)  # every symbol is there, so that both count 64 of them
        x, y = text[:, :-1].copy(), text[:, 1:].copy()
    np.save(f"{folder}/x.npy", x)
    np.save(f"{folder}/y.npy", y)


def run(command):
    """Run a program; returns its last line of JSON, with the processor's seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        result = subprocess.run(command, capture_output=True, text=True, env=ENV, timeout=RUN_S_MAX)
    except subprocess.TimeoutExpired:
        sys.exit(f"{' '.join(command)} took more than {RUN_S_MAX} s; --steps shortens it")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr}")
    line = json.loads(result.stdout.strip().splitlines()[-1])
    line["cpu_s"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return line


def train(args, command, steps, batch):
    """Run one contender, an epoch or some steps after the first. PyTorch's program measures its steps;
    two runs of FAST of different length are compared, so that the start does not count."""
    if not steps:
        return run(command(0))
    long = run(command(steps + 1))
    if "samples_per_cpu_s" in long:
        if args.clock == "cpu":
            long["samples_per_s"] = long["samples_per_cpu_s"]
        return long
    short = run(command(1))
    seconds = [r["cpu_s"] if args.clock == "cpu" else r["samples"] / r["samples_per_s"] for r in (long, short)]
    long["samples_per_s"] = steps * batch / (seconds[0] - seconds[1])
    return long


def set_environment(isa):
    """Limit both programs, and one thread of each library, to an instruction set."""
    ENV.clear()
    ENV.update((key, value) for key, value in os.environ.items() if not key.startswith("OPENBLAS_"))
    ENV.update(BLAS.get(largest_set(), {}))
    ENV.update(LIMITS.get(isa, {}), OMP_NUM_THREADS="1")


def processor():
    """The name of this machine's processor, with its family: a virtual machine may hide the rest."""
    found = {}
    with open("/proc/cpuinfo") as file:
        for line in file:
            key, _, value = line.partition(":")
            found.setdefault(key.strip(), value.strip())
    name = found.get("model name", "unknown")
    return f"{name}, family {found['cpu family']}" if "cpu family" in found else name


def commit():
    """The commit of this source."""
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return git.stdout.strip()


def largest_set():
    """The best instruction set that FAST uses here."""
    with open("/proc/cpuinfo") as file:
        flags = set(file.read().split())
    return "avx512" if "avx512dq" in flags else "avx2" if "avx2" in flags else "base"


def write_rows(path, rows):
    """Write rows to a table of results, in the place of older ones of the same first three columns."""
    notes, table = list(NOTES), {}
    if os.path.exists(path):
        with open(path, newline="") as file:
            lines = file.read().splitlines()
        notes = [line for line in lines if line.startswith("#")]
        table = {tuple(row[:3]): row for row in list(csv.reader(lines[len(notes):]))[1:]}
    table.update({tuple(row[:3]): row for row in rows})
    with open(path, "w", newline="") as file:
        file.write("".join(line + "\n" for line in notes))
        csv.writer(file, lineterminator="\n").writerows([COLUMNS] + list(table.values()))
    if os.path.dirname(os.path.abspath(path)) == os.path.join(results.HERE, "results"):
        results.write_pages()


def compare(args, model, folder):
    """Alternate the contenders on one model; returns the runs of PyTorch and of FAST."""
    text, kind, steps = LARGE.get(model, (model, None, 0))
    steps = args.steps or steps or (QUICK[model] if args.quick else 0)
    batch, data = BATCH.get(model, args.batch), f"fashion-mnist:folder={FOLDER}"
    if kind:
        write_arrays(folder, kind, batch * (steps + 1))
        data = (f"npy:x={folder}/x.npy,y={folder}/y.npy,test_fraction=0,"
                f"as={'image' if kind == 'images' else 'tokens'}")
    def torch(seed, n):
        return [args.python, os.path.join(os.path.dirname(__file__), "peer_torch.py"), model,
                str(seed), str(args.epochs), str(n), str(batch), str(args.lr),
                folder if kind else FOLDER]

    def fast(seed, n):
        return [args.fast, "train", "--store", "none", "--model", text, "--data", data, "--workers",
                "1", *(["--steps", str(n)] if n else ["--epochs", str(args.epochs)]), "--batch",
                str(batch), "--optimizer", "momentum", "--schedule", "constant", "--lr",
                str(args.lr), "--seed", str(seed), "--json"]

    run(fast(1, 1))  # measures the fastest kernels of this machine, once
    peers, ours = [], []
    rounds = min(args.rounds, ROUNDS.get(model, args.rounds))
    for i in range(rounds):
        print(f"{model}: round {i + 1} of {rounds}", file=sys.stderr, flush=True)
        seed = 1 + (i if args.seeds else 0)
        peers.append(train(args, lambda n: torch(seed, n), steps, batch))
        ours.append(train(args, lambda n: fast(seed, n), steps, batch))
    return peers, ours


def measure(args, isa, model):
    """Compare on one model; prints the medians and returns their row."""
    name = largest_set() if isa == "best" else isa
    with tempfile.TemporaryDirectory() as folder:
        runs = compare(args, model, folder)
    speed = [statistics.median(r["samples_per_s"] for r in contender) for contender in runs]
    line = (f"{name:6}  {model:8}  torch {speed[0]:9.1f}/s   fast {speed[1]:9.1f}/s   "
            f"ratio {speed[1] / speed[0]:.2f}")
    if model not in LARGE:
        right = [100 * statistics.median(r["test_accuracy"] for r in contender) for contender in runs]
        line += f"   accuracy {right[0]:.2f}% {right[1]:.2f}% {right[1] - right[0]:+.2f}"
    print(line, flush=True)
    return [processor(), name, model, f"{speed[0]:,.1f}", f"{speed[1]:,.1f}",
            f"{speed[1] / speed[0]:.2f}", commit(), str(datetime.date.today())]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["mlp", "lenet", "resnet8"])
    parser.add_argument("--fast", default="build/release/fast")
    parser.add_argument("--python", default="/usr/bin/python3", help="the one that has torch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="stop after this number of batches")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall",
                        help="cpu: by the processor's time, on a busy machine; needs --steps")
    parser.add_argument("--isa", default="best", help="limit both programs to it: avx2, base, or best "
                                                      "for the processor's; several, by commas")
    parser.add_argument("--quick", action="store_true", help="steps that take seconds on one core")
    parser.add_argument("--csv", help="write the medians to this table")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seeds", action="store_true", help="a new seed every round")
    args = parser.parse_args()
    names = [*QUICK, *LARGE] if args.models == ["all"] else args.models
    if args.clock == "cpu" and not (args.steps or args.quick or all(name in LARGE for name in names)):
        parser.error("--clock cpu needs --steps or --quick")
    for isa in args.isa.split(","):
        if isa != "best" and isa not in LIMITS:
            parser.error(f"no instruction set {isa}; there are best, {', '.join(LIMITS)}")
    unknown = [name for name in names if name not in QUICK and name not in LARGE]
    if unknown:
        parser.error(f"no model {unknown[0]}; there are {', '.join([*QUICK, *LARGE])}")
    start = time.time()
    print(f"{processor()}, one thread, commit {commit()}", flush=True)
    for isa in args.isa.split(","):
        set_environment(isa)
        for model in names:
            row = measure(args, isa, model)
            if args.csv:
                write_rows(args.csv, [row])
    print(f"{time.time() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

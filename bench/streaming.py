#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""streaming - a set larger than the memory, against the same set in memory.
Usage: bench/streaming.py FAST [LIMIT_MIB [REPEATS]] [--write]

Question: does a set of three times a memory limit train as fast from shards as from memory, with the
peak of the whole process under the limit? Expected: at least 0.95 of the speed, since a batch of 64
images of lenet takes milliseconds to compute and 50 KB to read, which the page cache gives in
microseconds, by a thread of its own.

The set is digits of LIMIT x 3 bytes, written once as shards and once as an NPY array, which is read
into memory. Both train at the same time, so that other programs disturb both alike; the median of
the ratios of their speeds counts. --write writes results/streaming.csv.
"""
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

ROW, STEPS = 784, 1500  # bytes of a sample, steps of a run
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def write_array(path, dtype, shape, parts):
    """Write an NPY file of the bytes of other files."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (63 - (10 + len(text)) % 64) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode())
        for part in parts:
            with open(part, "rb") as file:
                shutil.copyfileobj(file, out)


def prepare(fast, folder, count):
    """Write the set as shards and as arrays; return how both are named."""
    shards = os.path.join(folder, "shards")
    subprocess.run([fast, "shard", f"digits:train={count},test=100", "--out", shards, "--size", "1Mi"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    files = sorted(name for name in os.listdir(shards) if name.startswith("train-"))
    write_array(folder + "/x.npy", "|u1", (count, 1, 28, 28), [os.path.join(shards, n) for n in files])
    write_array(folder + "/y.npy", "<i4", (count,), [os.path.join(shards, "train.answers")])
    return f"npy:x={folder}/x.npy,y={folder}/y.npy,test_fraction=0", f"shards:dir={shards}"


def train(fast, sets):
    """Train on all sets at the same time: samples a second and the peak of memory of each."""
    command = [fast, "train", "--steps", str(STEPS), "--evaluate", "no", "--quiet", "--json", "--store",
               "none", "--data"]
    runs = [subprocess.Popen(command + [data], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env=dict(os.environ, OMP_NUM_THREADS="1")) for data in sets]
    results = [json.loads(run.communicate()[0].strip().split("\n")[-1]) for run in runs]
    return [(result["samples_per_s"], result["memory_peak"]) for result in results]


def main():
    words = [word for word in sys.argv[1:] if word != "--write"]
    fast, limit = words[0], int(words[1]) if len(words) > 1 else 64
    repeats = int(words[2]) if len(words) > 2 else 5
    count = 3 * limit * 1024 * 1024 // ROW
    cache = limit // 8
    folder = tempfile.mkdtemp(prefix="fast-streaming-")
    try:
        array, shards = prepare(fast, folder, count)
        pairs = []
        for i in range(repeats):
            sets = [array, f"{shards},cache={cache}Mi"]
            pair = train(fast, sets if i % 2 == 0 else sets[::-1])
            pairs.append(pair if i % 2 == 0 else pair[::-1])
            print(pairs[-1], file=sys.stderr)
    finally:
        shutil.rmtree(folder)
    ratios = sorted(b[0] / a[0] for a, b in pairs)
    fields = ["samples from", "samples/s", "of the speed in memory", "peak memory", "limit"]
    rows = [[name, f"{statistics.median(pair[k][0] for pair in pairs):,.0f}", ratio,
             f"{max(pair[k][1] for pair in pairs) / 1e6:.0f} MB", bound]
            for k, name, ratio, bound in (
                (0, "memory", "1.00", "-"),
                (1, f"shards, cache={cache}Mi",
                 f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
                 f"{limit * 1.048576:.0f} MB"))]
    for row in [fields, *rows]:
        print(" | ".join(row))
    if "--write" in sys.argv:
        sys.path.insert(0, os.path.join(ROOT, "tools"))
        import results
        head = {"page": "performance", "order": "12", "title": "Streaming from shards",
                "question": "Does a set of three times a memory limit train as fast from shards as from "
                            f"memory, under the limit? lenet, {STEPS:,} steps on {count:,} digits of "
                            f"28x28 ({count * ROW / 1e6:.0f} MB), shards of 1 MiB, a warm page cache, "
                            f"the median of {repeats} pairs of runs that ran at the same time.",
                "machine": "virtual machine with 2 cores that other programs shared",
                "date": results.today(),
                "command": ["bench/streaming.py build/release/fast --write"]}
        results.write_table("streaming", head, fields, rows)


if __name__ == "__main__":
    main()

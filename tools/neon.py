#!/usr/bin/env python3
"""How many instructions do the NEON kernels save on aarch64?

Counts the instructions that layers take in a training step, forward and backward, by engine cpu
(NEON) and by engine ref, plain loops that are compiled without NEON here, in the program that
tools/cross has built, under qemu with tools/count_plugin.c. A layer's number is that of a network with it less that of the same
network without it; the start of the program and the data cancel in the same way, between one step
and two. Fails if a layer takes more than a quarter.

usage: tools/neon.py [FOLDER, build/aarch64 unless given]
"""
import json
import os
import re
import subprocess
import sys
import tempfile

LIMIT = 0.25
HEAD, TAIL = "conv 16 kernel=3 pad=1\n", "global_pool\ndense 10\n"
LAYERS = {  # name: (with it, without it)
    "conv 3x3, 16 to 16": (HEAD + "conv 16 kernel=3 pad=1\n" + TAIL, HEAD + TAIL),
    "dense, 784 to 256": ("dense 256\nrelu\ndense 10\n", "dense 10\n"),
    "max_pool 2x2": (HEAD + "max_pool 2\n" + TAIL, HEAD + TAIL),
    "batch_norm": (HEAD + "batch_norm\n" + TAIL, HEAD + TAIL),
}


def count(run, network, engine, steps):
    """Instructions of a run of some steps."""
    with tempfile.NamedTemporaryFile("w", suffix=".net") as file:
        file.write("input 1 28 28\n" + network + "loss cross_entropy\n")
        file.flush()
        done = subprocess.run(run + ["train", "--model", f"file:{file.name}", "--data",
                                     "digits:train=128,test=16", "--batch", "64", "--steps", str(steps),
                                     "--engine", engine, "--store", "none", "--seed", "1"] +
                              (["--method", "winograd_4x4_3x3", "--plan", "no"] if engine == "cpu" else []),
                              capture_output=True, text=True)
    found = re.search(r"^instructions (\d+)", done.stderr, re.M)
    if done.returncode or not found:
        sys.exit(f"{network}\n{done.stdout}{done.stderr}")
    return int(found[1])


def plain_program(build, to):
    """The program once more, with the sources of engine ref compiled without NEON."""
    commands = json.loads(subprocess.run(["ninja", "-C", build, "-t", "compdb"], check=True,
                                         capture_output=True, text=True).stdout)
    link = subprocess.run(["ninja", "-C", build, "-t", "commands", "fast"], check=True,
                          capture_output=True, text=True).stdout.splitlines()[-1]
    objects = []
    for entry in commands:
        if "/src/engine/ref/" in entry["file"] and entry["output"].startswith("CMakeFiles/fast_core.dir/"):
            objects.append(os.path.join(to, os.path.basename(entry["output"])))
            subprocess.run(entry["command"].replace(f"-o {entry['output']}", f"-o {objects[-1]}") +
                           " -march=armv8-a+nosimd", shell=True, cwd=build, check=True)
    program = os.path.join(to, "fast")
    objects = " ".join(objects)
    link, found = re.subn(r"-o fast (?=.*\.a)", f"-o {program} {objects} ", link)
    if not found:
        sys.exit(f"how is this linked? {link}")
    subprocess.run(link, shell=True, cwd=build, check=True)
    return program


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "build", "aarch64"))
    plugin, libraries = os.path.join(folder, "count.so"), os.path.join(folder, "root/usr/lib/aarch64-linux-gnu")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", plugin, os.path.join(here, "count_plugin.c")],
                   check=True)
    qemu = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-E", f"LD_LIBRARY_PATH={libraries}", "-d",
            "plugin", "-plugin", plugin]
    build, plain = os.path.join(folder, "build"), os.path.join(folder, "plain")
    os.makedirs(plain, exist_ok=True)
    programs = {"cpu": os.path.join(build, "fast"), "ref": plain_program(build, plain)}
    counts, bad = {}, 0

    def step(network, engine):
        if (network, engine) not in counts:
            run = qemu + [programs[engine]]
            counts[network, engine] = count(run, network, engine, 2) - count(run, network, engine, 1)
        return counts[network, engine]

    print("layer                 ref, millions   cpu with NEON   fraction")
    for name, (whole, rest) in LAYERS.items():
        plain, neon = (step(whole, engine) - step(rest, engine) for engine in ("ref", "cpu"))
        bad += neon > LIMIT * plain
        print(f"{name:20} {plain / 1e6:14.2f} {neon / 1e6:15.2f} {neon / plain:10.3f}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

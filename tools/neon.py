#!/usr/bin/env python3
"""How many instructions do the NEON kernels save on aarch64?

Counts the instructions that layers take in a training step, forward and backward, in the program that
`make arm` has built, under qemu with tools/count_plugin.c:

    plain     engine ref, plain loops, compiled without NEON
    scalar    engine cpu, its kernels compiled without NEON
    NEON      engine cpu as it is

A layer's number is the sum over the functions that take more instructions in a network with it than in
the same network without it; the start of the program and the data cancel in the same way, between one
step and two. Fails if a layer takes more than a quarter of the plain loops.

usage: tools/neon.py [--publish]    --publish: write results/aarch64.csv
"""
import json
import os
import re
import subprocess
import sys
import tempfile

import results

LIMIT = 0.25
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(HERE, "build", "aarch64")
HEAD, TAIL = "conv 16 kernel=3 pad=1\n", "global_pool\ndense 10\n"
CONV = (HEAD + "conv 16 kernel=3 pad=1\n" + TAIL, HEAD + TAIL)
WINOGRAD = "winograd_4x4_3x3"
LAYERS = {  # name: (a network with it, without it, the method of convolutions)
    "conv 3x3, 16 to 16, Winograd": (*CONV, WINOGRAD),
    "conv 3x3, 16 to 16, im2col": (*CONV, "im2col"),
    "conv 3x3, 16 to 32, stride 2": (HEAD + "conv 32 kernel=3 stride=2 pad=1\n" + TAIL, HEAD + TAIL, "im2col"),
    "dense, 784 to 256": ("dense 256\ndense 10\n", "dense 10\n", None),
    "max_pool 2x2": (HEAD + "max_pool 2\n" + TAIL, HEAD + TAIL, WINOGRAD),
    "avg_pool 2x2": (HEAD + "avg_pool 2\n" + TAIL, HEAD + TAIL, WINOGRAD),
    "batch_norm": (HEAD + "batch_norm\n" + TAIL, HEAD + TAIL, WINOGRAD),
    "layer_norm": ("dense 256\nlayer_norm\ndense 10\n", "dense 256\ndense 10\n", None),
}
ENGINES = {"plain": ("plain", "ref"), "scalar": ("plain", "cpu"), "NEON": ("whole", "cpu")}


def count(run, network, engine, method, steps):
    """{function: instructions} of a run of some steps."""
    with tempfile.NamedTemporaryFile("w", suffix=".net") as file:
        file.write("input 1 28 28\n" + network + "loss cross_entropy\n")
        file.flush()
        command = run + ["train", "--model", f"file:{file.name}", "--data", "digits:train=128,test=16",
                         "--batch", "64", "--steps", str(steps), "--engine", engine, "--store", "none",
                         "--seed", "1"]
        if engine == "cpu":
            command += ["--plan", "no"] + (["--method", method] if method else [])
        done = subprocess.run(command, capture_output=True, text=True)
    found = re.findall(r"^instructions (\d+) (.*)$", done.stderr, re.M)
    if done.returncode or not found:
        sys.exit(f"{network}\n{done.stdout}{done.stderr}")
    return {name: int(number) for number, name in found}


def plain_program(to):
    """Link the program once more, with the sources of the engines compiled without NEON."""
    commands = json.loads(subprocess.run(["ninja", "-C", BUILD, "-t", "compdb"], check=True,
                                         capture_output=True, text=True).stdout)
    link = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "fast"], check=True,
                          capture_output=True, text=True).stdout.splitlines()[-1]
    objects = []
    for entry in commands:
        if "/src/engine/" in entry["file"] and re.match("CMakeFiles/fast_(core|simd_base).dir/", entry["output"]):
            objects.append(os.path.join(to, os.path.basename(entry["output"])))
            subprocess.run(entry["command"].replace(f"-o {entry['output']}", f"-o {objects[-1]}") +
                           " -march=armv8-a+nosimd", shell=True, cwd=BUILD, check=True)
    program = os.path.join(to, "fast")
    link, found = re.subn(r"-o fast (?=.*\.a)", f"-o {program} {' '.join(objects)} ", link)
    if not found:
        sys.exit(f"how is this linked? {link}")
    subprocess.run(link, shell=True, cwd=BUILD, check=True)
    return program


def publish(rows):
    compiler = subprocess.run(["aarch64-linux-gnu-gcc", "-dumpversion"], capture_output=True, text=True).stdout
    head = {"page": "performance", "order": "14", "title": "Instructions on aarch64",
            "question": "How many instructions do NEON kernels save? Millions in a training step, forward and "
                        "backward, batch 64; the fraction is that of NEON in the plain loops.",
            "machine": f"any: counted under qemu; compiled by gcc {compiler.strip()}", "date": results.today(),
            "command": ["make arm && tools/neon.py --publish"],
            "note": ["Plain loops are engine `ref` without NEON; scalar is engine `cpu` with its kernels "
                     "compiled without NEON: the same arithmetic, one lane at a time."]}
    results.publish([("aarch64", head, ["layer", "plain loops", "scalar", "NEON", "fraction"], rows)])


def main():
    root = os.path.join(HERE, "build", "aarch64-root")
    plugin, plain = os.path.join(BUILD, "count.so"), os.path.join(BUILD, "plain")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", plugin, os.path.join(HERE, "tools", "count_plugin.c")],
                   check=True)
    qemu = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-E",
            f"LD_LIBRARY_PATH={root}/usr/lib/aarch64-linux-gnu:{root}/lib/aarch64-linux-gnu", "-d", "plugin",
            "-plugin", plugin]
    os.makedirs(plain, exist_ok=True)
    programs = {"whole": os.path.join(BUILD, "fast"), "plain": plain_program(plain)}
    counts, rows, bad = {}, [], 0

    def step(network, method, program, engine):
        key = (network, method if engine == "cpu" else None, program, engine)
        if key not in counts:
            one, two = (count(qemu + [programs[program]], network, engine, method, n) for n in (1, 2))
            counts[key] = {name: two[name] - one.get(name, 0) for name in two}
        return counts[key]

    print(f"{'layer':30} {'plain loops':>11} {'scalar':>10} {'NEON':>8}   fraction")
    for name, (whole, rest, method) in LAYERS.items():
        taken = []
        for program, engine in ENGINES.values():
            more, less = (step(network, method, program, engine) for network in (whole, rest))
            taken.append(sum(max(0, more[f] - less.get(f, 0)) for f in more) / 1e6)
        bad += taken[2] > LIMIT * taken[0]
        rows.append([name, *(f"{n:.2f}" for n in taken), f"{taken[2] / taken[0]:.3f}"])
        print("{:30} {:>11} {:>10} {:>8} {:>10}".format(*rows[-1]), flush=True)
    if "--publish" in sys.argv:
        publish(rows)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

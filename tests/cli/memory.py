#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of runs: less by recomputation, never above a budget, and as predicted.

usage: memory.py FAST

The peak is of a whole process, so each run is one. On both engines a small gpt and resnet56 train
plainly, in sqrt(n) segments and under budgets. The weights have the same bits, the measured peak is
within 8% of the predicted one and below the budget, and the smallest budget that a refusal names is
enough.
"""
import json, os, re, subprocess, sys, tempfile

MODELS = {
    "gpt": "--model gpt:width=64,heads=4,depth=8 --data text:file=book.txt,length=64 --batch 32 --steps 2".split(),
    "resnet56": "--model resnet56 --data digits:train=64,test=16 --batch 16 --steps 2".split(),
}


def train(fast, engine, model, folder, *more):
    out = subprocess.run([fast, "train", "--engine", engine, *MODELS[model], "--evaluate", "no", "--json", "--quiet",
                          "--plan", os.path.join(folder, "plan"), "--store", "none", *more],
                         env=dict(os.environ, FAST_HOME=folder, OMP_NUM_THREADS="1"), cwd=folder, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return (json.loads(out.stdout.splitlines()[-1]) if out.returncode == 0 else None), out.stderr


def check(fast, engine, model, folder):
    plain, _ = train(fast, engine, model, folder)
    least, _ = train(fast, engine, model, folder, "--recompute", "yes")
    budget = (plain["memory_peak"] + least["memory_peak"]) // 2
    fitted, said = train(fast, engine, model, folder, "--memory", str(budget))
    assert "activations take" in said, said
    none, refusal = train(fast, engine, model, folder, "--memory", "1MB")
    assert none is None and "memory=1MB is too small" in refusal, refusal
    smallest = int(re.search(r"at least (\d+) MB", refusal)[1]) + 1
    tight, _ = train(fast, engine, model, folder, "--memory", f"{smallest}MB")
    print(engine, model, *(f"{run['memory_peak'] / 1e6:.1f}/{run['predicted_memory'] / 1e6:.1f}"
                           for run in (plain, least, fitted, tight)), "MB measured/predicted", flush=True)
    for run in (plain, least, fitted, tight):
        ratio = run["predicted_memory"] / run["memory_peak"]
        assert run["params_hash"] == plain["params_hash"], f"{engine} {model}: other bits"
        assert 0.92 < ratio < 1.08, f"{engine} {model}: predicted {ratio:.3f} of what was measured"
    assert least["memory_peak"] < 0.8 * plain["memory_peak"], (engine, model)
    assert fitted["memory_peak"] <= budget, (fitted["memory_peak"], budget)
    assert tight["memory_peak"] <= smallest * 1e6, (tight["memory_peak"], smallest)


def main():
    fast = os.path.abspath(sys.argv[1])
    engines = ["ref"]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "book.txt"), "w") as book:
            book.write("".join(f"line {i} of a book about {i * i} things. " for i in range(2000)))
        info = subprocess.run([fast, "info", "--json"], stdout=subprocess.PIPE, text=True).stdout
        if '"cpu"' in info:
            engines.append("cpu")
        for engine in engines:
            for model in MODELS:
                check(fast, engine, model, folder)


main()

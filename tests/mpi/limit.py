#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model of three times the memory that a worker may take trains over eight of them.

usage: limit.py FAST MPIEXEC FLAG

The system enforces the limit: RLIMIT_DATA, of each process. Parameters, gradients and the state of adam take more
than three times as much; one process fails, and eight with a stage each train, evaluate and save. A process without
a limit has the same model, to the bit. Half of the limit is what libraries reserve, most of it never touched.
"""
import json, os, resource, subprocess, sys, tempfile

LIMIT = 320_000_000
STAGES = 8
MODEL = f"--model mlp:hidden={'x'.join(['2000'] * 16)} --data digits:train=64,test=16 --batch 1".split()
JOB = "--steps 2 --optimizer adam --lr 0.001 --evaluate end --engine ref --plan no --store none --json --quiet".split()


def limited():
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))


def run(folder, *command, limit=limited):
    return subprocess.run(command, text=True, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          preexec_fn=limit, env=dict(os.environ, FAST_HOME=folder, TMPDIR=folder), timeout=250)


def last(out):
    assert out.returncode == 0, out.stderr
    return json.loads([line for line in out.stdout.splitlines() if "params_hash" in line][-1])


def main():
    fast, mpiexec, flag = os.path.abspath(sys.argv[1]), *sys.argv[2:4]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        alone = run(folder, fast, "train", *MODEL, *JOB)
        assert alone.returncode == 1 and "no memory for" in alone.stderr, alone.stderr
        many = last(run(folder, mpiexec, flag, str(STAGES), fast, "train", *MODEL, *JOB, "--mesh", f"pipe={STAGES}",
                        "--transport", "mpi", "--save", "model.safetensors"))
        size = 16 * many["param_count"]
        print(f"{size / 1e6:.0f} MB of parameters, gradients and state; {LIMIT / 1e6:.0f} MB a worker, of which the "
              f"first took {many['memory_peak'] / 1e6:.0f} MB", flush=True)
        assert size > 3 * LIMIT
        assert many["memory_peak"] < LIMIT
        whole = last(run(folder, fast, "train", *MODEL, *JOB, limit=None))
        assert whole["params_hash"] == many["params_hash"]
        assert abs(whole["test_loss"] - many["test_loss"]) < 1e-6 * whole["test_loss"]
        assert os.path.getsize(os.path.join(folder, "model.safetensors")) > 4 * many["param_count"]


main()

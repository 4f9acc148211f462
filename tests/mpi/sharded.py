#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The memory of a process shrinks with strategy zero, as the system measures it.

usage: sharded.py FAST RANKS MPIEXEC FLAG

A wide network trains with adam under allreduce and under the three stages. Each has the same weights; the
peak of the first process shrinks by most of what its worker no longer holds.
"""
import json, os, subprocess, sys, tempfile

JOB = "train --model mlp:hidden=6000 --data digits:train=64,test=16 --batch 4 --steps 3 --optimizer adam --evaluate no".split()


def train(fast, ranks, mpiexec, flag, folder, strategy):
    out = subprocess.run([mpiexec, flag, ranks, fast, *JOB, "--engine", "ref", "--json", "--quiet", "--store", "none",
                          "--transport", "mpi", "--workers", ranks, "--strategy", strategy], check=True, text=True,
                         env=dict(os.environ, FAST_HOME=folder), stdout=subprocess.PIPE)
    return json.loads([line for line in out.stdout.splitlines() if "params_hash" in line][-1])


def main():
    fast, ranks, mpiexec, flag = os.path.abspath(sys.argv[1]), *sys.argv[2:5]
    with tempfile.TemporaryDirectory() as folder:
        whole = train(fast, ranks, mpiexec, flag, folder, "allreduce")
        last = whole
        for stage in "123":
            part = train(fast, ranks, mpiexec, flag, folder, f"zero:stage={stage}")
            saved = whole["model_state_bytes"] - part["model_state_bytes"]
            print(f"stage {stage}: {part['memory_peak'] / 1e6:.1f} MB of {whole['memory_peak'] / 1e6:.1f} MB, "
                  f"model states {part['model_state_bytes'] / 1e6:.1f} of {whole['model_state_bytes'] / 1e6:.1f} MB",
                  flush=True)
            assert part["params_hash"] == whole["params_hash"], stage
            assert part["model_state_bytes"] < last["model_state_bytes"], stage
            # Parameters are whole at the start and at the end, where worker 0 gathers them.
            assert part["memory_peak"] < whole["memory_peak"] - (0.6 if stage != "3" else 0.4) * saved, stage
            last = part


main()

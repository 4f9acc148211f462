#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""results/resumes.csv: which strategy is saved and resumed on which transport: tools/resumes.py PROGRAM

Every strategy of the program, and the options of ps and quorum that make another one of it, is trained with a snapshot
every 5 steps on each transport (mpi: 4 workers in 2 processes), and resumed from its file for 10 more steps. A cell says
`resumes`, or `refused` with the program's own reason. Anything else ends the tool with an error, so that no cell claims
what did not run."""
import os
import re
import subprocess
import sys
import tempfile

import results

HERE = os.path.dirname(os.path.abspath(__file__))
OPTIONS = ["ps:slack=0", "ps:slack=2", "ps:slack=2,eager=yes", "ps:value=20", "ps:value=20,weak=yes", "ps:slack=0,backup=1",
           "ps:slack=1,proxies=2", "ps:slack=0,replicas=1", "ps:value=20,proxies=2", "quorum:backup=1,late=add",
           "quorum:quorum=3,partial=yes", "federated:part=0.5,pace=yes"]
SMALL = ["--data", "digits:train=256,test=32", "--model", "mlp:hidden=8", "--batch", "8", "--evaluate", "no", "--seed", "1",
         "--optimizer", "sgd", "--lr", "0.05"]


def strategies(program):
    lines = subprocess.run([program, "help", "strategies"], capture_output=True, text=True).stdout.splitlines()
    names = [match.group(1) for match in (re.match(r"  ([a-z_]+)  ", line) for line in lines) if match]
    return list(dict.fromkeys(names + OPTIONS))


def train(program, transport, strategy, more, folder):
    launcher = [os.path.join(HERE, "mpirun"), "2"] if transport == "mpi" else []
    command = [*launcher, program, "train", *SMALL, "--workers", "4", "--transport", transport, "--strategy", strategy, *more]
    env = dict(os.environ, OMP_NUM_THREADS="1", FAST_HOME=folder, NO_COLOR="1")
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=env)


def reason(job):
    lines = [line for line in job.stderr.splitlines() if line.startswith("fast: ")]
    text = lines[-1].removeprefix("fast: ") if lines else ""
    return re.sub(r"^(fast: )?rank \d+ on \S+: ", "", text)


def cell(program, transport, strategy):
    with tempfile.TemporaryDirectory() as folder:
        first = train(program, transport, strategy, ["--steps", "40", "--checkpoint", "run.safetensors", "--checkpoint-every",
                                                     "5steps"], folder)
        if first.returncode == 0:
            again = train(program, transport, strategy, ["--steps", "50", "--resume", "run.safetensors"], folder)
            if again.returncode == 0:
                return "resumes", ""
            first = again
        text = reason(first)
        if not text or "Error" in first.stderr or first.returncode not in (1, 2):
            sys.exit(f"{strategy} on {transport}: exit code {first.returncode}: {first.stderr[-400:]}")
        return "refused", text


def main():
    program = os.path.abspath(sys.argv[1])
    rows = []
    for strategy in strategies(program):
        for transport in ["sim", "threads", "mpi"]:
            rows.append([strategy, transport, *cell(program, transport, strategy)])
            print(*rows[-1], sep="\t", flush=True)
    head = {"page": "matrix", "order": "9", "title": "Checkpoints",
            "question": "Which strategy is saved in the middle and resumed on which transport?", "machine": "any",
            "date": results.today(), "command": ["tools/resumes.py build/release/fast"]}
    results.write_table("resumes", head, ["strategy", "transport", "outcome", "reason"], rows)


main()

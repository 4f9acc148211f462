#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""results/resumes.csv: which strategy is saved and resumed on which transport.

    tools/resumes.py PROGRAM            run every cell, and write the table and its page
    tools/resumes.py --check PROGRAM    run refused cells only; exit 1 if the table lacks a strategy or differs

Every strategy of the program, and options that make another one of it, is trained with a snapshot every 20 steps on each
transport (mpi: 4 workers in 2 processes), killed when the first file is there, and resumed from it until it has written a
snapshot of a later step. A cell says `resumes`, or `refused` with the program's own reason. Anything else ends the tool
with an error, so that no cell claims what did not run."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import results

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = "run.safetensors"
TRANSPORTS = ["sim", "threads", "mpi"]
OPTIONS = ["ps:slack=0", "ps:slack=2", "ps:slack=2,eager=yes", "ps:slack=2,cache_age=2", "ps:slack=2,tasks=yes,ring=2",
           "ps:slack=2,priority=yes", "ps:value=20", "ps:value=20,weak=yes", "ps:value=20,proxies=2", "ps:slack=0,backup=1",
           "ps:slack=0,redundant=2", "ps:redundant=2", "ps:slack=1,proxies=2", "ps:slack=1,proxies=2,levels=2",
           "ps:slack=1,proxies=2,rows=yes", "ps:slack=1,proxies=2,mirror=yes", "ps:proxies=2,free_running=yes",
           "ps:slack=1,proxies=2,flows=behind", "ps:rate=1e7", "ps:slack=0,replicas=1", "ps:slack=1,replicas=1,chain=yes",
           "ps:slack=0,path=tree", "quorum:backup=1,late=add", "quorum:quorum=3,partial=yes", "local:master=tree",
           "federated:part=0.5,pace=yes", "mpca:tree=yes", "gossip_async:how=push", "gossip_async:how=pull",
           "partial:how=scatter", "partial:how=states", "broadcast:how=gossip", "zero:stage=1", "zero:stage=3"]
SMALL = ["--data", "digits:train=256,test=32", "--model", "mlp:hidden=8", "--batch", "8", "--evaluate", "no", "--seed", "1",
         "--optimizer", "sgd", "--lr", "0.05", "--steps", "1000000", "--workers", "4", "--checkpoint", FILE,
         "--checkpoint-every", "20steps"]
FIELDS = ["strategy", *TRANSPORTS, "reason"]
PATIENCE_S = 120


def names(program):
    lines = subprocess.run([program, "help", "strategies"], capture_output=True, text=True).stdout.splitlines()
    return [match.group(1) for match in (re.match(r"  ([a-z_]+)  ", line) for line in lines) if match]


def step_of(folder):
    """The step of the file in a folder; -1 without one."""
    try:
        with open(os.path.join(folder, FILE), "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            return int(json.loads(file.read(size))["__metadata__"]["step"])
    except (OSError, ValueError, KeyError):
        return -1


def processes(job):
    """The numbers of a job's process and of those that it started: ranks are in groups of their own."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            pass
    found = [job.pid]
    for number in found:
        found += [child for child, parent in parents.items() if parent == number]
    return found


def kill(job):
    """Kill a job's processes, and wait until none is left."""
    found = processes(job)
    for number in found:
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            pass
    job.wait()
    while any(os.path.exists(f"/proc/{number}") for number in found):
        time.sleep(0.02)


def train(program, transport, strategy, more, folder, after):
    """Train until the file is of a later step than `after`, and kill the run. The reason why it was refused; or None."""
    launcher = [os.path.join(HERE, "mpirun"), "2"] if transport == "mpi" else []
    cluster = ["--cluster", "laptop"] if transport == "sim" and strategy == "hogwild" else []
    command = [*launcher, program, "train", *SMALL, *cluster, "--transport", transport, "--strategy", strategy, *more]
    env = dict(os.environ, OMP_NUM_THREADS="1", FAST_HOME=folder, NO_COLOR="1")
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=folder, env=env)
    begin = time.monotonic()
    while job.poll() is None and step_of(folder) <= after and time.monotonic() - begin < PATIENCE_S:
        time.sleep(0.02)
    saved = step_of(folder) > after
    if job.poll() is None:
        kill(job)
    text = job.communicate()[1]
    lines = [line for line in text.splitlines() if line.startswith("fast: ")]
    if saved:
        return None
    if job.returncode not in (1, 2) or not lines:
        sys.exit(f"{strategy} on {transport}: exit code {job.returncode}: {text[-400:]}")
    return re.sub(r"^(fast: )?rank \d+ on \S+: ", "", lines[-1].removeprefix("fast: "))


def cell(program, transport, strategy):
    """Whether a strategy resumes on a transport: "" or the reason of the refusal."""
    with tempfile.TemporaryDirectory() as folder:
        reason = train(program, transport, strategy, [], folder, -1)
        if not reason:
            reason = train(program, transport, strategy, ["--resume", FILE], folder, step_of(folder))
            if reason:
                sys.exit(f"{strategy} on {transport} was saved, but: {reason}")
        return reason or ""


def row(strategy, reasons):
    """A row of the table from the reason of each transport."""
    refused = list(dict.fromkeys(reason for reason in reasons if reason))
    return [strategy, *("refused" if reason else "resumes" for reason in reasons), "; ".join(refused)]


def check(program):
    """Compare the table with the program: the strategies that it lists, and the refusals, which take no time."""
    table = results.read_table(os.path.join(results.HERE, "results", "resumes.csv"))
    listed = [cells[0] for cells in table.rows]
    if table.fields != FIELDS or listed != list(dict.fromkeys(names(program) + OPTIONS)):
        sys.exit("results/resumes.csv lacks a strategy, or has one too many: run tools/resumes.py")
    for strategy, *outcomes, reason in table.rows:
        for transport, outcome in zip(TRANSPORTS, outcomes):
            if outcome != "refused" or transport == "mpi":
                continue
            found = cell(program, transport, strategy)
            if not found or found not in reason:
                sys.exit(f"{strategy} on {transport} is not refused as results/resumes.csv says: run tools/resumes.py")


def main():
    program = os.path.abspath(sys.argv[-1])
    if sys.argv[1] == "--check":
        check(program)
        return
    rows = []
    for strategy in dict.fromkeys(names(program) + OPTIONS):
        rows.append(row(strategy, [cell(program, transport, strategy) for transport in TRANSPORTS]))
        print(*rows[-1], sep="\t", flush=True)
    head = {"page": "matrix", "order": "9", "title": "Runs that are saved and resumed",
            "question": "Which strategy is killed in the middle and resumed from its last snapshot, on which transport?",
            "machine": "any", "date": results.today(), "command": ["tools/resumes.py build/release/fast"],
            "code": "strategy"}
    results.publish([("resumes", head, FIELDS, rows)])


if __name__ == "__main__":
    main()

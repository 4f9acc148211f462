"""Figures of a whole job under mpirun: a cluster file that `fast bench cluster` measures on this machine, and the step
of all workers.

Usage: cluster.py FAST LAUNCHER... The launcher ends with its flag for the number of ranks. Needs no root and no network
namespaces; bench/real_simulated.py compares real networks with simulated ones.
"""
import json
import os
import subprocess
import sys
import tempfile

fast, launcher = os.path.abspath(sys.argv[1]), sys.argv[2:]
home = tempfile.mkdtemp(prefix="fast-cluster-")
os.chdir(home)
env = dict(os.environ, FAST_HOME=home)
JOB = ["--engine", "ref", "--model", "mlp:hidden=8", "--data", "digits:train=64,test=16", "--batch", "8", "--store",
       "none", "--evaluate", "no", "--workers", "2", "--json"]


def run(*command):
    done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=120)
    check(done.returncode == 0, *command, done.returncode, done.stderr)
    return done.stdout


def check(holds, *why):
    if not holds:
        sys.exit("\n".join(map(str, why)))


# The file is read again, by a simulated run and by a simulated measurement, which finds the same link.
text = run(*launcher, "2", fast, "bench", "cluster", "--model", "mlp:hidden=8")
check(text.count("nodes:\n  count: 2\n") == 1 and "latency:" in text and "bandwidth:" in text, text)
with open("my.yaml", "w") as file:
    file.write(text)
if "YAML" in subprocess.run([fast, "simulate", "--cluster", "my.yaml"], env=env, text=True, capture_output=True).stderr:
    print("skipped: this build reads no cluster files")
    sys.exit(0)
result = json.loads(run(fast, "train", *JOB, "--steps", "4", "--transport", "sim", "--cluster", "my.yaml"))
check(result["virtual_time_s"] > 0, result)
again = json.loads(run(fast, "bench", "cluster", "--transport", "sim", "--cluster", "my.yaml", "--json"))
took = sum(float(text.split(key)[1].split("us")[0]) * 1e-6 for key in ("latency: ", "overhead: ") if key in text)
check(abs((again["latency_s"] + again["overhead_s"]) / took - 1) < 0.05, took, again)
check(again["nodes"] == 2 and again["file"].count("\nlinks:\n") == 1, again)

# The step is the mean of both workers, not of the one on rank 0.
result = json.loads(run(*launcher, "2", fast, "train", *JOB, "--steps", "50", "--transport", "mpi", "--strategy", "ps"))
own = (result["compute_s"] + result["exchange_s"] + result["wait_s"]) / result["worker_steps"][0]
check(2 * result["step_s"] > own and abs(result["step_s"] / own - 1) > 1e-6, own, result["step_s"])

"""`fast train` under mpirun, as a script sees it: exit codes, the command that continues, ranks without a
worker, and a checkpoint that only one machine has.

Usage: launch.py FAST LAUNCHER... The launcher ends with its flag for the number of ranks.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

fast, launcher = os.path.abspath(sys.argv[1]), sys.argv[2:]
home = tempfile.mkdtemp(prefix="fast-launch-")
os.chdir(home)
env = dict(os.environ, FAST_HOME=home)
SMALL = ["train", "--engine", "ref", "--model", "mlp:hidden=8", "--data", "digits:train=64,test=16", "--batch", "8",
         "--store", "none"]
SHARED = ["--workers", "2", "--transport", "mpi"]
QUICK = 60


def start(command):
    return subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(*flags):
    job = start([*launcher, "2", fast, *SMALL, *flags])
    out, said = job.communicate(timeout=QUICK)
    return job.returncode, out, said


def wait_for(path):
    for _ in range(QUICK * 50):
        if os.path.exists(path):
            return
        time.sleep(0.02)
    sys.exit(f"{path} did not come")


def check(holds, *why):
    if not holds:
        sys.exit("\n".join(map(str, why)))


# SIGUSR1 goes through mpirun to all ranks: 75, and a command that continues with mpirun. A second one changes nothing.
job = start([*launcher, "2", fast, *SMALL, *SHARED, "--steps", "100000000", "--evaluate", "no", "--checkpoint",
             "c.safetensors", "--checkpoint-every", "5steps", "--json"])
wait_for("c.safetensors")
job.send_signal(signal.SIGUSR1)
time.sleep(0.002)
job.send_signal(signal.SIGUSR1)
out, said = job.communicate(timeout=QUICK)
check(job.returncode == 75, "SIGUSR1: exit code", job.returncode, said)
check(json.loads(out)["stop"] == "canceled" and json.loads(out)["checkpoint"] == "c.safetensors", out)
again = re.search("^continue with: (.*)$", said, re.M)
check(again and again[1].startswith(" ".join([*launcher, "2"]) + " fast train "), said)

# Ranks agree to stop every 32 steps: a checkpoint that is due at the same step is saved once.
job = start([*launcher, "2", fast, *SMALL, *SHARED, "--steps", "100000000", "--evaluate", "no", "--strategy",
             "elastic_sync", "--checkpoint", "e.safetensors", "--checkpoint-every", "32steps"])
wait_for("e.safetensors")
job.send_signal(signal.SIGUSR1)
out, said = job.communicate(timeout=QUICK)
check(job.returncode == 75, "SIGUSR1 at a checkpoint: exit code", job.returncode, said)

# Ctrl-C is a signal that mpirun answers itself, with 1: the run is saved all the same.
job = start([*launcher, "2", fast, *SMALL, *SHARED, "--steps", "100000000", "--evaluate", "no", "--checkpoint",
             "i.safetensors", "--checkpoint-every", "5steps"])
wait_for("i.safetensors")
job.send_signal(signal.SIGINT)
out, said = job.communicate(timeout=QUICK)
check(job.returncode != 0 and "saved in i.safetensors" in said, "SIGINT:", job.returncode, said)

# The script of docs/mpi.md turns Ctrl-C into 75.
page = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "mpi.md")).read()
script = re.search("```bash\n(.*?)```", page, re.S)[1]
line = " ".join([*launcher, "2", fast, *SMALL, *SHARED, "--steps 100000000 --evaluate no --checkpoint s.safetensors",
                 "--checkpoint-every 5steps"])
check("mpirun -n 4 fast train ..." in script, script)
job = start(["bash", "-c", script.replace("mpirun -n 4 fast train ...", line)])
wait_for("s.safetensors")
job.send_signal(signal.SIGINT)
out, said = job.communicate(timeout=QUICK)
check(job.returncode == 75, "the script: exit code", job.returncode, said)

# A rank that hangs for good, in the middle: the others of an asynchronous run come to the end, with the result and its
# exit code.
with open("hang.err", "w") as errors:
    job = subprocess.Popen([*launcher, "3", fast, *SMALL, "--workers", "3", "--transport", "mpi", "--strategy",
                            "gossip_async", "--steps", "16000", "--evaluate", "500steps", "--timeout", "1.5", "--json"],
                           env=env, text=True, stdout=subprocess.PIPE, stderr=errors)
for _ in range(QUICK * 50):
    if "step 500/" in open("hang.err").read():
        break
    time.sleep(0.02)
ranks = [int(pid) for pid in open(f"/proc/{job.pid}/task/{job.pid}/children").read().split()]
check(len(ranks) == 3, "the ranks of mpirun:", ranks, open("hang.err").read())
os.kill(ranks[2], signal.SIGSTOP)
out, _ = job.communicate(timeout=QUICK)
said = open("hang.err").read()
check(job.returncode == 0 and json.loads(out)["workers_lost"] == 1, "a hung rank: exit code", job.returncode, said)
check("worker 2 does not answer" in said, said)

# Ranks without a worker are mentioned, once.
code, out, said = run("--steps", "3")
check(code == 0 and said.count("note: 2 ranks were started, and each trains all of this run") == 1, code, said)
code, out, said = run("--steps", "3", "--transport", "mpi")
check(code == 0 and said.count("note: 2 ranks were started for 1 worker(s)") == 1, code, said)
code, out, said = run("--steps", "3", *SHARED)
check(code == 0 and "note" not in said, code, said)

# A checkpoint that one rank does not find: it says so at once, with its machine, and the job ends.
os.mkdir("a"), os.mkdir("b")
os.rename("c.safetensors", "a/c.safetensors")
flags = [*SMALL, *SHARED, "--steps", "100000000", "--evaluate", "no", "--resume", "c.safetensors", "--timeout", "600"]
begin = time.monotonic()
job = start([*launcher, "1", "-wdir", home + "/a", fast, *flags, ":", *launcher[1:], "1", "-wdir", home + "/b", fast,
             *flags])
out, said = job.communicate(timeout=QUICK)
check(job.returncode != 0 and re.search(r'rank 1 on \S+: cannot read "c.safetensors"', said), job.returncode, said)
check(time.monotonic() - begin < QUICK / 2, "a lost checkpoint takes", time.monotonic() - begin)

# A rank that fails after the ranks have met, here the first one alone: all end at once, and the others name it.
begin = time.monotonic()
code, out, said = run(*SHARED, "--steps", "8", "--timeout", "600", "--tensorboard", "/proc/nowhere")
check(code != 0 and re.search(r"rank 0 on \S+: cannot make the folder", said), code, said)
check(re.search(r"rank 1 on \S+: mpi: rank 0 \(on \S+\) cannot take part: cannot make the folder", said), said)
check(time.monotonic() - begin < QUICK / 2, "a run that does not open takes", time.monotonic() - begin)


# Training losses are of all replicas, whatever process they are in, at each evaluation and at the end.
def losses(program, flags):
    if os.path.exists("log"):
        os.remove("log")
    job = start([*program, *SMALL, *flags, "--epochs", "2", "--evaluate", "2steps", "--log", "log", "--json", "--quiet"])
    out, said = job.communicate(timeout=QUICK)
    check(job.returncode == 0, flags, said)
    log = [json.loads(line) for line in open("log")]
    return [(line["loss"], line["train_accuracy"]) for line in [*log, json.loads(out)]]


for flags in (["--workers", "2"], ["--workers", "3"], ["--workers", "2", "--strategy", "local:period=3"],
              ["--workers", "2", "--strategy", "zero"], ["--workers", "2", "--strategy", "gossip"],
              ["--mesh", "data=2"], ["--mesh", "data=2,pipe=2", "--accumulate", "2"]):
    alone, ranks = losses([fast], flags), losses([*launcher, "2", fast], [*flags, "--transport", "mpi"])
    check(len(alone) > 2 and alone == ranks, flags, alone, ranks)

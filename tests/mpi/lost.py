"""What happens to a job whose rank is lost: the rest ends within seconds and says who it was.

Usage: lost.py PROGRAM RANKS LAUNCHER... The program is lost.c. Also started without a launcher: as
one rank, and inside what a batch system leaves in the environment of a shell.
"""
import os
import subprocess
import sys
import time

program, ranks, launcher = sys.argv[1], sys.argv[2], sys.argv[3:]
last = int(ranks) - 1
QUICK = 60  # seconds; the machine may be busy, and the run's own timeout is longer where it says so
TRIALS = 5
failed = []


def check(name, command, good, texts, environment=None):
    # Who was lost by a signal or exit() is mpirun's to say. Now and then it fails at its own help
    # text ("ORTE_ERROR_LOG: Out of resource in file .../show_help.c") and says nothing: try again.
    for _ in range(TRIALS):
        begin = time.monotonic()
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=QUICK,
                                    env={**os.environ, **(environment or {})})
        except subprocess.TimeoutExpired:
            failed.append(f"{name}: still running after {QUICK} s")
            return
        took = time.monotonic() - begin
        said = result.stdout + result.stderr
        if "show_help.c" not in said:
            break
    if (result.returncode == 0) != good:
        failed.append(f"{name}: exit status {result.returncode} after {took:.1f} s\n{said}")
    for text in texts:
        if text not in said:
            failed.append(f"{name}: does not say \"{text}\" but\n{said}")


def job(how, *more):
    return [*launcher, ranks, program, how, *more]


check("well", job("well"), True, ["all went well"])
check("kill", job("kill", "timeout=600"), False, [f"rank {last}"])
check("exit", job("exit", "timeout=600"), False, [f"rank {last}"])
# A rank reports the first of its actors that failed: with a rank for each, the culprit too.
check("fail", job("fail", "timeout=600"), False,
      ["worker 3 left", *(["worker 3: the disk is full"] if last == 3 else [])])
# A stopped rank is silent: only deadlines help. The others name it and abort the job.
check("stop", job("stop", "timeout=5"), False, ["for worker 3"])
# A rank that hangs while the job starts: the others do not wait for it at their exit.
if last == 1:
    check("absent", job("absent", "timeout=1"), False, ["the start took too long: a rank does not answer"])
check("alone", [program, "well"], True, ["all went well"])
check("alone, fail", [program, "fail"], False, ["worker 3 left"])
check("in a batch job", [program, "well"], True, ["all went well"],
      {"SLURM_JOB_ID": "7", "SLURM_JOBID": "7", "SLURM_NODELIST": "localhost", "SLURM_NNODES": "1",
       "SLURM_NTASKS": "2", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"})
if failed:
    sys.exit("\n".join(failed))

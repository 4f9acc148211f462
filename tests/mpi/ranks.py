# SPDX-License-Identifier: Apache-2.0
"""mpirun for tests: ranks.py MPIRUN... runs it, and ends as it does.

Open MPI's mpirun sometimes stands still in PMIx_server_finalize() after all ranks have ended, its threads waiting for each
other. The ranks are zombies then, and their exit codes are in /proc: after PATIENCE_S without a change mpirun is killed,
and the largest of them is the exit code. A rank that still runs is never interrupted: that is the timeout's business."""
import os
import subprocess
import sys
import time

PATIENCE_S = 10


def children_of(pid):
    """The (pid, state, exit code) of its children. A field of stat that holds a name may have spaces."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            for child in file.read().split():
                with open(f"/proc/{child}/stat") as stat:
                    fields = stat.read().rpartition(")")[2].split()
                found.append((child, fields[0], int(fields[-1])))
    return sorted(found)


def main():
    run = subprocess.Popen(sys.argv[1:])
    ended, since = None, 0
    while True:
        try:
            return run.wait(timeout=1)
        except subprocess.TimeoutExpired:
            pass
        try:
            now = children_of(run.pid)
        except OSError:  # it ended meanwhile, or there is no such /proc
            continue
        if not now or any(state != "Z" for _, state, _ in now):
            ended = None
        elif now != ended:
            ended, since = now, time.monotonic()
        elif time.monotonic() - since > PATIENCE_S:
            print("mpirun stands still after its ranks have ended; killed", file=sys.stderr)
            run.kill()
            run.wait()
            return max(code >> 8 if code & 127 == 0 else 128 + (code & 127) for _, _, code in now)


if __name__ == "__main__":
    sys.exit(main())

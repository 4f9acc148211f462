"""Random faults on real processes. Goal: no job hangs past its deadline, errors name the culprit, checkpoints resume to
the same hash, and exit codes are as documented. Method: the seed draws a kind of fault, a strategy, the number of ranks
and workers, and the moment; the job is started, hurt and checked. The same model without faults, on threads, has the
hash that synchronous strategies must reach, at once or after a resume.

Usage: campaign.py FAST JUMP [--count N] [--seed S] [--jobs J] [--only KIND] [--launcher WORDS]

JUMP is the library of jump.c. A schedule is repeated by `--count 1 --seed S`. Link cuts need network namespaces and
full disks a mount, both of root; without they are skipped, with a message.
"""
import argparse
import concurrent.futures
import functools
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

import jobs

TIMEOUT = 1.5  # seconds that a worker waits for another, where the fault is a matter of deadlines
PATIENCE = 5.0  # elsewhere: a thread of a busy machine may get no core for a second
SLACK = 20.0  # seconds that a busy machine may need on top of any deadline
SAME = ["allreduce", "ps:slack=0", "local:period=4", "gossip", "elastic_sync", "allreduce:algorithm=ring"]
FREE = ["ps", "gossip_async", "elastic", "ps:slack=3", "partial", "mpca", "dogwild", "gossip_async:how=push,p=0.1"]
SERVED = ("ps", "elastic", "mpca", "dogwild")  # worker 0's rank has a server, which is not to be lost
lock = threading.Lock()


class Broken(Exception):
    """A promise that did not hold."""


def expect(holds, *why):
    if not holds:
        raise Broken(" ".join(map(str, why)))


@functools.lru_cache(maxsize=None)
def reference(strategy, workers):
    """Hash of the run without faults."""
    code, result, said = jobs.run(jobs.train("threads", 1, workers, strategy, timeout=60))
    expect(code == 0, "the run without faults failed", said)
    return result["params_hash"]


def known(strategy, workers):
    with lock:
        return reference(strategy, workers)


class Schedule:
    """A job with one fault, drawn from a seed, and what became of it."""

    def __init__(self, seed, kind, count):
        self.random = random.Random(seed)
        self.seed, self.kind = seed, kind
        transport, _, self.fault = kind.partition(" ")
        self.transport = transport
        self.ranks = self.random.choice([2, 3]) if transport == "mpi" else 1
        self.workers = self.ranks + self.random.randint(0, 1) if transport == "mpi" else self.random.choice([2, 3])
        self.same = self.fault not in ("hang free", "pause free") and self.random.random() < 0.75
        if self.fault == "hang same":
            self.same = True
        self.strategy = self.random.choice(SAME if self.same else FREE)
        if self.fault == "standstill":  # every family in turn
            self.strategy = (SAME + FREE)[seed // count % len(SAME + FREE)]
            self.same = self.strategy in SAME
        self.folder = jobs.folder()
        self.files = ["--checkpoint", "c.safetensors", "--checkpoint-every", f"{jobs.EVERY}steps"] if self.same else []
        self.timeout = TIMEOUT if self.fault.split(" ")[0] in ("hang", "pause", "standstill", "cut") else PATIENCE
        self.words = jobs.train(transport, self.ranks, self.workers, self.strategy, *self.files, timeout=self.timeout)
        self.job = None
        self.note = ""

    def start(self, words=None, **environment):
        """Start the job and wait for a random moment of its training."""
        self.job = jobs.Job(self.folder, words or self.words, **environment)
        expect(self.job.wait_for("workers: strategy", SLACK) or self.job.ended(), "it did not start")
        time.sleep(self.random.uniform(0, 0.4))

    def finish(self, limit):
        """The exit code, in time, and no process left. A rank that stops after the result is printed holds mpirun up in
        MPI_Finalize(), which has no deadline."""
        code = self.job.wait(limit + SLACK)
        if code is None and self.fault.startswith("hang") and self.job.result():
            self.note = ", after the result"
            self.job.close()
            return 0
        expect(code is not None, f"it still runs {limit + SLACK:g} s later", self.job.stacks() if code is None else "")
        expect(not self.job.left(5), "processes are left", self.job.left(0))
        return code

    def victim(self):
        """A rank to lose: not the one with the server of an asynchronous strategy."""
        spared = not self.same and self.strategy.split(":")[0] in SERVED
        return self.random.randrange(1 if spared else 0, self.ranks)

    def expect_done(self, code):
        """It came to its end, with the hash of the run without faults."""
        result = self.job.result()
        expect(code == 0 and result, "exit code", code)
        expect(result["stop"] == "done", "stop is", result["stop"])
        if self.same:
            expect(result["params_hash"] == known(self.strategy, self.workers), "another hash", result["params_hash"])

    def expect_named(self, rank):
        """Errors name a worker of the rank, and accuse no other."""
        said = self.job.said()
        accused = [re.findall(r"(?:worker|server|: rank) \d+", line.split("does not answer")[0])[-1:]
                   for line in said.splitlines() if "does not answer" in line or "had waited for" in line]
        named = {name for names in accused for name in names}
        expect(named, "nobody is named")
        expect(all(int(name.split(" ")[-1]) % self.ranks == rank for name in named), named, "accused, but rank", rank,
               "hung")

    def expect_resumes(self):
        """The last checkpoint is whole and continues to the hash of the run without faults."""
        path = self.folder + "/c.safetensors"
        if not self.same or not os.path.exists(path):
            self.note += ", no checkpoint"
            return
        flags = ["--resume", path, "--checkpoint", path]
        ranks = self.ranks if self.transport == "mpi" and self.random.random() < 0.25 else 1
        words = jobs.train("mpi" if ranks > 1 else "threads", ranks, self.workers, self.strategy, *flags, timeout=60)
        code, result, said = jobs.run(words)
        expect(code == 0, "the resume failed:", " ".join(words), said)
        expect(result["params_hash"] == known(self.strategy, self.workers), "the resume has another hash",
               result["params_hash"])
        rest = [name for name in os.listdir(self.folder) if name.endswith(".tmp")]
        expect(not rest, "temporary files are left", rest)

    def close(self):
        if self.job:
            self.job.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def kill(s):
    """SIGKILL of one process. mpirun ends the others and says which rank it was."""
    s.start()
    rank = s.random.randrange(s.ranks)
    early = s.job.ended()
    s.job.signal([s.job.ranks().get(rank, s.job.process.pid)], signal.SIGKILL)
    code = s.finish(2)
    if code == 0:
        s.note = ", too late"
        return s.expect_done(code)
    expect(not early, "it ended by itself:", code)
    if s.transport == "mpi":
        said = s.job.said()
        expect(f"rank {rank}" in said or "show_help.c" in said, "rank", rank, "is not named")
    else:
        expect(code == -signal.SIGKILL, "exit code", code)
    s.expect_resumes()


def kill_launcher(s):
    """SIGKILL of mpirun: no rank outlives it."""
    s.start()
    s.job.signal([s.job.process.pid], signal.SIGKILL)
    s.finish(2)
    s.expect_resumes()


def hang(s):
    """SIGSTOP of one rank for good: within two timeouts a synchronous run ends, an asynchronous one continues."""
    s.start()
    rank = s.victim()
    ranks = s.job.ranks()
    if rank in ranks:
        s.job.signal([ranks[rank]], signal.SIGSTOP)
    # A rank that nobody waits for is left after ten timeouts, and so is the first one if it may save a checkpoint.
    code = s.finish((14 if rank == 0 or not s.same else 3) * TIMEOUT)
    result = s.job.result()
    if code == 0 and result and not result["workers_lost"]:
        s.note = ", too late"
        return s.expect_done(code)
    if s.same:
        expect(code == 1, "exit code", code)
        s.expect_named(rank)
        return s.expect_resumes()
    if rank == 0 or "does not answer" in s.job.said():
        s.expect_named(rank)
    if rank > 0:
        expect(result and result["stop"] == "done" and result["workers_lost"], "no result")
        expect(code == (1 if 2 * result["workers_lost"] > s.workers else 0), "exit code", code)


def pause(s):
    """SIGSTOP of one rank for a while. Below the timeout nothing is to be seen; beyond it is as if it hung."""
    length = TIMEOUT * s.random.choice([0.1, 0.3, 0.5, 1.3, 2.0, 2.5])
    s.note = f", {length:g} s"
    s.start()
    rank = s.victim()
    pids = [pid for number, pid in s.job.ranks().items() if number == rank]
    s.job.signal(pids, signal.SIGSTOP)
    time.sleep(length)
    s.job.signal(pids, signal.SIGCONT)
    code = s.finish(3 * TIMEOUT)
    if code == 0:
        return s.expect_done(code)
    expect(length > TIMEOUT, "it ended in a pause below the timeout:", code)
    expect(s.same or rank == 0, "an asynchronous run ended:", code)
    s.expect_named(rank)
    s.expect_resumes()


def standstill(s):
    """All processes are suspended: the run continues."""
    length = TIMEOUT * s.random.uniform(0.5, 3)
    s.note = f", {length:.2g} s"
    s.start()
    pids = jobs.session(s.job.process.pid)
    s.job.signal(pids, signal.SIGSTOP)
    time.sleep(length)
    s.job.signal(pids, signal.SIGCONT)
    s.expect_done(s.finish(3 * TIMEOUT))


def stop(s):
    """A signal that asks for the end: saved, 75, and the rest of the steps gives the same hash."""
    number = signal.SIGUSR1 if s.transport == "mpi" else s.random.choice([signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
    s.note = f", {number.name}"
    s.start()
    s.job.signal([s.job.process.pid], number)
    code = s.finish(2 * TIMEOUT)
    if code == 0 or (code == -number and s.job.result()):  # the end of mpirun does not know the signal
        s.note += ", too late"
        return s.expect_done(0)
    expect(code == (75 if s.same else 130), "exit code", code)
    expect(s.job.result()["stop"] == "canceled", s.job.result()["stop"])
    s.expect_resumes()


def disk(s):
    """A disk that is full: the result is printed, and the files are elsewhere and continue."""
    place = s.folder + "/disk"
    os.mkdir(place)
    size = s.random.choice([8, 40, 64, 100, 160])
    limited = s.transport == "threads" and s.random.random() < 0.3  # mpirun itself needs larger files
    s.note = f", {'files of ' if limited else ''}{size} kB"
    flags = ["--save", "disk/w.safetensors"]
    if s.same:
        flags += ["--checkpoint", "disk/c.safetensors", "--checkpoint-every", f"{jobs.EVERY}steps"]
    words = jobs.train(s.transport, s.ranks, s.workers, s.strategy, *flags, timeout=s.timeout)
    if limited:
        words = ["bash", "-c", f'ulimit -f {size}; exec "$@"', "bash", *words]
    else:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", place], check=True, capture_output=True)
    try:
        s.start(words)
        code = s.finish(2 * TIMEOUT)
        result = s.job.result()
        expect(code in (0, 1) and result, "exit code", code)
        expect(result["stop"] == "done", "stop is", result["stop"])
        expect((code == 1) == ("error" in result), "exit code", code, "with error", result.get("error"))
        if s.same:
            expect(result["params_hash"] == known(s.strategy, s.workers), "another hash", result["params_hash"])
        for key in ("checkpoint", "weights"):
            path = result.get(key)
            expect(path is None or os.path.exists(os.path.join(s.folder, path)), key, path, "does not exist")
        expect(limited or result.get("weights"), "the weights are nowhere")
        if s.same and result.get("checkpoint") and "error" not in result:
            shutil.copy(os.path.join(s.folder, result["checkpoint"]), s.folder + "/c.safetensors")
            s.expect_resumes()
    finally:
        if not limited:
            subprocess.run(["umount", "-l", place])


def clock(s):
    """A clock that jumps, on one rank: nobody is lost."""
    path = s.folder + "/clock"
    ahead = [0, 0]
    with open(path, "wb") as file:
        file.write(struct.pack("qq", *ahead))
    more = {"FAST_JUMP_RANK": str(s.random.randrange(s.ranks))} if s.transport == "mpi" else {}
    s.start(LD_PRELOAD=jobs.jump, FAST_JUMP=path, **more)
    for _ in range(s.random.randint(1, 3)):
        which = s.random.randrange(2)
        by = s.random.choice([0.5, 3, 100, 1e5]) * (1 if which == 0 else s.random.choice([-1, 1]))
        s.note += f", {'date' if which else 'clock'} by {by:g} s"
        ahead[which] += int(by * 1e9)
        with open(path, "r+b") as file:
            file.write(struct.pack("qq", *ahead))
        time.sleep(s.random.uniform(0, 0.2))
    s.expect_done(s.finish(3 * TIMEOUT))


def cut(s):
    """A link that is cut between two machines: this side ends, or continues, and names the other side."""
    hosts = jobs.Hosts(s.folder)
    try:
        wrap, environment = hosts.wrap()
        at = s.words.index("-n")
        where = ["--host", f"{hosts.addresses[0]}:1,{hosts.addresses[1]}:{s.ranks - 1}"]
        s.start([*wrap, *s.words[:at], *where, *s.words[at:]], **environment)
        own = s.job.ranks().get(0)
        hosts.cut()
        until = time.monotonic() + 4 * TIMEOUT + SLACK
        while not s.job.ended() and own in jobs.session(s.job.process.pid):
            expect(time.monotonic() < until, "rank 0 still runs")
            time.sleep(0.02)
        said = s.job.said()
        if s.job.result() and not s.job.result().get("workers_lost"):
            s.note = ", too late"
            return
        lost = "ORTE has lost communication with a remote daemon"  # mpirun was first, and names the machine
        expect("does not answer" in said or lost in said, "nobody is named")
        s.job.close()
        s.expect_resumes()
    finally:
        if s.job:
            s.job.close()
        hosts.close()


KINDS = {"threads kill": kill, "mpi kill": kill, "mpi hang same": hang, "mpi standstill": standstill,
         "threads disk": disk, "mpi clock": clock, "mpi stop": stop, "mpi hang free": hang, "threads standstill": standstill,
         "mpi pause": pause, "threads clock": clock, "mpi cut": cut, "mpi pause free": pause, "mpi disk": disk,
         "threads stop": stop, "mpi launcher": kill_launcher}


def can(kind):
    """Whether this machine lets us do it."""
    try:
        if kind == "mpi cut":
            jobs.Hosts.ip("netns", "add", "fastprobe")
            jobs.Hosts.ip("netns", "delete", "fastprobe")
        elif kind.endswith("disk"):
            place = jobs.folder()
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=True, capture_output=True)
            subprocess.run(["umount", place], check=True)
            os.rmdir(place)
    except (OSError, subprocess.CalledProcessError):
        return False
    return not kind.startswith("mpi") or bool(jobs.launcher)


def play(seed, kind, count):
    """One schedule of `count` kinds in turn. Returns its line, and its log if a promise was broken."""
    s = Schedule(seed, kind, count)
    begun, log = time.monotonic(), None
    try:
        KINDS[kind](s)
    except Broken as why:
        log = f"{why}\ncommand: {s.job.shown if s.job else s.words}\n{s.job.said() if s.job else ''}"
    finally:
        s.close()
    line = (f"{seed}: {kind}, {s.strategy}, {s.workers} workers on {s.ranks} ranks{s.note}: "
            f"{'BROKEN' if log else 'holds'} ({time.monotonic() - begun:.1f} s)")
    return line, log


def main():
    words = argparse.ArgumentParser()
    words.add_argument("fast"), words.add_argument("jump")
    words.add_argument("--count", type=int, default=20), words.add_argument("--seed", type=int, default=1)
    words.add_argument("--jobs", type=int, default=4), words.add_argument("--only", default="")
    words.add_argument("--launcher", default="mpirun -n")
    line = words.parse_args()
    jobs.fast, jobs.jump, jobs.launcher = os.path.abspath(line.fast), os.path.abspath(line.jump), line.launcher.split()
    names = [kind for kind in KINDS if line.only in kind]
    allowed = {kind: can(kind) for kind in names}
    for kind in names:
        if not allowed[kind]:
            print(f"skipped, as this machine does not allow it: {kind}")
    plays = [(seed, names[seed % len(names)], len(names)) for seed in range(line.seed, line.seed + line.count)]
    broken = 0
    with concurrent.futures.ThreadPoolExecutor(line.jobs) as pool:
        for result in concurrent.futures.as_completed([pool.submit(play, *p) for p in plays if allowed[p[1]]]):
            text, log = result.result()
            broken += log is not None
            print(text, flush=True)
            if log:
                only = f" --only '{line.only}'" if line.only else ""
                print(f"{log}\nrepeat: {sys.argv[0]} {line.fast} {line.jump} --count 1 --seed {text.split(':')[0]}{only}\n")
    print(f"{line.count} schedules, {broken} broken")
    sys.exit(broken > 0)


main()

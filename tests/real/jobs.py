"""Real jobs of the fault campaign: `fast train` as one process with threads, or on the ranks of mpirun, each in a
folder and a session of its own, with the means to hurt them."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_plm": "isolated", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "vader,self",
       "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_hwloc_base_binding_policy": "none",
       "OMP_NUM_THREADS": "1"}
STEPS = 1500
EVERY = 20  # steps between two checkpoints
COMMON = ["--engine", "ref", "--model", "mlp:hidden=8", "--data", "digits:train=64,test=16", "--batch", "8", "--seed",
          "3", "--store", "none", "--evaluate", "no", "--schedule", "constant", "--plan", "no", "--json", "--steps",
          str(STEPS)]
fast = launcher = jump = None  # set by the campaign: the program, mpirun with its flags, the library of jump.c


def session(pid):
    """Processes of a session: of a job, with all that it has started."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit():
                fields = open(f"/proc/{name}/stat").read().rsplit(")", 1)[1].split()
                if int(fields[3]) == pid and fields[0] != "Z":
                    found.append(int(name))
        except OSError:
            pass  # it has ended
    return found


class Job:
    """One command, started in its folder: its files `out` and `err`, and its processes."""

    def __init__(self, folder, words, **environment):
        self.folder, self.words = folder, words
        more = {"FAST_HOME": folder + "/home", "XDG_DATA_HOME": folder + "/home", "TMPDIR": folder, **environment}
        self.shown = " ".join([f"{k}={v}" for k, v in environment.items()] + words)
        self.files = [open(f"{folder}/{name}", "w") for name in ("out", "err")]
        self.begun = time.monotonic()
        self.process = subprocess.Popen(words, cwd=folder, env={**os.environ, **MPI, **more}, stdin=subprocess.DEVNULL,
                                        stdout=self.files[0], stderr=self.files[1], start_new_session=True)

    def read(self, name):
        return open(f"{self.folder}/{name}", errors="replace").read()

    def said(self):
        return self.read("out") + self.read("err")

    def ended(self):
        return self.process.poll() is not None

    def wait_for(self, text, limit):
        """True when standard error has the text; False if the job ends or takes longer."""
        until = time.monotonic() + limit
        while time.monotonic() < until:
            if text in self.read("err"):
                return True
            if self.ended():
                return False
            time.sleep(0.005)
        return False

    def ranks(self):
        """Process of each rank; of a job without mpirun the process itself."""
        found = {}
        for pid in session(self.process.pid):
            try:
                variables = open(f"/proc/{pid}/environ").read().split("\0")
                program = os.readlink(f"/proc/{pid}/exe")
            except OSError:
                continue
            rank = [v.split("=")[1] for v in variables if v.startswith("OMPI_COMM_WORLD_RANK=")]
            if rank and os.path.samefile(program, fast):
                found[int(rank[0])] = pid
        return found or {0: self.process.pid}

    def signal(self, pids, number):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def wait(self, limit):
        """The exit code; None if it is still running after `limit` seconds."""
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            return None

    def left(self, limit):
        """Processes that are still there `limit` seconds after the job has ended."""
        until = time.monotonic() + limit
        while session(self.process.pid) and time.monotonic() < until:
            time.sleep(0.02)
        return session(self.process.pid)

    def stacks(self):
        """Where its ranks are, if there is a debugger."""
        if not shutil.which("gdb"):
            return ""
        return "".join(subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 12"], text=True,
                                      capture_output=True).stdout for pid in self.ranks().values())

    def close(self):
        """End whatever is left."""
        while session(self.process.pid):
            self.signal(session(self.process.pid), signal.SIGKILL)
            time.sleep(0.02)
        self.process.wait()
        for file in self.files:
            file.close()

    def result(self):
        """The object of --json; None without one."""
        lines = self.read("out").splitlines()
        try:
            return json.loads(lines[-1]) if lines else None
        except ValueError:
            return None


def train(transport, ranks, workers, strategy, *flags, timeout=1.0, wrap=()):
    """The words of a command."""
    words = [fast, "train", *COMMON, "--workers", str(workers), "--transport", transport, "--strategy", strategy,
             "--timeout", str(timeout), *flags]
    return [*wrap, *launcher, str(ranks), *words] if transport == "mpi" else [*wrap, *words]


def folder():
    return tempfile.mkdtemp(prefix="fast-real-")


def run(words, limit=60):
    """Run a command to its end in a folder of its own. Returns its exit code, its result and what it said."""
    place = folder()
    job = Job(place, words)
    code = job.wait(limit)
    job.close()
    result, said = job.result(), job.said()
    shutil.rmtree(place, ignore_errors=True)
    return code, result, said


class Hosts:
    """Two network namespaces with a link between them: a machine for the first rank, and one for the others."""

    count = 0

    def __init__(self, place):
        Hosts.count += 1
        self.names = [f"fast{os.getpid()}x{Hosts.count}{side}" for side in "ab"]
        net = f"10.{os.getpid() % 200 + 20}.{Hosts.count % 250}"
        self.agent = place + "/agent"
        self.addresses = [net + ".1", net + ".2"]
        a, b = self.names
        for name in self.names:
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
        self.ip("-n", a, "link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", b)
        for name, address in zip(self.names, self.addresses):
            self.ip("-n", name, "address", "add", address + "/24", "dev", "v0")
            self.ip("-n", name, "link", "set", "v0", "up")
        with open(self.agent, "w") as file:
            file.write(f"#!/bin/sh\nshift\nexec {' '.join(self.inside(b))} sh -c \"$*\"\n")
        os.chmod(self.agent, 0o755)

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    @staticmethod
    def inside(name):
        return ["ip", "netns", "exec", name, "unshare", "-u", "sh", "-c", f"'hostname {name[4:]};", 'exec "$0" "$@"\'']

    def wrap(self):
        """Words before mpirun, and the environment in which it reaches both machines."""
        words = ["sh", "-c", " ".join(self.inside(self.names[0])) + ' "$0" "$@"']
        mpi = {"OMPI_MCA_plm": "rsh", "OMPI_MCA_plm_rsh_agent": self.agent, "OMPI_MCA_btl": "tcp,self",
               "OMPI_MCA_btl_tcp_if_include": "v0", "OMPI_MCA_oob_tcp_if_include": "v0",
               "OMPI_MCA_oob_tcp_keepalive_time": "2", "OMPI_MCA_oob_tcp_keepalive_intvl": "1",
               "OMPI_MCA_oob_tcp_keepalive_probes": "2"}
        return words, mpi

    def cut(self):
        self.ip("-n", self.names[0], "link", "set", "v0", "down")

    def close(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

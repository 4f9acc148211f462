#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How close is a simulated step to a real one, from a cluster file that was measured?

Three hosts are network namespaces of this machine, connected by bench/switch.c with a delay, a
bandwidth and a loss. On each of three networks `fast bench cluster` measures a cluster file; then
seven systems, one of each family, train over MPI on the three hosts and in the simulator from that
file. Needs root, /dev/net/tun and Open MPI:

    cmake --build --preset release --target fast bench_switch
    bench/real_simulated.py --report

A step is the time between the starts of a worker's gradients, from timelines of all ranks: the mean
after the first quarter of the steps, in which TCP's windows grow, over all workers; the median of
the runs counts. Both sides use the same statistic and seeds. Ranks have a real-time priority, since
a rank that waits for a core is no property of a network. Expected: within 25% in at least 18 of 21
cases. --report writes results/real-simulated.csv; --network and --system repeat some cases.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
import results  # noqa: E402

NETWORKS = {  # name: flags of the switch, steps of a run
    "5 ms": (["--delay", "5"], 200),
    "100 Mbit/s": (["--mbit", "100"], 100),
    "5 ms, 100 Mbit/s, 1% loss": (["--delay", "5", "--mbit", "100", "--loss", "1"], 60),
}
SYSTEMS = ["bsp", "horovod", "ssp", "easgd", "d-psgd", "ad-psgd", "downpour"]
RARE = {"easgd": 4, "downpour": 4}  # systems that exchange every few steps run this many times the steps
HOSTS = ["fast1", "fast2", "fast3"]
JOB = ["--data", "digits:train=4000,test=1000", "--model", "mlp:hidden=64", "--batch", "32", "--workers", "3",
       "--evaluate", "no", "--store", "none"]
AGENT = """#!/bin/sh
# Start a command of mpirun on a host: AGENT ADDRESS COMMAND...
host=fast${1##*.}
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0"; exec sh -c "$*"' "$host" "$@"
"""
COLUMNS = ["network", "system", "measured, ms", "simulated, ms", "measured by simulated", "within 25%"]


class Network:
    """Three namespaces and their switch; `with` takes it down again."""

    def __init__(self, switch, flags):
        self.folder = tempfile.TemporaryDirectory(prefix="fast-net-")
        self.agent = os.path.join(self.folder.name, "agent")
        with open(self.agent, "w") as file:
            file.write(AGENT)
        os.chmod(self.agent, 0o755)
        self.command = [switch, "--seed", "1", *flags, *HOSTS]

    def __enter__(self):
        for host in HOSTS:
            subprocess.run(["ip", "netns", "add", host], check=True)
            subprocess.run(["ip", "netns", "exec", host, "ip", "link", "set", "lo", "up"], check=True)
        self.switch = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        if self.switch.stdout.readline().strip() != "ready":
            sys.exit("bench_switch did not start")
        for host in HOSTS:  # the usual congestion control of Linux, whatever this machine's default is
            subprocess.run(["ip", "netns", "exec", host, "ip", "route", "replace", "10.77.0.0/24", "dev", "fast0",
                            "congctl", "cubic", "proto", "kernel", "scope", "link"], check=True)
        return self

    def __exit__(self, *unused):
        self.switch.send_signal(signal.SIGTERM)
        print("switch:", self.switch.communicate()[0].strip(), file=sys.stderr)
        for host in HOSTS:
            subprocess.run(["ip", "netns", "del", host], check=False)
        self.folder.cleanup()

    def mpirun(self, *command):
        """Run a command on all hosts, one rank each; its standard output."""
        environment = dict(
            os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_plm="rsh",
            OMPI_MCA_plm_rsh_agent=self.agent, OMPI_MCA_pml="ob1", OMPI_MCA_btl="tcp,self", OMP_NUM_THREADS="1",
            OMPI_MCA_btl_tcp_if_include="fast0", OMPI_MCA_oob_tcp_if_include="fast0",
            OMPI_MCA_hwloc_base_binding_policy="none")
        hosts = ",".join(f"10.77.0.{i + 1}" for i in range(len(HOSTS)))
        first = ["chrt", "--rr", "1", "ip", "netns", "exec", HOSTS[0], "unshare", "--uts", "sh", "-c",
                 'hostname "$0"; exec "$@"', HOSTS[0]]
        return run([*first, "mpirun", "--host", hosts, "-n", str(len(HOSTS)), *command], environment)


def run(command, environment=None):
    """Run a command; its standard output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def step_ms(paths):
    """The mean step of all workers in some timelines, in milliseconds, without the first quarter."""
    means = []
    for path in paths:
        workers = {}
        with open(path) as file:
            for event in json.load(file)["traceEvents"]:
                if event["ph"] == "X" and event["name"] == "gradient":
                    workers.setdefault(event["tid"], []).append(event["ts"])
        for starts in workers.values():
            starts = sorted(starts)[len(starts) // 4:]
            means.append((starts[-1] - starts[0]) / (len(starts) - 1) / 1e3)
    return statistics.mean(means)


def measure(network, fast, folder, cluster, system, steps, seed):
    """One run on both sides: (measured, simulated) step in milliseconds."""
    trace = os.path.join(folder, "trace")
    job = [fast, "train", *JOB, "--system", system, "--steps", str(steps), "--seed", str(seed), "--trace", trace]
    network.mpirun(*job, "--transport", "mpi")
    measured = step_ms([trace, trace + ".1", trace + ".2"])
    run([*job, "--transport", "sim", "--cluster", cluster])
    return measured, step_ms([trace])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="folder of the release build")
    parser.add_argument("--runs", type=int, default=3, help="of each case")
    parser.add_argument("--network", action="append", choices=NETWORKS, help="only these")
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="only these")
    parser.add_argument("--files", default="", help="write the measured cluster files to this folder")
    parser.add_argument("--report", action="store_true", help="write the table to results/, and make the pages")
    options = parser.parse_args()
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        sys.exit("real_simulated.py needs root and /dev/net/tun for its network namespaces")

    signal.signal(signal.SIGTERM, lambda *unused: sys.exit("ended by a signal"))  # takes the network down
    fast, switch = (os.path.abspath(os.path.join(options.build, name)) for name in ("fast", "bench_switch"))
    table, close, begin = [], 0, time.monotonic()
    for name in options.network or NETWORKS:
        flags, steps = NETWORKS[name]
        with Network(switch, flags) as network, tempfile.TemporaryDirectory() as folder:
            cluster = os.path.join(options.files or folder, name.translate(str.maketrans(" ,/%", "____")) + ".yaml")
            with open(cluster, "w") as file:
                file.write(network.mpirun(fast, "bench", "cluster"))
            for system in options.system or SYSTEMS:
                pairs = [measure(network, fast, folder, cluster, system, steps * RARE.get(system, 1), seed)
                         for seed in range(1, options.runs + 1)]
                real, simulated = (statistics.median(side) for side in zip(*pairs))
                good = abs(real / simulated - 1) <= 0.25
                close += good
                table.append([name, system, f"{real:.3g}", f"{simulated:.3g}", f"{real / simulated:.2f}",
                              "yes" if good else "no"])
                print(f"{time.monotonic() - begin:5.0f} s ", *table[-1], [f"{a:.3g}/{b:.3g}" for a, b in pairs],
                      flush=True)
    print(f"{close} of {len(table)} within 25%")
    if options.report:
        head = {"machine": results.machine(), "date": results.today(),
                "command": ["bench/real_simulated.py " + " ".join(sys.argv[1:])]}
        results.publish([("real-simulated", head, COLUMNS, table)])


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is the memory of every process what was predicted when the run was opened?

Trains gpt and resnet56 with 1, 2, 4 and 8 processes over MPI, split into stages and into shards, with sharded state
and with recomputation. Each process prints the peak that it predicted and the one that the system measured. The
bound: within 10% of each other, for every process.

    ninja -C build/release bench_memory
    bench/memory.py --report

--report writes results/memory.csv. Peaks do not depend on the load of the machine.
"""
import argparse
import os
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools"))
import results  # noqa: E402

COLUMNS = ["model", "processes", "split", "predicted", "measured", "smallest ratio", "largest ratio"]
MODELS = {
    "gpt": "model=gpt:width=256,heads=4,depth=8 data=copy batch=8 optimizer=adam".split(),
    "resnet56": "model=resnet56 data=digits:train=640,test=64 batch=16".split(),
}
COMMON = "steps=2 evaluate=no engine=cpu plan=no store=none schedule=constant".split()
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
       "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "vader,self", "OMP_NUM_THREADS": "1"}


def splits(model, count):
    """Options of the ways to use a number of processes."""
    if count == 1:
        return [[], ["recompute=yes"]]
    ways = [["strategy=allreduce"]] + [[f"strategy=zero:stage={stage}"] for stage in (1, 2, 3)]
    ways = [[f"workers={count}", *way] for way in [*ways, ["strategy=zero:stage=3", "recompute=yes"]]]
    pipe = [f"mesh=pipe={count}", f"accumulate={count}"]
    ways += [pipe, [*pipe, "pipeline=gpipe", "recompute=yes"]]
    if model == "gpt" and count <= 4: # heads
        ways += [[f"mesh=tensor={count}"], [f"mesh=tensor={count}", "recompute=yes"]]
    if count > 2:
        ways.append([f"mesh=data=2,pipe={count // 2}", f"accumulate={count // 2}"])
    return ways


def train(options, model, count, way, folder):
    """Predicted and measured bytes of each process."""
    command = [os.path.join(options.build, "bench_memory"), *MODELS[model], *COMMON, *way]
    if count > 1:
        command = ["mpirun", "-n", str(count), *command, "transport=mpi"]
    out = subprocess.run(command, env=dict(os.environ, **MPI, FAST_HOME=folder), text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, timeout=600)
    lines = [line.split() for line in out.stdout.splitlines() if line.startswith("memory ")]
    if out.returncode != 0 or len(lines) != count:
        sys.exit(f"{shlex.join(command)}: {out.stderr.strip()}")
    return [(int(line[1]), int(line[2])) for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", help="folder of the release build")
    parser.add_argument("--models", default=",".join(MODELS), help="separated by commas")
    parser.add_argument("--workers", default="1,2,4,8", help="numbers of processes, separated by commas")
    parser.add_argument("--report", action="store_true", help="write the table of results/, and the pages")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models.split(","):
            for count in map(int, options.workers.split(",")):
                for way in splits(model, count):
                    peaks = train(options, model, count, way, folder)
                    ratios = [predicted / measured for predicted, measured in peaks]
                    predicted, measured = max(peaks, key=lambda peak: peak[1])
                    rows.append([model, count, " ".join(word for word in way if not word.startswith("workers=")) or "-",
                                 f"{predicted / 1e6:.0f} MB", f"{measured / 1e6:.0f} MB", f"{min(ratios):.2f}",
                                 f"{max(ratios):.2f}"])
                    print("{:9} {} {:45} {:>7} {:>7} {} to {}".format(*rows[-1]), flush=True)
    far = [row for row in rows if not (0.9 <= float(row[5]) and float(row[6]) <= 1.1)]
    print(f"{len(rows) - len(far)} of {len(rows)} within 10%")
    if options.report:
        head = {"page": "performance", "order": "95", "code": "model split",
                "title": "Peak memory of each process beside its prediction",
                "question": "Is the memory of every process what was predicted when the run was opened?",
                "machine": results.machine(), "date": results.today(),
                "command": ["ninja -C build/release bench_memory", "bench/memory.py " + shlex.join(sys.argv[1:])],
                "note": ["Predicted and measured are of the process with the highest peak; the ratios are the least and "
                         "the largest of all processes. gpt has width 256, 4 heads, depth 8 and adam, batch 8 of `copy`; "
                         "resnet56 batch 16 of `digits`; Open MPI over shared memory."]}
        results.publish([("memory", head, COLUMNS, rows)])


if __name__ == "__main__":
    main()

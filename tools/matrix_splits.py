#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""results/matrix-splits.csv: what goes with models in stages, in shards, in both, and in stages with replicas of their own.

    tools/matrix_splits.py build/release/fast [--only DIMENSION] [--jobs N]

A cell is a run on digits that takes a moment, on threads, in sim and on two ranks of mpi: it ends with a finite loss, or is
refused with a reason. The dimensions beside the mesh are every strategy; every codec, up with sums, averages, servers and
gossip, and down with servers; every topology of gossip; every update rule; every schedule of the stages; and every layout of
the shards. Cells of one dimension with equal outcomes are one row. --only measures one dimension, and prints it."""
import argparse
import concurrent.futures
import json
import math
import os
import re
import subprocess
import tempfile

import results

MESHES = ["data=2,pipe=2", "data=2,tensor=2", "data=2,pipe=2,tensor=2", "pipe=2,replicas=2x1"]
TRANSPORTS = ["threads", "sim", "mpi"]
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
       "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "vader,self", "OMP_NUM_THREADS": "1"}
NETWORK = "mlp:hidden=16x12x12"
DEEP = "mlp:hidden=16x12x12x12x12x12x12x12"  # for two stages of each worker, with pairs of layers in each
JOB = ("train --data digits:train=320,test=64 --engine ref --plan no --batch 4 --accumulate 2 --steps 6 --evaluate end --lr 0.01 "
       "--timeout 30 --store none --quiet --json").split()
CODED = ["allreduce", "local", "ps:slack=0", "gossip"]  # a strategy of each kind of message
SCHEDULES = ["1f1b", "gpipe", "interleaved", "zero_bubble", "pipedream", "pipedream_2bw", "stale", "ampnet"]
LAYOUTS = {  # {layout: a small network that it fits}
    "pairs": NETWORK, "outputs": NETWORK, "cannon": NETWORK,
    **dict.fromkeys(["conv=channels", "conv=spatial", "conv=redundant", "conv=samples"], "file:examples/networks/small.net"),
    **dict.fromkeys(["sequence", "ulysses", "ring", "embed=vocabulary,output=vocabulary"], "gpt:depth=2,width=16,heads=4"),
}


def names_of(fast, topic):
    """What `fast help` lists under a topic."""
    said = subprocess.run([fast, "help", topic], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  ([a-z0-9_]+)  ", said, re.MULTILINE)


def dimensions(fast):
    """{dimension: {name: flags of its run}}."""
    codecs = names_of(fast, "codecs")
    layouts = {name: ["--layout", name, "--model", network] + (["--data", "copy"] if network.startswith("gpt") else [])
               for name, network in LAYOUTS.items()}
    return {
        "strategy": {name: ["--strategy", name] for name in names_of(fast, "strategies")},
        **{f"codec, {way}": {name: ["--strategy", way, "--codec", name] for name in codecs} for way in CODED},
        "codec down, ps:slack=0": {name: ["--strategy", "ps:slack=0", "--codec-down", name] for name in codecs},
        "topology, gossip": {name: ["--strategy", "gossip", "--topology", name] for name in names_of(fast, "topologies") if name != "file"},
        "update rule": {name: ["--optimizer", name] for name in names_of(fast, "optimizers")},
        "schedule": {name: ["--pipeline", name, "--model", DEEP] for name in SCHEDULES},
        "layout": layouts,
    }


def fitting(flags, mesh):
    """Flags with a mesh that they fit: Cannon's shards are a square, and PipeDream updates after each batch of a replica."""
    if "cannon" in flags:
        mesh = mesh.replace("tensor=2", "tensor=4")
    if "pipedream" in flags and "replicas" not in mesh:
        flags = [*flags, "--accumulate", "1"]
    return [*flags, "--mesh", mesh]


def outcome_of(fast, folder, flags, mesh, transport):
    """"ran", "refused: REASON" or "FAILED: REASON"."""
    ranks = ["mpirun", "-n", "2"] if transport == "mpi" else []
    model = [] if "--model" in flags else ["--model", NETWORK]
    out = subprocess.run([*ranks, fast, *JOB, *model, *fitting(flags, mesh), "--transport", transport], text=True,
                         env=dict(os.environ, **MPI, FAST_HOME=folder), stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, timeout=120)
    if out.returncode == 0:
        loss = json.loads(out.stdout.splitlines()[-1])["loss"]
        return "ran" if math.isfinite(loss) else f"FAILED: loss {loss}"
    # Lines of several ranks may be mixed: the longest is whole.
    said = [line for line in out.stderr.replace("fast: ", "\n").splitlines() if line and not line.startswith(("-", "["))]
    said = [re.sub(r"^rank \d+ on \S+: ", "", line) for line in said if "mpirun" not in line and "MPI" not in line]
    reason = max(said, key=len) if said else out.stderr.strip()[-200:]
    return f"{'refused' if out.returncode == 2 else 'FAILED'}: {reason.replace(f'mesh={mesh}', 'mesh')}"


def general(outcome, flags):
    """An outcome without the names of its cell, so that cells with the same reason are equal."""
    for value in flags[1::2]:
        for text in (f"codec {value}", f"codec={value}", f"codec_down={value}"):
            outcome = outcome.replace(text, "codec")
        for text in (f"topology={value}", f"topology {value}"):
            outcome = outcome.replace(text, "topology")
    return outcome


def where_of(cells):
    """The meshes and transports of cells as text: {mesh: [transport]}."""
    places = [mesh if len(on) == len(TRANSPORTS) else f"{mesh} on {' and '.join(on)}" for mesh, on in cells.items()]
    return "all" if places == MESHES else " ".join(places)


def rows_of(dimension, outcomes):
    """Rows of one dimension from {name: {(mesh, transport): outcome}}: names with equal outcomes stand together."""
    groups, rows = {}, []
    for name, cells in outcomes.items():
        groups.setdefault(tuple(cells.items()), []).append(name)
    for cells, names in groups.items():
        same = {}
        for (mesh, transport), outcome in cells:
            same.setdefault(outcome, {}).setdefault(mesh, []).append(transport)
        rows += [[dimension, " ".join(names), where_of(places), outcome] for outcome, places in same.items()]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fast")
    parser.add_argument("--only", default="", help="a dimension")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()
    fast = os.path.abspath(args.fast)
    rows, counts = [], {"ran": 0, "refused": 0, "FAILED": 0}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for dimension, cells in dimensions(fast).items():
            if args.only not in dimension:
                continue
            waiting = {name: {(mesh, transport): pool.submit(outcome_of, fast, folder, flags, mesh, transport)
                              for mesh in MESHES for transport in TRANSPORTS} for name, flags in cells.items()}
            outcomes = {name: {place: general(future.result(), cells[name]) for place, future in runs.items()}
                        for name, runs in waiting.items()}
            for outcome in (outcome for runs in outcomes.values() for outcome in runs.values()):
                counts[outcome.split(":")[0]] += 1
            for row in rows_of(dimension, outcomes):
                rows.append(row)
                print(*row, sep="\t", flush=True)
    if args.only:
        return
    head = {"page": "matrix", "order": "30", "code": "names",
            "title": "What goes with split models",
            "question": "Which strategies, codecs, topologies, update rules, schedules and layouts go with a model in stages, in shards, in both, and in stages with replicas of their own?",
            "machine": "any", "date": results.today(),
            "command": ["tools/matrix_splits.py build/release/fast"],
            "note": [f"Of {sum(counts.values()):,} cells {counts['ran']:,} ran, {counts['refused']:,} are refused with a reason"
                     + (f", {counts['FAILED']} FAILED" if counts["FAILED"] else "") + ".",
                     f"Meshes: {', '.join(f'`{mesh}`' for mesh in MESHES)}, on `threads`, `sim` and `mpi` with two ranks. "
                     "Names stand for their standard options; a strategy beside a codec or a topology is named with it. "
                     "hogwild runs in `sim` on one machine; cannon has 4 shards, a square."]}
    results.publish([("matrix-splits", head, ["dimension", "names", "meshes", "outcome"], rows)])


main()

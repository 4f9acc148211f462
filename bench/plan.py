#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is the plan of `fast plan` the best one, is its step as long as predicted, and how good are the planners?

For each cluster of examples/clusters and each model every mesh of up to four workers is simulated with every
schedule of its stages: the best micro-batches and layout of each, with the cuts and nodes that the planner found,
3 steps after the first. Choices of planners, made without a run by estimates and dry runs, are compared with the
best of them; predictions are compared with the simulations of all.

Expected: the dry run plays the messages of a run on the same simulator, so that it is within a few percent;
the closed form leaves out queues and is within a fifth.

    cmake --build --preset release --target fast
    bench/plan.py --report

Steps are virtual: they repeat on any machine. Times of searches are of one core of this machine.
"""
import argparse
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(HERE, "tools"))
import results  # noqa: E402

CLUSTERS = ["uniform", "uneven", "slow-link", "slow-ethernet", "small-memory"]
DIGITS = "digits:train=512,test=16"
NODES = 4
# Model, data, samples of a step, and the cut in its middle that a person would name.
MODELS = {"lenet": ("lenet", DIGITS, 32, "dense1"), "gpt": ("gpt", "copy", 16, "block3"), "resnet8": ("resnet8", DIGITS, 16, "block2")}
MESHES = [f"data={d},pipe={p},tensor={t}" for d in range(1, NODES + 1) for p in range(1, NODES + 1) for t in range(1, NODES + 1)
          if d * p * t <= NODES]
SCHEDULES = ["1f1b", "gpipe", "zero_bubble", "interleaved"]
PLANNERS = ["exhaustive", "pipedream", "layerwise", "soap", "reinforce", "list", "hand"]
COLUMNS = ["cluster", "model", "plan", "predicted", "simulated", "off", "best", "of best", "plans",
           *(schedule + " off" for schedule in SCHEDULES), "all off", "closed form off"]
PLANNER_COLUMNS = ["cluster", "model", "planner", "plan", "simulated", "of best", "plans", "dry runs", "search s"]


def plan(options, cluster, case, *more, fails=False):
    """The rows of one planning: plans, and the result. A mesh that no plan has may be allowed."""
    model, data, batch, _ = case
    command = [os.path.join(options.build, "fast"), "plan", "--json", "--quiet", "--cluster",
               os.path.join("examples", "clusters", cluster + ".yaml"), "--model", model, "--data", data, "--batch", str(batch),
               "--top", "1", *more]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
    if done.returncode == 2 and fails:
        return [], None
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}: {done.stderr.strip()}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [row for row in rows if row["kind"] == "plan"], rows[-1]


def off(row, key="step_s"):
    return row[key] / row["verified_s"] - 1


def worst(rows):
    return f"{100 * max(abs(off(row)) for row in rows):.1f}%" if rows else "-"


def words(row):
    """A plan in a cell: mesh, schedule and micro-batches, and what saves memory."""
    text = row["mesh"].replace("data=1,", "")
    if row["pipeline"]:
        text += " " + row["pipeline"] + (f" {row['chunks']}" if row["chunks"] > 1 else "")
    text += f" {row['accumulate']}x{row['batch']}"
    flags = row["options"].split()
    for flag in ("--strategy", "--recompute"):
        if flag in flags:
            text += " " + flags[flags.index(flag) + 1].replace("yes", "recompute")
    return text


def simulate_all(options, cluster, case):
    """The best plan of each mesh and schedule."""
    rows = []
    for mesh in MESHES:
        for schedule in SCHEDULES if "pipe=1" not in mesh else SCHEDULES[:1]:
            rows += plan(options, cluster, case, "--mesh", mesh, "--pipeline", schedule, fails=True)[0]
    return rows


def choose(options, cluster, case, planner):
    """The choice of a planner, simulated; the result; and the seconds of its search."""
    more = ["--planner", planner] + (["--cuts", case[3]] if planner == "hand" else [])
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    result = plan(options, cluster, case, "--verify", "no", *more, fails=True)[1]
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    found = plan(options, cluster, case, *more, fails=True)[0]
    return found[0] if found else None, result, seconds


def compare(options, cluster, name):
    """A row of the choice beside all plans, and rows of all planners."""
    case = MODELS[name]
    every = simulate_all(options, cluster, case)
    choices = [(planner, *choose(options, cluster, case, planner)) for planner in PLANNERS]
    best = min(every + [choice for _, choice, _, _ in choices if choice], key=lambda row: row["verified_s"])
    choice = choices[0][1]
    row = [cluster, name, words(choice), f"{1e3 * choice['step_s']:.3f} ms", f"{1e3 * choice['verified_s']:.3f} ms",
           f"{100 * off(choice):+.1f}%", words(best), f"{choice['verified_s'] / best['verified_s']:.3f}", len(every),
           *(worst([row for row in every if row["pipeline"] == schedule]) for schedule in SCHEDULES), worst(every),
           f"{100 * statistics.median(abs(off(row, 'estimate_s')) for row in every):.1f}%"]
    planners = []
    for planner, found, result, seconds in choices:
        if found:
            planners.append([cluster, name, planner, words(found), f"{1e3 * found['verified_s']:.3f} ms",
                             f"{found['verified_s'] / best['verified_s']:.3f}", result["offered"], result["dry_runs"], f"{seconds:.2f}"])
        else:
            planners.append([cluster, name, planner, "none fits", "-", "-", "-", "-", f"{seconds:.2f}"])
    return row, planners


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(HERE, "build", "release"))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--clusters", default=",".join(CLUSTERS))
    parser.add_argument("--report", action="store_true", help="write results/plan.csv and results/planners.csv")
    options = parser.parse_args()
    rows, planners = [], []
    for cluster in options.clusters.split(","):
        for name in options.models.split(","):
            row, more = compare(options, cluster, name)
            rows.append(row)
            planners += more
            print("\n".join(",".join(map(str, cells)) for cells in [row, *more]), flush=True)
    if not options.report:
        return
    head = {"page": "plan", "date": results.today(), "command": ["bench/plan.py --report"],
            "machine": "any: the time is virtual, and a run repeats to the bit on the same kind of processor"}
    steps = "Steps of 32 samples of lenet, 16 of gpt and resnet8. A plan is its mesh without data=1, its schedule, its micro-batches and their samples. "
    results.publish([
        ("plan", {**head, "order": "1", "code": "cluster model", "title": "The choice beside the best of every mesh and schedule",
                  "question": "Is the plan of fast plan the best one, and is its step as long as predicted?",
                  "note": [steps + "\"of best\" is the simulated step of the choice over that of the best plan that was simulated: \"plans\" of every mesh and schedule, and the "
                           "choices of all planners. \"off\" is the error of the choice's dry run, with a name the largest error over all plans with that schedule; "
                           "\"closed form off\" is the median error of the estimates."]}, COLUMNS, rows),
        ("planners", {**head, "order": "2", "code": "cluster model planner", "title": "Planners side by side",
                      "machine": results.machine() + "; steps are virtual",
                      "question": "How good is the plan that each planner finds, and after how many plans and seconds?",
                      "note": [steps + "\"of best\" is its simulated step over that of the best plan of the table above. \"search s\" is processor time of the whole command "
                               "without runs. hand has the cut in the middle of the model."]}, PLANNER_COLUMNS, planners)])


if __name__ == "__main__":
    main()

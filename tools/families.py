#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""results/families.csv: every family of strategies under a loop of PyTorch's and under a native model.

    tools/families.py [FAMILY...]          write the table, of all families
    tools/families.py --check FAMILY...    write nothing; exit 1 if a cell of these differs from the table

Three simulated workers train a small classifier; the run learned if its last losses are below LEARNED times its first
ones, of the loop, or if a native model's test accuracy is above ACCURACY. Runs repeat to the bit, so the outcome does
not depend on the machine. A loop whose update is FAST's rule and one whose optimizer's changes are exchanged are two
columns. A refused cell has FAST's own sentence.
"""
import csv
import importlib.util
import os
import sys

if importlib.util.find_spec("torch") is None:
    print("skipped: no PyTorch")
    sys.exit(77)
import torch  # noqa: E402

sys.path[:0] = [os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python")]
import fast  # noqa: E402
import results  # noqa: E402

LEARNED, ACCURACY, WORKERS, EPOCHS = 0.9, 0.5, 3, 12
COLUMNS = ["family", "a loop, FAST's rule", "a loop, its own optimizer", "a native model"]
# Options of a family beyond its standard ones: a backup worker is what quorum is about.
OPTIONS = {"quorum": "quorum:backup=1", "local": "local:period=4", "ps": "ps:slack=2"}
# Of native models: where all workers' steps add up the rate is smaller, and a student has half of the steps.
NATIVE = {"dogwild": dict(lr=0.007), "distill": dict(epochs=2 * EPOCHS)}


def loop(strategy, update):
    """Outcome of a loop of PyTorch's."""
    torch.manual_seed(1)
    g = torch.Generator().manual_seed(0)
    x = torch.randn(640, 20, generator=g)
    y = (x @ torch.randn(20, 3, generator=g)).argmax(1)
    model = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    try:
        fast.wrap(model, optimizer, strategy=strategy, workers=WORKERS, simulate="laptop", update=update, store="none")
        for _ in range(EPOCHS):
            for i in range(0, len(x), 32):
                optimizer.zero_grad()
                loss = fast.loss(torch.nn.functional.cross_entropy(model(x[i:i + 32]), y[i:i + 32]))
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        fast.finish(optimizer)
    except fast.Error as error:
        return f"refused: {plain(error)}"
    return "learned" if sum(losses[-20:]) < LEARNED * sum(losses[:20]) else "ran, learned nothing"


def native(strategy):
    """Outcome of a model of FAST's own."""
    given = dict(dict(epochs=EPOCHS, lr=0.02), **NATIVE.get(strategy, {}))
    try:
        run = fast.train("mlp:hidden=32", "digits:train=1000,test=200", batch=8, optimizer="momentum", workers=WORKERS,
                         transport="sim", cluster="laptop", strategy=strategy, store="none", **given)
    except fast.Error as error:
        return f"refused: {plain(error)}"
    return "learned" if run.test_accuracy > ACCURACY else f"ran, test accuracy {run.test_accuracy}"


def plain(error):
    """FAST's sentence without the worker that said it."""
    text = str(error)
    return text.split(": ", 1)[1] if text.startswith("worker ") else text


def main():
    check = "--check" in sys.argv
    torch.set_num_threads(1)
    every = [part["name"] for part in fast.parts("strategy").to_dict("records")]
    names = [a for a in sys.argv[1:] if a != "--check"] or every
    rows = []
    for name in names:
        strategy = OPTIONS.get(name, name)
        rows.append([strategy, loop(strategy, "rule"), loop(strategy, "local"), native(strategy)])
        print(*rows[-1], sep=" | ", flush=True)
    if check:
        with open(os.path.join(results.HERE, "results", "families.csv")) as file:
            known = [row for row in csv.reader(line for line in file if not line.startswith("#"))]
        sys.exit([row for row in rows if row not in known] or 0)
    if names == every:
        head = dict(page="matrix", order="3", title="Loops of PyTorch's and native models", machine=results.VIRTUAL,
                    question="Every family of strategies with three simulated workers: does a loop of PyTorch's learn, and "
                    "a native model?", date=results.today(), command=["tools/families.py"], code="family",
                    note=[f"A loop learned if its last 20 losses are below {LEARNED} times its first 20, a native model "
                          f"if its test accuracy is above {ACCURACY}."])
        results.write_table("families", head, COLUMNS, rows)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""results/families.csv: every family of strategies under a loop of PyTorch's and under a native model.

    tools/families.py [FAMILY...]          write the table, of all families
    tools/families.py --check FAMILY...    write nothing; exit 1 if a cell of these differs from the table

Three simulated workers train a small classifier of three classes on samples that are drawn at random. One rule for every
cell, written before the runs: of four learning rates the one with the best accuracy on validation samples (seed 1),
then three fresh seeds at this rate, and the worst of their accuracies on test samples that no trial has read. At least
LEARNED: it learned. Runs repeat to the bit, so the outcome does not depend on the machine. A loop whose update is FAST's
rule and one whose optimizer's changes are exchanged are two columns. A refused cell has FAST's own sentence.
"""
import csv
import functools
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

LEARNED, WORKERS, EPOCHS, RATES, SEEDS = 0.7, 3, 12, (0.3, 0.1, 0.03, 0.01), (2, 3, 4)
COLUMNS = ["family", "a loop, FAST's rule", "a loop, its own optimizer", "a native model"]
# Options of a family beyond its standard ones: a backup worker is what quorum is about.
OPTIONS = {"quorum": "quorum:backup=1", "local": "local:period=4", "ps": "ps:slack=2"}
G = torch.Generator().manual_seed(0)
X = torch.randn(1600, 20, generator=G)
Y = (X @ torch.randn(20, 3, generator=G)).argmax(1)
TRAIN, VALIDATION, TEST = ((X[a:b], Y[a:b]) for a, b in ((0, 640), (640, 960), (960, 1600)))


def loop(update, strategy, rate, seed, samples):
    """Accuracy of a loop of PyTorch's."""
    torch.manual_seed(seed)
    x, y = TRAIN
    model = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    fast.wrap(model, optimizer, strategy=strategy, workers=WORKERS, simulate="laptop", update=update, store="none", seed=seed)
    for _ in range(EPOCHS):
        for i in range(0, len(x), 32):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[i:i + 32]), y[i:i + 32]).backward()
            optimizer.step()
    fast.finish(optimizer)
    return (model(samples[0]).argmax(1) == samples[1]).float().mean().item()


def native(strategy, rate, seed, samples):
    """Accuracy of a model of FAST's own."""
    network = fast.Network("dense 16", "relu", "dense 3")
    run = fast.train(network, TRAIN, samples, epochs=EPOCHS, lr=rate, batch=32 // WORKERS, optimizer="sgd", workers=WORKERS,
                     schedule="constant", transport="sim", cluster="laptop", strategy=strategy, store="none", seed=seed)
    return run.test_accuracy or 0.0


def outcome(accuracy):
    """A cell: trials on validation samples, then fresh seeds on test samples."""
    try:
        rate = max(RATES, key=lambda r: accuracy(r, 1, VALIDATION))
        worst = min(accuracy(rate, seed, TEST) for seed in SEEDS)
    except fast.Error as error:
        return f"refused: {plain(error)}"
    return f"{'learned' if worst >= LEARNED else 'ran, did not learn'}: {100 * worst:.0f}% at {rate:g}"


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
        rows.append([strategy] + [outcome(functools.partial(f, strategy)) for f in (
            functools.partial(loop, "rule"), functools.partial(loop, "local"), native)])
        print(*rows[-1], sep=" | ", flush=True)
    if check:
        with open(os.path.join(results.HERE, "results", "families.csv")) as file:
            known = [row for row in csv.reader(line for line in file if not line.startswith("#"))]
        sys.exit([row for row in rows if row not in known] or 0)
    if names == every:
        head = dict(page="matrix", order="3", title="Loops of PyTorch's and native models", machine=results.VIRTUAL,
                    question="Every family of strategies with three simulated workers: does a loop of PyTorch's learn, and "
                    "a native model?", date=results.today(), command=["tools/families.py"], code="family",
                    note=[f"Worst test accuracy of three fresh seeds at the rate of four ({', '.join(map(str, RATES))}) that was best "
                          f"on validation samples; learned: at least {100 * LEARNED:.0f}%, the largest class has "
                          f"{100 * max((TEST[1] == c).float().mean().item() for c in range(3)):.0f}%."])
        results.write_table("families", head, COLUMNS, rows)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""04_own_parts - a strategy and a learner written in Python, beside FAST's own. Needs NumPy.

    python3 04_own_parts.py
"""
import numpy

import fast

rng = numpy.random.default_rng(1)
X = rng.normal(size=(960, 10)).astype("float32")
Y = (X @ rng.normal(size=10) > 0).astype("float32")


class Logistic(fast.Learner):
    """Logistic regression: gradients in four lines of NumPy."""
    params = {"weight": numpy.zeros((1, 10), "float32"), "bias": numpy.zeros(1, "float32")}
    samples = len(X)

    def gradient(self, batch):
        first = (batch.step * batch.workers + batch.worker) * batch.size % len(X) if batch.g else 0
        x, y = (X[first:first + batch.size], Y[first:first + batch.size]) if batch.g else (X, Y)
        p = 1 / (1 + numpy.exp(-(x @ batch.w["weight"][0] + batch.w["bias"])))
        if batch.g:
            batch.g["weight"][0] = (p - y) @ x / len(x)
            batch.g["bias"][:] = (p - y).mean()
        loss = -numpy.log(numpy.where(y > 0, p, 1 - p) + 1e-9).mean()
        return fast.Answer(loss, len(x), correct=((p > 0.5) == y).sum(), counted=len(x))

    evaluate = gradient


def program(t):
    """neighbours on a ring average their weights after each step"""
    while t.next():
        t.gradient()
        t.update()
        shares = t.neighbours()
        others = [r for r in shares if r != t.rank]
        theirs = t.exchange(t.w, others)
        t.w[:] = shares[t.rank] * t.w + sum(shares[r] * theirs[i] for i, r in enumerate(others))


ring = fast.Strategy("ring", program, synchronous=True, topology="ring")
for strategy in (ring, "gossip", "ps:slack=2"):
    run = fast.train(learner=Logistic(), strategy=strategy, workers=4, batch=16, epochs=5, lr=0.5, optimizer="sgd",
                     store="none")
    print(f"{run.result.strategy:10} test accuracy {100 * run.test_accuracy:.0f}%")

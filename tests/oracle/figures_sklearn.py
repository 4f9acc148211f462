#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures of scikit-learn for src/learner/figures_test.c: prints the tables of that file.

    tests/oracle/figures_sklearn.py > src/learner/figures_oracle.h

Inputs are made here and in the test by the same formula, a linear congruential generator, so that
only the results are stored.
"""
import warnings

import numpy as np
import sklearn
from sklearn import metrics

warnings.filterwarnings("ignore")


class Numbers:
    """x' = 1664525 x + 1013904223 mod 2^32; a number is the upper 16 bits."""

    def __init__(self, seed):
        self.x = seed

    def next(self):
        self.x = (self.x * 1664525 + 1013904223) % 2**32
        return self.x >> 16


def classes(seed, rows, K, labels, grid):
    """Outputs in steps of 1 / grid, with ties; the output of the label is 1 larger."""
    n = Numbers(seed)
    y = np.zeros(rows, dtype=int)
    z = np.zeros((rows, K))
    for r in range(rows):
        y[r] = n.next() % labels
        for k in range(K):
            z[r, k] = (n.next() % (4 * grid)) / grid + (1.0 if k == y[r] else 0.0)
    return y, z


def case_classes(seed, rows, K, labels, grid):
    y, z = classes(seed, rows, K, labels, grid)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    predicted = z.argmax(axis=1)
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(
        y, predicted, average="macro", zero_division=0)
    aucs = []
    for k in range(K):
        if 0 < (y == k).sum() < rows:
            # log-odds: the order of p without its rounding
            odds = z[:, k] - np.array([np.logaddexp.reduce(np.delete(row, k)) for row in z])
            aucs.append(metrics.roc_auc_score(y == k, np.round(odds, 9)))
    if labels == K == 2 and aucs:
        auc = metrics.roc_auc_score(y, p[:, 1])
        assert abs(auc - aucs[0]) < 1e-12
    elif labels == K and K > 2 and len(set(y)) == K:
        auc = metrics.roc_auc_score(y, p, multi_class="ovr", labels=list(range(K)))
    else:
        auc = np.mean(aucs) if aucs else float("nan")
    row = [metrics.accuracy_score(y, predicted), precision, recall, f1, auc]
    matrix = metrics.confusion_matrix(y, predicted, labels=list(range(K)))
    check = int((np.arange(1, K * K + 1) * matrix.ravel()).sum())
    values = ", ".join("NAN" if np.isnan(v) else repr(float(v)) for v in row)
    return f"    {{ {seed}, {rows}, {K}, {labels}, {grid}, {{ {values} }}, {check} }},"


def case_values(seed, rows, outputs, offset, constant):
    n = Numbers(seed)
    t = np.zeros((rows, outputs))
    y = np.zeros((rows, outputs))
    for r in range(rows):
        for o in range(outputs):
            t[r, o] = offset + (0 if constant else n.next() / 1024)
            y[r, o] = t[r, o] + (n.next() % 2048 - 1024) / 256
    row = [metrics.mean_absolute_error(t, y), metrics.mean_squared_error(t, y, squared=False)
           if outputs == 1 else np.sqrt(((t - y) ** 2).mean()), metrics.r2_score(t, y)]
    values = ", ".join(repr(float(v)) for v in row)
    return f"    {{ {seed}, {rows}, {outputs}, {offset}, {int(constant)}, {{ {values} }} }},"


print("/* SPDX-License-Identifier: Apache-2.0 */")
print("#pragma once")
print()
print("#include <math.h>")
print("#include <stdint.h>")
print()
print(f"/* Made by tests/oracle/figures_sklearn.py with scikit-learn {sklearn.__version__}. */")
print("static const struct oracle_classes {")
print("    int seed, rows, classes, labels, grid; /* arguments of the formula */")
print("    double figures[5];                     /* accuracy, precision, recall, F1, AUC */")
print("    int64_t matrix;                        /* sum of (i K + j + 1) C_ij */")
print("} oracle_classes[] = {")
for args in [(1, 200, 2, 2, 64), (2, 57, 2, 2, 1), (3, 300, 3, 3, 256), (4, 500, 10, 10, 512),
             (5, 40, 4, 2, 32), (6, 30, 3, 1, 16), (7, 1, 2, 2, 8), (8, 12, 10, 10, 1024)]:
    print(case_classes(*args))
print("};")
print()
print("static const struct oracle_values {")
print("    int seed, rows, outputs, offset, constant; /* arguments of the formula */")
print("    double figures[3];                         /* MAE, RMSE, R2 */")
print("} oracle_values[] = {")
for args in [(1, 100, 1, 0, False), (2, 250, 3, 0, False), (3, 100, 1, 4096, False),
             (4, 20, 2, 7, True)]:
    print(case_values(*args))
print("};")

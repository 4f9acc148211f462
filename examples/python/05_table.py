#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""05_table - train, compare and use scikit-learn's interface. Needs NumPy.

    python3 05_table.py
"""
import numpy

import fast

run = fast.train("mlp:hidden=16", "digits:train=1000,test=200", epochs=2, workers=2, system="ssp", store="none")
print(f"{run.steps} steps, test accuracy {100 * run.test_accuracy:.0f}%")

found = fast.compare(model="mlp:hidden=16", data="digits:train=500,test=100", epochs=1, system=["bsp", "ssp", "easgd"],
                     workers=4, cluster="hetero", transport="sim", seeds=1, tune=False, store="none")
print(sorted(found.table["name"] if hasattr(found.table, "columns") else [row["name"] for row in found.table]))

rng = numpy.random.default_rng(0)
X = rng.normal(size=(400, 6))
y = numpy.array(["cold", "warm"])[(X[:, 0] * X[:, 1] > 0).astype(int)]
model = fast.Classifier(model=["dense 32", "relu", "dense 2"], epochs=40).fit(X, y)
print(f"accuracy {100 * model.score(X, y):.0f}%, {model.predict(X[:3]).tolist()}")

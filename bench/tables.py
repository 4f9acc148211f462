#!/usr/bin/env python3
"""tables - mlp on six tables beside scikit-learn's. Usage: bench/tables.py FAST [--publish]

Does `fast train --data csv:...` learn as well from a table as pandas and scikit-learn do? Both get the same
files, one for training and one for the test, and the same network: one hidden layer of 32 with ReLU, Adam with
learning rate 0.003, batches of 32, 30 epochs, no weight decay. scikit-learn's features are made by the usual
pipeline: means for missing numbers, one-hot categories with one for missing texts, standardised numbers; dates
become days and points on the circles of a year and a week. Five seeds each; the figure is accuracy for classes
and R2 for regression. Expected: the means differ by at most one spread (largest minus smallest over the seeds of
either program, whichever is larger).

It needs pandas and scikit-learn, prints CSV, and with --publish writes results/tables.csv and its page.
"""
import csv
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

SEEDS, EPOCHS, HIDDEN, BATCH, RATE = (1, 2, 3, 4, 5), 30, 32, 32, 0.003
FIELDS = ["table", "rows", "columns", "figure", "fast", "fast spread", "scikit-learn", "scikit-learn spread",
          "difference", "verdict"]
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def text(rng, n):
    """Text: two columns of words decide together with a number."""
    towns = np.array(["Bonn", "Ulm", "Jena", "Trier", "Kiel", "Hof"])
    jobs = np.array(["cook", "smith", "nurse", "clerk"])
    t, j = rng.integers(6, size=n), rng.integers(4, size=n)
    age = rng.normal(40, 12, n)
    z = 1.5 * np.cos(t) + np.where(j == 2, 1.5, -0.5) * (age - 40) / 12 + 0.8 * (j == 0)
    y = np.where(rng.random(n) < sigmoid(2 * z), "yes", "no")
    return pd.DataFrame({"town": towns[t], "job": jobs[j], "age": age.round(1), "answer": y})


def missing(rng, n):
    """Missing values: a fifth of all numbers and texts are gaps."""
    x = rng.normal(0, 1, (n, 6))
    colour = np.array(["red", "green", "blue"])[rng.integers(3, size=n)]
    y = x[:, 0] + 0.5 * x[:, 1] * x[:, 2] + (colour == "red") - 0.7 * x[:, 3] + rng.normal(0, 0.3, n)
    frame = pd.DataFrame(x.round(4) * [1, 10, 100, 1, 5, 2] + [0, 50, 0, 3, 0, 0], columns=list("abcdef"))
    frame["colour"] = colour
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    frame["y"] = y.round(4)
    return frame


def dates(rng, n):
    """Dates: a trend, a season and the day of the week."""
    day = np.datetime64("2019-01-01") + rng.integers(0, 1800, n).astype("timedelta64[D]")
    number = day.astype("datetime64[D]").astype(int)
    wind = rng.gamma(2, 2, n)
    y = 12 - 9 * np.cos(2 * np.pi * number / 365.2425) + 0.001 * (number - 18500) - 0.4 * wind + \
        2 * (number % 7 == 3) + rng.normal(0, 1, n)
    return pd.DataFrame({"day": day.astype(str), "wind": wind.round(2), "temperature": y.round(2)})


def wide(rng, n):
    """Wide: 200 columns, of which 10 matter."""
    x = rng.normal(0, 1, (n, 200))
    y = (x[:, :10].sum(axis=1) + 0.5 * x[:, 0] * x[:, 1] + rng.normal(0, 1, n) > 0).astype(int)
    frame = pd.DataFrame(x.round(3), columns=[f"x{i}" for i in range(200)])
    frame["y"] = y
    return frame


def narrow(rng, n):
    """Narrow: two columns, and three classes that are rings."""
    kind = rng.integers(3, size=n)
    radius, angle = kind + 1 + rng.normal(0, 0.25, n), rng.uniform(0, 2 * np.pi, n)
    return pd.DataFrame({"u": (radius * np.cos(angle)).round(3), "v": (radius * np.sin(angle)).round(3),
                         "ring": np.array(["in", "middle", "out"])[kind]})


def imbalanced(rng, n):
    """Imbalanced: one row of twenty is positive, labels are -1 and 1."""
    x = rng.normal(0, 1, (n, 8))
    y = np.where(rng.random(n) < sigmoid(3 * (x[:, 0] + x[:, 1] - 2.6)), 1, -1)
    frame = pd.DataFrame(x.round(4) * 1000, columns=[f"m{i}" for i in range(8)])
    frame["fraud"] = y
    return frame


TABLES = [(text, 2000, False), (missing, 2000, True), (dates, 2000, True), (wide, 2000, False),
          (narrow, 1500, False), (imbalanced, 3000, False)]


def with_dates(frame):
    """Replace columns of dates by numbers: days since 1970 and points on circles."""
    out = frame.copy()
    for name in frame.columns:
        if frame[name].dtype == object and str(frame[name].iloc[0])[4:5] == "-":
            day = pd.to_datetime(frame[name]).values.astype("datetime64[D]").astype(float)
            out[name] = day
            for period, mark in ((365.2425, "year"), (7, "week")):
                out[f"{name} {mark} sin"] = np.sin(2 * math.pi * day / period)
                out[f"{name} {mark} cos"] = np.cos(2 * math.pi * day / period)
    return out


def sklearn_figures(train, test, regression):
    target = train.columns[-1]
    x, z = with_dates(train.drop(columns=target)), with_dates(test.drop(columns=target))
    words = [name for name in x.columns if x[name].dtype == object]
    pipeline = ColumnTransformer([
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), [c for c in x.columns if c not in words]),
        ("words", make_pipeline(SimpleImputer(strategy="constant", fill_value=""),
                                OneHotEncoder(handle_unknown="ignore", sparse_output=False)), words)])
    features, others = pipeline.fit_transform(x), pipeline.transform(z)
    figures = []
    for seed in SEEDS:
        kind = MLPRegressor if regression else MLPClassifier
        model = kind((HIDDEN,), activation="relu", solver="adam", alpha=0, batch_size=BATCH, learning_rate_init=RATE,
                     max_iter=EPOCHS, tol=0, n_iter_no_change=EPOCHS, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(features, train[target])
        figures.append(model.score(others, test[target]))
    return figures


def fast_figures(fast, folder, test, regression):
    figures = []
    for seed in SEEDS:
        data = f"csv:file={folder}/train.csv,test_file={folder}/test.csv,scale_target=no"
        command = [fast, "train", "--data", data, "--model", f"mlp:hidden={HIDDEN}", "--optimizer", "adam:weight_decay=0",
                   "--lr", str(RATE), "--schedule", "constant", "--batch", str(BATCH), "--epochs", str(EPOCHS),
                   "--evaluate", "end", "--seed", str(seed), "--json", "--quiet", "--store", f"{folder}/runs.db"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        result = json.loads(done.stdout.splitlines()[-1])
        target = test[test.columns[-1]]
        # The loss of a regression is the mean squared error.
        figures.append(1 - result["test_loss"] / float(np.var(target)) if regression else result["test_accuracy"])
    return figures


def measure(fast, make, count, regression):
    rng = np.random.default_rng(7)
    frame = make(rng, count)
    train, test = frame.iloc[:count * 4 // 5], frame.iloc[count * 4 // 5:]
    with tempfile.TemporaryDirectory() as folder:
        train.to_csv(f"{folder}/train.csv", index=False)
        # Other columns first: they are matched by name.
        test[list(test.columns[::-1])].to_csv(f"{folder}/test.csv", index=False)
        ours = fast_figures(fast, folder, test, regression)
    theirs = sklearn_figures(train, test, regression)
    spread = max(max(ours) - min(ours), max(theirs) - min(theirs))
    difference = np.mean(ours) - np.mean(theirs)
    return [make.__name__, count, len(frame.columns) - 1, "R2" if regression else "accuracy", f"{np.mean(ours):.4f}",
            f"{max(ours) - min(ours):.4f}", f"{np.mean(theirs):.4f}", f"{max(theirs) - min(theirs):.4f}",
            f"{difference:+.4f}", "within" if abs(difference) <= spread else "better" if difference > 0 else "worse"]


def main():
    rows = []
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(FIELDS)
    for make, count, regression in TABLES:
        rows.append(measure(sys.argv[1], make, count, regression))
        out.writerow(rows[-1])
        sys.stdout.flush()
    if "--publish" not in sys.argv:
        return
    sys.path.insert(0, os.path.join(HERE, "tools"))
    import results
    head = {"page": "tables", "order": "1", "title": "mlp on six tables",
            "question": "Does an mlp of FAST learn from a table as scikit-learn's does, within one spread over five seeds?",
            "machine": results.machine(), "date": results.today(),
            "command": ["bench/tables.py build/release/fast --publish"]}
    results.publish([("tables", head, FIELDS, rows)])


main()

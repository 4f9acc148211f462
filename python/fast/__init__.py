# SPDX-License-Identifier: Apache-2.0
"""FAST: train neural networks in parallel by any strategy of the literature.

    import fast
    run = fast.train("lenet", "fashion-mnist", system="ssp", workers=4, epochs=2)

    model, optimizer = fast.wrap(model, optimizer, system="ssp", workers=4)   # PyTorch: the loop stays yours
    for x, y in fast.shard(loader):
        optimizer.zero_grad(); loss_fn(model(x), y).backward(); optimizer.step()

docs/python.md and docs/pytorch.md are the manuals. Errors are exceptions whose text is FAST's own sentence.
"""
from typing import Any

from ._library import (Error, FormatError, InvalidError, MissingError, PeerError, TimeoutError,  # noqa: A004
                       UnsupportedError, lib)
from ._plugins import Answer, Batch, Filter, Learner, Operator, Strategy, Trainer
from .predict import Model
from .reports import Plot, export_wandb, plot
from .run import Data, Event, Network, Result, Run, progress, train
from .tables import Comparison, compare, metrics, parts, runs, systems

__version__ = lib.fast_version().decode()
# Parts that need another package, imported when they are used.
_LATER = {"Classifier": "estimators", "Regressor": "estimators", "wrap": "torch", "shard": "torch", "finish": "torch",
          "rank": "torch", "size": "torch", "loss": "torch", "launch": "torch", "comm_hook": "torch", "Codec": "torch"}
__all__ = ["Answer", "Batch", "Comparison", "Data", "Error", "Event", "Filter", "FormatError", "InvalidError",
           "Learner", "MissingError", "Model", "Network", "Operator", "PeerError", "Plot", "Result", "Run", "Strategy",
           "TimeoutError", "Trainer", "UnsupportedError", "compare", "export_wandb", "metrics", "parts", "plot", "progress", "runs",
           "systems", "train", *_LATER]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        import importlib
        return getattr(importlib.import_module("." + _LATER[name], __name__), name)
    raise AttributeError(f"module fast has no {name}")

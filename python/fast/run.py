# SPDX-License-Identifier: Apache-2.0
"""Runs: networks, data of one's own, training, prediction."""
from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
from typing import Any, Callable, NamedTuple, Optional

from . import _arrays, _native as native, _plugins
from ._library import Guard, Handle, InvalidError, Owner, check, interruptible, lib, options, text_list

KINDS = ("start", "progress", "evaluate", "save", "note")


class Event(NamedTuple):
    """Something that happened in a run, for `watch`."""
    kind: str  #: start, progress, evaluate, save or note
    step: int  #: steps taken
    step_count: int  #: steps in all
    epoch: int  #: from 0
    seconds_left: float  #: estimate; NaN at first
    loss: float  #: of training so far
    test_loss: float  #: of the last evaluation
    test_accuracy: float  #: of the last evaluation
    text: Optional[str]  #: path that was saved, or a note for the user


class Result(dict):
    """Measures of a run by the names of `fast train --json`, as items and as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the run has no measure \"{name}\"" + ("" if self else ": it took no step")) from None


class Network:
    """A network, a line of the network language for each layer (docs/networks.md).

    >>> net = fast.Network("dense 32", "relu", "dense 10")
    """

    def __init__(self, *lines: str):
        self.handle = ctypes.POINTER(native.fast_network)()
        self.lines: list = []
        self.path: Optional[str] = None
        self._used: list = []
        check(lib.fast_network_new(ctypes.byref(self.handle)))
        for line in lines:
            self.add(line)

    def add(self, line: str) -> "Network":
        """Add a layer; returns the network."""
        if not isinstance(line, str) or "\0" in line:
            raise InvalidError(native.FAST_EINVAL, f"a layer is a line of text, not {line!r}")
        check(lib.fast_network_add(self.handle, line.encode()))
        self.lines.append(line)
        self.path = None
        return self

    def add_operator(self, operator: "_plugins.Operator", name: Optional[str] = None,
                     inputs: Optional[str] = None) -> "Network":
        """Add a layer that an operator of Python computes, on the layers named in `inputs`."""
        code = lib.fast_network_add_operator(self.handle, name and name.encode(), ctypes.byref(operator.native),
                                             None, inputs and inputs.encode())
        operator.guard.raise_first()
        check(code)
        self._used.append(operator)
        self.lines.append(operator.name)
        return self

    @classmethod
    def open(cls, path: "os.PathLike[str] | str") -> "Network":
        """Read a network file."""
        network = cls.__new__(cls)
        network.handle, network.path, network._used = ctypes.POINTER(native.fast_network)(), os.fspath(path), []
        check(lib.fast_network_open(os.fspath(path).encode(), ctypes.byref(network.handle)))
        with open(path) as file:
            network.lines = file.read().splitlines()
        return network

    def file(self) -> str:
        """Return the path of a file with these lines, which lives as long as the network."""
        if not self.path:
            self._folder = tempfile.TemporaryDirectory(prefix="fast-")
            self.path = os.path.join(self._folder.name, "own.net")
            with open(self.path, "w") as file:
                file.write("\n".join(self.lines) + "\n")
        return self.path

    def __repr__(self) -> str:
        return f"<fast.Network {self.path or ' | '.join(self.lines)}>"

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            lib.fast_network_free(self.handle)


class Data:
    """A data set in memory: samples x of one to three dimensions each, and class labels or regression targets y.

    Arrays of any library are read in place (NumPy, DLPack, buffers) and copied once, by FAST. Integer y are
    labels from 0; others are targets.
    """

    def __init__(self, x: Any, y: Any, classes: int = 0, regression: Optional[bool] = None):
        samples = _arrays.View(x)
        if len(samples.shape) < 2:
            raise InvalidError(native.FAST_EINVAL, f"x has {len(samples.shape)} dimensions; it needs samples and values")
        if len(samples.shape) > 4:
            raise InvalidError(native.FAST_EINVAL, f"samples have {len(samples.shape) - 1} dimensions, at most 3 are known")
        if regression is None:
            regression = not _whole(y)
        values = _arrays.View(y, "f" if regression else "i")
        if not values.shape or values.shape[0] != samples.shape[0]:
            raise InvalidError(native.FAST_EINVAL, f"x has {samples.shape[0]} samples, y has {values.shape[:1]}")
        each = 1
        for size in values.shape[1:]:
            each *= size
        shape = samples.shape[1:]
        described = native.fast_data_options(size=ctypes.sizeof(native.fast_data_options), count=samples.shape[0],
                                             rank=len(shape), shape=(ctypes.c_int64 * 3)(*shape), x=samples.address)
        if regression:
            described.targets, described.outputs = values.address, each
        else:
            largest = max(_arrays.wrap(values.address, (samples.shape[0] * each,), "i"), default=0)
            described.labels, described.positions = values.address, each
            described.classes = classes or int(largest) + 1
        self.shape, self.classes, self.count = shape, int(described.classes), samples.shape[0]
        self.handle = ctypes.POINTER(native.fast_data)()
        check(lib.fast_data_new(ctypes.byref(described), ctypes.byref(self.handle)))

    @classmethod
    def of(cls, source: Any) -> "Data":
        """A pair (x, y) of arrays, or a source of batches (x, y) such as PyTorch's DataLoader, read once to its end."""
        if isinstance(source, (tuple, list)) and len(source) in (2, 3, 4):
            return cls(*source)
        import numpy
        batches = [(numpy.asarray(x), numpy.asarray(y)) for x, y in source]
        if not batches:
            raise InvalidError(native.FAST_EINVAL, "the source has no batches")
        x, y = (numpy.concatenate(part) for part in zip(*batches))
        return cls(x, y)

    def __len__(self) -> int:
        return self.count

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            lib.fast_data_free(self.handle)


def _whole(y: Any) -> bool:
    """True if y are whole numbers, by their type."""
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    if kind:
        return kind in "iub"
    name = str(getattr(y, "dtype", ""))
    if name:
        return "int" in name or "bool" in name
    at = y
    while isinstance(at, (list, tuple)) and at:
        at = at[0]
    return isinstance(at, int) or getattr(y, "typecode", "f") in "bBhHiIlLqQ"


class Run(Owner):
    """A run, opened: everything is checked and read, nothing has trained yet. Closed by `with` or `close()`.

    Keyword arguments are the options of `fast train`. `model` may be a `Network`; `data` and `test` may be
    `Data` or pairs (x, y) of arrays; `learner`, `strategy` and `filter` are parts of one's own in Python.
    """

    handle = Handle("run")

    def __init__(self, model: Any = None, data: Any = None, test: Any = None, *, learner: Any = None,
                 strategy: Any = None, filter: Any = None, store: Any = None, **more: Any):  # noqa: A002
        opened = ctypes.POINTER(native.fast_run)()
        self._handle: Any = None
        self._training = False
        self.guard, given = Guard(), model
        self.guard.cancel = lambda: lib.fast_run_cancel(self.handle) if self._handle else None
        network: Any = model if isinstance(model, Network) else None
        if network is not None and not network._used:  # as a file, which saved models can name
            network, model = None, "file:" + network.file()
        sets = [s if s is None or isinstance(s, (Data, str)) else Data.of(s) for s in (data, test)]
        mine = strategy if isinstance(strategy, _plugins.Strategy) else None
        words = options(dict(more, store=store, model=None if network else model,
                             data=sets[0] if isinstance(sets[0], str) else None,
                             strategy=mine.name if mine else strategy))
        self._used = [given, network, sets, mine, filter]
        call, arguments = self._opener(network, sets, learner, mine, filter)
        for operator in network._used if network is not None else []:
            operator.guard = self.guard
        code = call(text_list(words), *arguments, ctypes.byref(opened))
        self.guard.raise_first()
        check(code)
        self.handle = opened
        if mine and self.option("transport") == "sim":
            self.close()
            raise InvalidError(native.FAST_EINVAL, f"strategy {mine.name} is written in Python, which cannot run in "
                               "the simulator's coroutines; use transport=\"threads\" or \"mpi\"")

    def _opener(self, network: Any, sets: list, learner: Any, mine: Any, mine_filter: Any) -> Any:
        """Choose the function that opens the run, and its arguments between the options and the result."""
        own = network is not None or any(isinstance(s, Data) for s in sets)
        if sum([own, learner is not None or mine is not None, mine_filter is not None]) > 1:
            raise InvalidError(native.FAST_EINVAL, "a run takes a network and data of one's own, a learner or strategy, "
                               "or a filter: not two of these")
        if learner is not None:
            self._learner = _plugins.learner_kind(learner, self.guard)
            return lib.fast_run_open_learner, [ctypes.byref(self._learner.kind), mine.bind(self.guard) if mine else None]
        if mine:
            return lib.fast_run_open_strategy, [mine.bind(self.guard)]
        if mine_filter is not None:
            return lib.fast_run_open_filter, [mine_filter.bind(self.guard)]
        if own:
            handles = [s.handle if isinstance(s, Data) else None for s in sets]
            return lib.fast_run_open_with, [network.handle if network else None, *handles]
        return lib.fast_run_open, []

    def train(self, watch: Optional[Callable[[Event], Any]] = None) -> "Run":
        """Train to the end. `watch` is called with each Event; an exception in it ends the run. Returns the run.

        Ctrl-C ends the step, saves where asked and raises KeyboardInterrupt; train() then continues.
        """
        def event(_: Any, e: Any) -> None:
            try:
                v = e.contents
                r = v.result.contents
                watch(Event(KINDS[v.kind], v.step, v.step_count, v.epoch, v.seconds_left, r.loss,  # type: ignore[misc]
                            r.test_loss, r.test_accuracy, v.text.decode(errors="replace") if v.text else None))
            except BaseException as error:
                self.guard.remember(error)

        handle = self.handle
        if self._training:
            raise InvalidError(native.FAST_EINVAL, "the run is training already")
        self._watch = native.fast_event_fn(event) if watch else native.fast_event_fn()
        self._training = True
        try:
            lib.fast_run_watch(handle, self._watch, None)
            interruptible(lambda: lib.fast_run_train(handle), lambda: lib.fast_run_cancel(handle), self.guard)
        finally:
            self._training = False
        return self

    def cancel(self) -> None:
        """Let train() finish its step and return; from any thread."""
        lib.fast_run_cancel(self.handle)

    @property
    def result(self) -> Result:
        """The measures so far, by the names of `fast train --json`."""
        return Result(json.loads(lib.fast_run_json(self.handle)))

    @property
    def id(self) -> int:  # noqa: A003
        """The run's number in the store; 0 if it is not stored."""
        return int(lib.fast_run_id(self.handle))

    @property
    def first(self) -> bool:
        """True if this process speaks for the run; false at the other ranks of MPI."""
        return bool(lib.fast_run_is_first(self.handle))

    def option(self, name: str) -> Optional[str]:
        """An option's value as it was resolved; None for an unknown name."""
        value = lib.fast_run_option(self.handle, name.encode())
        return value.decode() if value is not None else None

    def predict(self, x: Any) -> Any:
        """Outputs for samples: logits of classes, or values of a regression; [samples][outputs]."""
        view = _arrays.View(x)
        inputs, outputs = lib.fast_run_inputs(self.handle), lib.fast_run_outputs(self.handle)
        count, each = view.shape[0], 1
        for size in view.shape[1:]:
            each *= size
        if each != inputs:
            raise InvalidError(native.FAST_EINVAL, f"samples have {each} values, the model takes {inputs}")
        y, address = _arrays.new((count, outputs))
        code = lib.fast_run_predict(self.handle, count, view.address, address)
        self.guard.raise_first()
        check(code)
        return y

    def save(self, path: Any) -> None:
        """Save the weights (safetensors), or the network with its weights if the path ends with .onnx."""
        check(lib.fast_run_save(self.handle, os.fspath(path).encode()))

    def checkpoint(self, path: Any) -> None:
        """Save the whole run, to continue with resume=path."""
        check(lib.fast_run_checkpoint(self.handle, os.fspath(path).encode()))

    def close(self) -> None:
        """Free the run."""
        if self._training:
            raise InvalidError(native.FAST_EINVAL, "the run is training; cancel() ends it")
        handle, self._handle = self._handle, None
        if handle:
            lib.fast_run_close(handle)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "guard":
            raise AttributeError(name)
        return getattr(self.result, name)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if self.__dict__.get("_handle") and not self._training:
            self.close()

    def __repr__(self) -> str:
        if self._handle is None:
            return "<fast.Run, closed>"
        r = self.result
        return f"<fast.Run {r.model} on {r.data}: {r.steps} steps, loss {r.loss}, test accuracy {r.test_accuracy}>"


def progress(event: Event) -> None:
    """A watcher that shows one line: rewritten on a terminal and in a notebook, once an evaluation elsewhere."""
    live = sys.stderr.isatty() or "ipykernel" in sys.modules
    if event.kind == "note":
        print(event.text, file=sys.stderr)
    elif event.kind == "evaluate" or (live and event.kind == "progress"):
        text = f"step {event.step}/{event.step_count}  loss {event.loss:.4f}"
        if event.test_accuracy == event.test_accuracy:
            text += f"  test accuracy {100 * event.test_accuracy:.2f}%"
        done = not live or event.step == event.step_count
        print(("\r" if live else "") + text.ljust(60), end="\n" if done else "", file=sys.stderr, flush=True)


def train(model: Any = None, data: Any = None, test: Any = None, *, watch: Any = None, **more: Any) -> Run:
    """Train a model and return its run: `fast train`, whose options are the keyword arguments.

    >>> run = fast.train("mlp", "digits", epochs=2, system="ssp", workers=4)
    >>> run.test_accuracy

    `watch` is a function of events, or True for a line of progress; in a notebook the losses so far are drawn in
    place unless it is False. `data` may be a DataLoader of PyTorch's, which is read once. See Run for models and data of one's own.
    """
    run = Run(model, data, test, **more)
    if watch is None and "ipykernel" in sys.modules:
        from .reports import live
        watch = live()
    return run.train(progress if watch is True else watch or None)

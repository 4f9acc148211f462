# SPDX-License-Identifier: Apache-2.0
"""What the tests of foreign learners share: the example's own binding, so that it is tested where there
is no PyTorch, a watcher, and runs as functions."""
import ctypes
import importlib.util
import json
import os
import struct
import sys
import types
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_void_p

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def example():
    """The module of examples/08_pytorch.py; PyTorch is not needed until a model is made."""
    try:
        import torch  # noqa: F401
    except ImportError:
        for name in ("torch", "torch.nn"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["torch"].nn = sys.modules["torch.nn"]
    spec = importlib.util.spec_from_file_location("example", os.path.join(ROOT, "examples", "08_pytorch.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
binding = example()


class Event(ctypes.Structure):
    _fields_ = [("kind", c_int), ("step", c_int64), ("step_count", c_int64), ("epoch", c_int64),
                ("seconds_left", c_double), ("result", POINTER(binding.Result)), ("text", c_char_p)]


EVALUATE, NOTE = 2, 4  # fast_event_kind
Watcher = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Event))


class Failed(Exception):
    pass


class Run:
    """A run that is closed at the end of its block; of a learner's, or of the options' model."""

    def __init__(self, fast, options, kind=None):
        self.fast, self.handle = fast, c_void_p()
        words = (c_char_p * (len(options) + 1))(*[option.encode() for option in options])
        out = ctypes.byref(self.handle)
        self.check(fast.fast_run_open_learner(words, ctypes.byref(kind), None, out) if kind
                   else fast.fast_run_open(words, out))

    def check(self, err):
        if err:
            raise Failed(self.fast.fast_error_detail().decode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.fast.fast_run_close(self.handle)

    def train(self, watch=None):
        watcher = Watcher(lambda _, event: watch(event.contents)) if watch else Watcher()
        self.fast.fast_run_watch.argtypes = [c_void_p, Watcher, c_void_p]
        self.fast.fast_run_watch(self.handle, watcher, None)
        self.check(self.fast.fast_run_train(self.handle))
        return self.result()

    def result(self):
        return binding.Result.from_buffer_copy(self.fast.fast_run_result(self.handle).contents)

    def save(self, path):
        self.fast.fast_run_save.argtypes = [c_void_p, c_char_p]
        self.check(self.fast.fast_run_save(self.handle, path.encode()))


def tensors(path):
    """A file of weights: name -> (shape, bytes)."""
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
            for name, t in header.items()}

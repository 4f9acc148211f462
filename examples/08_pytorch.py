#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""08_pytorch - PyTorch's own LeNet as a learner: FAST feeds it, exchanges and updates.

    python3 examples/08_pytorch.py                                          two workers, allreduce
    python3 examples/08_pytorch.py --strategy ps:slack=2 --workers 4        bounded staleness (SSP)
    python3 examples/08_pytorch.py --strategy gossip --transport sim --cluster hetero --workers 8

Flags are those of `fast train`. FAST_LIBRARY names libfast.so where the system does not find it.
"""
import collections
import ctypes
import os
import signal
import sys
from ctypes import POINTER, c_char, c_char_p, c_double, c_int64, c_size_t, c_void_p

import torch
from torch import nn


# The structs of fast/learner.h, field by field, and the first fields of fast_result.
class Tensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("rank", c_int64), ("shape", c_int64 * 4), ("initial", c_void_p)]


class Request(ctypes.Structure):
    _fields_ = [("worker", c_int64), ("workers", c_int64), ("step", c_int64), ("seed", c_int64),
                ("batch", c_int64), ("w", c_void_p), ("g", c_void_p), ("s", c_void_p),
                ("count", c_int64), ("features", c_int64), ("targets", c_int64),
                ("x", c_void_p), ("labels", c_void_p), ("y", c_void_p),
                ("samples", c_int64), ("loss", c_double), ("correct", c_int64), ("counted", c_int64), ("error", c_char * 256)]


Function = ctypes.CFUNCTYPE(ctypes.c_int, c_void_p, POINTER(Request))


class Kind(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("params", POINTER(Tensor)),
                ("param_count", c_int64), ("state", POINTER(Tensor)), ("state_count", c_int64),
                ("samples", c_int64), ("operations", c_double),
                ("gradient", Function), ("evaluate", Function), ("ctx", c_void_p), ("lr", c_void_p)]


class Result(ctypes.Structure):
    _fields_ = [("steps", c_int64), ("samples", c_int64), ("epoch", c_int64), ("samples_per_s", c_double),
                ("time_s", c_double), ("compute_s", c_double), ("loss", c_double),
                ("train_accuracy", c_double), ("test_loss", c_double), ("test_accuracy", c_double)]


def library():
    fast = ctypes.CDLL(os.environ.get("FAST_LIBRARY", "libfast.so.0"), mode=ctypes.RTLD_GLOBAL)
    fast.fast_error_detail.restype = c_char_p
    fast.fast_run_result.restype = POINTER(Result)
    for name in ("train", "result", "close"):
        getattr(fast, "fast_run_" + name).argtypes = [c_void_p]
    return fast


def guarded(function):
    """An exception must not leave a callback: it becomes the error of the request, and ends the run."""
    def answer(_, request):
        try:
            function(request.contents)
            return 0
        except BaseException as e:
            request.contents.error = f"{type(e).__name__}: {e}".encode()[:255]
            return -2  # FAST_EINVAL
    return Function(answer)


def vector(address, count, kind="float32"):
    """FAST's memory as a tensor, without a copy."""
    return torch.frombuffer((c_char * (4 * count)).from_address(address), dtype=getattr(torch, kind))


def lenet():
    return nn.Sequential(collections.OrderedDict([
        ("conv1", nn.Conv2d(1, 20, 5)), ("pool1", nn.MaxPool2d(2)), ("relu1", nn.ReLU()),
        ("conv2", nn.Conv2d(20, 50, 5)), ("pool2", nn.MaxPool2d(2)), ("relu2", nn.ReLU()),
        ("flat", nn.Flatten()), ("dense1", nn.Linear(800, 500)), ("relu3", nn.ReLU()),
        ("dense2", nn.Linear(500, 10))]))


class TorchLearner:
    """A model of PyTorch's whose parameters and gradients lie in FAST's vectors."""

    def __init__(self, make):
        self.make, self.models = make, {}
        self.first = make()

    def kind(self, name):
        named = list(self.first.named_parameters())
        self.tensors = (Tensor * len(named))(*[
            Tensor(key.encode(), p.dim(), (c_int64 * 4)(*p.shape), p.data_ptr()) for key, p in named])
        self.function = guarded(self.learn)
        return Kind(size=ctypes.sizeof(Kind), name=name.encode(), params=self.tensors,
                    param_count=len(named), operations=13.7e6,
                    gradient=self.function, evaluate=self.function)

    def learn(self, request):
        if request.worker not in self.models:  # one for each worker: their calls overlap
            self.models[request.worker] = self.make()
        model, at = self.models[request.worker], 0
        for p in model.parameters():
            p.data = vector(request.w + at, p.numel()).view(p.shape)
            p.grad = vector(request.g + at, p.numel()).view(p.shape).zero_() if request.g else None
            at += 4 * p.numel()
        x = vector(request.x, request.count * request.features).view(request.count, 1, 28, 28)
        labels = vector(request.labels, request.count, "int32").long()
        with torch.set_grad_enabled(bool(request.g)):
            outputs = model(x)
            loss = nn.functional.cross_entropy(outputs, labels)
        if request.g:
            loss.backward()
        request.loss, request.counted = loss.item(), request.count
        request.correct = int((outputs.argmax(1) == labels).sum())
        request.samples = request.count


def train(fast, kind, options):
    """Open, train, close; the result."""
    run = c_void_p()
    words = (c_char_p * (len(options) + 1))(*[option.encode() for option in options])
    failed = fast.fast_run_open_learner(words, ctypes.byref(kind), None, ctypes.byref(run))
    failed = failed or fast.fast_run_train(run)
    if failed:
        sys.exit("error: " + fast.fast_error_detail().decode())
    result = Result.from_buffer_copy(fast.fast_run_result(run).contents)
    fast.fast_run_close(run)
    return result


def main():
    flags = sys.argv[1:]
    if len(flags) % 2 or any(not flag.startswith("--") for flag in flags[::2]):
        sys.exit(__doc__)
    options = ["workers=2", "epochs=1"]  # a later one of the same name counts
    options += [f"{name[2:].replace('-', '_')}={value}" for name, value in zip(flags[::2], flags[1::2])]
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python would look at it after the run
    torch.set_num_threads(1)  # a worker computes on one core
    torch.manual_seed(1)
    r = train(library(), TorchLearner(lenet).kind("torch-lenet"), options)
    print(f"{r.steps} steps in {r.time_s:.1f} s, loss {r.loss:.4f}, test accuracy {100 * r.test_accuracy:.2f}%")


if __name__ == "__main__":
    main()

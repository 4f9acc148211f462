#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Question: what does fast.wrap() cost, and how fast are two processes beside DDP over gloo?

    fast run -n 1 bench/torch_loop.py      a step of lenet and of a tiny model, alone and wrapped
    fast run -n 2 bench/torch_loop.py      samples/s of an mlp, DDP and wrapped, one after the other

Expected: a wrapped step hands over to FAST's thread and back, tens of microseconds; FAST's sum is that of a
process that shares memory, gloo's goes through a socket. Bound: the step without any exchange. Contenders
alternate; medians of ROUNDS.
"""
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

import fast

ROUNDS, STEPS = 7, 40


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(),
                         nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def tiny():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def seconds(make, batch, how):
    """Seconds of one step: plain, ddp or wrapped."""
    torch.manual_seed(1)
    x, y = torch.randn(batch, 1, 28, 28), torch.randint(10, (batch,))
    model = make()
    model = nn.parallel.DistributedDataParallel(model) if how == "ddp" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if how == "fast":
        model, optimizer = fast.wrap(model, optimizer, strategy="allreduce" if fast.size() > 1 else None)
    for i in range(STEPS + 5):
        if i == 5:
            begin = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    taken = (time.perf_counter() - begin) / STEPS
    fast.finish(optimizer)
    return taken


def compare(name, make, batch, contenders):
    times = {how: [] for how in contenders}
    for _ in range(ROUNDS):
        for how in contenders:
            times[how].append(seconds(make, batch, how))
    if fast.rank() == 0:
        medians = {how: statistics.median(t) for how, t in times.items()}
        print(name, "batch", batch, *(f"{how} {1e3 * t:.3f} ms" for how, t in medians.items()),
              f"ratio {medians[contenders[0]] / medians['fast']:.3f}", flush=True)


torch.set_num_threads(1)
if fast.size() == 1:
    compare("lenet", lenet, 64, ["plain", "fast"])
    compare("tiny", tiny, 1, ["plain", "fast"])
else:
    store = sys.argv[1] if len(sys.argv) > 1 else os.path.join(tempfile.gettempdir(), f"fast-bench-{os.getppid()}")
    dist.init_process_group("gloo", init_method="file://" + store, rank=fast.rank(), world_size=fast.size())
    compare("mlp", mlp, 64, ["ddp", "fast"])
    compare("lenet", lenet, 64, ["ddp", "fast"])
    dist.destroy_process_group()

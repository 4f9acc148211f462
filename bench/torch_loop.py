#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Question: what does fast.wrap() cost, and how fast are two processes beside DDP over gloo?

    fast run -n 1 bench/torch_loop.py            a call of optimizer.step(); a step of lenet, alone and wrapped
    fast run -n 2 bench/torch_loop.py            steps of an mlp and of lenet, DDP and wrapped, and their ratio
    fast run -n 2 bench/torch_loop.py --busy 2   the same beside two busy loops: a machine that others use too

A call is optimizer.step() of a model with one parameter: all that the wrapper, FAST and its update rule do but for
arithmetic. Expected: two jumps and a call by ctypes, some microseconds. Of two processes FAST's sum goes through
shared memory, gloo's through a socket. Bound: the step without any exchange.

All contenders of a table are alive in the same processes and alternate every BLOCK steps, so that a busy machine
slows all of them. A row has the quantiles of the wall clock's time of a step in milliseconds, its mean, the median of
the processor's time, and samples/s by the median and by the mean. `chrt -f 50` before `fast run` keeps other programs
away, from all contenders alike. One thread each.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

import fast

ROUNDS, BLOCK, BATCH = 40, 8, 64


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(),
                         nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


class Contender:
    """A model that trains: plain, ddp or fast."""

    def __init__(self, how, make, batch):
        torch.manual_seed(1)
        self.x, self.y = torch.randn(batch, 1, 28, 28), torch.randint(10, (batch,))
        self.model = nn.parallel.DistributedDataParallel(make()) if how == "ddp" else make()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        if how == "fast":
            fast.wrap(self.model, self.optimizer, strategy="allreduce" if fast.size() > 1 else None)
        self.wall, self.cpu = [], []

    def steps(self, count, measured=True):
        for _ in range(count):
            begin = time.perf_counter(), time.process_time()
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(self.x), self.y).backward()
            self.optimizer.step()
            if measured:
                self.wall.append(1e3 * (time.perf_counter() - begin[0]))
                self.cpu.append(1e3 * (time.process_time() - begin[1]))


def compare(name, make, batch, names, rounds):
    contenders = {how: Contender(how, make, batch) for how in names}
    for one in contenders.values():
        one.steps(5, measured=False)
    for _ in range(rounds):
        for one in contenders.values():
            if fast.size() > 1:
                dist.barrier()
            one.steps(BLOCK)
    rates = {}
    for how, one in contenders.items():
        fast.finish(one.optimizer)
        median, mean = statistics.median(one.wall), statistics.mean(one.wall)
        tenths = statistics.quantiles(one.wall, n=10)
        rates[how] = [1e3 * fast.size() * batch / t for t in (median, mean)]
        if fast.rank() == 0:
            print(f"{name},{batch},{how},{tenths[0]:.3f},{median:.3f},{tenths[8]:.3f},{mean:.3f},"
                  f"{statistics.median(one.cpu):.3f},{rates[how][0]:.0f},{rates[how][1]:.0f}", flush=True)
    if "ddp" in rates and fast.rank() == 0:
        by = [a / b for a, b in zip(rates["fast"], rates["ddp"])]
        print(f"{name}, batch {batch}: FAST's samples/s over DDP's {by[0]:.2f} by the median step, {by[1]:.2f} by the mean",
              flush=True)


def call(wrapped, count=2000):
    """Microseconds of optimizer.step() of a model with one parameter."""
    model = nn.Linear(1, 1, bias=False)
    model.weight.grad = torch.ones(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if wrapped:
        fast.wrap(model, optimizer)
    optimizer.step()
    taken = []
    for _ in range(count):
        begin = time.perf_counter()
        optimizer.step()
        taken.append(1e6 * (time.perf_counter() - begin))
    fast.finish(optimizer)
    return statistics.median(taken)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--busy", type=int, default=0, help="busy loops beside the processes")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of {BLOCK} steps")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if fast.size() == 1:
        print(f"a call of step(): PyTorch {call(False):.1f} us, wrapped {call(True):.1f} us")
    if fast.rank() == 0:
        print("model,batch,contender,10% ms,median ms,90% ms,mean ms,processor ms,samples/s by median,by mean", flush=True)
    if fast.size() == 1:
        compare("lenet", lenet, BATCH, ["plain", "fast"], given.rounds)
        return
    store = os.path.join(tempfile.gettempdir(), f"fast-bench-{os.getppid()}")
    dist.init_process_group("gloo", init_method="file://" + store, rank=fast.rank(), world_size=fast.size())
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(given.busy if fast.rank() == 0 else 0)]
    try:
        for batch in (BATCH, BATCH // 2):
            compare("mlp", mlp, batch, ["plain", "ddp", "fast"], given.rounds)
        compare("lenet", lenet, BATCH, ["plain", "ddp", "fast"], given.rounds)
    finally:
        for loop in loops:
            loop.kill()
    dist.destroy_process_group()


main()

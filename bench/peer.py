#!/usr/bin/python3
"""Is FAST faster than PyTorch on one thread, and as accurate?

The question: samples/s of one worker, one thread, batch 64, on Fashion-MNIST, for mlp, lenet and
resnet8, FAST and PyTorch (Debian's python3-torch) alternating in the same run, so that a noisy
machine hurts both; the medians' ratio is the answer. The expected answer and the bounds are in
results/performance.md. With --epochs 3 or so it also compares the test accuracies.

--isa avx2 limits both programs, with all their libraries, to that instruction set, so that the
figures of a smaller processor can be taken on a larger one. --steps 300 is enough for a speed;
--csv writes it, with the processor and the commit, in the place of the row of the same processor,
instruction set and model.

usage: bench/peer.py [--fast build/release/fast] [--isa avx2] [--rounds 3] [--epochs 1 | --steps N]
                     [--csv results/cpu.csv] [--seeds] [MODEL ...]
FMNIST in the environment names the folder of the data set.
"""
import argparse
import csv
import datetime
import gzip
import json
import os
import statistics
import subprocess
import sys
import time

FOLDER = os.environ.get("FMNIST", "/usr/share/datasets/fashion-mnist")
ENV = dict(os.environ, OMP_NUM_THREADS="1")
# What limits FAST, and PyTorch with each library that it may be built with. OpenBLAS is in both.
LIMITS = {
    "avx2": {"FAST_ISA": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
             "DNNL_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
             "OPENBLAS_CORETYPE": "Haswell"},
    "base": {"FAST_ISA": "base", "ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41",
             "DNNL_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
             "OPENBLAS_CORETYPE": "Nehalem"},
}
COLUMNS = ["processor", "instruction set", "model", "PyTorch, samples/s", "FAST, samples/s", "ratio",
           "commit", "date"]


NOTES = [  # the head of a new table, as tools/results.py wants it
    "# page: performance", "# order: 13", "# title: One worker beside PyTorch 1.13, by instruction set",
    "# question: Is FAST faster than PyTorch on one thread, with AVX2 and with AVX-512? Batch 64, "
    "Fashion-MNIST; medians of alternating runs.",
    "# machine: the processor of each row", "# date: of each row",
    "# command: bench/peer.py --isa avx2 --csv results/cpu.csv"]


def torch_train(model, epochs, steps, batch, lr, seed):
    """The peer's program: prints one JSON line."""
    import numpy as np
    import torch
    import torch.nn.functional as F
    from torch import nn

    def read(kind):
        with gzip.open(f"{FOLDER}/{kind}-images-idx3-ubyte.gz") as file:
            x = np.frombuffer(file.read(), np.uint8, offset=16)
        with gzip.open(f"{FOLDER}/{kind}-labels-idx1-ubyte.gz") as file:
            y = np.frombuffer(file.read(), np.uint8, offset=8)
        return (torch.tensor(x.reshape(-1, 1, 28, 28).astype(np.float32) / 255),
                torch.tensor(y.astype(np.int64)))

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.norm1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norm2 = nn.BatchNorm2d(outputs)
            self.shortcut = nn.Identity() if inputs == outputs and stride == 1 else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            y = F.relu(self.norm1(self.conv1(x)))
            return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))

    networks = {
        "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512),
                                     nn.ReLU(), nn.Linear(512, 10)),
        "lenet": lambda: nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
                                       nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
                                       nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10)),
        "resnet8": lambda: nn.Sequential(nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16),
                                         nn.ReLU(), Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2),
                                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    }
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    x, y = read("train")
    test_x, test_y = read("t10k")
    net = networks[model]()
    rule = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    seconds, done = 0.0, 0
    for epoch in range(epochs):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed * 1000 + epoch))
        start = time.time()
        net.train()
        for i in range(0, len(x) - batch + 1, batch):
            index = order[i:i + batch]
            loss = F.cross_entropy(net(x[index]), y[index])
            rule.zero_grad(set_to_none=True)
            loss.backward()
            rule.step()
            done += 1
            if steps and done == steps:
                break
        seconds += time.time() - start
    net.eval()
    with torch.no_grad():
        right = sum((net(test_x[i:i + 500]).argmax(1) == test_y[i:i + 500]).sum().item()
                    for i in range(0, len(test_x), 500))
    print(json.dumps({"samples_per_s": done * batch / seconds,
                      "test_accuracy": right / len(test_x)}))


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, env=ENV)
    if result.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr}")
    return json.loads(result.stdout.strip().splitlines()[-1])


def processor():
    """The name of this machine's processor."""
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else "unknown"


def largest_set():
    """The best instruction set that FAST uses here."""
    with open("/proc/cpuinfo") as file:
        flags = set(file.read().split())
    return "avx512" if "avx512dq" in flags else "avx2" if "avx2" in flags else "base"


def write_rows(path, rows):
    """Write rows to a table of results, in the place of older ones of the same first three columns."""
    notes, table = list(NOTES), {}
    if os.path.exists(path):
        with open(path, newline="") as file:
            lines = file.read().splitlines()
        notes = [line for line in lines if line.startswith("#")]
        table = {tuple(row[:3]): row for row in list(csv.reader(lines[len(notes):]))[1:]}
    table.update({tuple(row[:3]): row for row in rows})
    with open(path, "w", newline="") as file:
        file.write("".join(line + "\n" for line in notes))
        csv.writer(file, lineterminator="\n").writerows([COLUMNS] + list(table.values()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["mlp", "lenet", "resnet8"])
    parser.add_argument("--fast", default="build/release/fast")
    parser.add_argument("--python", default="/usr/bin/python3", help="the one that has torch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="stop after this number of batches")
    parser.add_argument("--isa", choices=list(LIMITS), help="limit both programs to it")
    parser.add_argument("--csv", help="write the medians to this table")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seeds", action="store_true", help="a new seed every round")
    parser.add_argument("--torch", help=argparse.SUPPRESS)  # the peer's own process: MODEL:SEED
    args = parser.parse_args()
    if args.torch:
        model, seed = args.torch.split(":")
        return torch_train(model, args.epochs, args.steps, args.batch, args.lr, int(seed))

    ENV.update(LIMITS.get(args.isa, {}))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    steps, rows = (["--steps", str(args.steps)] if args.steps else []), []
    for model in args.models:
        ours, peers = [], []
        for i in range(args.rounds):
            seed = 1 + (i if args.seeds else 0)
            peers.append(run([args.python, __file__, "--torch", f"{model}:{seed}", "--epochs",
                              str(args.epochs), "--batch", str(args.batch), "--lr", str(args.lr)] +
                             steps))
            ours.append(run([args.fast, "train", "--store", "none", "--model", model, "--data",
                             f"fashion-mnist:folder={FOLDER}", "--workers",
                             "1", *(steps or ["--epochs", str(args.epochs)]), "--batch",
                             str(args.batch), "--optimizer", "momentum", "--schedule", "constant", "--lr", str(args.lr), "--seed",
                             str(seed), "--json"]))
        speed = [statistics.median(r["samples_per_s"] for r in runs) for runs in (peers, ours)]
        right = [100 * statistics.median(r["test_accuracy"] for r in runs) for runs in (peers, ours)]
        print(f"{model:8}  torch {speed[0]:7.0f}/s {right[0]:.2f}%   fast {speed[1]:7.0f}/s "
              f"{right[1]:.2f}%   ratio {speed[1] / speed[0]:.2f}   accuracy {right[1] - right[0]:+.2f}",
              flush=True)
        rows.append([processor(), args.isa or largest_set(), model, f"{speed[0]:,.0f}", f"{speed[1]:,.0f}",
                     f"{speed[1] / speed[0]:.2f}", commit.stdout.strip(), str(datetime.date.today())])
    if args.csv:
        write_rows(args.csv, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())

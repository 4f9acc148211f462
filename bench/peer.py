#!/usr/bin/python3
"""Is FAST faster than PyTorch on one thread, and as accurate?

The question: samples/s of one worker, one thread, batch 64, on Fashion-MNIST, for mlp, lenet and
resnet8, FAST and PyTorch (Debian's python3-torch) alternating in the same run, so that a noisy
machine hurts both; the medians' ratio is the answer. The expected answer and the bounds are in
results/performance.md. With --epochs 3 or so it also compares the test accuracies.

usage: bench/peer.py [--fast build/release/fast] [--rounds 3] [--epochs 1] [--seeds] [MODEL ...]
FMNIST in the environment names the folder of the data set.
"""
import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import time

FOLDER = os.environ.get("FMNIST", "/usr/share/datasets/fashion-mnist")
ENV = dict(os.environ, OMP_NUM_THREADS="1")


def torch_train(model, epochs, batch, lr, seed):
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
    seconds = 0.0
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
        seconds += time.time() - start
    net.eval()
    with torch.no_grad():
        right = sum((net(test_x[i:i + 500]).argmax(1) == test_y[i:i + 500]).sum().item()
                    for i in range(0, len(test_x), 500))
    print(json.dumps({"samples_per_s": epochs * (len(x) // batch * batch) / seconds,
                      "test_accuracy": right / len(test_x)}))


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, env=ENV)
    if result.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr}")
    return json.loads(result.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=["mlp", "lenet", "resnet8"])
    parser.add_argument("--fast", default="build/release/fast")
    parser.add_argument("--python", default="/usr/bin/python3", help="the one that has torch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seeds", action="store_true", help="a new seed every round")
    parser.add_argument("--torch", help=argparse.SUPPRESS)  # the peer's own process: MODEL:SEED
    args = parser.parse_args()
    if args.torch:
        model, seed = args.torch.split(":")
        return torch_train(model, args.epochs, args.batch, args.lr, int(seed))

    for model in args.models:
        ours, peers = [], []
        for i in range(args.rounds):
            seed = 1 + (i if args.seeds else 0)
            peers.append(run([args.python, __file__, "--torch", f"{model}:{seed}", "--epochs",
                              str(args.epochs), "--batch", str(args.batch), "--lr", str(args.lr)]))
            ours.append(run([args.fast, "train", "--store", "none", "--model", model, "--data",
                             f"fashion-mnist:folder={FOLDER}", "--workers",
                             "1", "--epochs", str(args.epochs), "--batch", str(args.batch), "--optimizer",
                             "momentum", "--schedule", "constant", "--lr", str(args.lr), "--seed",
                             str(seed), "--json"]))
        speed = [statistics.median(r["samples_per_s"] for r in runs) for runs in (peers, ours)]
        right = [100 * statistics.median(r["test_accuracy"] for r in runs) for runs in (peers, ours)]
        print(f"{model:8}  torch {speed[0]:7.0f}/s {right[0]:.2f}%   fast {speed[1]:7.0f}/s "
              f"{right[1]:.2f}%   ratio {speed[1] / speed[0]:.2f}   accuracy {right[1] - right[0]:+.2f}",
              flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

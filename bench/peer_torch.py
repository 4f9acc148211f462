#!/usr/bin/python3
"""The peer of bench/peer.py: one PyTorch program that trains one model on one thread.

mlp, lenet and resnet8 train on Fashion-MNIST; the larger models on arrays that peer.py wrote:
images [N, 3, 32, 32] with a class each, or tokens [N, T] with the next token as the answer at each
position. Prints one JSON line: samples_per_s, samples_per_cpu_s (by the processor's time), and
test_accuracy where there is a test set.

With a number of steps, the clock starts after the first of them.

usage: bench/peer_torch.py MODEL SEED EPOCHS STEPS BATCH LR FOLDER
"""
import gzip
import json
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def read_idx(folder, kind):
    """The images and labels of one part of Fashion-MNIST."""
    with gzip.open(f"{folder}/{kind}-images-idx3-ubyte.gz") as file:
        x = np.frombuffer(file.read(), np.uint8, offset=16)
    with gzip.open(f"{folder}/{kind}-labels-idx1-ubyte.gz") as file:
        y = np.frombuffer(file.read(), np.uint8, offset=8)
    return (torch.tensor(x.reshape(-1, 1, 28, 28).astype(np.float32) / 255),
            torch.tensor(y.astype(np.int64)))


class Block(nn.Module):
    """A residual block, its shortcut projected where the shape changes."""

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


def resnet(channels, blocks):
    """Three stages of `blocks` blocks with 16, 32 and 64 channels."""
    layers = [nn.Conv2d(channels, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    width = 16
    for i in range(3 * blocks):
        widen = i > 0 and i % blocks == 0
        layers.append(Block(width, width * 2 if widen else width, 2 if widen else 1))
        width = width * 2 if widen else width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Lstm(nn.Module):
    """A language model: embedding, one LSTM, a dense layer at each position."""

    def __init__(self, symbols, embedding, hidden):
        super().__init__()
        self.embed = nn.Embedding(symbols, embedding)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        self.dense = nn.Linear(hidden, symbols)

    def forward(self, x):
        return self.dense(self.lstm(self.embed(x))[0])


class Transformer(nn.Module):
    """One pre-norm block of a GPT."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense1, self.dense2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(width, 2))
        scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        later = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        y = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.dense2(F.gelu(self.dense1(self.norm2(x))))


class Gpt(nn.Module):
    """Token and position vectors, blocks, a norm, a dense layer."""

    def __init__(self, symbols, context, width, heads, depth):
        super().__init__()
        self.embed, self.place = nn.Embedding(symbols, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Transformer(width, heads) for _ in range(depth)])
        self.norm, self.dense = nn.LayerNorm(width), nn.Linear(width, symbols)

    def forward(self, x):
        x = self.embed(x) + self.place(torch.arange(x.shape[1]))
        return self.dense(self.norm(self.blocks(x)))


NETWORKS = {
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512),
                                 nn.ReLU(), nn.Linear(512, 10)),
    "lenet": lambda: nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
                                   nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(),
                                   nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10)),
    "resnet8": lambda: resnet(1, 1),
    "resnet20": lambda: resnet(3, 3),
    "resnet56": lambda: resnet(3, 9),
    "lstm": lambda: Lstm(64, 128, 512),
    "gpt": lambda: Gpt(64, 256, 384, 6, 6),
}


def main():
    model, folder = sys.argv[1], sys.argv[7]
    seed, epochs, steps, batch = (int(a) for a in sys.argv[2:6])
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    small = model in ("mlp", "lenet", "resnet8")
    if small:
        x, y = read_idx(folder, "train")
        test_x, test_y = read_idx(folder, "t10k")
    else:
        x, y = (torch.tensor(np.load(f"{folder}/{part}.npy")) for part in "xy")
        x, y = (x if x.dim() == 4 else x.long()), y.long()
    net = NETWORKS[model]()
    rule = torch.optim.SGD(net.parameters(), lr=float(sys.argv[6]), momentum=0.9)
    seconds, cpu_seconds, done, early = 0.0, 0.0, 0, 0
    for epoch in range(epochs):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed * 1000 + epoch))
        start, cpu_start = time.time(), time.process_time()
        net.train()
        for i in range(0, len(x) - batch + 1, batch):
            index = order[i:i + batch]
            out = net(x[index])
            loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y[index].reshape(-1))
            rule.zero_grad(set_to_none=True)
            loss.backward()
            rule.step()
            done += 1
            if steps > 1 and done == 1:
                start, cpu_start, early = time.time(), time.process_time(), 1
            if steps and done == steps:
                break
        seconds += time.time() - start
        cpu_seconds += time.process_time() - cpu_start
    result = {"samples_per_s": (done - early) * batch / seconds, "loss": loss.item(),
              "samples_per_cpu_s": (done - early) * batch / cpu_seconds}
    if small:
        net.eval()
        with torch.no_grad():
            right = sum((net(test_x[i:i + 500]).argmax(1) == test_y[i:i + 500]).sum().item()
                        for i in range(0, len(test_x), 500))
        result["test_accuracy"] = right / len(test_x)
    print(json.dumps(result))


if __name__ == "__main__":
    main()

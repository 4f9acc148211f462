#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes training.safetensors: the losses of 20 training steps of PyTorch, model by model.

    python3 tests/oracle/make_training.py [FOLDER]    the script's own without one

Weights and batches are not stored: both sides make them of the same hash of (key, index), which is
exact in integers and in one product of floats. Parameter k in the order of the model has key k; its
element i is the hash scaled by 1 / sqrt(columns) for matrices and filters, 0.1 for biases, and 1 +
0.1 of it for the weights of norms. Four batches are used in rotation, so that the loss falls and every step
weighs in the next one's loss; rates are small enough that rounding stays rounding: with large ones a ReLU that flips by
1e-7 moves the losses of the next steps by 1e-3, in PyTorch against itself as well. The update is SGD with momentum 0.9.

Each tensor is named by its case and holds [20] losses in float32 arithmetic. The script also prints how
far they are from the same steps in float64: how much of a deviation is rounding alone.
"""
import json
import os
import struct
import sys

import numpy as np
import torch
from torch import nn

STEPS, BATCHES = 20, 4
X_KEY, LABEL_KEY = 1000, 2000


def hash32(key, count):
    """A mix of 32 bits (the finaliser of MurmurHash3) of key and index."""
    h = np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(
        (key * 0x85EBCA77) & 0xFFFFFFFF)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return h


def unit(key, count):
    """Numbers in [-1, 1), exact in float32."""
    return (hash32(key, count) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)


def set_weights(model):
    norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm)
    gains = {id(m.weight) for m in model.modules() if isinstance(m, norms)}
    with torch.no_grad():
        for k, p in enumerate(model.parameters()):
            u = unit(k, p.numel())
            if id(p) in gains:
                u = np.float32(1) + np.float32(0.1) * u
            elif p.dim() == 1:
                u = np.float32(0.1) * u
            else:
                u = np.float32(1 / np.sqrt(p.numel() // p.shape[0])) * u
            p.copy_(torch.tensor(u.reshape(p.shape)))


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.main = nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
                                  nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o))
        self.short = nn.Identity() if stride == 1 and i == o else nn.Sequential(
            nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return torch.relu(self.main(x) + self.short(x))


class Dense(nn.Module):
    """A layer of DenseNet."""

    def __init__(self, i, growth):
        super().__init__()
        self.main = nn.Sequential(nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, growth, 3, 1, 1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.main(x)], 1)


class Recurrent(nn.Module):
    def __init__(self, kind, vocabulary, embedding, hidden, layers):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, embedding)
        self.body = kind(embedding, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, x):
        return self.head(self.body(self.embed(x))[0])


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.norm1(x)
        mask = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.dense(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary, length, width, heads, depth):
        super().__init__()
        self.embed, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[GptBlock(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.embed(x) + self.position.weight)))


def mlp(*widths):
    layers = [nn.Flatten()]
    for i, o in zip(widths, widths[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2),
                         nn.ReLU(), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


def resnet8():
    return nn.Sequential(nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), Block(16, 16, 1),
                         Block(16, 32, 2), Block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(64, 10))


def alexnet(width, hidden):
    layers, channels = [], 3
    for o, kernel, pool in ((1, 5, 1), (3, 5, 1), (6, 3, 0), (4, 3, 0), (4, 3, 1)):
        layers += [nn.Conv2d(channels, o * width, kernel, 1, kernel // 2), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if pool else []
        channels = o * width
    layers += [nn.Flatten(), nn.Linear(4 * channels, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
               nn.Linear(hidden, 10)]
    return nn.Sequential(*layers)


def densenet(n, growth):
    layers, channels = [nn.Conv2d(3, 2 * growth, 3, 1, 1, bias=False)], 2 * growth
    for block in range(3):
        for _ in range(n):
            layers.append(Dense(channels, growth))
            channels += growth
        if block < 2:
            layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels // 2, 1, bias=False),
                       nn.AvgPool2d(2)]
            channels //= 2
    layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]
    return nn.Sequential(*layers)


# Case: model, shape of one sample (tokens: the vocabulary), outputs, batch, learning rate. The C test
# has the same table.
CASES = {
    "mlp": (lambda: mlp(784, 512, 512, 10), (1, 28, 28), 10, 32, 0.02),
    "mlp_mse": (lambda: mlp(13, 32, 24, 3), (13,), 0, 16, 0.05),
    "lenet": (lenet, (1, 28, 28), 10, 8, 0.02),
    "lenet_64": (lenet, (1, 28, 28), 10, 64, 0.02),
    "resnet8": (resnet8, (1, 12, 12), 10, 32, 0.001),
    "resnet8_64": (resnet8, (1, 28, 28), 10, 64, 0.003),
    "alexnet": (lambda: alexnet(4, 32), (3, 16, 16), 10, 8, 0.1),
    "densenet": (lambda: densenet(2, 6), (3, 12, 12), 10, 32, 0.003),
    "rnn": (lambda: Recurrent(nn.RNN, 20, 16, 24, 1), (12, 20), 20, 8, 0.5),
    "lstm": (lambda: Recurrent(nn.LSTM, 20, 16, 24, 2), (12, 20), 20, 8, 3.0),
    "gru": (lambda: Recurrent(nn.GRU, 20, 16, 24, 1), (12, 20), 20, 8, 1.0),
    "gpt": (lambda: Gpt(20, 12, 32, 4, 2), (12, 20), 20, 8, 0.1),
}


def make_batch(b, shape, outputs, batch, tokens):
    if tokens:
        length, vocabulary = shape
        stream = hash32(X_KEY + b, batch * (length + 1)).reshape(batch, length + 1) % np.uint32(vocabulary)
        stream = torch.tensor(stream.astype(np.int64))
        return stream[:, :-1], stream[:, 1:]
    count = batch * int(np.prod(shape))
    x = torch.tensor(unit(X_KEY + b, count).reshape((batch, ) + shape))
    if outputs:
        return x, torch.tensor((hash32(LABEL_KEY + b, batch) % np.uint32(outputs)).astype(np.int64))
    return x, torch.tensor(unit(LABEL_KEY + b, 3 * batch).reshape(batch, 3))


def train(name, dtype):
    make, shape, outputs, batch, lr = CASES[name]
    model = make()
    tokens = isinstance(model, (Recurrent, Gpt))
    set_weights(model)
    model.to(dtype)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for step in range(STEPS):
        x, y = make_batch(step % BATCHES, shape, outputs, batch, tokens)
        out = model(x if tokens else x.to(dtype))
        if outputs:
            loss = nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        else:
            loss = nn.functional.mse_loss(out, y.to(dtype))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.set_num_threads(1)
    header, data = {"__metadata__": {"torch": torch.__version__}}, b""
    for name in CASES:
        losses, exact = train(name, torch.float32), train(name, torch.float64)
        print("%-10s loss %.4f -> %.4f, float32 off by %.1e" %
              (name, losses[0], losses[-1], np.max(np.abs(losses - exact) / exact)))
        header[name] = {"dtype": "F64", "shape": [STEPS], "data_offsets": [len(data), len(data) + 8 * STEPS]}
        data += losses.astype("<f8").tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "training.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    main()

#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Predictions of saved models are those of PyTorch with the same weights.

    tests/oracle/check_predictions.py FAST [NETWORKS]      exit 1 if an output differs by more than 1e-5

Every model by name and NETWORKS random networks (20) are trained for a few steps, so that weights and
statistics are not those of the start, and saved. `fast predict --values logits` reads new samples; here
the network's text in the file's metadata becomes PyTorch calls on the tensors of the file. Nothing else
connects the two sides. The difference is relative to the largest output where that is above 1.
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

COUNT, LIMIT = 37, 1e-5


def read(path):
    """Metadata and tensors of a safetensors file."""
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    meta = header.pop("__metadata__")
    return meta, {name: torch.from_numpy(np.frombuffer(
        data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]], np.float32).reshape(t["shape"]).copy())
        for name, t in header.items()}


def pair(text, standard="1"):
    numbers = [int(n) for n in str(text if text is not None else standard).split("x")]
    return numbers * 2 if len(numbers) == 1 else numbers


def weight_of(w, name):
    """A weight, or with weight norm g v / |v| for each output."""
    if name + ".weight" in w:
        return w[name + ".weight"]
    v, g = w[name + ".weight_v"], w[name + ".weight_g"]
    norm = v.reshape(v.shape[0], -1).norm(dim=1).reshape([-1] + [1] * (v.dim() - 1))
    return g.reshape(norm.shape) * v / norm


def recurrent(kind, w, name, x, layers):
    width = w[name + ".weight_hh_l0"].shape[1]
    module = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](
        x.shape[-1], width, num_layers=layers, batch_first=True)
    with torch.no_grad():
        for key, p in module.named_parameters():
            p.copy_(w[f"{name}.{key}"])
    return module(x)[0]


def attention(w, name, x, heads):
    B, T, C = x.shape
    q, k, v = F.linear(x, w[name + ".in_proj_weight"], w[name + ".in_proj_bias"]).chunk(3, dim=-1)
    q, k, v = (t.reshape(B, T, heads, C // heads).transpose(1, 2) for t in (q, k, v))
    scores = q @ k.transpose(-1, -2) / (C // heads) ** 0.5
    scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C)
    return F.linear(y, w[name + ".out_proj.weight"], w[name + ".out_proj.bias"])


def norm(kind, w, name, x, keys):
    eps = float(keys.get("eps", 1e-5))
    if kind == "layer_norm":
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], eps)
    return F.batch_norm(x, w[name + ".running_mean"], w[name + ".running_var"], w[name + ".weight"],
                        w[name + ".bias"], False, 0.1, eps)


def layer(op, name, words, keys, x, w):
    """One line of the network language on its inputs x."""
    a = x[0]
    if op == "dense":
        a = a.flatten(1) if a.dim() == 4 else a
        return F.linear(a, weight_of(w, name), w.get(name + ".bias"))
    if op == "conv":
        weight, dilation = weight_of(w, name), pair(keys.get("dilation"))
        pad = [d * (k - 1) // 2 for d, k in zip(dilation, weight.shape[2:])] if keys.get("pad") == "same" else pair(
            keys.get("pad"), "0")
        return F.conv2d(a, weight, w.get(name + ".bias"), pair(keys.get("stride")), pad, dilation,
                        int(keys.get("groups", 1)))
    if op in ("max_pool", "avg_pool"):
        kernel = pair(keys.get("kernel", words[0] if words else None))
        stride = kernel if keys.get("stride", "kernel") == "kernel" else pair(keys["stride"])
        return (F.max_pool2d if op == "max_pool" else F.avg_pool2d)(a, kernel, stride, pair(keys.get("pad"), "0"))
    if op in ("rnn", "lstm", "gru"):
        return recurrent(op, w, name, a, int(keys.get("layers", 1)))
    if op == "attention":
        return attention(w, name, a, int(keys.get("heads", words[0] if words else 1)))
    if op in ("batch_norm", "layer_norm"):
        return norm(op, w, name, a, keys)
    if op == "embed":
        y = F.embedding(a.long(), w[name + ".weight"])
        return y + w[name + ".position.weight"] if name + ".position.weight" in w else y
    if op == "leaky_relu":
        return F.leaky_relu(a, float(keys.get("slope", words[0] if words else 0.01)))
    return {"relu": F.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "gelu": F.gelu,
            "softmax": lambda t: t.softmax(-1), "dropout": lambda t: t, "flatten": lambda t: t.flatten(1),
            "last": lambda t: t[:, -1], "add": lambda t: sum(x),
            "concat": lambda t: torch.cat(x, dim=1 if t.dim() == 4 else -1),
            "global_pool": lambda t: t.mean((2, 3)) if t.dim() == 4 else t.mean(1)}[op](a)


def forward(text, w, x):
    """The network on a batch, by its text."""
    values, ordinal, last = {"input": x}, {}, x
    for line in text.splitlines():
        line = line.split("#")[0].strip()
        if not line or line.split()[0] in ("input", "loss"):
            continue
        name, _, rest = line.rpartition(": ")
        line, _, source = rest.partition(" from ")
        op, *words = line.split()
        keys = dict(word.split("=", 1) for word in words if "=" in word)
        words = [word for word in words if "=" not in word]
        ordinal[op] = ordinal.get(op, 0) + 1
        name = name or f"{op}{ordinal[op]}"
        inputs = [values[i] for i in (words if op in ("add", "concat") else source.split())] or [last]
        last = values[name] = layer(op, name, words, keys, inputs, w)
    return last


def compare(fast, folder, model, data, engine):
    """Train, save, predict new samples, and return the largest difference."""
    saved, x_path, out = (os.path.join(folder, n) for n in ("m.safetensors", "x.npy", "y.npy"))
    subprocess.run([fast, "train", "--model", model, "--data", data, "--steps", "6", "--batch", "16", "--lr", "0.001",
                    "--quiet", "--store", "none", "--save", saved, "--engine", engine], check=True)
    meta, weights = read(saved)
    recipe = json.loads(meta["fast_data"])
    shape, rng = recipe["shape"], np.random.default_rng(COUNT)
    if "vocabulary" in recipe:
        x = rng.integers(0, recipe["vocabulary"], (COUNT, *shape)).astype(np.float32)
    else:
        x = (rng.integers(0, 256, (COUNT, *shape)).astype(np.uint8) if recipe["dtype"] == "U8"
             else rng.standard_normal((COUNT, *shape)).astype(np.float32))
    np.save(x_path, x)
    subprocess.run([fast, "predict", saved, x_path, "--values", "logits", "--out", out, "--engine", engine], check=True)
    runs = int(np.prod(shape)) // recipe["channels"]
    mean, scale = (np.repeat(np.float32(recipe[k]), runs).reshape(shape) for k in ("mean", "scale"))
    with torch.no_grad():
        want = forward(meta["fast_network"], weights, torch.from_numpy((x.astype(np.float32) - mean) * scale)).numpy()
    got = np.load(out)
    assert got.shape == (want.reshape(COUNT, -1) if want.ndim == 2 else want).shape, (model, got.shape, want.shape)
    return float(np.abs(got - want).max() / max(1.0, np.abs(want).max()))


def random_network(rng):
    """A network of images with convolutions, poolings, branches and dense layers, as text."""
    lines, act = [], ["relu", "tanh", "gelu", "leaky_relu 0.1", "sigmoid"]
    size, n = 28, 0
    for _ in range(rng.randint(1, 4)):
        n += 1
        lines.append(f"c{n}: conv {rng.choice([4, 6, 8])} kernel=3 pad=same"
                     f"{rng.choice(['', ' bias=no', ' weight_norm=yes'])}{rng.choice(['', ' dilation=2'])}")
        lines += rng.choice([[], ["batch_norm"]]) + [rng.choice(act)]
        if rng.random() < 0.5:
            width = lines[-1 - (lines[-2] == "batch_norm") - 1].split()[2]
            lines[-1] = f"a{n}: {lines[-1]}"
            lines += [f"b{n}: conv {width} kernel=1 from a{n}", f"s{n}: {rng.choice(['add', 'concat'])} a{n} b{n}"]
        if size >= 6 and rng.random() < 0.7:
            kernel = rng.choice([2, 3])
            lines.append(f"{rng.choice(['max_pool', 'avg_pool'])} {kernel} stride=2{rng.choice(['', ' pad=1'])}")
            size //= 2
    lines += rng.choice([["flatten"], ["global_pool"], []])
    lines += rng.choice([[], ["dense 12", rng.choice(act), "dropout 0.2"], ["dense 9", "layer_norm", "tanh"]])
    return "\n".join(lines + ["dense 10"]) + "\n"


def main():
    fast, networks = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    images, copy = "digits:train=128,test=16,normalize=standard", "copy:train=128,test=16,length=4,symbols=5"
    cases = [(m, images) for m in ("mlp", "lenet", "alexnet", "resnet8", "resnet20", "resnet56",
                                   "densenet")]
    cases += [(m, copy) for m in ("rnn", "lstm:layers=2", "gru", "gpt")]
    cases += [("mlp:hidden=32", "blobs:train=128,test=16"), ("mlp:hidden=32", "nonlinear:train=128,test=16")]
    torch.set_num_threads(1)
    worst, rng = 0.0, random.Random(14)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(networks):
            path = os.path.join(folder, f"r{i}.net")
            with open(path, "w") as file:
                file.write(random_network(rng))
            cases.append((path, images))
        listed = subprocess.run([fast, "help", "models"], capture_output=True, text=True, check=True).stdout
        names = {line.split()[0] for line in listed.splitlines() if line.startswith("  ") and line[2] != " "}
        names -= {"Choose", "NAME:KEY=VALUE,KEY=VALUE.", "file", "onnx"}
        assert names <= {model.split(":")[0] for model, _ in cases}, names  # a new model is compared too
        for model, data in cases:
            for engine in ("cpu", "ref") if "resnet56" not in model else ("cpu",):
                error = compare(fast, folder, model, data, engine)
                worst = max(worst, error)
                print(f"{os.path.basename(model)} on {data.split(':')[0]}, {engine}: {error:.1e}", flush=True)
                assert error <= LIMIT, open(model).read() if os.path.exists(model) else model
    print(f"{len(cases)} models: predictions differ from PyTorch's by at most {worst:.1e}")


if __name__ == "__main__":
    main()

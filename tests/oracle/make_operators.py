#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes operators.safetensors: what PyTorch makes of every operator, forward and backward.

    python3 tests/oracle/make_operators.py [FOLDER]    the script's own without one

A case is a line of text (its words are explained in tests/graphs.h) in the metadata under "case.N";
"cases" is their number. Its tensors are "N.x0", "N.x1", ... (inputs), "N.weight", "N.bias",
"N.weight2", "N.bias2", "N.gain" (weights), "N.mean", "N.var" (running statistics before),
"N.dy" (the upstream gradient), and PyTorch's answers: "N.y", "N.dx0", ..., "N.dweight", ...,
"N.mean_after", "N.var_after", and "N.loss" for losses. Inputs are fp32; PyTorch computes in double,
so that what differs is the engine's rounding alone. Shapes are drawn at random, from a fixed seed.
"""
import json
import os
import random
import struct
import sys

import torch
import torch.nn.functional as F

FIXED = """
dense n=1 in=1 out=1
dense n=3 in=7 out=5
dense n=4 in=19 out=33 bias=0
dense n=2 in=3x4x5 out=6
dense n=3 in=4x5 out=7
dense n=4 in=6 out=5 norm=1
dense n=2 in=3x6 out=4 norm=1 bias=0
conv n=2 in=3x6x5 out=4 kernel=3 pad=1 norm=1
conv n=1 in=4x5x5 out=4 kernel=3 groups=2 norm=1 bias=0
conv n=3 in=5x5x6 out=5 kernel=3 pad=1 groups=5
conv n=2 in=2x4x4 out=3 kernel=5 pad=2
conv n=2 in=1x28x28 out=6 kernel=5
max_pool n=3 in=2x6x6 kernel=3 stride=1 pad=1 levels=1
max_pool n=2 in=3x8x7 kernel=2 levels=2
global_pool n=3 in=4x5x3
global_pool n=2 in=5x4
relu n=3 in=13
relu n=2 in=3x4x5
leaky_relu n=3 in=11 a=0.1
leaky_relu n=2 in=4x3 a=0.3
tanh n=3 in=17
tanh n=2 in=2x3x3
sigmoid n=2 in=3x7
sigmoid n=3 in=2x3x3
gelu n=3 in=19 spread=4
gelu n=2 in=5x3
softmax n=3 in=7 spread=5
softmax n=2 in=4x5
batch_norm n=6 in=5
batch_norm n=3 in=4x3x5
batch_norm n=1 in=3x4x4 b=0.3 a=0.001
batch_norm n=3 in=5x3
batch_norm n=8 in=3x3x2 ghost=4
batch_norm n=7 in=4x3x3 ghost=3
batch_norm n=5 in=3x2x3 bias=0
batch_norm n=3 in=4x3x5 evaluate=1
batch_norm n=1 in=7 evaluate=1
batch_norm n=8 in=3x3x2 ghost=4 evaluate=1
layer_norm n=3 in=9
layer_norm n=2 in=5x7
layer_norm n=2 in=3x4 bias=0 a=0.01
embed n=3 in=4 out=5 vocabulary=6
embed n=2 in=5 out=3 vocabulary=11 position=1
rnn n=3 in=5x4 out=6
rnn n=2 in=1x3 out=2 bias=0
lstm n=3 in=5x4 out=6
lstm n=1 in=9x3 out=5 bias=0
lstm n=2 in=1x3 out=17
gru n=3 in=5x4 out=6
gru n=2 in=9x3 out=5 bias=0
gru n=1 in=1x2 out=3
attention n=2 in=5x6 heads=2
attention n=1 in=7x9 heads=3 bias=0
attention n=3 in=1x4 heads=1
attention n=2 in=18x8 heads=4
add n=3 in=7,7
add n=2 in=2x3x4,2x3x4,2x3x4
add n=2 in=4x3,4x3
concat n=3 in=5,2
concat n=2 in=3x4x5,2x4x5,1x4x5
concat n=2 in=4x3,4x2
last n=3 in=5x4
flatten n=2 in=3x4x5
flatten n=3 in=4x3
dropout n=5 in=7 a=0 loss=cross_entropy
dropout n=3 in=4 a=0 loss=cross_entropy smoothing=0.1 spread=30
dropout n=4 in=6 a=0 loss=cross_entropy soft=1
dropout n=4 in=6 a=0 loss=cross_entropy soft=1 smoothing=0.2
dropout n=2 in=3x5 a=0 loss=cross_entropy
dropout n=2 in=3x5 a=0 loss=cross_entropy smoothing=0.3
dropout n=3 in=1 a=0 loss=cross_entropy
dropout n=3 in=6 a=0 loss=mse
""".strip().splitlines()


# Elementary operators, after all others so that those draw the same numbers as before.
ELEMENTARY = """
map n=3 in=13 kind=0 a=1.7 b=-0.4
map n=2 in=4x5 kind=1 a=2
map n=2 in=3x4 kind=1 a=3
map n=2 in=3x2x2 kind=1 a=-1 positive=1
map n=3 in=7 kind=1 a=0.5 positive=1
map n=2 in=3x4x5 kind=2 a=-0.15 b=2
map n=2 in=11 kind=3
map n=2 in=9 kind=4 positive=1
map n=2 in=3x3 kind=5
map n=3 in=17 kind=6
map n=2 in=2x5 kind=7
map n=3 in=8 kind=8 a=0.7
map n=2 in=9 kind=9 a=0.2 b=0.5
map n=2 in=2x2x3 kind=10
arith n=2 in=3x4x5,1x4x1 kind=0
arith n=3 in=4x5,4x5 kind=1
arith n=2 in=1x5,4x5 kind=2
arith n=2 in=3x4x5,3x1x1 kind=2
arith n=3 in=7,7 kind=3 positive=1
scale n=3 in=4x5 shape=1x5
scale n=2 in=3x2x4 shape=3x1x1
scale n=2 in=6 shape=6
shift n=3 in=4x5 shape=4x5
shift n=2 in=3x2x4 shape=1x1x4
matmul n=2 in=3x4,4x5
matmul n=3 in=2x3x4,2x4x5
matmul n=1 in=1x1,1x1
transpose n=2 in=3x4 order=1x0
transpose n=3 in=2x3x4 order=2x0x1
transpose n=2 in=2x3x4 order=0x2x1
reshape n=2 in=3x4 shape=2x2x3
reshape n=3 in=12 shape=4x3
slice n=2 in=5x4 axis=0 start=1 count=3
slice n=3 in=2x3x7 axis=2 start=4 count=3
slice n=2 in=9 axis=0 start=8 count=1
reduce n=2 in=3x4 axes=1 mean=1
reduce n=3 in=2x3x4 axes=0x2 mean=0
reduce n=2 in=5 axes=0 mean=1
log_softmax n=3 in=7
log_softmax n=2 in=4x5
arith n=2 in=3x4,3x4 kind=4
arith n=2 in=3x4x2,1x4x2 kind=5
""".strip().splitlines()


def random_cases():
    """Convolutions and pools whose windows fit, with everything drawn."""
    draw = random.Random(7)
    cases = []
    while len(cases) < 36:
        op = ("conv", "conv", "max_pool", "avg_pool")[len(cases) % 4]
        h, w = draw.randint(1, 13), draw.randint(1, 13)
        kernel = [draw.randint(1, 5), draw.randint(1, 5)]
        stride = [draw.randint(1, 3), draw.randint(1, 3)]
        dilation = [draw.randint(1, 3), draw.randint(1, 3)] if op != "avg_pool" else [1, 1]
        pad = [draw.randint(0, k // 2 if op != "conv" else 3) for k in kernel]
        if any(s + 2 * p < d * (k - 1) + 1
               for s, p, d, k in zip((h, w), pad, dilation, kernel)):
            continue
        groups = draw.choice((1, 1, 1, 2, 3)) if op == "conv" else 1
        channels = groups * draw.randint(1, 5)
        text = f"{op} n={draw.randint(1, 4)} in={channels}x{h}x{w}"
        if op == "conv":
            text += f" out={groups * draw.randint(1, 5)} groups={groups} bias={draw.randint(0, 1)}"
        for name, value in (("kernel", kernel), ("stride", stride), ("pad", pad),
                            ("dilation", dilation)):
            text += f" {name}={value[0]}x{value[1]}"
        cases.append(text)
    return cases


class Case:
    """Draws inputs and weights as they are asked for, and remembers them for the file."""

    def __init__(self, text):
        words = text.split()
        self.op, self.words = words[0], dict(word.split("=") for word in words[1:])
        self.n = int(self.words["n"])
        self.tensors, self.leaves = {}, {}

    def number(self, key, standard=0.0):
        return float(self.words.get(key, standard))

    def whole(self, key, standard=0):
        return int(self.words.get(key, standard))

    def pair(self, key, standard):
        if key not in self.words:
            return standard
        values = [int(v) for v in self.words[key].split("x")]
        return tuple(values * 2 if len(values) == 1 else values)

    def given(self, name, *shape, spread=0.8):
        """A tensor of the case, as a leaf whose gradient will be wanted."""
        value = (torch.rand(*shape) * 2 - 1) * spread
        if "levels" in self.words:  # few different values: ties
            value = (value * self.whole("levels")).round() / self.whole("levels")
        if "positive" in self.words:
            value = value.abs() + 0.3
        self.tensors[name] = value
        self.leaves[name] = value.double().requires_grad_()
        return self.leaves[name]

    def inputs(self):
        shapes = [[int(d) for d in s.split("x")] for s in self.words["in"].split(",")]
        return [self.given(f"x{k}", self.n, *shape, spread=self.number("spread", 1.5))
                for k, shape in enumerate(shapes)]

    def linear(self, x, *shape):
        """Weight, with weight norm where asked for, and bias."""
        w = self.given("weight", *shape)
        if self.whole("norm"):
            g = self.given("gain", shape[0])
            flat = w.flatten(1)
            w = (g[:, None] * flat / flat.norm(dim=1, keepdim=True)).view(shape)
            module = torch.nn.utils.weight_norm(torch.nn.Linear(flat.shape[1], shape[0]).double())
            module.weight_v.data, module.weight_g.data = flat.detach(), g.detach()[:, None]
            module(torch.zeros(1, flat.shape[1]).double())
            assert torch.allclose(module.weight, w.flatten(1))  # the formula is PyTorch's
        return w, self.given("bias", shape[0]) if self.whole("bias", 1) else None


def run_window(case, x):
    kernel = case.pair("kernel", (2, 2))
    conv = case.op == "conv"
    stride = case.pair("stride", (1, 1) if conv else (kernel[0], kernel[0]))
    pad, dilation = case.pair("pad", (0, 0)), case.pair("dilation", (1, 1))
    if case.op == "max_pool":
        return F.max_pool2d(x, kernel, stride, pad, dilation)
    if case.op == "avg_pool":
        return F.avg_pool2d(x, kernel, stride, pad)
    groups = case.whole("groups", 1)
    w, b = case.linear(x, case.whole("out"), x.shape[1] // groups, *kernel)
    return F.conv2d(x, w, b, stride, pad, dilation, groups)


def norm_weights(case, C):
    if not case.whole("bias", 1):
        return None, None
    return case.given("weight", C), case.given("bias", C)


def run_batch_norm(case, x):
    C = x.shape[2] if x.dim() == 3 else x.shape[1]
    w, b = norm_weights(case, C)
    mean, var = torch.rand(C), torch.rand(C) + 0.5
    case.tensors.update(mean=mean, var=var)
    mean, var = mean.double(), var.double()
    train = not case.whole("evaluate")
    groups = x.split(case.whole("ghost") or case.n) if train else [x]
    flip = (lambda t: t.transpose(1, 2)) if x.dim() == 3 else (lambda t: t)
    y = torch.cat([flip(F.batch_norm(flip(g), mean, var, w, b, train, case.number("b", 0.1),
                                     case.number("a", 1e-5))) for g in groups])
    case.tensors.update(mean_after=mean, var_after=var)
    return y


def run_recurrent(case, x):
    H, C = case.whole("out"), x.shape[2]
    kind = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[case.op]
    bias = bool(case.whole("bias", 1))
    module = kind(C, H, batch_first=True, bias=bias).double()
    G = module.weight_ih_l0.shape[0]
    names = {"weight": ("weight_ih_l0", (G, C)), "weight2": ("weight_hh_l0", (G, H))}
    if bias:
        names.update(bias=("bias_ih_l0", (G,)), bias2=("bias_hh_l0", (G,)))
    for name, (attribute, shape) in names.items():
        value = case.given(name, *shape)
        getattr(module, attribute).data = value.detach()
        case.leaves[name] = getattr(module, attribute)
    return module(x)[0]


def run_attention(case, x):
    T, C = x.shape[1:]
    bias = bool(case.whole("bias", 1))
    module = torch.nn.MultiheadAttention(C, case.whole("heads", 1), bias=bias,
                                         batch_first=True).double()
    weights = [("weight", module, "in_proj_weight", (3 * C, C)),
               ("weight2", module.out_proj, "weight", (C, C))]
    if bias:
        weights += [("bias", module, "in_proj_bias", (3 * C,)),
                    ("bias2", module.out_proj, "bias", (C,))]
    for name, owner, attribute, shape in weights:
        value = case.given(name, *shape)
        getattr(owner, attribute).data = value.detach()
        case.leaves[name] = getattr(owner, attribute)
    mask = torch.triu(torch.ones(T, T), diagonal=1).bool()
    return module(x, x, x, attn_mask=mask, need_weights=False)[0]


def run_embed(case):
    T, C, V = case.whole("in"), case.whole("out"), case.whole("vocabulary")
    tokens = torch.randint(V, (case.n, T))
    case.tensors["x0"] = tokens.float()
    y = F.embedding(tokens, case.given("weight", V, C))
    return y + case.given("bias", T, C) if case.whole("position") else y


def run_dense(case, x):
    x = x.flatten(1) if x.dim() == 4 else x
    return F.linear(x, *case.linear(x, case.whole("out"), x.shape[-1]))


def run_layer_norm(case, x):
    C = x.shape[-1]
    w, b = norm_weights(case, C)
    return F.layer_norm(x, (C,), w, b, case.number("a", 1e-5))


MAPS = [
    lambda x, a, b: a * x + b, lambda x, a, b: x ** a, lambda x, a, b: x.clamp(a, b),
    lambda x, a, b: x.exp(), lambda x, a, b: x.log(), lambda x, a, b: x.abs(),
    lambda x, a, b: torch.erf(x), lambda x, a, b: F.softplus(x), lambda x, a, b: F.elu(x, a),
    lambda x, a, b: (a * x + b).clamp(0, 1), lambda x, a, b: F.hardswish(x),
]
ARITH = [torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum]


def dims(case, key):
    return [int(d) for d in case.words[key].split("x")]


def run_reduce(case, x):
    axes = [d + 1 for d in dims(case, "axes")]
    return x.mean(axes, keepdim=True) if case.whole("mean", 1) else x.sum(axes, keepdim=True)


SIMPLE = {
    "map": lambda case, x: MAPS[case.whole("kind")](x, case.number("a", 1), case.number("b")),
    "arith": lambda case, x, z: ARITH[case.whole("kind")](x, z),
    "scale": lambda case, x: x * case.given("weight", *dims(case, "shape")),
    "shift": lambda case, x: x + case.given("weight", *dims(case, "shape")),
    "matmul": lambda case, x, z: x @ z,
    "transpose": lambda case, x: x.permute(0, *(d + 1 for d in dims(case, "order"))),
    "reshape": lambda case, x: x.reshape(case.n, *dims(case, "shape")),
    "slice": lambda case, x: x.narrow(case.whole("axis") + 1, case.whole("start"), case.whole("count")),
    "reduce": run_reduce,
    "log_softmax": lambda case, x: torch.log_softmax(x, -1),
    "relu": lambda case, x: F.relu(x),
    "leaky_relu": lambda case, x: F.leaky_relu(x, case.number("a")),
    "tanh": lambda case, x: torch.tanh(x),
    "sigmoid": lambda case, x: torch.sigmoid(x),
    "gelu": lambda case, x: F.gelu(x),
    "softmax": lambda case, x: torch.softmax(x, -1),
    "global_pool": lambda case, x: x.mean((2, 3)) if x.dim() == 4 else x.mean(1),
    "last": lambda case, x: x[:, -1],
    "flatten": lambda case, x: x.flatten(1),
    "dropout": lambda case, x: x * 1,
    "dense": run_dense,
    "layer_norm": run_layer_norm,
    "batch_norm": run_batch_norm,
    "attention": run_attention,
    "rnn": run_recurrent,
    "lstm": run_recurrent,
    "gru": run_recurrent,
    "conv": run_window,
    "max_pool": run_window,
    "avg_pool": run_window,
}


def run_loss(case, y):
    """The gradient of a loss instead of a drawn one."""
    classes = y.shape[-1]
    rows = y.reshape(-1, classes)
    if case.words["loss"] == "mse":
        case.tensors["targets"] = torch.rand(*y.shape)
        return F.mse_loss(y, case.tensors["targets"].double())
    if case.whole("soft"):
        case.tensors["targets"] = torch.softmax(torch.randn(*rows.shape), -1)
        target = case.tensors["targets"].double()
    else:
        target = torch.randint(classes, (len(rows),))
        case.tensors["labels"] = target.int()
    return F.cross_entropy(rows, target, label_smoothing=case.number("smoothing"))


def run(text):
    case = Case(text)
    if case.op == "embed":
        y = run_embed(case)
    elif case.op == "add":
        y = sum(case.inputs())
    elif case.op == "concat":
        x = case.inputs()
        y = torch.cat(x, 2 if x[0].dim() == 3 else 1)
    else:
        y = SIMPLE[case.op](case, *case.inputs())
    case.tensors["y"] = y.detach()
    if case.whole("evaluate"):
        return case.tensors
    if "loss" in case.words:
        loss = run_loss(case, y)
        case.tensors["loss"] = loss.detach().reshape(1)
        loss.backward()
    else:
        case.tensors["dy"] = torch.rand(*y.shape) * 2 - 1
        y.backward(case.tensors["dy"].double())
    for name, leaf in case.leaves.items():
        case.tensors["d" + name] = leaf.grad
    return case.tensors


def save(path, tensors, metadata):
    header, blobs, at = {"__metadata__": metadata}, [], 0
    for name, value in tensors.items():
        whole = value.dtype == torch.int32
        blob = value.contiguous().numpy().astype("<i4" if whole else "<f4").tobytes()
        header[name] = {"dtype": "I32" if whole else "F32", "shape": list(value.shape),
                        "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    cases = FIXED + random_cases() + ELEMENTARY
    tensors, metadata = {}, {"cases": str(len(cases)), "torch": torch.__version__}
    for i, text in enumerate(cases):
        metadata[f"case.{i}"] = text
        tensors.update((f"{i}.{name}", value) for name, value in run(text).items())
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    save(os.path.join(folder, "operators.safetensors"), tensors, metadata)


if __name__ == "__main__":
    main()

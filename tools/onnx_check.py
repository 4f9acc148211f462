#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks ONNX import and export against PyTorch.

    tools/onnx_check.py FAST [MODEL ...]      FAST is the program; all models without names

For each of five models: PyTorch exports it in training mode, FAST trains the file for 20 steps of SGD on one batch,
PyTorch does the same; the weights must agree within 1e-4 of their largest. Then FAST writes the
trained network as ONNX, onnx's checker accepts it, and an evaluator computes PyTorch's outputs from
it: onnx's own reference evaluator where this onnx has one (1.13 and later), else the one below,
which maps each operator to PyTorch's function of the same meaning. A default export, in evaluation
mode with constants folded, must keep its outputs through an import and an export, too.
"""
import math
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnx.numpy_helper
import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
STEPS, LR, BATCH, BOUND = 20, 0.05, 16, 1e-4


class Mnist(nn.Module):
    """PyTorch's MNIST example, smaller, without dropout."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 12, 3)
        self.fc1 = nn.Linear(12 * 5 * 5, 24)
        self.fc2 = nn.Linear(24, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(x), dim=1)


class Basic(nn.Module):
    """A block of ResNet-18."""

    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(o)
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(o)
        self.down = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o)) if i != o else None

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.down(x) if self.down else x))


class Resnet(nn.Module):
    """ResNet-18's shape with few channels."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.layer1 = nn.Sequential(Basic(8, 8, 1), Basic(8, 8, 1))
        self.layer2 = nn.Sequential(Basic(8, 16, 2), Basic(16, 16, 1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(torch.flatten(self.pool(self.layer2(self.layer1(x))), 1))


class Inverted(nn.Module):
    """A block of MobileNetV2."""

    def __init__(self, i, o, stride, expand):
        super().__init__()
        h = i * expand
        self.add = stride == 1 and i == o
        self.conv = nn.Sequential(
            nn.Conv2d(i, h, 1, bias=False), nn.BatchNorm2d(h), nn.ReLU6(),
            nn.Conv2d(h, h, 3, stride, 1, groups=h, bias=False), nn.BatchNorm2d(h), nn.ReLU6(),
            nn.Conv2d(h, o, 1, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return x + self.conv(x) if self.add else self.conv(x)


class Mobilenet(nn.Module):
    """MobileNetV2's shape with few channels."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.blocks = nn.Sequential(Inverted(8, 8, 1, 2), Inverted(8, 12, 2, 3), Inverted(12, 12, 1, 3))
        self.fc = nn.Linear(12, 10)

    def forward(self, x):
        return self.fc(self.blocks(self.stem(x)).mean([2, 3]))


class Attention(nn.Module):
    """GPT-2's attention with its causal mask as a buffer."""

    def __init__(self, c, heads, t):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(c, 3 * c)
        self.c_proj = nn.Linear(c, c)
        self.register_buffer("bias", torch.tril(torch.ones(t, t, dtype=torch.bool)).view(1, 1, t, t))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for z in self.c_attn(x).split(c, dim=2))
        a = (q @ k.transpose(-2, -1)) / math.sqrt(c // self.heads)
        a = torch.where(self.bias[:, :, :t, :t], a, torch.tensor(-1e4))
        y = F.softmax(a, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    """A block of GPT-2 with its approximate gelu."""

    def __init__(self, c, heads, t):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.attn = Attention(c, heads, t)
        self.c_fc, self.c_proj = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        h = self.c_fc(self.ln_2(x))
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * torch.pow(h, 3))))
        return x + self.c_proj(h)


class Gpt2(nn.Module):
    """GPT-2's shape: 2 layers, 3 heads, 24 wide, 12 positions, 40 tokens."""

    def __init__(self, c=24, t=12, v=40):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(v, c), nn.Embedding(t, c)
        self.h = nn.ModuleList(Block(c, 3, t) for _ in range(2))
        self.ln_f = nn.LayerNorm(c)
        self.lm_head = nn.Linear(c, v, bias=False)

    def forward(self, x):
        y = self.wte(x) + self.wpe(torch.arange(x.size(1)).unsqueeze(0))
        for block in self.h:
            y = block(y)
        return self.lm_head(self.ln_f(y))


class Mlp(nn.Module):
    """Dense layers with other activations: exact gelu, silu, layer norm, a gate."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.gate = nn.Linear(20, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.norm = nn.LayerNorm(32)
        self.out = nn.Linear(32, 5)

    def forward(self, x):
        x = F.gelu(self.a(x))
        x = self.norm(F.silu(self.b(x)) * torch.sigmoid(self.gate(x)) + x)
        return self.out(F.elu(x))


MODELS = {
    "mlp": (Mlp, (20,), 5), "mnist": (Mnist, (1, 14, 14), 10), "resnet": (Resnet, (3, 16, 16), 10),
    "mobilenet": (Mobilenet, (3, 16, 16), 10), "gpt2": (Gpt2, (12,), 40),
}


def pool_args(a):
    return a["kernel_shape"], a.get("strides", [1, 1]), a.get("pads", [0, 0, 0, 0])[:2]


EVALUATOR = {
    "Constant": lambda a: torch.tensor(onnx.numpy_helper.to_array(a["value"])),
    "Conv": lambda a, x, w, b=None: F.conv2d(x, w, b, a["strides"], a["pads"][:2], a["dilations"], a["group"]),
    "Gemm": lambda a, x, w, b=None: x @ (w.T if a.get("transB") else w) + (0 if b is None else b),
    "MatMul": lambda a, x, y: x @ y, "Add": lambda a, x, y: x + y, "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y, "Div": lambda a, x, y: x / y, "Pow": lambda a, x, y: x ** y,
    "Max": lambda a, x, y: torch.maximum(x, y), "Min": lambda a, x, y: torch.minimum(x, y),
    "MaxPool": lambda a, x: F.max_pool2d(x, *pool_args(a)),
    "AveragePool": lambda a, x: F.avg_pool2d(x, *pool_args(a)),
    "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdim=True),
    "ReduceMean": lambda a, x: x.mean(a["axes"], keepdim=bool(a["keepdims"])),
    "ReduceSum": lambda a, x, axes: x.sum(axes.tolist(), keepdim=bool(a["keepdims"])),
    "Relu": lambda a, x: F.relu(x), "LeakyRelu": lambda a, x: F.leaky_relu(x, a["alpha"]),
    "Tanh": lambda a, x: torch.tanh(x), "Sigmoid": lambda a, x: torch.sigmoid(x),
    "Erf": lambda a, x: torch.erf(x), "Exp": lambda a, x: torch.exp(x), "Log": lambda a, x: torch.log(x),
    "Abs": lambda a, x: x.abs(), "Softplus": lambda a, x: F.softplus(x),
    "Elu": lambda a, x: F.elu(x, a["alpha"]), "HardSwish": lambda a, x: F.hardswish(x),
    "HardSigmoid": lambda a, x: (a["alpha"] * x + a["beta"]).clamp(0, 1),
    "Clip": lambda a, x, low, high: x.clamp(low.item(), high.item()),
    "Softmax": lambda a, x: x.softmax(a["axis"]), "LogSoftmax": lambda a, x: x.log_softmax(a["axis"]),
    "BatchNormalization": lambda a, x, w, b, m, v: F.batch_norm(x, m, v, w, b, eps=a["epsilon"]),
    "LayerNormalization": lambda a, x, w, b: F.layer_norm(x, w.shape, w, b, a["epsilon"]),
    "Gather": lambda a, x, i: torch.index_select(x, a.get("axis", 0), i.flatten()).reshape(
        x.shape[:a.get("axis", 0)] + i.shape + x.shape[a.get("axis", 0) + 1:]),
    "Flatten": lambda a, x: x.flatten(1), "Identity": lambda a, x: x,
    "Reshape": lambda a, x, s: x.reshape(s.tolist()), "Transpose": lambda a, x: x.permute(a["perm"]),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]),
}


def evaluate(model, x):
    """Computes the output of an ONNX model for one input."""
    try:
        from onnx.reference import ReferenceEvaluator
        return ReferenceEvaluator(model).run(None, {"input": x})[0]
    except ImportError:
        pass
    values = {t.name: torch.tensor(onnx.numpy_helper.to_array(t)) for t in model.graph.initializer}
    values["input"] = torch.tensor(x)
    for node in model.graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        inputs = [values[name] for name in node.input]
        if node.op_type == "Slice":
            y, start, end, axes = inputs
            for s, e, d in zip(start.tolist(), end.tolist(), axes.tolist()):
                y = y.narrow(d, s, e - s)
        else:
            y = EVALUATOR[node.op_type](attributes, *inputs)
        values[node.output[0]] = y
    return values["output"].numpy()


def loss_of(y, labels):
    return F.cross_entropy(y.reshape(-1, y.shape[-1]), labels.reshape(-1))


def largest(a, b):
    """The largest difference, relative to the largest element."""
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-2))


def run(fast, *arguments):
    done = subprocess.run([fast, "train", *arguments, "--quiet", "--store", "none"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"fast train {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    return done.stdout


def read_safetensors(path):
    import json
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    return {name: np.frombuffer(data[t["data_offsets"][0]:t["data_offsets"][1]], np.float32).reshape(t["shape"])
            for name, t in header.items() if name != "__metadata__"}


def check(fast, name, folder, free_batch):
    """Trains one model in both, and compares."""
    kind, shape, classes = MODELS[name]
    torch.manual_seed(3)
    model = kind().train()
    tokens = name == "gpt2"
    x = torch.randint(0, classes, (BATCH, *shape)) if tokens else torch.randn(BATCH, *shape)
    labels = torch.randint(0, classes, (BATCH, *shape) if tokens else (BATCH,))
    path = lambda file: os.path.join(folder, f"{name}{file}")  # noqa: E731
    torch.onnx.export(model, x[:2] if not free_batch else x[:1], path(".onnx"), opset_version=13,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      input_names=["input"], output_names=["output"],
                      dynamic_axes={"input": {0: "n"}, "output": {0: "n"}} if free_batch else None)
    onnx.checker.check_model(onnx.load(path(".onnx")))
    np.save(path("_x.npy"), x.numpy().astype(np.int32 if tokens else np.float32))
    np.save(path("_y.npy"), labels.numpy().astype(np.int32))
    data = (f"npy:x={path('_x.npy')},y={path('_y.npy')},test_x={path('_x.npy')},test_y={path('_y.npy')},"
            f"classes={classes},normalize=none" + (f",as=tokens,vocabulary={classes}" if tokens else ""))
    common = ["--model", path(".onnx"), "--data", data, "--batch", str(BATCH), "--lr", str(LR),
              "--optimizer", "sgd", "--schedule", "constant", "--evaluate", "end"]
    run(fast, *common, "--steps", str(STEPS), "--save", path("_fast.safetensors"))
    run(fast, *common, "--steps", str(STEPS), "--save", path("_fast.onnx"))
    before = {k: v.clone() for k, v in model.state_dict().items()}
    sgd = torch.optim.SGD(model.parameters(), lr=LR)
    for _ in range(STEPS):
        sgd.zero_grad()
        loss = loss_of(model(x), labels)
        loss.backward()
        sgd.step()
    trained = read_safetensors(path("_fast.safetensors"))
    state = {k: v.numpy() for k, v in model.state_dict().items()}
    used, worst = set(), 0.0
    for key, value in trained.items():  # FAST's weights have PyTorch's names, or a shape that is unique
        match = [k for k in ([key] if key in state else state)
                 if k not in used and state[k].size == value.size and state[k].dtype == np.float32]
        match.sort(key=lambda k: min(largest(value.reshape(s.shape), s) for s in (state[k], state[k].T)
                                     if s.size == value.size))
        if not match:
            continue  # masks
        used.add(match[0])
        options = [state[match[0]], state[match[0]].T]
        worst = max(worst, min(largest(value.reshape(s.shape), s) for s in options))
    moved = max(largest(before[k].numpy(), state[k]) for k in used)
    missing = [k for k in state if k not in used and state[k].dtype == np.float32]
    exported = onnx.load(path("_fast.onnx"))
    onnx.checker.check_model(exported, full_check=True)
    model.eval()
    with torch.no_grad():
        outputs = largest(evaluate(exported, x.numpy()), model(x).numpy())
    good = worst < BOUND and outputs < BOUND and not missing and moved > 0.01
    print(f"{name:10s} {'free' if free_batch else 'fixed'} batch  weights {worst:.1e}  outputs {outputs:.1e}  "
          f"{len(used)} of {len(used) + len(missing)} tensors  {'good' if good else 'WRONG ' + ' '.join(missing)}")
    return good


def check_default(fast, name, folder):
    """Imports and exports a default export, and compares the outputs."""
    kind, shape, classes = MODELS[name]
    torch.manual_seed(4)
    model = kind().eval()
    tokens = name == "gpt2"
    x = torch.randint(0, classes, (BATCH, *shape)) if tokens else torch.randn(BATCH, *shape)
    path = lambda file: os.path.join(folder, f"{name}{file}")  # noqa: E731
    np.save(path("_x.npy"), x.numpy().astype(np.int32 if tokens else np.float32))
    np.save(path("_y.npy"), np.zeros((BATCH, *shape) if tokens else BATCH, np.int32))
    data = (f"npy:x={path('_x.npy')},y={path('_y.npy')},test_x={path('_x.npy')},test_y={path('_y.npy')},"
            f"classes={classes},normalize=none" + (f",as=tokens,vocabulary={classes}" if tokens else ""))
    worst = 0.0
    for opset in range(11, 18):
        torch.onnx.export(model, x[:1], path(".onnx"), opset_version=opset, input_names=["input"])
        run(fast, "--model", path(".onnx"), "--data", data, "--batch", str(BATCH), "--epochs", "0",
            "--save", path("_fast.onnx"))
        with torch.no_grad():
            worst = max(worst, largest(evaluate(onnx.load(path("_fast.onnx")), x.numpy()), model(x).numpy()))
    print(f"{name:10s} default exports, operators 11 to 17  outputs {worst:.1e}  {'good' if worst < BOUND else 'WRONG'}")
    return worst < BOUND


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    names = sys.argv[2:] or MODELS
    with tempfile.TemporaryDirectory() as folder:
        folder = os.environ.get("ONNX_CHECK_FOLDER", folder)
        results = [check(sys.argv[1], name, folder, free) for name in names for free in (True, False)]
        results += [check_default(sys.argv[1], name, folder) for name in names]
    sys.exit(not all(results))


if __name__ == "__main__":
    main()

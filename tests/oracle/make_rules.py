#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes rules.safetensors: what PyTorch's optimizers make of fixed gradients, step by step.

    python3 tests/oracle/make_rules.py [FOLDER]    the script's own without one

"w" holds the first weights, "g" the gradient of each step, "lr" the rate of each step. Every other
tensor is named by the specification of a rule and holds the weights after each step. torch.optim
has all rules but LARS, LAMB, Lion, Muon, YellowFin and Adam's `freeze`, which are written here from their papers' formulas.
"""
import json
import os
import struct
import sys

import numpy
import torch

STEPS = 10
# The layout: name, shape, whether weight decay applies. The C test has the same one.
SEGMENTS = [("a.weight", (7, 11), True), ("a.bias", (7,), False),
            ("b.weight", (3, 7), True), ("b.bias", (3,), False)]

CASES = """
sgd
sgd:weight_decay=0.1
sgd:weight_decay=0.1,decay_all=yes
sgd:clip_norm=2
sgd:clip_norm=1e6
sgd:clip_value=0.5
momentum
momentum:momentum=0.5,dampening=0.3
momentum:weight_decay=0.01
momentum:weight_decay=0.01,clip_norm=3
momentum:clip_value=0.25,momentum=0.99
nesterov
nesterov:momentum=0.7,weight_decay=0.05
nesterov:momentum=0.7,weight_decay=0.05,decay_all=yes,clip_norm=1
adagrad
adagrad:lr_decay=0.1,initial=0.5,eps=0.001
adagrad:weight_decay=0.1
adadelta
adadelta:rho=0.8,eps=0.001,weight_decay=0.1,decay_all=yes
adadelta:clip_norm=2
rmsprop
rmsprop:alpha=0.9,eps=0.01
rmsprop:momentum=0.9
rmsprop:centered=yes
rmsprop:centered=yes,momentum=0.8,weight_decay=0.1
adam
adam:beta1=0.8,beta2=0.99,eps=0.001
adam:weight_decay=0.1
adam:weight_decay=0.1,decay_all=yes,clip_norm=2
adam:freeze=4
adamw
adamw:freeze=3,weight_decay=0.3
adamw:weight_decay=0.3
adamw:weight_decay=0.3,decay_all=yes,clip_value=0.5
lars
lars:trust=0.02,momentum=0.8,weight_decay=0.01
lars:trust=0.02,weight_decay=0.01,decay_all=yes
lars:trust=0.02,clip_norm=1
lars:trust=0.02,clip_value=0.5
lamb
lamb:weight_decay=0.1,beta1=0.8,beta2=0.99
lamb:weight_decay=0.1,decay_all=yes
lamb:weight_decay=0,clip_norm=1
lamb:clip_value=0.5
lion
lion:beta1=0.8,beta2=0.95,weight_decay=0.3
lion:weight_decay=0.1,decay_all=yes,clip_norm=2
lion:clip_value=0.5
muon
muon:momentum=0.9,nesterov=no,iterations=3,weight_decay=0.1
muon:others=0.5,beta1=0.8,beta2=0.99,weight_decay=0.1,decay_all=yes
muon:clip_norm=1
muon:clip_value=0.5
yellowfin
yellowfin:beta=0.9,window=3,slow_start=no
yellowfin:beta=0.5,window=1,weight_decay=0.1,decay_all=yes,clip_norm=2
yellowfin:beta=0.99,slow_start=no,clip_value=0.5,initial=0.02
""".split()


class Lars:
    """You, Gitman, Ginsburg 2017, algorithm 1."""

    def __init__(self, groups, momentum, trust, eps=1e-8):
        self.param_groups, self.mu, self.trust, self.eps = groups, momentum, trust, eps
        self.v = {}

    def step(self):
        for group in self.param_groups:
            decay = group["weight_decay"]
            for p in group["params"]:
                g, ratio = p.grad, 1.0
                if group["adapt"]:
                    ratio = self.trust * p.norm() / (g.norm() + decay * p.norm() + self.eps)
                v = self.mu * self.v.get(p, 0) + group["lr"] * ratio * (g + decay * p)
                self.v[p] = v
                p -= v


class Lamb:
    """You et al. 2020, algorithm 2 with the identity for phi."""

    def __init__(self, groups, betas, eps):
        self.param_groups, self.betas, self.eps = groups, betas, eps
        self.m, self.v, self.t = {}, {}, 0

    def step(self):
        self.t += 1
        b1, b2 = self.betas
        for group in self.param_groups:
            for p in group["params"]:
                m = b1 * self.m.get(p, 0) + (1 - b1) * p.grad
                v = b2 * self.v.get(p, 0) + (1 - b2) * p.grad ** 2
                self.m[p], self.v[p] = m, v
                r = (m / (1 - b1 ** self.t)) / ((v / (1 - b2 ** self.t)).sqrt() + self.eps)
                u = r + group["weight_decay"] * p
                ratio = p.norm() / u.norm() if group["adapt"] else 1.0
                p -= group["lr"] * ratio * u


class FrozenAdam:
    """1-bit Adam without compression, Tang et al. 2021: after `freeze` steps g is the momentum."""

    def __init__(self, groups, betas, eps, freeze):
        self.param_groups, self.betas, self.eps, self.freeze = groups, betas, eps, freeze
        self.m, self.v, self.t = {}, {}, 0

    def step(self):
        self.t += 1
        b1, b2 = self.betas
        last = min(self.t, self.freeze)
        for group in self.param_groups:
            for p in group["params"]:
                step = p.grad
                if self.t <= self.freeze:
                    self.m[p] = b1 * self.m.get(p, 0) + (1 - b1) * p.grad
                    self.v[p] = b2 * self.v.get(p, 0) + (1 - b2) * p.grad ** 2
                    step = self.m[p] / (1 - b1 ** self.t)
                p *= 1 - group["lr"] * group["weight_decay"]
                p -= group["lr"] * step / ((self.v[p] / (1 - b2 ** last)).sqrt() + self.eps)


class Lion:
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, groups, betas):
        self.param_groups, self.betas, self.m = groups, betas, {}

    def step(self):
        b1, b2 = self.betas
        for group in self.param_groups:
            for p in group["params"]:
                m = self.m.get(p, torch.zeros_like(p))
                p *= 1 - group["lr"] * group["weight_decay"]
                p -= group["lr"] * torch.sign(b1 * m + (1 - b1) * p.grad)
                self.m[p] = b2 * m + (1 - b2) * p.grad


class Muon:
    """Jordan et al. 2024: momentum and Newton-Schulz on matrices, in doubles; AdamW on the rest."""

    def __init__(self, groups, momentum, nesterov, iterations, others, betas, eps):
        self.param_groups, self.mu, self.nesterov, self.iterations = groups, momentum, nesterov, iterations
        self.others, self.betas, self.eps, self.t = others, betas, eps, 0
        self.m, self.v = {}, {}

    def matrix(self, p, group):
        g = p.grad.double()
        v = self.mu * self.v.get(p, 0) + g
        self.v[p] = v
        x = g + self.mu * v if self.nesterov else v
        x = x / (x.norm() + 1e-7)
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        for _ in range(self.iterations):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        x = x.T if tall else x
        p *= 1 - group["lr"] * group["weight_decay"]
        p -= group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5 * x

    def vector(self, p, group):
        b1, b2, lr = *self.betas, group["lr"] * self.others
        m = b1 * self.m.get(p, 0) + (1 - b1) * p.grad
        v = b2 * self.v.get(p, 0) + (1 - b2) * p.grad ** 2
        self.m[p], self.v[p] = m, v
        p *= 1 - lr * group["weight_decay"]
        p -= lr * (m / (1 - b1 ** self.t)) / ((v / (1 - b2 ** self.t)).sqrt() + self.eps)

    def step(self):
        self.t += 1
        for group in self.param_groups:
            for p in group["params"]:
                (self.matrix if p.dim() > 1 else self.vector)(p, group)


class YellowFin:
    """Zhang and Mitliagkas 2017, algorithms 1 to 4, with means without bias but mu and alpha; in doubles."""

    def __init__(self, groups, beta, window, slow_start, initial):
        self.param_groups, self.beta, self.window, self.slow = groups, beta, window, slow_start
        self.mu, self.alpha = 0, initial
        self.lengths, self.means, self.v, self.m, self.t = [], {}, {}, {}, 0

    def mean(self, name, value):
        self.means[name] = self.beta * self.means.get(name, 0) + (1 - self.beta) * value
        return self.means[name] / (1 - self.beta ** self.t)

    def step(self):
        self.t += 1
        params = [p for group in self.param_groups for p in group["params"]]
        h = sum(p.grad.double().pow(2).sum().item() for p in params)
        self.lengths = (self.lengths + [h])[-self.window:]
        before = self.means["max"] / (1 - self.beta ** (self.t - 1)) if self.t > 1 else h
        clip = (before / h) ** 0.5 if h > before > 0 else 1
        h_min, h_max = self.mean("min", min(self.lengths)), self.mean("max", max(self.lengths))
        length, squared = self.mean("length", h ** 0.5), self.mean("h", h)
        distance = self.mean("distance", length / squared)
        squares = 0
        for p in params:
            self.m[p] = self.beta * self.m.get(p, 0) + (1 - self.beta) * p.grad.double()
            squares += (self.m[p] / (1 - self.beta ** self.t)).pow(2).sum().item()
        variance = max(1e-30, squared - squares)
        q = distance ** 2 * h_min ** 2 / 2 / variance
        # The root of x^3 - 3 x^2 + (3 + q) x - 1 between 0 and 1, by numpy's eigenvalues.
        roots = numpy.roots([1, -3, 3 + q, -1])
        x = min((r.real for r in roots if abs(r.imag) < 1e-6 and -1e-9 < r.real < 1), key=abs) if q < 1e6 else 1 / q
        ratio = (h_max / h_min) ** 0.5
        x = max(x, (ratio - 1) / (ratio + 1))
        self.mu = self.beta * self.mu + (1 - self.beta) * x * x
        self.alpha = self.beta * self.alpha + (1 - self.beta) * (1 - x) ** 2 / h_min
        start = min(1, self.t / 10 / self.window) if self.slow else 1
        for group in self.param_groups:
            for p in group["params"]:
                g = clip * p.grad.double() + group["weight_decay"] * p.double()
                self.v[p] = self.mu * self.v.get(p, 0) - group["lr"] * start * self.alpha * g
                p += self.v[p]


def make(rule, o, params):
    """The optimizer of a case; pops the options that it uses from `o`."""
    def real(key, standard):
        return float(o.pop(key, standard))

    decay = real("weight_decay", {"adamw": 0.01, "lamb": 0.01, "lion": 0.01}.get(rule, 0))
    every = o.pop("decay_all", "no") == "yes"
    groups = []
    for (_, _, decays), p in zip(SEGMENTS, params):
        on = decays or every
        groups.append({"params": [p], "weight_decay": decay if on else 0.0, "lr": 0.1})
        if rule in ("lars", "lamb"):
            groups[-1]["adapt"] = on
    optim = torch.optim
    if rule == "sgd":
        return optim.SGD(groups, lr=0.1)
    if rule == "momentum":
        return optim.SGD(groups, lr=0.1, momentum=real("momentum", 0.9),
                         dampening=real("dampening", 0))
    if rule == "nesterov":
        return optim.SGD(groups, lr=0.1, momentum=real("momentum", 0.9), nesterov=True)
    if rule == "adagrad":
        return optim.Adagrad(groups, lr_decay=real("lr_decay", 0), eps=real("eps", 1e-10),
                             initial_accumulator_value=real("initial", 0))
    if rule == "adadelta":
        return optim.Adadelta(groups, rho=real("rho", 0.9), eps=real("eps", 1e-6))
    if rule == "rmsprop":
        return optim.RMSprop(groups, alpha=real("alpha", 0.99), eps=real("eps", 1e-8),
                             momentum=real("momentum", 0),
                             centered=o.pop("centered", "no") == "yes")
    if rule == "lars":
        return Lars(groups, real("momentum", 0.9), real("trust", 0.001))
    betas = (real("beta1", 0.9), real("beta2", {"lion": 0.99, "muon": 0.95}.get(rule, 0.999)))
    if rule == "lion":
        return Lion(groups, betas)
    if rule == "muon":
        return Muon(groups, real("momentum", 0.95), o.pop("nesterov", "yes") == "yes",
                    int(o.pop("iterations", 5)), real("others", 0.015), betas, real("eps", 1e-8))
    if rule == "yellowfin":
        return YellowFin(groups, real("beta", 0.999), int(o.pop("window", 20)), o.pop("slow_start", "yes") == "yes",
                         real("initial", 0.1))
    if rule == "lamb":
        return Lamb(groups, betas, real("eps", 1e-6))
    if "freeze" in o:
        return FrozenAdam(groups, betas, real("eps", 1e-8), int(o.pop("freeze")))
    kind = {"adam": optim.Adam, "adamw": optim.AdamW}[rule]
    return kind(groups, betas=betas, eps=real("eps", 1e-8))


@torch.no_grad()
def run(spec, w, g, lr):
    rule, _, text = spec.partition(":")
    o = dict(pair.split("=") for pair in text.split(",")) if text else {}
    clip_norm, clip_value = o.pop("clip_norm", None), o.pop("clip_value", None)
    counts = [torch.Size(shape).numel() for _, shape, _ in SEGMENTS]
    params = [torch.nn.Parameter(part.clone().view(shape))
              for part, (_, shape, _) in zip(w.split(counts), SEGMENTS)]
    optimizer = make(rule, o, params)
    assert not o, f"{spec}: not used: {o}"
    rows = []
    for step in range(STEPS):
        for p, part in zip(params, g[step].split(counts)):
            p.grad = part.clone().view(p.shape)
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(params, float(clip_norm))
        if clip_value:
            torch.nn.utils.clip_grad_value_(params, float(clip_value))
        for group in optimizer.param_groups:
            group["lr"] = float(lr[step])
        optimizer.step()
        rows.append(torch.cat([p.detach().reshape(-1).clone() for p in params]))
    return torch.stack(rows)


def save(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().float().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def main():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    n = sum(torch.Size(shape).numel() for _, shape, _ in SEGMENTS)
    w = torch.randn(n)
    g = torch.randn(STEPS, n) * torch.logspace(-3, 0.5, n)[torch.randperm(n)]
    g[:, 5] = 0  # a parameter that never gets a gradient
    g[4] = 0  # a step without one, but for the first parameter
    g[4, 0] = 1e-3
    # Rates that change, so that it matters whether a rate enters the velocity; exact in a float.
    lr = torch.tensor([(10 - step) / 64 for step in range(STEPS)])
    tensors = {"w": w, "g": g, "lr": lr}
    for spec in CASES:
        tensors[spec] = run(spec, w, g, lr)
        assert bool(torch.isfinite(tensors[spec]).all()), spec
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    save(os.path.join(folder, "rules.safetensors"), tensors)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes experts.safetensors: what PyTorch makes of mixtures of experts, forward and backward.

    python3 tests/oracle/make_experts.py [FOLDER]    the script's own without one

A case is a network as text in the metadata under "case.N"; "cases" is their number. Its tensors are
"N.x", "N.labels", the parameters under their names in the network ("N.router.weight"), and answers
of PyTorch: "N.y", "N.loss" (cross-entropy plus the balance of experts), and "N.d.router.weight" and so
on for the gradients. Dispatch and combine are products with masks, as in GShard (Lepikhin et al.
2020, algorithm 1), not the moves that engines make. Inputs are fp32; PyTorch computes in double.
"""
import os
import sys

import torch
import torch.nn.functional as F

from make_operators import save

TEXT = """input {T} {C}
norm: layer_norm
router: dense {E} bias=no
balance: head balance weight={weight}
route: route {top} capacity={capacity}
dispatch: dispatch norm route
experts1: experts {hidden} count={E}
gelu: gelu
experts2: experts {C} count={E}
combine: combine experts2 route
sum: add combine input
out: dense {K}
loss cross_entropy
"""
CASES = [  # slots are those of text's capacity: ceil(capacity top T / E)
    dict(n=3, T=8, C=6, E=4, top=1, capacity=1.25, slots=3, hidden=12, K=5, weight=0.5),
    dict(n=2, T=9, C=5, E=3, top=2, capacity=1.0, slots=6, hidden=7, K=4, weight=0.25),
    dict(n=5, T=7, C=4, E=2, top=1, capacity=0.5, slots=2, hidden=9, K=3, weight=0),
    dict(n=17, T=16, C=8, E=8, top=2, capacity=1.5, slots=6, hidden=16, K=6, weight=1),
    dict(n=2, T=1, C=3, E=5, top=3, capacity=1, slots=1, hidden=4, K=2, weight=0.1),
]


def mixture(p, x, case):
    """One sample: x [T, C] to the sum of its experts' outputs, and the balance of experts."""
    E, top, slots = case["E"], case["top"], case["slots"]
    h = F.layer_norm(x, x.shape[-1:], p["norm.weight"], p["norm.bias"])
    logits = h @ p["router.weight"].T
    probabilities = torch.softmax(logits, -1)
    left, masks = logits.detach().clone(), []
    for _ in range(top):
        masks.append(F.one_hot(left.argmax(-1), E).double())
        left = left.masked_fill(masks[-1].bool(), -float("inf"))
    gates = [(probabilities * mask).sum(-1) for mask in masks]
    if top > 1:
        gates = [gate / sum(gates) for gate in gates]
    balance = E * (masks[0].mean(0) * probabilities.mean(0)).sum()
    taken = torch.zeros(E).double()
    weights = torch.zeros(len(x), E, slots).double()
    for mask, gate in zip(masks, gates):
        place = torch.cumsum(mask, 0) - mask + taken  # first free slot of each expert
        taken = taken + mask.sum(0)
        fits = mask * (place < slots)
        slot = F.one_hot((place * mask).sum(-1).long().clamp(max=slots - 1), slots).double()
        weights = weights + gate[:, None, None] * fits[:, :, None] * slot[:, None, :]
    w1, b1 = p["experts1.weight"].view(E, -1, x.shape[1]), p["experts1.bias"].view(E, 1, -1)
    w2, b2 = p["experts2.weight"].view(E, x.shape[1], -1), p["experts2.bias"].view(E, 1, -1)
    inputs = torch.einsum("tes,tc->esc", (weights > 0).double(), h)
    outputs = torch.bmm(F.gelu(torch.bmm(inputs, w1.transpose(1, 2)) + b1), w2.transpose(1, 2)) + b2
    return torch.einsum("tes,esc->tc", weights, outputs), balance


def run(case):
    T, C, E, K, hidden = (case[key] for key in ("T", "C", "E", "K", "hidden"))
    shapes = {"norm.weight": (C,), "norm.bias": (C,), "router.weight": (E, C),
              "experts1.weight": (E * hidden, C), "experts1.bias": (E * hidden,),
              "experts2.weight": (E * C, hidden), "experts2.bias": (E * C,),
              "out.weight": (K, C), "out.bias": (K,)}
    values = {name: torch.rand(*shape) * 2 - 1 for name, shape in shapes.items()}
    p = {name: value.double().requires_grad_() for name, value in values.items()}
    x, labels = torch.rand(case["n"], T, C) * 3 - 1.5, torch.randint(K, (case["n"], T)).int()
    parts = [mixture(p, sample.double(), case) for sample in x]
    y = (torch.stack([part[0] for part in parts]) + x.double()) @ p["out.weight"].T + p["out.bias"]
    loss = F.cross_entropy(y.flatten(0, 1), labels.flatten().long())
    loss = loss + case["weight"] * torch.stack([part[1] for part in parts]).mean()
    loss.backward()
    return {**values, "x": x, "labels": labels, "y": y.detach(), "loss": loss.detach().reshape(1),
            **{"d." + name: leaf.grad for name, leaf in p.items()}}


def main():
    torch.manual_seed(5)
    torch.set_num_threads(1)
    tensors, metadata = {}, {"cases": str(len(CASES)), "torch": torch.__version__}
    for i, case in enumerate(CASES):
        metadata[f"case.{i}"] = TEXT.format(**case)
        tensors.update((f"{i}.{name}", value) for name, value in run(case).items())
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    save(os.path.join(folder, "experts.safetensors"), tensors, metadata)


if __name__ == "__main__":
    main()

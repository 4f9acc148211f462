#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""02_simulate - the same loop on clusters that one does not have: which strategy for eight uneven machines?

    python3 02_simulate.py
"""
import torch
from torch import nn

import fast

generator = torch.Generator().manual_seed(0)
x = torch.randn(3200, 20, generator=generator)
y = (x @ torch.randn(20, 5, generator=generator)).argmax(1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16)

for system in ("bsp", "ssp", "easgd"):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    model, optimizer = fast.wrap(model, optimizer, system=system, workers=8, simulate="hetero")
    for inputs, labels in fast.shard(loader, epochs=4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    result = fast.finish(optimizer)
    accuracy = 100 * (model(x).argmax(1) == y).float().mean()
    print(f"{system:6} {1e3 * result.virtual_time_s:7.2f} ms of the cluster, accuracy {accuracy:.0f}%")

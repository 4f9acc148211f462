#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""01_three_lines - a training script of PyTorch's whose replicas cooperate by FAST: the marked lines are the change.

    python3 01_three_lines.py                           one process
    fast run -n 2 01_three_lines.py                     two processes, bounded staleness
    fast run -n 2 01_three_lines.py allreduce           the same with another strategy
"""
import sys

import torch
from torch import nn

import fast  # 1

generator = torch.Generator().manual_seed(0)
x = torch.randn(3200, 20, generator=generator)
y = (x @ torch.randn(20, 5, generator=generator)).argmax(1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32, shuffle=True,
                                     generator=torch.Generator().manual_seed(1))
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
model, optimizer = fast.wrap(model, optimizer, strategy=sys.argv[1] if len(sys.argv) > 1 else "ps:slack=2")  # 2

for inputs, labels in fast.shard(loader, epochs=3):  # 3
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()

if fast.rank() == 0:
    print(f"accuracy {100 * (model(x).argmax(1) == y).float().mean():.0f}%")

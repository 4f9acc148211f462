#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""03_ddp_codec - keep DistributedDataParallel, and send gradients by a codec of FAST's.

    fast run -n 2 03_ddp_codec.py /tmp/rendezvous
"""
import sys

import torch
import torch.distributed as dist
from torch import nn

import fast

dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=fast.rank(), world_size=fast.size())
generator = torch.Generator().manual_seed(0)
x = torch.randn(3200, 20, generator=generator)
y = (x @ torch.randn(20, 5, generator=generator)).argmax(1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32)
torch.manual_seed(1)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5)))
model.register_comm_hook(*fast.comm_hook("topk:ratio=0.05"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(2):
    for inputs, labels in fast.shard(loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
if fast.rank() == 0:
    print(f"accuracy {100 * (model(x).argmax(1) == y).float().mean():.0f}% with 5% of the gradients sent")
dist.destroy_process_group()

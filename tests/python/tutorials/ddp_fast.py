# SPDX-License-Identifier: Apache-2.0
"""A training script in the shape of PyTorch's tutorial "Getting Started with Distributed Data Parallel"."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.optim as optim
import fast
from torch.nn.parallel import DistributedDataParallel as DDP


def setup(rank, world_size):
    dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=rank, world_size=world_size)


def cleanup():
    dist.destroy_process_group()


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def demo_basic(rank, world_size):
    print(f"Running basic DDP example on rank {rank}.")
    setup(rank, world_size)
    torch.manual_seed(rank)
    model = ToyModel()
    ddp_model = model
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.1)
    ddp_model, optimizer = fast.wrap(model, optimizer, system="bsp")
    for step in range(50):
        optimizer.zero_grad()
        outputs = ddp_model(torch.randn(20, 10))
        labels = torch.randn(20, 5)
        loss = loss_fn(outputs, labels)
        loss.backward()
        optimizer.step()
        print(f"rank {rank} step {step} loss: {loss.item():.7f}")
    cleanup()


if __name__ == "__main__":
    demo_basic(int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"]))

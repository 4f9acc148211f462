# SPDX-License-Identifier: Apache-2.0
"""Goal: a loop on a GPU computes what it computes alone. Usage: torch_cuda.py (exit 77: no PyTorch or no CUDA)

    PYTHONPATH=python FAST_LIBRARY=build/release/libfast.so python3 tests/python/torch_cuda.py

Method: a small network with batch norm on the GPU, float32 and float16, by FAST's rule and by the optimizer's own
changes, beside PyTorch alone; then a model that is half on the host and half on the GPU. Copies go through page-locked
memory; tests/python/torch_loop.py plays the GPU's part in them without a GPU.
"""
import importlib.util
import sys

if importlib.util.find_spec("torch") is None:
    print("skipped: no PyTorch")
    sys.exit(77)
import torch  # noqa: E402
from torch import nn  # noqa: E402

if not torch.cuda.is_available():
    print("skipped: no CUDA")
    sys.exit(77)
import fast  # noqa: E402

torch.backends.cuda.matmul.allow_tf32 = False
torch.use_deterministic_algorithms(False)
G = torch.Generator().manual_seed(0)
X = torch.randn(640, 20, generator=G)
Y = (X @ torch.randn(20, 3, generator=G)).argmax(1)


class Halves(nn.Module):
    """The first layer on the host, the second on the GPU."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(20, 16), nn.Linear(16, 3).cuda()

    def forward(self, x):
        return self.b(torch.relu(self.a(x.cpu())).cuda())


def make(kind, dtype):
    torch.manual_seed(1)
    if kind == "halves":
        return Halves()
    return nn.Sequential(nn.Linear(20, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)).to("cuda", dtype)


def train(kind, dtype, update=None):
    """Losses of 60 steps; without an update by PyTorch alone."""
    model = make(kind, dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if update:
        fast.wrap(model, optimizer, update=update, store="none")
    losses = []
    for step in range(60):
        at = 32 * step % 640
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        output = model(X[at:at + 32].to("cuda", dtype)).float()
        loss = nn.functional.cross_entropy(output, Y[at:at + 32].cuda())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if update:
        if kind == "one":
            assert optimizer.fast.stage.is_pinned()
        assert fast.finish(optimizer).steps >= 60
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert next(model.parameters()).dtype == dtype
    return losses


for kind, dtype, limit in (("one", torch.float32, 1e-4), ("halves", torch.float32, 1e-4), ("one", torch.float16, 0.2)):
    alone = train(kind, dtype)
    for update in ("rule", "local"):
        losses = train(kind, dtype, update)
        worst = max(abs(a - b) for a, b in zip(alone, losses))
        assert worst < limit and losses[-1] < losses[0], (kind, dtype, update, worst)
        print(f"{kind}, {dtype}, {update}: largest difference {worst:.1e}", flush=True)
print("passed on", torch.cuda.get_device_name())

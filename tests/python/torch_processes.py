# SPDX-License-Identifier: Apache-2.0
"""Goal: processes of `fast run` train together. Usage: torch_processes.py PROGRAM (exit 77: no PyTorch or mpirun)

    tools/slurm srun -n 2 --mpi=pmix python3 tests/python/torch_processes.py FILE     the same under srun

Method: the script starts itself as two processes. Synchronous losses are those of PyTorch's DDP over gloo within
1e-5 over 50 steps, with momentum and with Adam; other strategies learn, each process with its own part of the data.
"""
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

if importlib.util.find_spec("torch") is None or shutil.which("mpirun") is None:
    print("skipped: no PyTorch, or no mpirun")
    sys.exit(77)


def start():
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, OMPI_MCA_plm="isolated", OMPI_MCA_pml="ob1", OMPI_MCA_btl="vader,self")
        command = [sys.argv[1], "run", "-n", "2", "--python", sys.executable, os.path.abspath(__file__),
                   os.path.join(folder, "store")]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280)
        print(done.stdout)
        if done.returncode or "passed 0" not in done.stdout or "passed 1" not in done.stdout:
            sys.exit(f"exit code {done.returncode}\n{done.stderr}")


if "OMPI_COMM_WORLD_RANK" not in os.environ and "SLURM_STEP_NUM_TASKS" not in os.environ:
    start()
    sys.exit(0)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn, optim  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import fast  # noqa: E402

torch.set_num_threads(1)
G = torch.Generator().manual_seed(0)
X = torch.randn(1600, 20, generator=G)
Y = (X @ torch.randn(20, 3, generator=G)).argmax(1)
SET = torch.utils.data.TensorDataset(X, Y)


def make():
    torch.manual_seed(1 + fast.rank())  # different ones: the first process's count, as with DDP
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3))


def train(model, optimizer, batches):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_ddp():
    """50 steps, the same batches: the change is wrap() instead of DistributedDataParallel()."""
    for kind in (functools.partial(optim.SGD, lr=0.1, momentum=0.9), functools.partial(optim.Adam, lr=0.01)):
        loader = torch.utils.data.DataLoader(SET, batch_size=16)
        model = DistributedDataParallel(make())
        ddp = train(model, kind(model.parameters()), fast.shard(loader))
        model = make()
        model, optimizer = fast.wrap(model, kind(model.parameters()), strategy="allreduce")
        losses = train(model, optimizer, fast.shard(loader))
        result = fast.finish(optimizer)
        worst = max(abs(a - b) for a, b in zip(ddp, losses))
        assert len(losses) == 50 and worst < 1e-5, worst
        assert result.workers == 2 and result.transport == "mpi"
        print(f"process {fast.rank()}: {len(losses)} steps, largest difference {worst:.1e}", flush=True)


def test_strategies():
    for more in (dict(system="ssp"), dict(strategy="gossip_async"), dict(strategy="local:period=4"), dict(system="easgd"),
                 dict(strategy="ps:slack=2", codec="topk:ratio=0.1")):
        loader = torch.utils.data.DataLoader(SET, batch_size=16, shuffle=True)
        model = make()
        model, optimizer = fast.wrap(model, optim.SGD(model.parameters(), lr=0.1), **more)
        losses = train(model, optimizer, fast.shard(loader, epochs=2))
        result = fast.finish(optimizer)
        assert len(losses) == 100 and result.steps == 101, (more, len(losses), result.steps)
        assert sum(losses[-10:]) < 0.85 * sum(losses[:10]), (more, losses)


def test_comm_hook():
    """DDP with FAST's codecs: a lossless one changes nothing, a lossy one learns."""
    loader = torch.utils.data.DataLoader(SET, batch_size=16)

    def run(codec):
        model = DistributedDataParallel(make())
        if codec:
            model.register_comm_hook(*fast.comm_hook(codec))
        return train(model, optim.SGD(model.parameters(), lr=0.1), fast.shard(loader))
    plain, same, few = run(None), run("none"), run("topk:ratio=0.1")
    assert max(abs(a - b) for a, b in zip(plain, same)) < 1e-5
    assert few != plain and sum(few[-10:]) < 0.85 * sum(few[:10]), few
    try:
        fast.Codec("topq", [(4, 4)])
    except fast.InvalidError as error:
        assert "topk" in str(error)
    else:
        raise AssertionError("taken")


def test_shard():
    """The processes read different samples, the same number of them, also with a round that is not whole."""
    loader = torch.utils.data.DataLoader(list(range(100)), batch_size=6, shuffle=True)
    mine = [int(v) for batch in fast.shard(loader) for v in batch]
    assert len(mine) in (8 * 6, 7 * 6 + 4) and len(set(mine)) == len(mine)
    every = [None, None]
    dist.all_gather_object(every, mine)
    assert not set(every[0]) & set(every[1]), every
    assert len(list(fast.shard(iter(range(7))))) == 3


def test_uneven():
    """A synchronous loop that is longer than another worker's fails, and names the worker; so on both sides."""
    for shorter in (0, 1):
        model, failed = make(), ""
        model, optimizer = fast.wrap(model, optim.SGD(model.parameters(), lr=0.1), strategy="allreduce")
        loader = torch.utils.data.DataLoader(SET, batch_size=16)
        try:
            train(model, optimizer, list(loader)[:5 if fast.rank() == shorter else 8])
        except fast.PeerError as error:
            failed = str(error)
        fast.finish(optimizer)
        expected = "" if fast.rank() == shorter else f"takes step 6, and that of worker {shorter} has ended"
        assert (expected in failed) and bool(expected) == bool(failed), failed
        assert optimizer.fast.taken == 5 and all(torch.isfinite(p).all() for p in model.parameters())


def test_refused():
    try:
        model = make()
        fast.wrap(model, optim.SGD(model.parameters(), lr=0.1), workers=3)
    except fast.InvalidError as error:
        assert "fast run -n 3" in str(error), error
    else:
        raise AssertionError("taken")


dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=fast.rank(), world_size=fast.size())
for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
dist.destroy_process_group()
sys.stdout.write(f"passed {fast.rank()}\n")  # in one piece: two processes write

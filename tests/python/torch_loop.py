# SPDX-License-Identifier: Apache-2.0
"""Goal: a loop of PyTorch's stays a loop of PyTorch's. Usage: torch_loop.py (exit 77: no PyTorch)

Method: a small classifier in one process. With one worker every optimizer, with and without a scheduler, gives
the losses that PyTorch gives alone; with simulated workers every family of strategies learns or is refused.
"""
import functools
import importlib.util
import sys

if importlib.util.find_spec("torch") is None:
    print("skipped: no PyTorch")
    sys.exit(77)
import torch  # noqa: E402
from torch import nn, optim  # noqa: E402

import fast  # noqa: E402

torch.set_num_threads(1)
G = torch.Generator().manual_seed(0)
X = torch.randn(640, 20, generator=G)
Y = (X @ torch.randn(20, 3, generator=G)).argmax(1)
LOADER = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=32)


def make(norm=True):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, 16), nn.BatchNorm1d(16) if norm else nn.Identity(), nn.ReLU(), nn.Linear(16, 3))


def train(optimizer, scheduled=False, epochs=1, dtype=torch.float32, none=False, **wrap):
    """Losses of a loop, the model and FAST's measures; without arguments of wrap() by PyTorch alone."""
    model = make().to(dtype)
    opt = optimizer(model.parameters())
    schedule = optim.lr_scheduler.StepLR(opt, 5, 0.5) if scheduled else None
    if wrap:
        model, opt = fast.wrap(model, opt, **wrap)
    losses = []
    for _ in range(epochs):
        for x, y in fast.shard(LOADER):
            opt.zero_grad(set_to_none=none)
            loss = nn.functional.cross_entropy(model(x.to(dtype)), y)
            loss.backward()
            opt.step()
            losses.append(loss.item())
            if schedule:
                schedule.step()
    return losses, model, fast.finish(opt)


def close(a, b, limit=1e-5):
    worst = max(abs(x - y) for x, y in zip(a, b))
    assert len(a) == len(b) and worst < limit, worst


OPTIMIZERS = [functools.partial(optim.SGD, lr=0.1), functools.partial(optim.SGD, lr=0.1, momentum=0.9, weight_decay=1e-3),
              functools.partial(optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
              functools.partial(optim.Adam, lr=0.01, weight_decay=1e-3), functools.partial(optim.AdamW, lr=0.01),
              functools.partial(optim.RMSprop, lr=0.01), functools.partial(optim.Adagrad, lr=0.1),
              functools.partial(optim.Adamax, lr=0.01)]


def test_optimizers():
    for i, optimizer in enumerate(OPTIMIZERS):
        alone = train(optimizer, scheduled=i % 2 == 0)[0]
        for update in ("auto", "local"):
            losses, model, result = train(optimizer, scheduled=i % 2 == 0, none=i % 3 == 0, update=update)
            close(alone, losses)
            assert result.optimizer.startswith("sgd") == (update == "local" or i in (0, 7)), result.optimizer
            assert all(torch.isfinite(p).all() for p in model.parameters())


def test_dtype():
    """Parameters that are not float32 are copied: as those of another device would be."""
    alone = train(OPTIMIZERS[1])[0]
    for update in ("rule", "local"):
        close(alone, train(OPTIMIZERS[1], dtype=torch.float64, update=update)[0])


def test_stage():
    """The copies through page-locked memory, with a GPU's event played by an object: each read is waited for."""
    from fast import _loop
    real, calls = _loop.Loop._own_memory, []

    class Event:
        def record(self, stream):
            calls.append("record")

        def synchronize(self):
            calls.append("synchronize")

    def own(self):
        real(self)
        self.stage, self.loaded = torch.empty_like(self.flat), Event()
    _loop.Loop._own_memory, stream = own, torch.cuda.current_stream
    torch.cuda.current_stream = lambda device: None
    try:
        for update in ("rule", "local"):
            calls.clear()
            close(train(OPTIMIZERS[1])[0], train(OPTIMIZERS[1], dtype=torch.float64, update=update)[0])
            assert calls == ["record"] + ["synchronize", "record"] * 20, calls
    finally:
        _loop.Loop._own_memory, torch.cuda.current_stream = real, stream


def test_groups():
    """Groups with different rates are the optimizer's own business."""
    def groups(parameters):
        parameters = list(parameters)
        return optim.SGD([dict(params=parameters[:2], lr=0.01), dict(params=parameters[2:])], lr=0.1)
    close(train(groups)[0], train(groups, update="auto")[0])
    try:
        train(groups, update="rule")
    except fast.InvalidError as error:
        assert 'update="local"' in str(error)
    else:
        raise AssertionError("taken")


# Every family but distill, whose teachers have to be FAST's own models: test_refused().
FAMILIES = ["allreduce", "quorum:backup=1", "local:period=4", "federated", "ps", "ps:slack=2", "elastic", "elastic_sync",
            "elastic_tree", "mpca", "hogwild", "dogwild", "ensemble", "gossip", "gossip_async", "partial", "broadcast"]


def test_families():
    for update in ("rule", "local"):
        for strategy in FAMILIES:
            losses, _, result = train(OPTIMIZERS[0], epochs=6, workers=3, update=update, strategy=strategy, simulate="laptop")
            first, last = sum(losses[:12]), sum(losses[-12:])
            assert last < 0.95 * first and result.virtual_time_s > 0, (strategy, update, first, last)


def test_repeats():
    """Simulated workers repeat to the bit, and three synchronous ones are one with three batches."""
    a, b = (train(OPTIMIZERS[1], workers=3, system="ssp", simulate="hetero") for _ in range(2))
    assert a[0] == b[0] and a[2].virtual_time_s == b[2].virtual_time_s
    model, steps = make(norm=False), []
    opt = optim.SGD(model.parameters(), lr=0.1)
    for i in range(6):
        opt.zero_grad()
        for x, y in list(LOADER)[3 * i:3 * i + 3]:
            loss = nn.functional.cross_entropy(model(x), y) / 3
            loss.backward()
            steps.append(3 * loss.item())
        opt.step()
    model = make(norm=False)
    model, opt = fast.wrap(model, optim.SGD(model.parameters(), lr=0.1), workers=3, strategy="allreduce")
    losses = []
    for x, y in list(LOADER)[:18]:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    fast.finish(opt)
    close(steps, losses)


def test_closure():
    model = make()
    model, opt = fast.wrap(model, optim.SGD(model.parameters(), lr=0.1))

    def closure():
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(X), Y)
        loss.backward()
        return loss
    losses = [opt.step(closure).item() for _ in range(5)]
    assert losses[-1] < losses[0]
    fast.finish(opt)
    opt.step(closure)  # by PyTorch alone
    assert fast.finish(opt).steps >= 5


def test_refused():
    model = make()
    for wrong, part in ((dict(strategy="gosip"), "did you mean"), (dict(update="mine"), "auto, rule or local"),
                        (dict(codec="topk:rato=1"), "rato"), (dict(strategy="distill"), "outputs of teachers"), (dict(gpu=1), "no option \"gpu\""),
                        (dict(batch_size=8), "did you mean \"batch\"")):
        try:
            _, opt = fast.wrap(model, optim.SGD(model.parameters(), lr=0.1), workers=2, **wrong)
            nn.functional.cross_entropy(model(X), Y).backward()
            opt.step()
        except fast.Error as error:
            assert part in str(error), error
        else:
            raise AssertionError(wrong)


def test_loss():
    """The run knows the losses that it is told; PyTorch's own classes are as they were."""
    plain = torch.Tensor.backward
    for told in (True, False):
        model = make()
        model, opt = fast.wrap(model, optim.SGD(model.parameters(), lr=0.1))
        for x, y in list(LOADER)[:4]:
            loss = nn.functional.cross_entropy(model(x), y)
            (fast.loss(loss) if told else loss).backward()
            opt.step()
        assert torch.Tensor.backward is plain
        result = fast.finish(opt)
        assert (result.loss > 0.5) == told, result.loss
        assert "step" not in vars(opt) or opt.step == opt.fast.plain_step


def test_launchers():
    """The number of processes, as Open MPI, PMI and SLURM tell it; a batch script of SLURM's has one."""
    import os
    cases = [(dict(OMPI_COMM_WORLD_SIZE="4", OMPI_COMM_WORLD_RANK="2"), 4, 2), (dict(PMI_SIZE="3", PMI_RANK="1"), 3, 1),
             (dict(SLURM_STEP_NUM_TASKS="8", SLURM_PROCID="7", SLURM_NTASKS="8"), 8, 7),
             (dict(SLURM_STEP_NUM_TASKS="8", PMIX_RANK="6", SLURM_PROCID="6"), 8, 6),
             (dict(SLURM_NTASKS="8", SLURM_PROCID="0", SLURM_JOB_ID="17"), 1, 0), (dict(PMI_SIZE="x"), 1, 0), ({}, 1, 0)]
    before = dict(os.environ)
    for variables, size, rank in cases:
        for name in ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"):
            os.environ.pop(name, None)
        for name in [n for n in os.environ if n.startswith("SLURM_")]:
            os.environ.pop(name)
        os.environ.update(variables)
        assert (fast.size(), fast.rank()) == (size, rank), (variables, fast.size(), fast.rank())
    os.environ.clear()
    os.environ.update(before)


def test_left():
    """A loop that an exception leaves ends its run; the model has its own memory again."""
    model = make()
    model, opt = fast.wrap(model, optim.SGD(model.parameters(), lr=0.1), workers=2)
    for x, y in list(LOADER)[:4]:
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
    opt.fast.abort()
    assert opt.fast.run is None and torch.isfinite(model[0].weight).all()


def main():
    wanted = sys.argv[1:]
    for name, test in list(globals().items()):
        if name.startswith("test_") and (not wanted or name in wanted):
            test()
            print(name, "passed", flush=True)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Goal: models and loops as people have them just work, or are refused by a sentence. Usage: torch_models.py
(exit 77: no PyTorch)

Method: each model and each kind of loop trains alone and wrapped, by FAST's rule and by its optimizer's changes: the
losses are the same. Two simulated workers end with finite weights. Typical mistakes name what to do.
"""
import importlib.util
import sys
import warnings

if importlib.util.find_spec("torch") is None:
    print("skipped: no PyTorch")
    sys.exit(77)
import torch  # noqa: E402
from torch import nn, optim  # noqa: E402

import fast  # noqa: E402

torch.set_num_threads(1)
G = torch.Generator().manual_seed(0)
X = torch.randn(320, 20, generator=G)
Y = (X @ torch.randn(20, 3, generator=G)).argmax(1)
F = nn.functional


def mlp():
    return nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 3))


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(20, 20), nn.Linear(20, 20), nn.Linear(20, 3)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.c(torch.relu(self.b(torch.relu(self.a(x)))))


class Frozen(nn.Module):
    """A layer that is not trained."""

    def __init__(self):
        super().__init__()
        self.a, self.c = nn.Linear(20, 16).requires_grad_(False), nn.Linear(16, 3)

    def forward(self, x):
        return self.c(torch.relu(self.a(x)))


class Sparse(nn.Module):
    """An embedding whose gradients are sparse."""

    def __init__(self):
        super().__init__()
        self.e, self.c = nn.Embedding(10, 8, sparse=True), nn.Linear(8, 3)

    def forward(self, x):
        return self.c(self.e((x[:, 0].abs() * 3).long().clamp(max=9)))


class Views(nn.Module):
    """A parameter that is not contiguous, one without a dimension, one that is never used."""

    def __init__(self):
        super().__init__()
        warnings.filterwarnings("ignore", "grad and param do not obey")  # PyTorch's, of views without FAST too
        self.w, self.t = nn.Parameter(torch.randn(3, 20).t() * 0.1), nn.Parameter(torch.tensor(1.0))
        self.c, self.never = nn.Linear(3, 3), nn.Linear(4, 4)

    def forward(self, x):
        return self.c(x @ self.w) * self.t


def volume():
    return nn.Sequential(nn.Unflatten(1, (1, 1, 4, 5)), nn.Conv3d(1, 2, (1, 2, 2)), nn.BatchNorm3d(2), nn.Flatten(),
                         nn.Linear(24, 3))


def channels_last():
    return nn.Sequential(nn.Unflatten(1, (1, 4, 5)), nn.Conv2d(1, 4, 3), nn.Flatten(),
                         nn.Linear(24, 3)).to(memory_format=torch.channels_last)


def weight_norm():
    return nn.Sequential(nn.utils.weight_norm(nn.Linear(20, 16)), nn.ReLU(), nn.Linear(16, 3))


def sgd(model):
    return optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def plain(model, optimizer, x, y, i):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def accumulated(model, optimizer, x, y, i):
    loss = F.cross_entropy(model(x), y) / 2
    loss.backward()
    if i % 2:
        optimizer.step()
        optimizer.zero_grad()
    return loss


def none(model, optimizer, x, y, i):
    for p in model.parameters():
        p.grad = None
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def zeroed_by_the_model(model, optimizer, x, y, i):
    model.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def clipped(model, optimizer, x, y, i):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    return loss


def mixed(model, optimizer, x, y, i):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x), y)
    scaler = torch.cuda.amp.GradScaler(enabled=False)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    return loss


def closed(model, optimizer, x, y, i):
    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(X), Y)
        loss.backward()
        return loss
    return optimizer.step(closure)


def rates(model):
    parameters = list(model.parameters())
    return optim.SGD([dict(params=parameters[:2], lr=0.01), dict(params=parameters[2:])], lr=0.1)


def decays(model):
    parameters = list(model.parameters())
    return optim.AdamW([dict(params=parameters[:2], weight_decay=0.0), dict(params=parameters[2:])], lr=0.01)


def lbfgs(model):
    return optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)


CASES = [(make, sgd, plain) for make in (Tied, Frozen, Sparse, Views, volume, channels_last, weight_norm)]
CASES += [(lambda: nn.DataParallel(mlp()), sgd, plain)]
CASES += [(mlp, sgd, step) for step in (accumulated, none, zeroed_by_the_model, clipped, mixed, closed)]
CASES += [(mlp, rates, plain), (mlp, decays, plain), (mlp, lbfgs, closed)]


def train(make, kind, step, steps=12, **wrap):
    torch.manual_seed(1)
    model = make()
    optimizer = kind(model)
    if wrap:
        fast.wrap(model, optimizer, store="none", **wrap)
    losses = [step(model, optimizer, X[16 * i:16 * i + 16], Y[16 * i:16 * i + 16], i).item() for i in range(steps)]
    if wrap:
        fast.finish(optimizer)
    assert all(torch.isfinite(p).all() for p in model.parameters())
    return losses


def test_models():
    for make, kind, step in CASES:
        alone = train(make, kind, step)
        for update in ("auto", "local"):
            losses = train(make, kind, step, update=update)
            worst = max(abs(a - b) for a, b in zip(alone, losses))
            assert worst < 1e-5, (make, step, update, alone, losses)
        train(make, kind, step, workers=2, strategy="allreduce")
        train(make, kind, step, workers=2, strategy="elastic", update="local")


def refused(part, function, *arguments, **more):
    try:
        function(*arguments, **more)
    except fast.InvalidError as error:
        assert part in str(error) and "\n" not in str(error), error
    else:
        raise AssertionError(part)


def wrapped(**more):
    model = mlp()
    optimizer = sgd(model)
    fast.wrap(model, optimizer, store="none", **more)
    return model, optimizer


def test_mistakes():
    model = mlp()
    refused("takes a torch.nn.Module and a torch.optim.Optimizer, not SGD and Sequential", fast.wrap, sgd(model), model)
    refused("no parameter that is trained", fast.wrap, model, sgd(nn.Linear(2, 2).requires_grad_(False)))
    refused("did you mean \"ssp\"", fast.wrap, model, sgd(model), system="sps")
    refused("complex", fast.wrap, model, optim.SGD([nn.Parameter(torch.zeros(2, dtype=torch.complex64))], lr=1.0))
    model, optimizer = wrapped()
    refused("wrapped already", fast.wrap, model, optimizer)
    refused("wrap() again", optimizer.add_param_group, dict(params=[nn.Parameter(torch.zeros(2))]))
    refused("before wrap()", optimizer.load_state_dict, sgd(mlp()).state_dict())
    fast.finish(optimizer)
    optimizer.add_param_group(dict(params=[nn.Parameter(torch.zeros(2))]))
    optimizer.load_state_dict(optimizer.state_dict())


def test_moved():
    """A model that is converted after wrap() is refused: before the first step and after it."""
    for steps in (0, 2):
        model, optimizer = wrapped()
        for i in range(steps):
            plain(model, optimizer, X[:16], Y[:16], i)
        model.double()
        refused("parameter 0.weight", plain, model, optimizer, X[:16].double(), Y[:16], 0)
        assert torch.isfinite(model[0].weight).all()
    model, optimizer = wrapped()
    plain(model, optimizer, X[:16], Y[:16], 0)
    model[2].weight.data = model[2].weight.data.clone()
    refused("parameter 2.weight has other memory", plain, model, optimizer, X[:16], Y[:16], 0)
    model = Frozen()
    optimizer = sgd(model)
    fast.wrap(model, optimizer, store="none")
    model.a.requires_grad_(True)
    refused("frozen at wrap()", plain, model, optimizer, X[:16], Y[:16], 0)
    model, optimizer = wrapped()
    plain(model, optimizer, X[:16], Y[:16], 0)
    model.load_state_dict({k: torch.zeros_like(v) for k, v in model.state_dict().items()})  # in place: trains on from here
    plain(model, optimizer, X[:16], Y[:16], 0)
    assert model[0].weight.abs().max() < 0.2
    fast.finish(optimizer)


def test_options():
    """What the loop decides is no option, and what the rule cannot change is noticed."""
    for name, value in (("lr", 3), ("epochs", 2), ("data", "digits"), ("steps", -1), ("workers", 0), ("workers", "2")):
        refused(f"{name}=", wrapped, **{name: value})
    model, optimizer = wrapped()
    plain(model, optimizer, X[:16], Y[:16], 0)
    optimizer.param_groups[0]["momentum"] = 0.5
    refused("momentum is 0.5 now, and was 0.9", plain, model, optimizer, X[:16], Y[:16], 0)
    losses = []
    for update in (None, "auto", "local"):  # OneCycleLR changes momentum: only the optimizer's own steps can do it
        torch.manual_seed(1)
        model = mlp()
        optimizer = sgd(model)
        if update:
            fast.wrap(model, optimizer, update=update, store="none")
        schedule = optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=20)
        try:
            found = []
            for i in range(12):
                found.append(plain(model, optimizer, X[:16], Y[:16], i).item())
                schedule.step()
            losses.append(found)
        except fast.InvalidError as error:
            assert update == "auto" and "momentum" in str(error), error
        fast.finish(optimizer)
    assert len(losses) == 2 and max(abs(a - b) for a, b in zip(*losses)) < 1e-6, losses


def test_kept():
    """Tensors that the user has stored outlive the run."""
    model, optimizer = wrapped()
    plain(model, optimizer, X[:16], Y[:16], 0)
    weight, grad = model[0].weight.data, model[0].weight.grad
    plain(model, optimizer, X[:16], Y[:16], 1)
    before = weight.clone(), grad.clone()
    fast.finish(optimizer)
    others = [wrapped() for _ in range(3)]
    for other in others:
        plain(*other, X[:16], Y[:16], 0)
    assert weight.shape == before[0].shape and torch.isfinite(weight).all() and torch.isfinite(grad).all()
    assert not torch.equal(weight, others[0][0][0].weight) and (weight - before[0]).abs().max() < 1
    for other in others:
        fast.finish(other[1])


def test_steps():
    """A loop that takes more steps than it said is told so."""
    model, optimizer = wrapped(steps=1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for i in range(3):
            plain(model, optimizer, X[:16], Y[:16], i)
    assert [str(w.message) for w in told if "was told that there are 1" in str(w.message)], told


def test_state():
    """An optimizer that has taken steps continues with its own state."""
    losses = []
    for wrap in (False, True):
        torch.manual_seed(1)
        model = mlp()
        optimizer = sgd(model)
        for i in range(4):
            plain(model, optimizer, X[:16], Y[:16], i)
        if wrap:
            refused("update=\"local\"", fast.wrap, model, optimizer, update="rule")
            fast.wrap(model, optimizer, store="none")
        losses.append([plain(model, optimizer, X[:16], Y[:16], i).item() for i in range(8)])
        fast.finish(optimizer)
    assert max(abs(a - b) for a, b in zip(*losses)) < 1e-6, losses


def main():
    wanted = sys.argv[1:]
    for name, test in list(globals().items()):
        if name.startswith("test_") and (not wanted or name in wanted):
            test()
            print(name, "passed", flush=True)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""PyTorch: the model and the loop stay the user's; FAST exchanges and updates.

    model, optimizer = fast.wrap(model, optimizer, system="ssp")
    for x, y in fast.shard(loader):
        optimizer.zero_grad(); loss_fn(model(x), y).backward(); optimizer.step()

How: FAST's worker runs on a thread of its own. It asks for gradients (include/fast/learner.h); each request lasts
from the return of one optimizer.step() to the call of the next. In between the parameters are FAST's vector w and
the gradients its vector g, without a copy. optimizer.step() answers the request and waits for the next one.

    the user's thread           forward, backward | step()              | forward, backward | step() ...
    FAST's worker   -- request n: w, g ---------> | sum, update, mix    | -- request n + 1: w, g -->

Processes are those of `fast run -n 4 script.py`, mpirun or srun. In one process with workers=4 the requests of all
workers come to the one loop, in the order of simulated time: that is `simulate`, and what workers > 1 means there.
"""
from __future__ import annotations

import _thread
import atexit
import ctypes
import hashlib
import json
import os
import queue
import types
import warnings
import weakref
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import torch

from . import _native as native
from ._library import Error, InvalidError, check, failure, lib, options, text_list
from .run import Result

_active: "weakref.ref[Loop] | None" = None
STEPS_MAX = 2 ** 32 - 1


def _launched(names: Tuple[str, ...], default: int) -> int:
    """A number that a launcher (mpirun, srun) has set."""
    for name in names:
        if os.environ.get(name):
            return int(os.environ[name])
    return default


def size() -> int:
    """Number of processes of this job: 1 without a launcher."""
    return _launched(("OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"), 1)


def rank() -> int:
    """This process's number, from 0."""
    return _launched(("OMPI_COMM_WORLD_RANK", "SLURM_PROCID"), 0)


def _rule(optimizer: torch.optim.Optimizer) -> Optional[Tuple[str, float]]:
    """FAST's update rule that computes what this optimizer does, and its rate; None if there is no such rule."""
    groups = optimizer.param_groups
    first = {k: v for k, v in groups[0].items() if k != "params"}
    if any({k: v for k, v in g.items() if k != "params"} != first for g in groups[1:]) or first.get("maximize"):
        return None
    kind, g = type(optimizer), first
    if kind is torch.optim.SGD:
        name = "nesterov" if g["nesterov"] else "momentum" if g["momentum"] else "sgd"
        values = dict(momentum=g["momentum"], dampening=g["dampening"]) if g["momentum"] else {}
    elif kind in (torch.optim.Adam, torch.optim.AdamW) and not g["amsgrad"]:
        name = "adamw" if kind is torch.optim.AdamW else "adam"
        values = dict(beta1=g["betas"][0], beta2=g["betas"][1], eps=g["eps"])
    elif kind is torch.optim.Adagrad:
        name = "adagrad"
        values = dict(lr_decay=g["lr_decay"], initial=g["initial_accumulator_value"], eps=g["eps"])
    elif kind is torch.optim.RMSprop:
        name = "rmsprop"
        values = dict(alpha=g["alpha"], eps=g["eps"], momentum=g["momentum"],
                      centered="yes" if g["centered"] else "no")
    else:
        return None
    values.update(weight_decay=g["weight_decay"], decay_all="yes")
    return name + ":" + ",".join(f"{k}={v if isinstance(v, str) else repr(float(v))}" for k, v in values.items()), g["lr"]


def _name(text: str) -> bytes:
    """A tensor's name of at most 63 bytes."""
    name = text.encode()
    return name if len(name) < 64 else name[:46] + b"." + hashlib.sha1(name).hexdigest()[:16].encode()


def _vector(address: int, count: int) -> torch.Tensor:
    """FAST's memory as a tensor, without a copy."""
    return torch.frombuffer((ctypes.c_float * count).from_address(address), dtype=torch.float32)


def _cut(address: int, tensors: List[torch.Tensor]) -> List[torch.Tensor]:
    """A flat vector as tensors of these shapes."""
    out = []
    for t in tensors:
        out.append(_vector(address, t.numel()).view(t.shape))
        address += 4 * t.numel()
    return out


class _Request:
    """A gradient that FAST asks for: the C struct, and the lock that its worker waits for."""
    __slots__ = ("native", "lock", "code")

    def __init__(self, request: Any):
        self.native, self.lock, self.code = request, _thread.allocate_lock(), native.FAST_OK
        self.lock.acquire()


class Loop:
    """A loop of the user's under FAST: made by wrap(), ended by finish()."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, update: str, steps: Optional[int],
                 more: Dict[str, Any]):
        names = {id(p): name for name, p in model.named_parameters()}
        self.params = [p for g in optimizer.param_groups for p in g["params"] if p.requires_grad]
        if not self.params:
            raise InvalidError(native.FAST_EINVAL, "the optimizer has no parameter that is trained")
        self.names = [names.get(id(p), f"param{i}") for i, p in enumerate(self.params)]
        state = [(n, b) for n, b in model.named_buffers() if b.is_floating_point()]
        self.state_names, self.state = [n for n, _ in state], [b for _, b in state]
        self.optimizer, self.plain_step = optimizer, optimizer.step
        found = _rule(optimizer) if update in ("auto", "rule") else None
        if update == "rule" and found is None:
            raise InvalidError(native.FAST_EINVAL, f"FAST has no rule for this {type(optimizer).__name__}; update=\"local\" "
                               "exchanges the changes that it makes")
        self.rule = found
        self.direct = all(p.device.type == "cpu" and p.dtype == torch.float32 for p in self.params)
        self.steps, self.more = steps, more
        self.requests: "queue.SimpleQueue[Optional[_Request]]" = queue.SimpleQueue()
        self.current: Optional[_Request] = None
        self.views: Dict[int, List[torch.Tensor]] = {}
        self.states: Dict[int, Any] = {}  # of the user's optimizer, by worker
        self.lr, self.loss, self.count = ctypes.c_double(), None, 1  # type: ignore[var-annotated]
        self.run, self.error, self.taken, self.result = None, None, 0, None  # type: ignore[var-annotated]
        self.workers = int(more.get("workers") or 1)
        if size() > 1 and self.workers == size():
            self._broadcast()

    # Before the first step.

    def _broadcast(self) -> None:
        """Give every process the first one's parameters and buffers, as DDP does."""
        values = [t.detach() for t in self.params + self.state]
        flat = torch.cat([v.reshape(-1).float().cpu() for v in values])

        def send(actor: Any, _: Any) -> int:
            group = ctypes.POINTER(native.fast_group)()
            code = lib.fast_group_all(actor, None, ctypes.byref(group))
            code = code or lib.fast_broadcast(group, 0, flat.data_ptr(), 4 * flat.numel(), native.FAST_SOON)
            lib.fast_group_free(group)
            return code
        function = native.fast_actor_fn(send)
        role = native.fast_role(name=b"worker", count=size(), main=function)
        check(lib.fast_actors_run(text_list(["transport=mpi"]), ctypes.byref(role), 1, None))
        at = 0
        for v in values:
            v.copy_(flat[at:at + v.numel()].view(v.shape))
            at += v.numel()

    def _tensors(self, names: List[str], tensors: List[torch.Tensor]) -> Any:
        rows = (native.fast_learner_tensor * max(1, len(tensors)))()
        held = []
        for row, name, t in zip(rows, names, tensors):
            values = t.detach().float().cpu().contiguous()
            shape = list(t.shape) or [1]
            shape = shape[:3] + [t.numel() // max(1, torch.Size(shape[:3]).numel())] if len(shape) > 4 else shape
            row.name, row.rank, row.initial = _name(name), len(shape), values.data_ptr()
            row.shape[:len(shape)] = shape
            held.append(values)
        return rows, held

    def start(self) -> None:
        """Open the run and start its worker: at the first step, when the number of steps may be known."""
        params, held = self._tensors(self.names, self.params)
        state, more_held = self._tensors(self.state_names, self.state)
        self.function = native.fast_learner_request_fn(self._ask)
        pointer = ctypes.POINTER(native.fast_learner_tensor)
        kind = native.fast_learner_kind(
            size=ctypes.sizeof(native.fast_learner_kind), name=b"torch", params=ctypes.cast(params, pointer),
            param_count=len(self.params), state=ctypes.cast(state, pointer), state_count=len(self.state),
            samples=1000 * self.workers, operations=2.0 * 3 * sum(p.numel() for p in self.params),
            gradient=self.function, lr=ctypes.addressof(self.lr))
        rule, self.lr.value = self.rule or ("sgd", 1.0)
        steps = STEPS_MAX if self.steps is None else self.steps + 1  # the last one brings the final parameters
        words = options(dict(dict(optimizer=rule, lr=1, batch=1, evaluate="no", steps=steps), **self.more))
        handle = ctypes.POINTER(native.fast_run)()
        check(lib.fast_run_open_learner(text_list(words), ctypes.byref(kind), None, ctypes.byref(handle)))
        del held, more_held
        self.run = handle
        if not self.rule and self.direct:
            self._own_memory()
        self._adopt_backward()
        _thread.start_new_thread(self._train, ())

    def _train(self) -> None:
        code = lib.fast_run_train(self.run)
        if code:
            self.error = failure(code)
        self.requests.put(None)

    def _ask(self, _: Any, request: Any) -> int:
        """FAST's worker asks for a gradient: give the request to the user's thread, and wait for the answer."""
        one = _Request(request.contents)
        self.requests.put(one)
        one.lock.acquire()
        return one.code

    def _adopt_backward(self) -> None:
        """Remember the loss of which backward() is called, for the run's measures."""
        global _active
        _active = weakref.ref(self)
        if getattr(torch.Tensor.backward, "fast", False):
            return
        plain = torch.Tensor.backward

        def backward(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            loop = _active() if _active else None
            if loop is not None and tensor.numel() == 1:
                loop.loss = tensor.detach()
            return plain(tensor, *args, **kwargs)
        backward.fast = True  # type: ignore[attr-defined]
        backward.__doc__ = plain.__doc__
        torch.Tensor.backward = backward  # type: ignore[method-assign]

    def _own_memory(self) -> None:
        """Lay the parameters out in one vector of PyTorch's."""
        self.flat = torch.empty(sum(p.numel() for p in self.params))
        at = 0
        for p in self.params:
            view = self.flat[at:at + p.numel()].view(p.shape)
            view.copy_(p.data)
            p.data = view
            at += p.numel()

    # A step.

    def _cut(self, address: int, tensors: List[torch.Tensor]) -> List[torch.Tensor]:
        if address not in self.views:
            self.views[address] = _cut(address, tensors)
        return self.views[address]

    def receive(self) -> None:
        """Wait for the next request and give the model its parameters."""
        self.current = self.requests.get()
        if self.current is None:
            return
        r = self.current.native
        with torch.no_grad():
            if self.rule and self.direct:
                for p, w, g in zip(self.params, self._cut(r.w, self.params), self._cut(r.g, self.params)):
                    if p.data_ptr() != w.data_ptr():
                        p.data = w
                        if p.grad is not None:
                            p.grad = g
            elif self.direct:
                self.flat.copy_(_vector(r.w, self.flat.numel()))
            else:
                for p, w in zip(self.params, self._cut(r.w, self.params)):
                    p.copy_(w)
            for b, s in zip(self.state, self._cut(r.s, self.state) if self.state else []):
                b.copy_(s)
        if not self.rule and self.workers > 1 and size() == 1:  # one loop of several workers
            if r.worker not in self.states:
                self.states[r.worker] = type(self.optimizer.state)(dict)
            self.optimizer.state = self.states[r.worker]

    def _fill(self, zero: bool) -> None:
        """Write the gradient of the current request, or the change that the user's optimizer makes."""
        r = self.current.native  # type: ignore[union-attr]
        with torch.no_grad():
            if zero:
                ctypes.memset(r.g, 0, 4 * sum(p.numel() for p in self.params))
            elif self.rule:
                for p, g in zip(self.params, self._cut(r.g, self.params)):
                    if p.grad is None:
                        g.zero_()
                    elif p.grad.data_ptr() != g.data_ptr():
                        g.copy_(p.grad)
            else:
                with torch.enable_grad():
                    self.plain_step()
                if self.direct:
                    n = self.flat.numel()
                    torch.sub(_vector(r.w, n), self.flat, out=_vector(r.g, n))
                else:
                    for p, w, g in zip(self.params, self._cut(r.w, self.params), self._cut(r.g, self.params)):
                        g.copy_(w - p.detach().float().cpu())
            for b, s in zip(self.state, self._cut(r.s, self.state) if self.state else []):
                s.copy_(b)

    def answer(self, zero: bool = False) -> None:
        """Answer the current request: FAST's worker continues."""
        self._fill(zero)
        one, self.current = self.current, None
        r = one.native  # type: ignore[union-attr]
        r.loss = 0.0 if self.loss is None else float(self.loss)
        r.samples = max(1, self.count)
        one.lock.release()  # type: ignore[union-attr]

    def step(self, closure: Any = None) -> Any:
        """What optimizer.step() does under FAST."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self.result is not None:
            return self.plain_step()
        if self.rule:
            rates = {g["lr"] for g in self.optimizer.param_groups}
            if len(rates) > 1:
                raise InvalidError(native.FAST_EINVAL, "parameter groups have different learning rates now; "
                                   "wrap with update=\"local\"")
            self.lr.value = float(rates.pop())
        try:
            if self.run is None:
                self.start()
                self.first()
            self.answer()
            self.receive()
        except BaseException:
            self.abort()
            raise
        self.taken += 1
        if self.current is None:
            self.ended()
        return loss

    def first(self) -> None:
        """The first request comes when the user's gradient is there already: at the same parameters."""
        grads = [p.grad for p in self.params]
        buffers = [b.clone() for b in self.state]
        self.receive()
        if self.current is None:
            self.ended()
        for p, g in zip(self.params, grads):
            p.grad = g
        with torch.no_grad():
            for b, s in zip(self.state, buffers):
                b.copy_(s)
        if self.rule and self.direct:  # from now on gradients are computed in FAST's vector
            for p, g in zip(self.params, self._cut(self.current.native.g, self.params)):  # type: ignore[union-attr]
                if p.grad is not None:
                    p.grad = g.copy_(p.grad)

    # The end.

    def _release_memory(self) -> None:
        """Give the model memory of its own: FAST's goes with the run."""
        for p in self.params:
            p.data = p.data.clone()
            p.grad = None
        self.views.clear()

    def ended(self) -> None:
        """The run ended during a step: by its own failure, or because another worker's loop ended."""
        if self.run is None:
            return
        self.result = Result(json.loads(lib.fast_run_json(self.run)))
        self._release_memory()
        lib.fast_run_close(self.run)
        self.run = None
        self.optimizer.step = self.plain_step  # type: ignore[method-assign]
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        warnings.warn(f"FAST's run ended after {self.taken} steps of this loop, since another worker's loop is over; "
                      "further steps are this process's alone. Give steps= to wrap(), or epochs= to shard().")

    def abort(self) -> None:
        """End the run after an exception, so that nobody waits for this worker."""
        if self.run is None or self.result is not None:
            return
        lib.fast_run_cancel(self.run)
        while True:
            one = self.current or self.requests.get()
            self.current = None
            if one is None:
                break
            one.native.error = b"the loop was left by an exception"
            one.code = native.FAST_EINVAL
            one.lock.release()
        self._release_memory()
        lib.fast_run_close(self.run)
        self.run, self.error, self.result = None, None, Result()
        self.optimizer.step = self.plain_step  # type: ignore[method-assign]

    def finish(self) -> Result:
        """End the run after the last step, and return its measures."""
        if self.result is not None or self.run is None:
            self.optimizer.step = self.plain_step  # type: ignore[method-assign]
            return self.result or Result()
        with torch.no_grad():
            final = [p.detach().clone() for p in self.params]
            buffers = [b.clone() for b in self.state]
        if self.steps is None or self.taken < self.steps:
            lib.fast_run_cancel(self.run)
        while self.current is not None:
            self.answer(zero=True)
            self.receive()
        with torch.no_grad():
            for p, w in zip(self.params, final):
                p.data, p.grad = w, None
            for b, s in zip(self.state, buffers):
                b.copy_(s)
        self.result = Result(json.loads(lib.fast_run_json(self.run)))
        self.views.clear()
        lib.fast_run_close(self.run)
        self.run = None
        self.optimizer.step = self.plain_step  # type: ignore[method-assign]
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return self.result


def wrap(model: torch.nn.Module, optimizer: torch.optim.Optimizer, system: Optional[str] = None,
         workers: Optional[int] = None, simulate: Optional[str] = None, steps: Optional[int] = None,
         update: str = "auto", **more: Any) -> Tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Let FAST's workers cooperate in this loop: optimizer.step() exchanges. Returns the same model and optimizer.

    system      a named system (fast.systems()); or strategy=, codec=, topology= and any option of `fast train`
    workers     number of workers; under a launcher its number of processes. In one process they are simulated
    simulate    a cluster ("hetero"): all workers in this process, in virtual time; one pass of the loop serves one
    steps       of this loop, if they are known: asynchronous workers then end each at their own last step
    update      "rule": FAST's update rule computes what the optimizer would; "local": the optimizer's own change
                is exchanged; "auto": the rule where FAST has it
    """
    if update not in ("auto", "rule", "local"):
        raise InvalidError(native.FAST_EINVAL, f"update=\"{update}\" is not auto, rule or local")
    if simulate is not None and size() > 1:
        raise InvalidError(native.FAST_EINVAL, f"simulate=\"{simulate}\" runs in one process, but a launcher has started "
                           f"{size()}")
    count = workers if workers is not None else size()
    if size() > 1:
        if count != size():
            raise InvalidError(native.FAST_EINVAL, f"workers={count}, but the launcher has started {size()} processes; "
                               f"start {count} of them (fast run -n {count} ...) or leave workers out")
        more.setdefault("transport", "mpi")
    elif count > 1 or simulate is not None:
        more.setdefault("transport", "sim")
        if more["transport"] == "sim":
            more.setdefault("cluster", simulate or "ideal")
            more.setdefault("pool", 0)
    more.update(system=system, workers=count)
    loop = Loop(model, optimizer, update, steps, more)

    def step(self: torch.optim.Optimizer, closure: Any = None) -> Any:
        """Exchange by FAST; see fast.wrap()."""
        if hasattr(self, "_step_count"):  # of schedulers, which otherwise warn
            self._step_count += 1
        return loop.step(closure)
    step._with_counter = True  # type: ignore[attr-defined]
    optimizer.step = types.MethodType(step, optimizer)  # type: ignore[method-assign]
    optimizer.fast = loop  # type: ignore[attr-defined]
    global _active
    _active = weakref.ref(loop)
    atexit.register(lambda ref=weakref.ref(loop): ref() and ref().finish())
    return model, optimizer


def finish(optimizer: Optional[torch.optim.Optimizer] = None) -> Result:
    """End the run of this loop and return its measures; without an argument of the last wrap(). At exit by itself."""
    loop = getattr(optimizer, "fast", None) if optimizer is not None else _active() if _active else None
    return loop.finish() if loop is not None else Result()


class _Batches:
    """Every size-th batch of a sampler, as many for each process."""

    def __init__(self, batches: Iterable[Any]):
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        waiting = []
        for batch in self.batches:
            waiting.append(batch)
            if len(waiting) == size():  # a round: a batch for each process
                yield waiting[rank()]
                waiting = []

    def __len__(self) -> int:
        return len(self.batches) // size()  # type: ignore[arg-type]


def _sharded(loader: Any, seed: int) -> Any:
    """This process's part of a loader: of a DataLoader only its own samples are read."""
    if size() == 1:
        return loader
    from torch.utils.data import DataLoader, IterableDataset, RandomSampler
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
        return _Batches(loader)
    sampler = loader.batch_sampler.sampler if hasattr(loader.batch_sampler, "sampler") else None
    if isinstance(sampler, RandomSampler) and sampler.generator is None:  # the same order in all processes
        sampler.generator = torch.Generator()
        sampler.generator.manual_seed(seed)
    return DataLoader(loader.dataset, batch_sampler=_Batches(loader.batch_sampler), num_workers=loader.num_workers,
                      collate_fn=loader.collate_fn, pin_memory=loader.pin_memory,
                      worker_init_fn=loader.worker_init_fn)


def shard(loader: Any, epochs: Optional[int] = None, seed: int = 0) -> Iterator[Any]:
    """Iterate over this process's batches of a loader: batch i of a round belongs to process i; a round that is not
    whole is left out, so that all processes take the same steps. With `epochs` over all of them: the number of
    steps is known then. Random samplers without a generator get one with this seed.
    """
    mine = getattr(loader, "_fast_sharded", None)
    if mine is None:
        mine = _sharded(loader, seed)
        try:
            loader._fast_sharded = mine  # its order continues from epoch to epoch
        except AttributeError:
            pass
    loop = _active() if _active else None
    if epochs is not None and size() > 1 and loop is not None and loop.run is None and loop.steps is None:
        loop.steps = epochs * len(mine) if hasattr(mine, "__len__") else None
    for _ in range(epochs or 1):
        for batch in mine:
            if loop is not None:
                first = batch[0] if isinstance(batch, (list, tuple)) and batch else batch
                loop.count = len(first) if hasattr(first, "__len__") else 1
            yield batch


class Codec:
    """One flow of vectors through a codec of FAST's, with its error feedback (include/fast/codec.h)."""

    def __init__(self, codec: str, shapes: List[Tuple[int, ...]], seed: int = 1, flow: int = 0):
        counts = [torch.Size(s).numel() for s in shapes]
        n = len(shapes)
        given = native.fast_encoder_options(
            size=ctypes.sizeof(native.fast_encoder_options), codec=codec.encode(), count=sum(counts), blocks=n,
            seed=seed, flow=flow)
        rows, sizes = (ctypes.c_int64 * n)(*[s[0] if len(s) > 1 else 1 for s in shapes]), (ctypes.c_int64 * n)(*counts)
        given.rows, given.counts = ctypes.addressof(rows), ctypes.addressof(sizes)
        self.count, self.handle = sum(counts), ctypes.POINTER(native.fast_encoder)()
        check(lib.fast_encoder_open(ctypes.byref(given), ctypes.byref(self.handle)))
        self.bound = lib.fast_encoder_bound(self.handle)

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        """A vector as bytes; what they leave out is added to the next one."""
        x = x.detach().float().cpu().contiguous().view(-1)
        out = torch.empty(self.bound, dtype=torch.uint8)
        return out[:lib.fast_encoder_encode(self.handle, x.data_ptr(), out.data_ptr())]

    def decode(self, data: torch.Tensor, y: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        """Add scale times the decoded vector to y, which is float32 on the host."""
        check(lib.fast_encoder_decode(self.handle, data.data_ptr(), data.numel(), scale, y.data_ptr()))
        return y

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            lib.fast_encoder_close(self.handle)


def comm_hook(codec: str, seed: int = 1, group: Any = None) -> Tuple[Dict[Any, Codec], Any]:
    """A codec of FAST's for people who keep DDP: model.register_comm_hook(*fast.comm_hook("topk:ratio=0.01")).

    Each bucket of gradients is encoded, all workers gather the bytes, and the mean of what they decode is the
    gradient. Residuals are added to the gradients of the next step.
    """
    import torch.distributed as dist

    def hook(codecs: Dict[Any, Codec], bucket: Any) -> Any:
        flat = bucket.buffer()
        shapes = [tuple(g.shape) or (1,) for g in bucket.gradients()]
        key = (bucket.index(), tuple(shapes))  # buckets are cut anew after the first step
        if key not in codecs:
            codecs[key] = Codec(codec, shapes, seed, dist.get_rank(group) * 4096 + bucket.index())
        coder, workers = codecs[key], dist.get_world_size(group)
        mine = coder.encode(flat)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(workers)]
        dist.all_gather(sizes, torch.tensor([mine.numel()]), group=group)
        room = int(max(sizes))
        padded = torch.zeros(room, dtype=torch.uint8)
        padded[:mine.numel()] = mine
        every = [torch.empty(room, dtype=torch.uint8) for _ in range(workers)]
        dist.all_gather(every, padded, group=group)
        mean = torch.zeros(coder.count)
        for data, size_ in zip(every, sizes):
            coder.decode(data[:int(size_)], mean, 1.0 / workers)
        future: Any = torch.futures.Future()
        future.set_result(mean.to(flat.device, flat.dtype))
        return future
    hook.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}
    return {}, hook

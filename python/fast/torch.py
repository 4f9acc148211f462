# SPDX-License-Identifier: Apache-2.0
"""PyTorch: the model and the loop stay the user's; FAST exchanges and updates.

    model, optimizer = fast.wrap(model, optimizer, system="ssp")
    for x, y in fast.shard(loader):
        optimizer.zero_grad(); loss_fn(model(x), y).backward(); optimizer.step()

How: FAST asks for gradients (include/fast/learner.h); each request lasts from the return of one optimizer.step() to
the call of the next. In between the parameters are FAST's vector w and the gradients its vector g, without a copy.
optimizer.step() answers the request, exchanges and returns with the next one (_loop.py).

    the user's loop   request n: forward, backward | step(): sum, update, mix | request n + 1: forward, backward | ...

Processes are those of `fast run -n 4 script.py`, mpirun or srun. In one process with workers=4 the requests of all
workers come to the one loop, in the order of simulated time: that is `simulate`, and what workers > 1 means there.
"""
from __future__ import annotations

import atexit
import copy
import ctypes
import re
import types
import weakref
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

import torch

from . import _native as native
from ._library import InvalidError, check, lib, options, text_list, word
from ._loop import Loop, rank, size
from ._threads import launch, loops, team
from .run import Result

OWN = ("lr", "schedule", "epochs", "model", "data", "test", "augment")  #: options of `fast train` that a loop decides
_active: "weakref.ref[Loop] | None" = None


def _check_names(given: Dict[str, Any]) -> None:
    """Refuse words that are no option of `fast train` before anything trains, by FAST's own sentence."""
    count, run = ctypes.c_int64(), ctypes.POINTER(native.fast_run)()
    rows = lib.fast_part_list(b"train", ctypes.byref(count))[0].options
    names: List[str] = []
    while rows[len(names)].name:
        names.append(rows[len(names)].name.decode())
    for name in given:
        if name not in names:
            check(lib.fast_run_open(text_list(options({name: "?"})), ctypes.byref(run)))


def _check_parts(given: Dict[str, Any]) -> None:
    """Refuse names of parts that do not exist, by FAST's own sentence: before the first step, which opens the run."""
    for kind in ("system", "strategy", "codec", "topology"):
        if given.get(kind) is None:
            continue
        count, run = ctypes.c_int64(), ctypes.POINTER(native.fast_run)()
        rows = (lib.fast_system_list if kind == "system" else lambda n: lib.fast_part_list(kind.encode(), n))(
            ctypes.byref(count))
        first = re.split("[:+,]", word(given[kind]))[0]
        if first not in [rows[i].name.decode() for i in range(count.value)]:
            code = lib.fast_run_open(text_list(options({kind: given[kind], "data": "digits:train=10,test=10", "batch": 1})),
                                     ctypes.byref(run))
            if not code:
                lib.fast_run_close(run)
            check(code)


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
    for name, value in (("steps", steps), ("workers", workers)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise InvalidError(native.FAST_EINVAL, f"{name}={value!r} is not a whole number from 1 on")
    for name in OWN:
        if name in more:
            raise InvalidError(native.FAST_EINVAL, f"{name}={more[name]!r} is your loop's own: the optimizer has the learning "
                               "rate, the loader the data, and the model is the one that you wrap")
    _check_names(more)
    _check_parts(dict(more, system=system))
    if simulate is not None and size() > 1:
        raise InvalidError(native.FAST_EINVAL, f"simulate=\"{simulate}\" runs in one loop, but {size()} were started")
    count = workers if workers is not None else size()
    if size() > 1:
        if count != size():
            raise InvalidError(native.FAST_EINVAL, f"workers={count}, but the launcher has started {size()} processes; "
                               f"start {count} of them (fast run -n {count} ...) or leave workers out")
        more.setdefault("transport", "threads" if team() else "mpi")
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
    optimizer.step = types.MethodType(step, optimizer)  # type: ignore[assignment,method-assign]
    optimizer.zero_grad = loop.zero_grad  # type: ignore[assignment,method-assign]
    optimizer.fast = loop  # type: ignore[attr-defined]

    def add_param_group(group: Any) -> None:
        raise InvalidError(native.FAST_EINVAL, "parameters cannot be added to a wrapped optimizer; call "
                           "fast.finish(optimizer), add them, and wrap() again")
    optimizer.add_param_group = add_param_group  # type: ignore[assignment,method-assign]
    if loop.rule:
        def load_state_dict(state: Any) -> None:
            raise InvalidError(native.FAST_EINVAL, "a wrapped optimizer whose update is FAST's rule has no state to load; load "
                               "it before wrap(), which then exchanges this optimizer's own changes")
        optimizer.load_state_dict = load_state_dict  # type: ignore[assignment,method-assign]
    global _active
    if team():
        loops().append(loop)
        return model, optimizer
    _active = weakref.ref(loop)
    atexit.register(lambda ref=weakref.ref(loop): ref() and ref().finish())
    return model, optimizer


def _current() -> Optional[Loop]:
    """The loop of the last wrap(), in this thread where launch() has started it."""
    if team():
        return loops()[-1] if loops() else None
    return _active() if _active else None


def finish(optimizer: Optional[torch.optim.Optimizer] = None) -> Result:
    """End the run of this loop and return its measures; without an argument of the last wrap(). At exit by itself."""
    loop = getattr(optimizer, "fast", None) if optimizer is not None else _current()
    return loop.finish() if loop is not None else Result()


def loss(value: Any) -> Any:
    """Remember a loss, a number or a tensor, for the run's measures; returns it: fast.loss(f(model(x), y)).backward().

    A closure of step() does it by itself. Without either the run's loss is 0.
    """
    loop = _current()
    if loop is not None:
        loop.loss = value.detach() if hasattr(value, "detach") else value
    return value


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
    from torch.utils.data import DataLoader, DistributedSampler, IterableDataset
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
        return _Batches(loader)
    batches: Any = copy.copy(loader.batch_sampler)
    sampler: Any = getattr(batches, "sampler", None)
    if isinstance(sampler, DistributedSampler):
        raise InvalidError(native.FAST_EINVAL, "the loader has a DistributedSampler, which shards by itself; leave it out, or "
                           "iterate over the loader without fast.shard()")
    if hasattr(sampler, "generator"):  # the same order in all processes and threads
        batches.sampler = copy.copy(sampler)
        batches.sampler.generator = torch.Generator()
        if sampler.generator is None:
            batches.sampler.generator.manual_seed(seed)
        else:
            batches.sampler.generator.set_state(sampler.generator.get_state())
    return DataLoader(loader.dataset, batch_sampler=_Batches(batches), num_workers=loader.num_workers,
                      collate_fn=loader.collate_fn, pin_memory=loader.pin_memory,
                      worker_init_fn=loader.worker_init_fn, timeout=loader.timeout, generator=loader.generator,
                      persistent_workers=loader.persistent_workers)


def shard(loader: Any, epochs: Optional[int] = None, seed: int = 0) -> Iterator[Any]:
    """Iterate over this process's batches of a loader: batch i of a round belongs to process i; a round that is not
    whole is left out, so that all processes take the same steps. With `epochs` over all of them: the number of
    steps is known then. Random samplers without a generator get one with this seed.
    """
    name = f"_fast_sharded_{rank()}" if team() else "_fast_sharded"
    mine = getattr(loader, name, None)
    if mine is None:
        mine = _sharded(loader, seed)
        try:
            setattr(loader, name, mine)  # its order continues from epoch to epoch
        except AttributeError:
            pass
    loop = _current()
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
        if x.numel() != self.count:
            raise InvalidError(native.FAST_EINVAL, f"the vector has {x.numel()} values, the codec was opened for {self.count}")
        out = torch.empty(self.bound, dtype=torch.uint8)
        return out[:lib.fast_encoder_encode(self.handle, x.data_ptr(), out.data_ptr())]

    def decode(self, data: torch.Tensor, y: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        """Add scale times the decoded vector to y, which is float32 on the host."""
        if y.numel() != self.count or y.dtype != torch.float32 or not y.is_contiguous() or y.device.type != "cpu":
            raise InvalidError(native.FAST_EINVAL, f"y is {y.dtype} with {y.numel()} values; it is contiguous float32 on the "
                               f"host with {self.count}")
        if data.dtype != torch.uint8 or not data.is_contiguous() or data.device.type != "cpu":
            raise InvalidError(native.FAST_EINVAL, f"data are {data.dtype}; they are contiguous bytes on the host")
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
        room = max(int(n) for n in sizes)
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

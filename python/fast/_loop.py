# SPDX-License-Identifier: Apache-2.0
"""A loop of PyTorch's under FAST: the requests of fast_run_next() (include/fast/learner.h) as optimizer steps.

A request lasts from the return of one optimizer.step() to the call of the next. Memory in between:

    parameters on the host, float32      views of FAST's vectors w and g: nothing is copied
    of one other device or type          views of two vectors there; one copy of w and one of g a step
    several devices or types             a copy of each tensor

The exchange happens inside step(), on the caller's thread where this process has one worker (src/run/caller_loop.c).
"""
from __future__ import annotations

import collections
import ctypes
import hashlib
import json
import os
import warnings
import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch

from . import _native as native, _threads
from ._library import InvalidError, check, lib, options, text_list
from .run import Result

STEPS_MAX = 2 ** 32 - 1
FIXED = ("momentum", "dampening", "nesterov", "weight_decay", "betas", "eps", "alpha", "rho", "centered", "lr_decay")
_next = lib.fast_run_next


def _launched(names: Tuple[str, ...], default: int) -> int:
    """A number that a launcher (mpirun, srun) has set."""
    for name in names:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return default


def size() -> int:
    """Number of processes of this job, or of threads of launch(): 1 without either. A batch script of SLURM's is
    none: only srun's are."""
    if _threads.team():
        return _threads.team().size  # type: ignore[union-attr]
    return max(1, _launched(("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"), 1))


def rank() -> int:
    """This process's number, or this thread's in launch(), from 0."""
    if _threads.team():
        return _threads.rank()
    return _launched(("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"), 0)


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
    elif kind is torch.optim.Adadelta:
        name, values = "adadelta", dict(rho=g["rho"], eps=g["eps"])
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


def _cut(flat: torch.Tensor, tensors: List[torch.Tensor]) -> List[torch.Tensor]:
    """A flat vector as tensors of these shapes."""
    out, at = [], 0
    for t in tensors:
        out.append(flat[at:at + t.numel()].view(t.shape))
        at += t.numel()
    return out


def _dense(grad: torch.Tensor) -> torch.Tensor:
    return grad.to_dense() if grad.is_sparse else grad


def _check_arguments(model: Any, optimizer: Any) -> None:
    """Refuse what wrap() cannot take, by a sentence."""
    if not isinstance(model, torch.nn.Module) or not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidError(native.FAST_EINVAL, f"wrap(model, optimizer) takes a torch.nn.Module and a torch.optim.Optimizer, "
                           f"not {type(model).__name__} and {type(optimizer).__name__}")
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise InvalidError(native.FAST_EINVAL, "the model is DistributedDataParallel, which sums gradients by itself; wrap "
                           "its module, or keep it with model.register_comm_hook(*fast.comm_hook(codec))")
    wrapped = getattr(optimizer, "fast", None)
    if wrapped is not None and wrapped.result is None:
        raise InvalidError(native.FAST_EINVAL, "this optimizer is wrapped already; fast.finish(optimizer) ends its run")


def _has_state(optimizer: torch.optim.Optimizer) -> bool:
    """Has this optimizer taken steps?"""
    return any(s.get("momentum_buffer") is not None or float(s.get("step", 0)) > 0 for s in optimizer.state.values())


def _close_later(run: _Run, blocks: List[Any]) -> None:
    """Close a run that has ended once nobody has tensors in its memory: at once, unless the user has stored some."""
    alive = [block for block in (ref() for ref in blocks) if block is not None]
    left = [len(alive)]

    def gone() -> None:
        left[0] -= 1
        if left[0] == 0:
            run.close()
    for block in alive:
        weakref.finalize(block, gone).atexit = False
    if not alive:
        run.close()


class _Memory:
    """FAST's vectors of one address: whole, and cut into tensors."""

    def __init__(self, address: int, tensors: List[torch.Tensor]):
        block = (ctypes.c_float * sum(t.numel() for t in tensors)).from_address(address)
        self.flat = torch.frombuffer(block, dtype=torch.float32)  # FAST's memory, without a copy
        self.block = weakref.ref(block)
        self.parts = _cut(self.flat, tensors)
        self.addresses = [part.data_ptr() for part in self.parts]


class _Run:
    """A run that this loop drives: the caller's loop of include/fast/learner.h."""

    def __init__(self, words: List[str], kind: Any):
        self.handle = ctypes.POINTER(native.fast_run)()
        check(lib.fast_run_open_loop(text_list(words), ctypes.byref(kind), None, ctypes.byref(self.handle)))
        self.slot = ctypes.POINTER(native.fast_learner_request)()
        self.slot_out = ctypes.byref(self.slot)

    def next(self) -> Any:
        """Answer the request that the call before has lent, and return the next one; None at the end."""
        code = _next(self.handle, self.slot_out)
        if code:
            check(code)
        return self.slot

    def cancel(self) -> None:
        """Let the run end after this step."""
        lib.fast_run_cancel(self.handle)

    def json(self) -> bytes:
        """The measures so far."""
        return bytes(lib.fast_run_json(self.handle))

    def close(self) -> None:
        """Free the run."""
        lib.fast_run_close(self.handle)


class Loop:
    """A loop of the user's under FAST: made by wrap(), ended by finish()."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, update: str, steps: Optional[int],
                 more: Dict[str, Any]):
        _check_arguments(model, optimizer)
        names = {id(p): name for name, p in model.named_parameters()}
        every = [p for g in optimizer.param_groups for p in g["params"]]
        self.params = [p for p in every if p.requires_grad]
        self.frozen = [p for p in every if not p.requires_grad]
        if not self.params:
            raise InvalidError(native.FAST_EINVAL, "the optimizer has no parameter that is trained")
        for p in self.params:
            if not p.is_floating_point():
                raise InvalidError(native.FAST_EINVAL, f"parameter {names.get(id(p), '')} is {p.dtype}; FAST trains real "
                                   "floating-point numbers")
        self.names = [names.get(id(p), f"param{i}") for i, p in enumerate(self.params)]
        state = [(n, b) for n, b in model.named_buffers() if b.is_floating_point()]
        self.state_names, self.state = [n for n, _ in state], [b for _, b in state]
        self.optimizer, self.plain_step, self.plain_zero = optimizer, optimizer.step, optimizer.zero_grad
        self.before = dict(vars(optimizer))  # schedulers have replaced step()
        self.places = [(p.device, p.dtype) for p in self.params]
        found = _rule(optimizer) if update in ("auto", "rule") else None
        if update == "rule" and found is None:
            raise InvalidError(native.FAST_EINVAL, f"FAST has no rule for this {type(optimizer).__name__}; update=\"local\" "
                               "exchanges the changes that it makes")
        if found and _has_state(optimizer):
            if update == "rule":
                raise InvalidError(native.FAST_EINVAL, "this optimizer has taken steps, and FAST's rule would start without "
                                   "its state; update=\"local\" continues with it")
            found = None
        self.rule = found
        first = self.params[0]
        self.alike = all(p.device == first.device and p.dtype == first.dtype for p in self.params)
        self.host = self.alike and first.device.type == "cpu" and first.dtype == torch.float32
        self.direct = self.host and found is not None  # the model's memory is FAST's
        self.stage: Any = None  # page-locked memory between FAST's vectors and a GPU, of the model's type
        self.loaded: Any = None  # event: the stage was read
        self.state_direct = all(b.device.type == "cpu" and b.dtype == torch.float32 for b in self.state)
        self.steps, self.more = steps, more
        self.fixed: List[Tuple[str, Any]] = []  # options of the optimizer that the rule cannot change
        self.request: Any = None  # of FAST, until the next step
        self.at: Tuple[Optional[int], ...] = (None, None, None)  # addresses of w, g and s of the last request
        self.w: Any = None
        self.g: Any = None
        self.s: Any = None
        self.memory: Dict[int, _Memory] = {}
        self.states: Dict[int, Any] = {}  # of the user's optimizer, by worker
        self.lr, self.count = ctypes.c_double(), 1
        self.loss: Any = None
        self.run: Any = None
        self.taken = 0
        self.result: Optional[Result] = None
        self.workers = int(more.get("workers") or 1)
        self.team = _threads.team().join() if _threads.team() else None  # type: ignore[union-attr]
        if size() > 1 and self.workers == size():
            self._broadcast()

    # Before the first step.

    def _broadcast(self) -> None:
        """Give every process the first one's parameters and buffers, as DDP does."""
        values = [t.detach() for t in self.params + self.state]
        flat = torch.cat([v.reshape(-1).float().cpu() for v in values])
        if self.team:
            flat = self.team.broadcast(lambda: flat)
            for v, part in zip(values, _cut(flat, values)):
                v.copy_(part)
            return

        def send(actor: Any, _: Any) -> int:
            group = ctypes.POINTER(native.fast_group)()
            code = lib.fast_group_all(actor, None, ctypes.byref(group))
            code = code or lib.fast_broadcast(group, 0, flat.data_ptr(), 4 * flat.numel(), native.FAST_SOON)
            lib.fast_group_free(group)
            return code
        function = native.fast_actor_fn(send)
        role = native.fast_role(name=b"worker", count=size(), main=function)
        check(lib.fast_actors_run(text_list(["transport=mpi"]), ctypes.byref(role), 1, None))
        for v, part in zip(values, _cut(flat, values)):
            v.copy_(part)

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
        """Open the run: at the first step, when the number of steps may be known."""
        for name, p, place in zip(self.names, self.params, self.places):
            if (p.device, p.dtype) != place:
                raise InvalidError(native.FAST_EINVAL, f"parameter {name} was moved after wrap(), from {place[1]} on "
                                   f"{place[0]} to {p.dtype} on {p.device}; call wrap() after to(), half() or cuda()")
        if self.rule:  # a scheduler may have set options meanwhile
            self.rule = _rule(self.optimizer)
            if self.rule is None:
                raise InvalidError(native.FAST_EINVAL, "the optimizer's groups have different options now; wrap with "
                                   "update=\"local\"")
            self.fixed = [(k, v) for k, v in self.optimizer.param_groups[0].items() if k in FIXED]
        params, held = self._tensors(self.names, self.params)
        state, more_held = self._tensors(self.state_names, self.state)
        pointer = ctypes.POINTER(native.fast_learner_tensor)
        kind = native.fast_learner_kind(
            size=ctypes.sizeof(native.fast_learner_kind), name=b"torch", params=ctypes.cast(params, pointer),
            param_count=len(self.params), state=ctypes.cast(state, pointer), state_count=len(self.state),
            samples=1000 * self.workers, operations=2.0 * 3 * sum(p.numel() for p in self.params),
            lr=ctypes.addressof(self.lr))
        rule, self.lr.value = self.rule or ("sgd", 1.0)
        steps = STEPS_MAX if self.steps is None else self.steps + 1  # the last one brings the final parameters
        words = options(dict(dict(optimizer=rule, lr=1, batch=1, evaluate="no", steps=steps), **self.more))
        if self.team:
            self.team.open(words, kind)
            self.run, self.lr = self.team, self.team.lr
            self.lr.value = self.rule[1] if self.rule else 1.0
        else:
            self.run = _Run(words, kind)
        del held, more_held
        if self.alike and not self.direct:
            self._own_memory()

    def _own_memory(self) -> None:
        """Lay parameters and gradients out in one vector each, on their device."""
        first, grads = self.params[0], [p.grad for p in self.params]
        count = sum(p.numel() for p in self.params)
        if first.device.type == "cuda":
            self.stage = torch.empty(count, dtype=first.dtype, pin_memory=True)
            self.loaded = torch.cuda.Event()
        with torch.no_grad():
            self.flat = torch.empty(count, dtype=first.dtype, device=first.device)
            self.flat_grad: Any = torch.zeros(count, dtype=first.dtype, device=first.device) if self.rule else None
            for p, view in zip(self.params, _cut(self.flat, self.params)):
                p.data = view.copy_(p.data)
        if self.flat_grad is not None:
            self.grads = _cut(self.flat_grad, self.params)
            for p, view, grad in zip(self.params, self.grads, grads):
                p.grad = view if grad is None else view.copy_(_dense(grad))

    # A step.

    def _memory(self, address: Optional[int], tensors: List[torch.Tensor]) -> Any:
        if not address:
            return None
        if address not in self.memory:
            self.memory[address] = _Memory(address, tensors)
        return self.memory[address]

    def _adopt(self, r: Any) -> None:
        """Other vectors than those of the last request: another simulated worker's, or the first ones."""
        self.at = (r.w, r.g, r.s)
        self.w, self.g = self._memory(r.w, self.params), self._memory(r.g, self.params)
        self.s = self._memory(r.s, self.state)
        if self.direct:
            for p, w, g in zip(self.params, self.w.parts, self.g.parts):
                p.data = w
                p.grad = g if p.grad is not None else None
        if self.s and self.state_direct:
            for b, s in zip(self.state, self.s.parts):
                b.data = s
        if not self.rule and self.workers > 1 and size() == 1:  # one loop of several workers
            if r.worker not in self.states:
                self.states[r.worker] = collections.defaultdict(dict)
            self.optimizer.state = self.states[r.worker]

    def _to_device(self) -> None:
        """Copy w to the model. From the stage the copy is asynchronous, in the stream of the forward pass: _to_host()
        waits for it before it writes there."""
        if self.stage is None:
            self.flat.copy_(self.w.flat)
        else:
            self.stage.copy_(self.w.flat)
            self.flat.copy_(self.stage, non_blocking=True)
            self.loaded.record(torch.cuda.current_stream(self.flat.device))

    def _to_host(self, vector: torch.Tensor) -> None:
        """Copy a vector of the model's device to g, and wait for it."""
        if self.stage is None:
            self.g.flat.copy_(vector)
        else:
            self.loaded.synchronize()
            self.stage.copy_(vector)
            self.g.flat.copy_(self.stage)

    def _load(self) -> None:
        """Give the model the parameters of the request, where its memory is not FAST's."""
        with torch.no_grad():
            if not self.direct and self.alike:
                self._to_device()
            elif not self.direct:
                for p, w in zip(self.params, self.w.parts):
                    p.copy_(w)
            if self.s and not self.state_direct:
                for b, s in zip(self.state, self.s.parts):
                    b.copy_(s)

    def receive(self) -> None:
        """Answer the current request, wait for the next one, and give the model its parameters."""
        slot = self.run.next()
        if not slot:
            self.request = None
            return
        r = self.request = slot.contents
        if self.at != (r.w, r.g, r.s):
            self._adopt(r)
        if not self.direct or (self.s and not self.state_direct):
            self._load()

    def _fill_direct(self) -> None:
        """Gradients are in place already, unless the user's code has replaced them."""
        for p, g, at in zip(self.params, self.g.parts, self.w.addresses):
            grad = p.grad
            if p.data_ptr() != at:
                self._moved(p)
            if grad is not g:
                with torch.no_grad():
                    if grad is None:
                        g.zero_()
                    elif grad.data_ptr() != g.data_ptr():
                        p.grad = g.copy_(_dense(grad))

    def _moved(self, p: torch.Tensor) -> None:
        """Refuse a parameter whose memory is not FAST's any more: its training would go unnoticed."""
        raise InvalidError(native.FAST_EINVAL, f"parameter {self.names[[q is p for q in self.params].index(True)]} has other "
                           "memory than after wrap(); change it in place (p.copy_()), or call fast.finish(optimizer) and "
                           "wrap() again after to(), half() or p.data = ...")

    def _fill_rule(self) -> None:
        """Copy the gradients to the host."""
        with torch.no_grad():
            if self.alike:
                for p, g in zip(self.params, self.grads):
                    if p.grad is not g:
                        p.grad = g.zero_() if p.grad is None else g.copy_(_dense(p.grad))
                self._to_host(self.flat_grad)
                return
            for p, g in zip(self.params, self.g.parts):
                g.zero_() if p.grad is None else g.copy_(_dense(p.grad))

    def _fill_local(self, closure: Any) -> Any:
        """Let the user's optimizer step, and take the change that it makes; returns its loss."""
        loss = self.plain_step(closure) if closure else self.plain_step()
        if loss is not None:
            self.loss = loss
        with torch.no_grad():
            if self.host:
                torch.sub(self.w.flat, self.flat, out=self.g.flat)
            elif self.alike:
                self._to_host(self.flat)
                torch.sub(self.w.flat, self.g.flat, out=self.g.flat)
            else:
                for p, w, g in zip(self.params, self.w.parts, self.g.parts):
                    g.copy_(w - p.detach().float().cpu())
        return loss

    def _fill(self, closure: Any = None) -> Any:
        """Write the answer of the current request; returns the loss of a closure that was not called before."""
        loss = None
        if self.direct:
            self._fill_direct()
        elif self.rule:
            self._fill_rule()
        else:
            loss = self._fill_local(closure)
        if self.s and not self.state_direct:
            with torch.no_grad():
                for b, s in zip(self.state, self.s.parts):
                    s.copy_(b)
        r = self.request
        r.samples = self.count or 1
        r.loss = 0.0 if self.loss is None else float(self.loss)
        return loss

    def zero_grad(self, set_to_none: bool = False) -> None:
        """What optimizer.zero_grad() does under FAST: one vector instead of many tensors."""
        if set_to_none or self.request is None or not self.direct:
            self.plain_zero(set_to_none=set_to_none)
        else:
            self.g.flat.zero_()
            for p, g in zip(self.params, self.g.parts):
                if p.grad is not None and p.grad is not g:
                    p.grad = g

    def step(self, closure: Any = None) -> Any:
        """What optimizer.step() does under FAST."""
        loss: Any = None
        if self.result is not None:
            return self.plain_step(closure) if closure else self.plain_step()
        if closure is not None and self.rule:
            with torch.enable_grad():
                loss = self.loss = closure()
        if self.frozen and any(p.requires_grad for p in self.frozen):
            raise InvalidError(native.FAST_EINVAL, "a parameter that was frozen at wrap() is trained now; call "
                               "fast.finish(optimizer) and wrap() again")
        if self.rule:
            groups = self.optimizer.param_groups
            self.lr.value = groups[0]["lr"]
            for key, value in self.fixed:
                if groups[0][key] != value:
                    raise InvalidError(native.FAST_EINVAL, f"the optimizer's {key} is {groups[0][key]} now, and was {value}: "
                                       "FAST's rule changes its learning rate only; wrap with update=\"local\"")
            if len(groups) > 1 and any(g["lr"] != groups[0]["lr"] for g in groups):
                raise InvalidError(native.FAST_EINVAL, "parameter groups have different learning rates now; "
                                   "wrap with update=\"local\"")
        try:
            if self.request is None:
                self.start()
                self._first()
            if self.request is not None:
                found = self._fill(None if self.rule else closure)
                loss = loss if found is None else found
                self.receive()
        except BaseException:
            self.abort()
            raise
        self.taken += 1
        if self.request is None:
            self.ended()
        return loss

    def _first(self) -> None:
        """The first request comes when the user's gradient is there already: at the same parameters."""
        grads = [p.grad for p in self.params]
        buffers = [b.clone() for b in self.state]
        self.receive()
        with torch.no_grad():
            for b, s in zip(self.state, buffers):
                b.copy_(s)
        if self.request is None or not self.direct:
            return
        for p, g, grad in zip(self.params, self.g.parts, grads):  # from now on computed in FAST's vector
            p.grad = g.zero_() if grad is None else g.copy_(_dense(grad))

    # The end.

    def _leave(self) -> None:
        """Close the run, and give the model memory of its own: FAST's goes with the run."""
        for p in self.params:
            if self.direct:
                p.data, p.grad = p.data.clone(), None
        for b in self.state:
            if self.state_direct:
                b.data = b.data.clone()
        blocks = [memory.block for memory in self.memory.values()] if self.request is None else []
        self.memory.clear()
        self.w = self.g = self.s = self.request = None
        run, self.run = self.run, None
        if self.team or not blocks:
            run.close()
        else:
            _close_later(run, blocks)
        self._unwrap()

    def _unwrap(self) -> None:
        """Give the optimizer its own methods back."""
        for name in ("step", "zero_grad", "add_param_group", "load_state_dict"):
            vars(self.optimizer).pop(name, None)
        if "step" in self.before:
            self.optimizer.step = self.before["step"]  # type: ignore[assignment,method-assign]

    def ended(self) -> None:
        """The run ended during a step, because another worker's loop ended."""
        self.result = Result(json.loads(self.run.json()))
        self._leave()
        if self.steps is not None and self.taken > self.steps:
            warnings.warn(f"this loop takes step {self.taken}, and wrap() was told that there are {self.steps}; further steps "
                          "are this process's alone")
            return
        warnings.warn(f"FAST's run ended after {self.taken} steps of this loop, since another worker's loop is over; "
                      "further steps are this process's alone. Give steps= to wrap(), or epochs= to shard().")

    def abort(self) -> None:
        """End the run after an exception, so that nobody waits for this worker."""
        if self.run is None or self.result is not None:
            return
        self.result = Result()
        self._leave()

    def finish(self) -> Result:
        """End the run after the last step, and return its measures."""
        if self.result is not None or self.run is None:
            self._unwrap()
            return self.result or Result()
        final = [p.detach().clone() for p in self.params]
        buffers = [b.clone() for b in self.state]
        if self.steps is None or self.taken < self.steps:
            self.run.cancel()
        try:
            while self.request is not None:
                self.g.flat.zero_()
                self.request.samples, self.request.loss = 1, 0.0 if self.loss is None else float(self.loss)
                self.receive()
        except BaseException:
            self.abort()
            raise
        self.result = Result(json.loads(self.run.json()))
        self._leave()
        with torch.no_grad():
            for p, w in zip(self.params, final):
                p.data = w
            for b, s in zip(self.state, buffers):
                b.data = s
        return self.result


def finish_thread(failed: bool = False) -> None:
    """End the loops of this thread of launch(), before it ends."""
    for loop in _threads.loops():
        loop.abort() if failed else loop.finish()

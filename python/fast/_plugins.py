# SPDX-License-Identifier: Apache-2.0
"""Learners, strategies, filters and operators of one's own, written in Python.

Every function here is called from FAST's threads; Python's lock is held while it runs. An exception ends the
run, and `train()` raises it.
"""
from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from . import _arrays, _native as native
from ._library import Error, Guard, InvalidError, check, lib


class Batch:
    """A request to a learner. `w` and `g` are dictionaries of arrays in FAST's memory, valid during the call."""

    def __init__(self, request: Any, shapes: Mapping[str, Sequence[int]], state: Mapping[str, Sequence[int]]):
        self.worker, self.workers, self.step = request.worker, request.workers, request.step
        self.seed, self.size = request.seed, request.batch
        self.count = request.count
        self.w = _split(request.w, shapes)
        self.g = _split(request.g, shapes) if request.g else None  #: to be written; None: evaluation
        self.s = _split(request.s, state) if request.s else {}
        self.x = _arrays.wrap(request.x, (request.count, request.features)) if request.x else None
        each = (request.count, request.targets)
        self.labels = _arrays.wrap(request.labels, each, "i") if request.labels else None
        self.y = _arrays.wrap(request.y, each) if request.y else None


def _kinds(struct: Any) -> Dict[str, Any]:
    """The types of a struct's fields."""
    return dict(struct._fields_)


def _split(address: int, shapes: Mapping[str, Sequence[int]]) -> Dict[str, Any]:
    """Cut a flat vector into named arrays."""
    out = {}
    for name, shape in shapes.items():
        out[name] = _arrays.wrap(address, shape)
        count = 1
        for size in shape:
            count *= size
        address += 4 * count
    return out


class Answer:
    """What a learner returns for a batch: mean loss, samples, right answers of those counted."""

    def __init__(self, loss: float, samples: int, correct: int = 0, counted: int = 0):
        self.loss, self.samples, self.correct, self.counted = loss, samples, correct, counted


class Learner:
    """A model of one's own: what a worker computes. Subclass it, or use any object with these attributes.

    params      name -> first values (arrays of 1 to 4 dimensions)
    state       the same for values that are averaged but not trained; {} without
    samples     size of a training set of its own; 0: FAST gives the batches of the option `data`
    operations  of a gradient per sample, for the simulator
    """
    params: Mapping[str, Any] = {}
    state: Mapping[str, Any] = {}
    samples = 0
    operations = 1e6

    def gradient(self, batch: Batch) -> Answer:
        """Write the mean gradient of the batch at batch.w to batch.g."""
        raise NotImplementedError

    evaluate: Optional[Callable[[Batch], Answer]] = None  #: loss and answers at batch.w; None: no evaluation


class learner_kind:  # noqa: N801 - the C struct's name
    """A learner of Python as fast_learner_kind; holds everything that FAST borrows."""

    def __init__(self, learner: Any, guard: Guard):
        self.used: list = []
        shapes, params = self._tensors(learner.params)
        states, state = self._tensors(getattr(learner, "state", None) or {})
        evaluate = getattr(learner, "evaluate", None)
        self.kind = native.fast_learner_kind(
            size=ctypes.sizeof(native.fast_learner_kind), name=type(learner).__name__.lower().encode(),
            params=params, param_count=len(shapes), state=state, state_count=len(states),
            samples=int(getattr(learner, "samples", 0)), operations=float(getattr(learner, "operations", 1e6)),
            gradient=self._answer(learner.gradient, shapes, states, guard),
            evaluate=self._answer(evaluate, shapes, states, guard) if evaluate else native.fast_learner_request_fn())
        self.used += [self.kind.gradient, self.kind.evaluate]

    def _tensors(self, values: Mapping[str, Any]) -> Any:
        shapes, rows = {}, (native.fast_learner_tensor * max(1, len(values)))()
        for row, (name, value) in zip(rows, values.items()):
            view = _arrays.View(value)
            if not 1 <= len(view.shape) <= 4:
                raise InvalidError(native.FAST_EINVAL, f"tensor \"{name}\" has {len(view.shape)} dimensions; 1 to 4 are possible")
            shapes[name] = view.shape
            row.name, row.rank, row.initial = name.encode(), len(view.shape), view.address
            row.shape[:len(view.shape)] = view.shape
            self.used.append(view)
        self.used.append(rows)
        return shapes, ctypes.cast(rows, ctypes.POINTER(native.fast_learner_tensor))

    @staticmethod
    def _answer(function: Callable, shapes: Any, states: Any, guard: Guard) -> Any:
        def answer(_: Any, request: Any) -> int:
            r = request.contents
            try:
                a = function(Batch(r, shapes, states))
                r.loss, r.correct, r.counted, r.samples = float(a.loss), int(a.correct), int(a.counted), int(a.samples)
                return native.FAST_OK
            except BaseException as error:
                guard.remember(error)
                r.error = f"{type(error).__name__}: {error}".encode()[:native.FAST_LEARNER_ERROR_SIZE - 1]
                return native.FAST_EINVAL
        return native.fast_learner_request_fn(answer)


class Trainer:
    """One worker's view of a run, for strategies: see include/fast/strategy.h.

    `w` and `g` are arrays in FAST's memory, which goes with the program's end; `w` may be written between gradients, `g`
    after one.
    """

    def __init__(self, pointer: Any):
        self.pointer, self.t = pointer, pointer.contents
        self.w = _arrays.wrap(self.t.w, (self.t.count,))
        self.g = _arrays.wrap(self.t.g, (self.t.count,)) if self.t.g else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._there(), name)

    def _there(self) -> Any:
        """The struct, while the program runs."""
        found = self.__dict__["t"]
        if found is None:
            raise InvalidError(native.FAST_EINVAL, "this trainer is of a run that has ended")
        return found

    def _leave(self) -> None:
        """The program has returned: the trainer's memory goes with the run."""
        self.__dict__.update(t=None, pointer=None, w=None, g=None)

    def _vector(self, x: Any) -> int:
        """The address of a vector as long as the parameters, which is changed in place."""
        view = _arrays.View(self.g if x is None else x)
        count = 1
        for size in view.shape:
            count *= size
        if view.copied or count != self.count:
            raise InvalidError(native.FAST_EINVAL, f"the vector has {count} values; it is contiguous float32 memory of "
                               f"{self.count}, as w and g are")
        return view.address

    def next(self) -> bool:  # noqa: A003
        """Go to the next step; false at the end."""
        self._there()
        return bool(lib.fast_trainer_next(self.pointer))

    def gradient(self) -> float:
        """Compute g, the gradient of the next batch at w; returns the loss."""
        self._there()
        check(lib.fast_trainer_gradient(self.pointer, native.fast_report_fn(), None))
        return float(self.t.loss)

    def sum(self, x: Any = None) -> Any:  # noqa: A003
        """Replace a vector (g) by its sum over all workers, encoded where the run has a codec."""
        x = self.g if x is None else x
        check(lib.fast_trainer_sum(self.pointer, self._vector(x)))
        return x

    def update(self, x: Any = None, scale: float = 1.0) -> None:
        """Update the replica: w <- rule(w, scale x); x is g if it is not given."""
        x = self.g if x is None else x
        check(lib.fast_trainer_update(self.pointer, self._vector(x), scale))

    def neighbours(self) -> Dict[int, float]:
        """Ranks that this worker mixes with at this step by the topology, with their weights; its own included."""
        room = lib.fast_topology_degree_max(self.t.topology)
        ranks, weights, own = (ctypes.c_int64 * room)(), (ctypes.c_double * room)(), ctypes.c_double()
        count = lib.fast_topology_in(self.t.topology, self.t.step, self.t.rank, ranks, weights, ctypes.byref(own))
        return dict([(self.t.rank, own.value)] + [(ranks[i], weights[i]) for i in range(count)])

    def exchange(self, x: Any, ranks: Sequence[int]) -> Any:
        """Send x to these workers and receive theirs: an array [ranks][elements]."""
        view, n = _arrays.View(x), len(ranks)
        count = 1
        for size in view.shape:
            count *= size
        y, address = _arrays.new((n, count))
        ids = (ctypes.c_int64 * n)(*ranks)
        check(lib.fast_neighbour_exchange(self.t.group, ids, n, ids, n, view.address, count, address,
                                          native.FAST_SOON))
        return y

    def barrier(self) -> None:
        """Wait for all workers."""
        check(lib.fast_barrier(self.t.group, native.FAST_SOON))


class Strategy:
    """A strategy of one's own: `worker(t)` is the program of a worker, a function of a Trainer.

    >>> def program(t):
    ...     while t.next():
    ...         t.gradient(); t.sum(); t.update(scale=1 / t.workers)
    >>> fast.train("mlp", "digits", workers=2, strategy=fast.Strategy("mine", program, synchronous=True))

    Further keyword arguments are fields of fast_strategy: identical, resumable, uses_codec, topology, sends.
    It runs on threads and on MPI; the simulator's coroutines cannot run Python.
    """

    def __init__(self, name: str, worker: Callable[[Trainer], Any], summary: str = "", synchronous: bool = False,
                 **more: Any):
        self.name, self.program = name, worker
        texts = {k: v.encode() if isinstance(v, str) else v for k, v in more.items()}
        self.native = native.fast_strategy(size=ctypes.sizeof(native.fast_strategy), name=name.encode(),
                                           summary=(summary or worker.__doc__ or name).splitlines()[0].encode(),
                                           synchronous=synchronous, **texts)

    def bind(self, guard: Guard) -> Any:
        """The C struct for one run."""
        def run(pointer: Any, _: Any) -> int:
            trainer = Trainer(pointer)
            try:
                self.program(trainer)
            except BaseException as error:
                if isinstance(error, Error) and error.told:  # the library has its sentence
                    return error.code
                guard.remember(error)
                return native.FAST_EINVAL
            finally:
                trainer._leave()
            return lib.fast_trainer_end(pointer)
        fields = _kinds(native.fast_strategy)
        self.native.worker = fields["worker"](run)
        return ctypes.byref(self.native)


PLAIN = b"\0fast: not packed"  #: starts messages that a filter failed to pack


class Filter:
    """A filter of one's own between senders and receivers, which the option codec names.

    select(send, wait, update)  move elements of the array `send` that wait for later to `wait`
    pack(bytes) -> bytes, unpack(bytes) -> bytes, bound(size) -> size   or: a packing of messages
    """

    def __init__(self, name: str, select: Optional[Callable] = None, pack: Optional[Callable[[bytes], bytes]] = None,
                 unpack: Optional[Callable[[bytes], bytes]] = None, bound: Callable[[int], int] = lambda n: n + 64):
        self.name, self.functions = name, (select, pack, unpack, bound)
        self.native = native.fast_filter(size=ctypes.sizeof(native.fast_filter), name=name.encode())

    def bind(self, guard: Guard) -> Any:
        """The C struct for one run."""
        select, pack, unpack, bound = self.functions
        kinds = _kinds(native.fast_filter)

        def do_select(_: Any, update: Any, send: int, wait: int) -> None:
            u = update.contents
            try:
                select(_arrays.wrap(send, (u.count,)), _arrays.wrap(wait, (u.count,)), u)  # type: ignore[misc]
            except BaseException as error:
                guard.remember(error)

        def do_pack(_: Any, data: int, size: int, out: int) -> int:
            given = ctypes.string_at(data, size)
            try:
                packed = bytes(pack(given))  # type: ignore[misc]
                if len(packed) > bound(size):
                    raise ValueError(f"filter {self.name} packed {size} bytes to {len(packed)}, more than its bound")
            except BaseException as error:
                guard.remember(error)
                packed = PLAIN + given  # packing cannot fail: the run ends at its next step
            ctypes.memmove(out, packed, len(packed))
            return len(packed)

        def do_unpack(_: Any, data: int, size: int, out: int, room: int, size_out: int) -> int:
            given = ctypes.string_at(data, size)
            try:
                plain = given.startswith(PLAIN)
                found = given[len(PLAIN):] if plain else bytes(unpack(given))  # type: ignore[misc]
            except BaseException as error:
                guard.remember(error)
                return native.FAST_EFORMAT
            if len(found) > room:
                return native.FAST_EFORMAT
            ctypes.memmove(out, found, len(found))
            ctypes.c_size_t.from_address(size_out).value = len(found)
            return native.FAST_OK

        if select:
            self.native.select = kinds["select"](do_select)
        else:
            self.native.bound = kinds["bound"](lambda _, size: max(bound(size), size + len(PLAIN)))
            self.native.pack, self.native.unpack = kinds["pack"](do_pack), kinds["unpack"](do_unpack)
        return ctypes.byref(self.native)


class Operator:
    """An operator of a network, in Python: forward(x...) -> y and backward(dy, y, x...) -> gradients of x.

    Arrays are [samples][elements]; the output has the shape of the first input, or that of shape(shapes).
    """

    def __init__(self, name: str, forward: Callable, backward: Callable, shape: Optional[Callable] = None):
        self.name, self.guard = name, Guard()
        kinds = _kinds(native.fast_operator)

        def arrays(pointers: Any, count: int, sizes: Any, n: int) -> list:
            return [_arrays.wrap(pointers[i], (count, sizes[i])) if pointers[i] else None for i in range(n)]

        def do_shape(_: Any, n: int, ranks: int, shapes: int, rank_out: int, shape_out: int) -> int:
            try:
                self.inputs = n
                r, s = (ctypes.c_int * n).from_address(ranks), (ctypes.c_int64 * 3 * n).from_address(shapes)
                given = [tuple(s[i][:r[i]]) for i in range(n)]
                out = tuple(shape(given)) if shape else given[0]
                ctypes.c_int.from_address(rank_out).value = len(out)
                (ctypes.c_int64 * len(out)).from_address(shape_out)[:] = list(out)
                return native.FAST_OK
            except BaseException as error:
                self.guard.remember(error)
                return native.FAST_EINVAL

        def do_forward(_: Any, count: int, sizes: int, x: Any, y: int) -> None:
            try:
                n = self.inputs
                sizes_ = (ctypes.c_int64 * (n + 1)).from_address(sizes)
                _arrays.wrap(y, (count, sizes_[n]))[:] = forward(*arrays(x, count, sizes_, n))
            except BaseException as error:
                self.guard.remember(error)

        def do_backward(_: Any, count: int, sizes: int, x: Any, y: int, dy: int, dx: Any) -> None:
            try:
                n = self.inputs
                sizes_ = (ctypes.c_int64 * (n + 1)).from_address(sizes)
                out = (count, sizes_[n])
                found = backward(_arrays.wrap(dy, out), _arrays.wrap(y, out), *arrays(x, count, sizes_, n))
                found = found if isinstance(found, (list, tuple)) else [found]
                for target, value in zip(arrays(dx, count, sizes_, n), found):
                    if target is not None:
                        target += value
            except BaseException as error:
                self.guard.remember(error)

        self.native = native.fast_operator(size=ctypes.sizeof(native.fast_operator), name=name.encode(),
                                           shape=kinds["shape"](do_shape), forward=kinds["forward"](do_forward),
                                           backward=kinds["backward"](do_backward))

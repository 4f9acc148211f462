# SPDX-License-Identifier: Apache-2.0
"""A learner in plain Python, through ctypes. Usage: plain.py LIBRARY [mpi]

Goal: everything that a foreign language needs works: callbacks from the threads of workers and from the simulator,
whose actors have small stacks; watchers; exceptions that become one sentence and end the run, also one
that the binding does not catch; the same bits on every transport. With `mpi`, under mpirun, the same of
ranks. Method: least squares on points that are drawn here, 40 numbers to learn.
"""
import ctypes
import math
import os
import sys
import tempfile

from support import EVALUATE, Failed, Run, binding

COUNT, SAMPLES = 40, 480


def numbers(address):
    return (ctypes.c_float * COUNT).from_address(address)


def recurse(depth):
    """An interpreter's stack, deeper than a simulated actor's: each sort calls back into Python."""
    return depth and sorted([0], key=lambda _: recurse(depth - 1))[0]


class Squares:
    """The mean over the batch of (w . x - true . x)^2 / 2, where x has one element that is not 0."""

    def __init__(self, fails=None, depth=0):
        self.fails, self.depth, self.seen, self.evaluations = fails, depth, set(), 0

    def kind(self, name=b"squares", catch=True):
        self.initial = (ctypes.c_float * COUNT)(*[0.5] * COUNT)
        self.tensor = binding.Tensor(b"w", 2, (ctypes.c_int64 * 4)(4, COUNT // 4), ctypes.addressof(self.initial))
        self.function = binding.guarded(self.learn) if catch else binding.Function(
            lambda _, request: self.learn(request.contents) or 0)
        return binding.Kind(size=ctypes.sizeof(binding.Kind), name=name, params=ctypes.pointer(self.tensor),
                            param_count=1, samples=SAMPLES, operations=1e5,
                            gradient=self.function, evaluate=self.function)

    def learn(self, request):
        if self.depth:
            recurse(self.depth)
        if self.fails and self.fails(request):
            raise ValueError("there are no\npoints left")
        w, batch = numbers(request.w), request.batch if request.g else COUNT
        if request.g:
            g = numbers(request.g)
            ctypes.memset(g, 0, ctypes.sizeof(g))
            self.seen.add((request.worker, request.step))
        else:
            self.evaluations += 1
        first = ((request.step * request.workers + request.worker) * batch if request.g else 0) + request.seed
        request.loss = 0
        for i in range(first, first + batch):
            k = i * 7 % COUNT
            off = w[k] - math.cos(k)
            request.loss += off * off / 2 / batch
            if request.g:
                g[k] += off / batch
            request.correct += abs(off) < 0.1
        request.counted = request.samples = batch


def options(*more):
    return ["batch=8", "epochs=10", "lr=4", "optimizer=sgd", "schedule=constant", *more]


def weights(run):
    with tempfile.TemporaryDirectory() as folder:
        run.save(os.path.join(folder, "w"))
        with open(os.path.join(folder, "w"), "rb") as file:
            return file.read()


def test_trains(fast):
    """Every kind of strategy, on threads and in the simulator; synchronous ones to the same bits."""
    same = {}
    for strategy in ("allreduce", "ps:slack=2", "gossip", "local:period=4"):
        for transport in ("threads", "sim", "sim pool=2"):
            squares, events = Squares(), []
            more = ["transport=" + word if i == 0 else word for i, word in enumerate(transport.split())]
            with Run(fast, options("workers=3", "strategy=" + strategy, *more), squares.kind()) as run:
                result = run.train(lambda event: events.append((event.kind, event.result.contents.test_loss)))
                assert result.steps == 200 and result.samples == 4800, (result.steps, result.samples)
                assert result.test_loss < 0.01 and result.test_accuracy > 0.9, (strategy, transport, result.test_loss)
                assert squares.seen == {(worker, step) for worker in range(3) for step in range(200)}
                losses = [loss for kind, loss in events if kind == EVALUATE]
                assert len(losses) == squares.evaluations >= 2 and losses[-1] == result.test_loss, losses
                if strategy in ("allreduce", "local:period=4"):
                    assert same.setdefault(strategy, weights(run)) == weights(run), (strategy, transport)


def test_replays(fast):
    """A run of asynchronous threads is recorded, and its replay ends with the same weights."""
    with tempfile.TemporaryDirectory() as folder:
        for strategy in ("ps", "gossip_async"):
            ends = []
            for word in ("record", "replay"):
                squares = Squares()
                with Run(fast, options("workers=3", "strategy=" + strategy, "transport=threads",
                                       f"{word}={folder}/{strategy}"), squares.kind()) as run:
                    run.train()
                    ends.append(weights(run))
            assert ends[0] == ends[1], strategy


def test_deep_stack(fast):
    """Python on a simulated actor's own stack, 256 KB, would crash here."""
    for pool in ("pool=0", "pool=2"):
        squares = Squares(depth=300)
        with Run(fast, options("workers=2", "transport=sim", "epochs=2", pool), squares.kind()) as run:
            run.train(lambda event: recurse(300))
            assert squares.evaluations == 2


def expect(fast, squares, kind, more, *parts):
    with Run(fast, options(*more), kind) as run:
        try:
            run.train()
        except Failed as failure:
            text = str(failure)
            assert "\n" not in text and all(part in text for part in parts), text
        else:
            sys.exit(f"{more} continued after an exception")


def test_exceptions(fast):
    sentence = "ValueError: there are no points left"
    for strategy in ("allreduce", "ps", "gossip", "hogwild"):
        for more in (["transport=threads"], ["transport=sim", "cluster=laptop"]):
            more = ["workers=3", "strategy=" + strategy, *more]
            squares = Squares(fails=lambda request: request.worker == 1 and request.step == 5)
            expect(fast, squares, squares.kind(), more, sentence, "worker 1: learner squares: gradient at step 5")
            squares = Squares(fails=lambda request: not request.g)
            expect(fast, squares, squares.kind(), more, sentence, "evaluation")
    squares = Squares(fails=lambda request: request.step == 3)
    expect(fast, squares, squares.kind(), [], "learner squares: gradient at step 3: " + sentence)


def test_uncaught(fast):
    """ctypes prints what leaves a callback, and answers anything for it."""
    squares = Squares(fails=lambda request: request.step == 2)
    sys.unraisablehook, hook = (lambda _: None), sys.unraisablehook
    expect(fast, squares, squares.kind(catch=False), ["workers=2"], "gradient at step 2 answered for no samples")
    sys.unraisablehook = hook


def test_refused(fast):
    squares = Squares()
    for change, part in ((dict(size=8), "8 bytes in the caller"), (dict(name=b""), "is not one word"),
                         (dict(param_count=0), "0 tensors to train")):
        kind = squares.kind()
        for key, value in change.items():
            setattr(kind, key, value)
        try:
            Run(fast, options(), kind)
        except Failed as failure:
            assert part in str(failure), failure
        else:
            sys.exit(f"{change} was taken")


def test_mpi(fast):
    """Each rank has a worker; synchronous training gives the bits of threads, and errors end all ranks."""
    squares = Squares()
    with Run(fast, options("workers=2", "transport=threads"), squares.kind()) as run:
        run.train()
        expected = weights(run)
    for strategy in ("allreduce", "gossip"):
        squares = Squares()
        with Run(fast, options("workers=2", "transport=mpi", "strategy=" + strategy), squares.kind()) as run:
            result = run.train()
            if strategy == "allreduce":
                assert weights(run) == expected
            if fast.fast_run_is_first(run.handle) & 1:
                assert result.test_loss < 0.01, result.test_loss
            assert len({worker for worker, _ in squares.seen}) == 1
    squares = Squares(fails=lambda request: request.worker == 1 and request.step == 5)
    expect(fast, squares, squares.kind(), ["workers=2", "transport=mpi", "strategy=allreduce"], "worker 1")


def main():
    os.environ["FAST_LIBRARY"] = sys.argv[1]
    fast = binding.library()
    fast.fast_run_is_first.argtypes = [ctypes.c_void_p]
    wanted = "test_mpi" if "mpi" in sys.argv[2:] else "test_"
    for name, test in list(globals().items()):
        if name.startswith(wanted) and (name == wanted or name != "test_mpi"):
            test(fast)
            print(name, "passed", flush=True)


if __name__ == "__main__":
    main()

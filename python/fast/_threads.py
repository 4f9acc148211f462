# SPDX-License-Identifier: Apache-2.0
"""Workers as threads of this process: launch(), and the run that their loops share.

Each thread has a loop of its own, with its own model. FAST's worker threads ask for gradients; a request is handed
to the loop of its worker, and the answer back:

    FAST's worker   gradient(request): ask, wait for the answer         ask ...
    the loop        forward, backward | step(): answer, wait to be asked | forward, backward | ...

PyTorch computes without Python's lock, so that loops run side by side. Strategies that share memory (hogwild) work.
"""
from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable, List, Optional

from . import _native as native
from ._library import Error, InvalidError, PeerError, check, failure, lib, text_list

_here = threading.local()
WAIT_S = 0.1  #: between two looks whether Ctrl-C was pressed


def team() -> "Optional[Team]":
    """The team of this thread; None outside of launch()."""
    return getattr(_here, "team", None)


def rank() -> int:
    """The worker that this thread is."""
    return int(_here.rank)


def loops() -> List[Any]:
    """The loops that this thread has wrapped, the newest last."""
    if not hasattr(_here, "loops"):
        _here.loops = []
    return _here.loops  # type: ignore[no-any-return]


class _Place:
    """The place where a loop and FAST's worker meet. Locks are held until something is there to be taken."""

    def __init__(self) -> None:
        self.request: Any = None  # that the worker asks with
        self.asked, self.answered = threading.Lock(), threading.Lock()
        self.asked.acquire()
        self.answered.acquire()
        self.lent = False  # the loop has the request, and its answer is awaited
        self.taken = 0  # steps of the loop
        self.finished = False  # the loop has taken its last step


class TeamRun:
    """One run of a team: opened by the last loop that starts, closed by the team."""

    def __init__(self, team: "Team"):
        self.team, self.places = team, [_Place() for _ in range(team.size)]
        self.handle = ctypes.POINTER(native.fast_run)()
        self.shared: Any = None  # of rank 0, for the others
        self.words: "dict[int, list]" = {}
        self.kind: Any = None
        self.lr = ctypes.c_double()
        self.error: Optional[Error] = None
        self.canceler: Optional[int] = None  # whose loop has ended the run
        self.over = False
        self.thread: Optional[threading.Thread] = None

    def broadcast(self, value: Callable[[], Any]) -> Any:
        """Return rank 0's value at every rank."""
        with self.team.changed:
            if rank() == 0:
                self.shared = value()
                self.team.changed.notify_all()
            self.team.wait(lambda: self.shared is not None, 0)
        return self.shared

    def open(self, words: list, kind: Any) -> None:
        """Wait for all loops; worker 0's options and tensors are the run's."""
        with self.team.changed:
            self.words[rank()] = words
            if rank() == 0:
                self.kind = kind
            self.team.changed.notify_all()
            for worker in range(self.team.size):
                self.team.wait(lambda: worker in self.words, worker)
            for worker in range(self.team.size):
                differ = sorted(set(self.words[0]) ^ set(self.words[worker]))
                if differ:
                    raise InvalidError(native.FAST_EINVAL, f"worker {worker} has other options than worker 0: "
                                       f"{', '.join(differ)}; wrap() takes the same ones in all threads")
            if self.thread is None and self.error is None:
                self._start()
        self._raise()

    def _raise(self) -> None:
        """Raise the run's error, as an exception of this thread's own."""
        if self.error:
            raise type(self.error)(self.error.code, str(self.error))

    def _start(self) -> None:
        self.function = native.fast_learner_request_fn(self._ask)
        self.kind.gradient, self.kind.lr = self.function, ctypes.addressof(self.lr)
        code = lib.fast_run_open_learner(text_list(self.words[0]), ctypes.byref(self.kind), None,
                                         ctypes.byref(self.handle))
        if code:
            self.error = failure(code)
            return
        self.thread = threading.Thread(target=self._train, name="fast")
        self.thread.start()

    def _train(self) -> None:
        code = lib.fast_run_train(self.handle)
        if code:
            self.error = failure(code)
        self.over = True
        for place in self.places:
            if place.asked.locked():
                place.asked.release()

    def _ask(self, _: Any, request: Any) -> int:
        """The learner's gradient(): the loop of this worker answers."""
        place = self.places[request.contents.worker]
        place.request = request
        place.asked.release()
        while not place.answered.acquire(timeout=WAIT_S):
            if request.contents.worker in self.team.ended:
                self._fail(request)
                break
        return native.FAST_OK

    @staticmethod
    def _fail(request: Any) -> None:
        """Say that nobody answers."""
        request.contents.samples = 0
        request.contents.error = b"the loop of this worker was left before its end"

    # What a loop calls.

    def next(self) -> Any:
        """Answer the request that the call before has lent, and return the next one; None at the end."""
        place = self.places[rank()]
        if self.team.interrupted:
            lib.fast_run_cancel(self.handle)
        self._answer(place)
        while not place.asked.acquire(timeout=WAIT_S) and not self.over:
            if self.team.interrupted:
                lib.fast_run_cancel(self.handle)
        if not self.over:
            place.lent = True
            return place.request
        self._raise()
        if self.team.interrupted:
            raise KeyboardInterrupt
        first = self.places[self.canceler] if self.canceler is not None else place
        if not place.finished and place.taken > first.taken:
            raise PeerError(native.FAST_EPEER, f"this loop takes step {place.taken}, and that of worker {self.canceler} has "
                            f"ended after {first.taken}, which ends the run; loops take the same number of steps, or wrap() "
                            "is told their number by steps=")
        return None

    @staticmethod
    def _answer(place: _Place) -> None:
        if place.lent:
            place.lent = False
            place.taken += not place.finished
            place.answered.release()

    def cancel(self) -> None:
        """Let the run end after this step."""
        self.places[rank()].finished = True
        if self.canceler is None:
            self.canceler = rank()
        lib.fast_run_cancel(self.handle)

    def json(self) -> bytes:
        """The measures; the run is over. Its text is the run's, and written anew at each call."""
        with self.team.changed:
            return bytes(lib.fast_run_json(self.handle))

    def close(self) -> None:
        """Leave the run: a request that is not answered fails, and that ends the run for all."""
        place = self.places[rank()]
        place.finished = True
        if place.lent:
            self._fail(place.request)
        self._answer(place)

    def free(self) -> None:
        """Close the run once all loops have left it. [the team's thread]"""
        if self.thread:
            self.thread.join()
        if self.handle:
            lib.fast_run_close(self.handle)
        self.handle = ctypes.POINTER(native.fast_run)()


class Team:
    """Threads that run one function."""

    def __init__(self, size: int):
        self.size = size
        self.changed = threading.Condition()
        self.runs: List[TeamRun] = []
        self.ended: "set[int]" = set()
        self.interrupted = False

    def join(self) -> TeamRun:
        """The run of this thread's next loop."""
        _here.joined = getattr(_here, "joined", 0) + 1
        with self.changed:
            while len(self.runs) < _here.joined:
                self.runs.append(TeamRun(self))
            return self.runs[_here.joined - 1]

    def wait(self, there: Callable[[], bool], worker: int) -> None:
        """Wait for something that a worker does. The condition is held."""
        while not there():
            if self.interrupted:
                raise KeyboardInterrupt
            if worker in self.ended:
                raise PeerError(native.FAST_EPEER, f"the function of worker {worker} has ended without this loop's "
                                "step, and the others wait for it")
            self.changed.wait(WAIT_S)


def launch(function: Callable[[], Any], workers: int = 2) -> List[Any]:
    """Run a function in as many threads, each with a model and a loop of its own, and return what they return.

    def train():
        model, optimizer = fast.wrap(Net(), ..., system="hogwild")
        for x, y in fast.shard(loader): ...
    fast.launch(train, workers=4)

    rank() and size() are the thread's. The first exception in a thread ends the others, and is raised here.
    """
    if team() is not None or not isinstance(workers, int) or workers < 1 or not callable(function):
        raise InvalidError(native.FAST_EINVAL, "launch(function, workers) starts at least one worker, and not from a worker "
                           "of another")
    mine = Team(int(workers))
    results: List[Any] = [None] * mine.size
    errors: List[BaseException] = []

    def main(worker: int) -> None:
        _here.team, _here.rank = mine, worker
        try:
            results[worker] = function()
            from ._loop import finish_thread
            finish_thread()
        except BaseException as error:
            errors.append(error)
            from ._loop import finish_thread
            finish_thread(failed=True)
        finally:
            with mine.changed:
                mine.ended.add(worker)
                mine.changed.notify_all()

    threads = [threading.Thread(target=main, args=(i,), name=f"worker {i}") for i in range(mine.size)]
    for thread in threads:
        thread.start()
    while len(mine.ended) < mine.size:  # Ctrl-C in Thread.join() would mark a thread as ended that runs
        try:
            with mine.changed:
                mine.changed.wait(WAIT_S)
        except KeyboardInterrupt:
            mine.interrupted = True
    for thread in threads:
        thread.join()
    for run in mine.runs:
        run.free()
    if mine.interrupted:
        raise KeyboardInterrupt
    if errors:
        raise errors[0]
    return results

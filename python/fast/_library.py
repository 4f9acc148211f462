# SPDX-License-Identifier: Apache-2.0
"""The library libfast: where it is, how it is called, and its errors as exceptions."""
from __future__ import annotations

import _thread
import builtins
import ctypes
import os
import sys
import threading
from typing import Any, Callable, Iterator, Optional

from . import _native as native


class Error(Exception):
    """A call of FAST failed. The text is FAST's own sentence; `code` is its number, `name` its word ("EINVAL")."""

    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code
        self.told = False  #: the library has the sentence too
        self.name = native.ERRORS.get(code, ("?", ""))[0]


class InvalidError(Error, ValueError):
    """An option or argument is wrong (EINVAL)."""


class UnsupportedError(Error, NotImplementedError):
    """This build or this combination of parts cannot do it (ENOTSUP)."""


class FormatError(Error, ValueError):
    """A file or message is malformed (EFORMAT)."""


class MissingError(Error, FileNotFoundError):
    """There is no such file (ENOENT)."""

    def __str__(self) -> str:
        return str(self.args[0])


class TimeoutError(Error, builtins.TimeoutError):  # noqa: A001 - also Python's own
    """A wait passed its deadline (ETIMEDOUT)."""

    def __str__(self) -> str:
        return str(self.args[0])


class PeerError(Error, ConnectionError):
    """Another worker failed or left (EPEER)."""

    def __str__(self) -> str:
        return str(self.args[0])


KINDS = {native.FAST_EINVAL: InvalidError, native.FAST_ENOTSUP: UnsupportedError, native.FAST_EFORMAT: FormatError,
         native.FAST_ENOENT: MissingError, native.FAST_ETIMEDOUT: TimeoutError, native.FAST_EPEER: PeerError}


def builds() -> Iterator[str]:
    """Yield the build folders that belong to this package: of the source tree, or recorded by pip."""
    try:
        from ._build import FOLDER
        yield FOLDER
    except ImportError:
        pass
    here = os.path.dirname(os.path.abspath(__file__))
    tree = os.path.dirname(os.path.dirname(here))
    for name in ("release", "dev"):
        yield os.path.join(tree, "build", name)
    yield os.path.dirname(tree)  # LIBDIR of LIBDIR/fast/python/fast, where `make install` puts the package
    for prefix in (sys.prefix, "/usr/local", "/usr"):
        yield os.path.join(prefix, "lib")
        yield os.path.join(prefix, "lib", os.uname().machine + "-linux-gnu")


def find(name: str, variable: str, folders: Iterator[str]) -> Optional[str]:
    """Return the path of a file: the variable's value, or the first that exists in a folder; None."""
    if os.environ.get(variable):
        return os.environ[variable]
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    return None


def program() -> str:
    """Return the program `fast`: $FAST_PROGRAM, that of the library's build or prefix, else by $PATH."""
    folders = [f for b in builds() for f in (b, os.path.join(b, "..", "bin"), os.path.join(b, "..", "..", "bin"))]
    return find("fast", "FAST_PROGRAM", iter([f for f in folders if os.path.isfile(os.path.join(f, "fast"))])) or "fast"


def load() -> Any:
    """Load libfast once: $FAST_LIBRARY, the build folder, the folders of `make install`, the system's."""
    path = find("libfast.so.0", "FAST_LIBRARY", builds()) or "libfast.so.0"
    try:
        return native.declare(ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL))
    except OSError as e:
        raise ImportError(f"libfast is not found ({e}); run `make install`, or set FAST_LIBRARY to libfast.so") from None
    except AttributeError as e:
        raise ImportError(f"{path} is of another version than this package ({e}); install both again") from None


lib = load()
WAIT_S = 0.1  # between looks for signals


def failure(code: int) -> Error:
    """Return the exception of a code, with the sentence of the last failure on this thread."""
    detail = (lib.fast_error_detail() or b"").decode(errors="replace") or lib.fast_err_text(code).decode()
    error = KINDS.get(code, Error)(code, detail)
    error.told = True
    return error


def check(code: int) -> None:
    """Raise the exception of an error code; nothing for FAST_OK."""
    if code:
        raise failure(code)


class Guard:
    """Exceptions of Python callbacks: the first one is remembered, and raised once the library has returned."""

    def __init__(self) -> None:
        self.error: Optional[BaseException] = None
        self.cancel: Callable[[], Any] = lambda: None  #: ends the call that the callbacks belong to

    def remember(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
            self.cancel()

    def raise_first(self) -> None:
        if self.error is not None:
            error, self.error = self.error, None
            raise error


def interruptible(call: Callable[[], int], cancel: Callable[[], None], guard: Optional[Guard] = None) -> None:
    """Make a long call on a thread of its own, so that Ctrl-C reaches Python: it cancels the call and waits.

    Raises the call's error, KeyboardInterrupt after a cancel, or the exception that a callback raised.
    """
    ended: list = []
    claimed, done = threading.Lock(), threading.Event()
    interrupt: Optional[BaseException] = None

    def run() -> None:
        if claimed.acquire(blocking=False):
            code = call()
            ended.append(failure(code) if code else None)
            done.set()

    while True:
        try:
            if not claimed.locked():  # an interrupted start may have started it or not: once is enough
                _thread.start_new_thread(run, ())
            while not done.wait(WAIT_S):  # a signal just before a wait without end would not be seen
                pass
            break
        except BaseException as e:  # KeyboardInterrupt, or what a signal handler of the user's raises
            interrupt = interrupt or e
            cancel()
    if guard is not None:
        guard.raise_first()
    if interrupt is not None:
        raise interrupt
    if ended and ended[0] is not None:
        raise ended[0]


class Handle:
    """An object of FAST's that a Python object owns: its pointer until it is closed, then a sentence."""

    def __init__(self, what: str):
        self.what = what

    def __get__(self, owner: Any, _: Any = None) -> Any:
        found = owner.__dict__.get("_handle") if owner is not None else None
        if found is None:
            raise InvalidError(native.FAST_EINVAL, f"the {self.what} is closed")
        return found

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__["_handle"] = value


class Owner:
    """What owns a Handle: it cannot be copied, as two would close one object."""

    def __reduce_ex__(self, _: Any) -> Any:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled; save() writes what it has learned")


def text_list(words: list) -> Any:
    """Return words as a C array of texts that ends with NULL."""
    for given in words:
        if "\0" in given:
            raise InvalidError(native.FAST_EINVAL, f"{given!r} has a zero byte")
    return (ctypes.c_char_p * (len(words) + 1))(*[word.encode() for word in words])


def word(value: Any) -> str:
    """Return an option's value as text, as the command line has it: True is yes, a list is a,b,c."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(word(v) for v in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def options(values: dict) -> list:
    """Return keyword arguments as name=value; those that are None are left out."""
    return [f"{name}={word(value)}" for name, value in values.items() if value is not None]

# SPDX-License-Identifier: Apache-2.0
"""Arrays of any library as memory: the buffer protocol, DLPack, NumPy; without a copy where they are contiguous.

`View(x)` has the address, the shape and an owner that holds the memory. `wrap(address, shape)` is the other
direction: FAST's memory as a NumPy array, or as a memoryview where NumPy is not installed.
"""
from __future__ import annotations

import array
import ctypes
from typing import Any, Dict, Sequence, Tuple

try:
    import numpy
except ImportError:  # the package works without it
    numpy = None  # type: ignore[assignment]

FORMATS = {"f": "f", "i": "i"}  # of the buffer protocol, by FAST's types: float, int32_t
NUMPY = {"f": "float32", "i": "int32"}
CTYPES: Dict[str, Any] = {"f": ctypes.c_float, "i": ctypes.c_int32}
CODES = {"f": (2, 32), "i": (0, 32)}  # of DLPack: kind and bits


class _DLTensor(ctypes.Structure):
    """DLTensor of DLPack."""
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


def _dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """True if strides (in elements) are row major without gaps."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _from_dlpack(x: Any, kind: str) -> Any:
    """Return (address, shape, owner) of a tensor of DLPack on the host, or None if it must be converted."""
    capsule = (x.detach() if hasattr(x, "detach") else x).__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    t = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    if t.device[0] not in (1, 3):  # CPU, pinned memory
        raise TypeError(f"the array is on device {t.device[0]}:{t.device[1]}; copy it to the host first")
    shape = tuple(t.shape[i] for i in range(t.ndim))
    strides = [t.strides[i] for i in range(t.ndim)] if t.strides else None
    if (t.code, t.bits) != CODES[kind] or t.lanes != 1 or (strides and not _dense(shape, strides)):
        return None
    return (t.data or 0) + t.byte_offset, shape, capsule


def _flat(x: Any) -> list:
    return [v for row in x for v in _flat(row)] if isinstance(x, (list, tuple)) else [x]


class View:
    """Contiguous memory of an array: `address`, `shape`, `copied`; `owner` holds it."""

    def __init__(self, x: Any, kind: str = "f"):
        self.copied = False
        try:
            memory = memoryview(x)
        except TypeError:
            memory = None
        if memory is not None and memory.format == FORMATS[kind] and memory.c_contiguous:
            self.shape: Tuple[int, ...] = tuple(memory.shape or ())
            self.owner: Any = (x, memory)
            if memory.readonly or memory.nbytes == 0:
                self.address = self._address(memory)
            else:
                self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            return
        if memory is None and hasattr(x, "__dlpack__"):
            found = _from_dlpack(x, kind)
            if found:
                self.address, self.shape, self.owner = found
                return
        self._convert(x, kind)

    def _address(self, memory: memoryview) -> int:
        """Return the address of read-only memory; by a copy where Python does not tell it."""
        if numpy is not None:
            return numpy.frombuffer(memory, numpy.uint8).ctypes.data
        copy = ctypes.create_string_buffer(memory.tobytes(), max(1, memory.nbytes))
        self.owner, self.copied = copy, True
        return ctypes.addressof(copy)

    def _convert(self, x: Any, kind: str) -> None:
        self.copied = True
        if numpy is not None:
            x = x.detach().cpu() if hasattr(x, "detach") else x
            given = numpy.asarray(x)
            if given.dtype.kind == "c":
                raise TypeError("the array has complex numbers; FAST takes real ones")
            if kind == "i" and given.size and (given.max() > 2 ** 31 - 1 or given.min() < -2 ** 31):
                raise ValueError(f"labels from {given.min()} to {given.max()}; they are whole numbers below 2^31")
            owner = numpy.ascontiguousarray(given, NUMPY[kind])
            self.address, self.shape = owner.ctypes.data, owner.shape
        elif isinstance(x, (list, tuple)):
            values = _flat(x)
            owner = array.array(kind, values)
            shape, at = [], x
            while isinstance(at, (list, tuple)):
                shape.append(len(at))
                at = at[0] if at else None
            self.address, self.shape = owner.buffer_info()[0], tuple(shape)
        else:
            raise TypeError(f"{type(x).__name__} is not a contiguous array of {NUMPY[kind]}; install NumPy to convert it")
        self.owner = owner


def wrap(address: int, shape: Sequence[int], kind: str = "f") -> Any:
    """Return memory of FAST's as an array, without a copy."""
    count = 1
    for size in shape:
        count *= size
    block = (CTYPES[kind] * count).from_address(address or 0) if count else (CTYPES[kind] * 0)()
    return _shaped(block, shape, kind)


def new(shape: Sequence[int], kind: str = "f") -> Tuple[Any, int]:
    """Return a new array and its address."""
    count = 1
    for size in shape:
        count *= size
    block = (CTYPES[kind] * count)()
    return _shaped(block, shape, kind), ctypes.addressof(block)


def _shaped(block: Any, shape: Sequence[int], kind: str) -> Any:
    if numpy is not None:
        return numpy.frombuffer(block, NUMPY[kind]).reshape(shape) if len(block) else numpy.empty(shape, NUMPY[kind])
    memory = memoryview(block).cast("B")
    return memory.cast(kind, tuple(shape)) if len(block) and len(shape) > 1 else memory.cast(kind)

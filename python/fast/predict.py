# SPDX-License-Identifier: Apache-2.0
"""Saved models: outputs for new samples, scores, text."""
from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Dict, List

from . import _arrays, _native as native
from ._library import Handle, Owner, check, lib


class Model(Owner):
    """A saved model: a file of `fast train --save`, or its bytes. Keywords are those of fast_predictor_options."""

    handle = Handle("model")

    def __init__(self, path: Any, **more: Any):
        self._handle: Any = None
        opened = ctypes.POINTER(native.fast_predictor)()
        texts = {k: v.encode() if isinstance(v, str) else v for k, v in more.items()}
        given = native.fast_predictor_options(size=ctypes.sizeof(native.fast_predictor_options), **texts)
        if isinstance(path, (bytes, bytearray)):
            self.bytes = bytes(path)
            given.bytes = ctypes.cast(ctypes.c_char_p(self.bytes), ctypes.c_void_p)
            given.byte_count, path = len(self.bytes), "memory"
        check(lib.fast_predictor_open(os.fspath(path).encode(), ctypes.byref(given), ctypes.byref(opened)))
        self.handle = opened
        sizes = lib.fast_predictor_get_sizes(self.handle).contents
        self.sizes = type(sizes).from_buffer_copy(sizes)  # a closed model has none
        names = [lib.fast_predictor_class(self.handle, i) for i in range(self.sizes.classes)]
        self.classes: List[Any] = [name.decode() if name else i for i, name in enumerate(names)]
        self.description: Dict[str, Any] = json.loads(lib.fast_predictor_json(self.handle))

    def _run(self, x: Any) -> Any:
        view = _arrays.View(x)
        count, each = view.shape[0], 1
        for size in view.shape[1:]:
            each *= size
        if each != self.sizes.inputs:
            raise ValueError(f"samples have {each} values, the model takes {self.sizes.inputs}")
        shape = (count, self.sizes.outputs) if self.sizes.positions == 1 else (
            count, self.sizes.positions, self.sizes.outputs)
        (y, at), (p, of) = _arrays.new(shape), _arrays.new(shape)
        check(lib.fast_predictor_run(self.handle, count, view.address, at, of if self.sizes.classes else None))
        return y, p

    def outputs(self, x: Any) -> Any:
        """Logits of classes, or values of a regression."""
        return self._run(x)[0]

    def probabilities(self, x: Any) -> Any:
        """Probabilities of the classes."""
        return self._run(x)[1]

    def evaluate(self, source: str) -> Dict[str, Any]:
        """Loss and figures on a file or data set with answers."""
        scores = native.fast_scores()
        check(lib.fast_predictor_evaluate(self.handle, source.encode(), ctypes.byref(scores)))
        return json.loads(scores.json)

    def export(self, path: Any) -> None:
        """Write the network with its weights as ONNX."""
        check(lib.fast_predictor_export(self.handle, os.fspath(path).encode()))

    def generate(self, prompt: str, length: int = 200, temperature: float = 1.0, top_k: int = 0, seed: int = 1) -> str:
        """Continue a text with a language model of characters."""
        text: List[bytes] = []
        given = native.fast_generate_options(size=ctypes.sizeof(native.fast_generate_options), prompt=prompt.encode(),
                                             length=length, temperature=temperature, top_k=top_k, seed=seed)

        def take(_: Any, character: bytes) -> bool:
            text.append(character)
            return True
        put = native.fast_generate_fn(take)
        check(lib.fast_predictor_generate(self.handle, ctypes.byref(given), put, None))
        return b"".join(text).decode(errors="replace")

    def close(self) -> None:
        """Free the model."""
        handle, self._handle = self._handle, None
        if handle:
            lib.fast_predictor_close(handle)

    def __del__(self) -> None:
        if self.__dict__.get("_handle"):
            self.close()

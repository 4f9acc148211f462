#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""09_predict - a model that `fast train --save` wrote, used from Python.

    fast train --data digits --epochs 2 --save digits.safetensors
    python3 examples/09_predict.py digits.safetensors digits

Model needs nothing but ctypes: copy the class. FAST_LIBRARY names libfast.so where the system does not
find it. Samples are rows of floats as the training data held them; they are normalised inside.
"""
import array
import ctypes
import json
import os
import sys
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_double, c_float, c_int64, c_size_t, c_void_p


# The structs of fast/predict.h, field by field.
class Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("bytes", c_void_p), ("byte_count", c_size_t), ("model", c_char_p),
                ("data", c_char_p), ("engine", c_char_p), ("plan", c_char_p), ("batch", c_int64), ("describe", c_bool)]


class Sizes(ctypes.Structure):
    _fields_ = [("inputs", c_int64), ("positions", c_int64), ("outputs", c_int64), ("classes", c_int64),
                ("batch", c_int64), ("params", c_int64), ("text", c_bool)]


class Prediction(ctypes.Structure):
    _fields_ = [("first", c_int64), ("count", c_int64), ("outputs", POINTER(c_float)),
                ("probabilities", POINTER(c_float)), ("labels", c_void_p), ("targets", c_void_p), ("loss", c_double)]


class Generate(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("prompt", c_char_p), ("length", c_int64), ("temperature", c_double),
                ("top_k", c_int64), ("seed", c_int64)]


Put = ctypes.CFUNCTYPE(c_bool, c_void_p, c_char)


class Model:
    """A saved model. `name` is a path; keywords are the fields of fast_predictor_options."""

    def __init__(self, path, **options):
        self.fast = ctypes.CDLL(os.environ.get("FAST_LIBRARY", "libfast.so.0"))
        self.fast.fast_error_detail.restype = self.fast.fast_predictor_json.restype = c_char_p
        self.fast.fast_predictor_class.restype = c_char_p
        self.fast.fast_predictor_class.argtypes = [c_void_p, c_int64]
        self.fast.fast_predictor_get_sizes.restype = POINTER(Sizes)
        self.fast.fast_predictor_run.argtypes = [c_void_p, c_int64, c_void_p, c_void_p, c_void_p]
        self.handle = c_void_p()
        values = {k: v.encode() if isinstance(v, str) else v for k, v in options.items()}
        self.check(self.fast.fast_predictor_open(path.encode(), byref(Options(ctypes.sizeof(Options), **values)),
                                                 byref(self.handle)))
        self.sizes = self.fast.fast_predictor_get_sizes(self.handle).contents
        names = [self.fast.fast_predictor_class(self.handle, i) for i in range(self.sizes.classes)]
        self.classes = [name.decode() if name else i for i, name in enumerate(names)]
        self.description = json.loads(self.fast.fast_predictor_json(self.handle))

    def check(self, err):
        if err:
            raise ValueError(self.fast.fast_error_detail().decode())

    def close(self):
        self.fast.fast_predictor_close(self.handle)
        self.handle = c_void_p()

    def outputs(self, rows, probabilities=False):
        """Logits of classes or values of a regression, or probabilities: a list for each row of floats."""
        x = array.array("f", [value for row in rows for value in row])
        each = self.sizes.positions * self.sizes.outputs
        y, p = (array.array("f", bytes(4 * each * len(rows))) for _ in range(2))
        self.check(self.fast.fast_predictor_run(self.handle, len(rows), x.buffer_info()[0], y.buffer_info()[0],
                                                p.buffer_info()[0]))
        from_ = p if probabilities else y
        return [list(from_[i * each:(i + 1) * each]) for i in range(len(rows))]

    def predict(self, source):
        """Yield (class, probability), or the values of a regression, for each sample of a file or data set."""
        samples, batch, K = c_void_p(), Prediction(), self.sizes.outputs
        self.check(self.fast.fast_samples_open(self.handle, source.encode(), c_bool(False), byref(samples)))
        try:
            while True:
                self.check(self.fast.fast_samples_next(samples, byref(batch)))
                if batch.count == 0:
                    return
                for i in range(batch.count * self.sizes.positions):
                    values = (batch.probabilities or batch.outputs)[i * K:(i + 1) * K]
                    best = max(range(K), key=values.__getitem__)
                    yield (self.classes[best], values[best]) if batch.probabilities else values
        finally:
            self.fast.fast_samples_close(samples)

    def generate(self, prompt, length=200, temperature=1.0, top_k=0, seed=1):
        """Continue a text with a language model of characters."""
        text = []
        options = Generate(ctypes.sizeof(Generate), prompt.encode(), length, temperature, top_k, seed)
        self.check(self.fast.fast_predictor_generate(self.handle, byref(options),
                                                     Put(lambda _, c: text.append(c) or True), None))
        return b"".join(text).decode(errors="replace")


def main():
    model = Model(sys.argv[1])
    print(model.description["training"]["command"])
    for i, answer in enumerate(model.predict(sys.argv[2])):
        if i == 5:
            break
        print(i, *answer)
    model.close()


if __name__ == "__main__":
    main()

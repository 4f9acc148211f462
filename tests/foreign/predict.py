# SPDX-License-Identifier: Apache-2.0
"""Saved models from Python, through ctypes. Usage: predict.py LIBRARY

Goal: examples/09_predict.py opens what a run saved, its structs are those of fast/predict.h, and its
outputs are the run's. Method: train with the library, save, predict in both ways.
"""
import ctypes
import importlib.util
import math
import os
import sys
import tempfile

sys.dont_write_bytecode = True

os.environ["FAST_LIBRARY"] = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("predict_example", os.path.join(HERE, "../../examples/09_predict.py"))
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
fast = ctypes.CDLL(sys.argv[1])
fast.fast_error_detail.restype = ctypes.c_char_p
fast.fast_run_save.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
fast.fast_run_predict.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]


def check(err):
    assert err == 0, fast.fast_error_detail()


def train(path, *options):
    words = (ctypes.c_char_p * (len(options) + 1))(*[o.encode() for o in options])
    run = ctypes.c_void_p()
    check(fast.fast_run_open(words, ctypes.byref(run)))
    check(fast.fast_run_train(run))
    check(fast.fast_run_save(run, path.encode()))
    return run


def main():
    with tempfile.TemporaryDirectory() as folder:
        path, csv, book = (os.path.join(folder, name) for name in ("m.safetensors", "t.csv", "b.txt"))
        with open(csv, "w") as file:
            file.write("a,b,kind\n" + "".join(f"{i % 7},{i % 5},{'low' if i % 7 < 3 else 'high'}\n" for i in range(70)))
        run = train(path, "engine=ref", "model=mlp:hidden=8", "data=csv:file=" + csv, "batch=7", "epochs=20", "lr=0.1")
        model = example.Model(path, engine="ref")
        assert model.classes == ["high", "low"] and model.sizes.inputs == 2 and model.sizes.batch == 7
        assert model.description["data"]["source"]["kind"] == "table"
        rows = [[0, 1], [6, 2], [1, 4], [5, 0]]
        y = (ctypes.c_float * 8)()
        check(fast.fast_run_predict(run, 4, (ctypes.c_float * 8)(*sum(rows, [])), y))
        assert sum(model.outputs(rows), []) == list(y)
        for p, row in zip(model.outputs(rows, probabilities=True), model.outputs(rows)):
            assert abs(sum(p) - 1) < 1e-6 and abs(p[0] - 1 / (1 + math.exp(row[1] - row[0]))) < 1e-6
        answers = list(model.predict(csv))
        assert len(answers) == 70 and answers[0][0] == "low" and answers[6][0] == "high", answers[:7]
        try:
            list(model.predict(os.path.join(folder, "missing.csv")))
            raise AssertionError("a missing file was read")
        except ValueError as e:
            assert "missing.csv" in str(e)
        model.close()
        fast.fast_run_close(run)
        with open(book, "w") as file:
            file.write("abcd." * 80)
        fast.fast_run_close(train(path, "engine=ref", "model=gru:hidden=16", "batch=4", "epochs=30", "optimizer=adam",
                                  "lr=0.01", f"data=text:file={book},length=10"))
        model = example.Model(path, engine="ref")
        assert model.generate("abc", length=8, temperature=0) == "d.abcd.a"
        model.close()


main()

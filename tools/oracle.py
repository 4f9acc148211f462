#!/usr/bin/python3
"""Make PyTorch's numbers anew and compare them with the stored ones: the oracle still says so.

usage: tools/oracle.py      exit 1 if a value differs by more than rounding
"""
import glob
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TYPES = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64, "U8": np.uint8}


def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]],
                                TYPES[t["dtype"]]) for name, t in header.items()}


def main():
    scripts = sorted(glob.glob(os.path.join(ROOT, "tests", "oracle", "make_*.py")))
    assert len(scripts) >= 3
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for script in scripts:
            subprocess.run([sys.executable, script, folder], check=True)
        paths = sorted(glob.glob(os.path.join(folder, "*.safetensors")))
        assert len(paths) >= len(scripts), "a script wrote nothing to the folder that it was given"
        for path in paths:
            stored = read(os.path.join(ROOT, "tests", "oracle", os.path.basename(path)))
            fresh = read(path)
            assert stored.keys() == fresh.keys(), os.path.basename(path)
            for name in stored:
                a, b = stored[name].astype(np.float64), fresh[name].astype(np.float64)
                error = np.max(np.abs(a - b) / (np.abs(a).max() + 1e-6)) if a.size else 0.0
                worst = max(worst, error)
                assert error < 1e-4, f"{os.path.basename(path)}: {name} differs by {error}"
    print(f"the oracle agrees with its stored numbers: largest difference {worst:.1e}")


if __name__ == "__main__":
    main()

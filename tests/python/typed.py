# SPDX-License-Identifier: Apache-2.0
"""Goal: types and docstrings of the package are whole. Usage: typed.py ROOT (exit 77: no mypy)

Method: mypy checks python/fast as Python 3.9. Every public name has a docstring, and so has each of its public methods.
"""
import importlib.util
import inspect
import os
import shutil
import subprocess
import sys

root = sys.argv[1]
import fast  # noqa: E402


def bare():
    """Public functions, classes and methods without a docstring."""
    for name in fast.__all__:
        if name in fast._LATER and importlib.util.find_spec("torch") is None:
            continue
        part = getattr(fast, name)
        if not inspect.getdoc(part):
            yield name
        if inspect.isclass(part):
            for method, function in vars(part).items():
                if inspect.isfunction(function) and not method.startswith("_") and not inspect.getdoc(getattr(part, method)):
                    yield f"{name}.{method}"


missing = list(bare())
assert not missing, missing
if shutil.which("mypy") is None:
    print("docstrings are whole; skipped: no mypy")
    sys.exit(77)
done = subprocess.run(["mypy", "--python-version", "3.9", "--ignore-missing-imports", "--cache-dir", os.devnull,
                       os.path.join(root, "python", "fast")], capture_output=True, text=True)
print(done.stdout + done.stderr)
sys.exit(done.returncode)

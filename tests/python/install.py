# SPDX-License-Identifier: Apache-2.0
"""Goal: `pip install ./python` works without a network. Usage: install.py ROOT BUILD (exit 77: no pip or setuptools)

Method: a copy of python/ is installed to a folder of its own and trains there; it finds libfast in the build
folder of the tree that it came from, and says what to do where there is no library.
"""
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

root, build = sys.argv[1], sys.argv[2]
for name in ("pip", "setuptools", "wheel"):
    if importlib.util.find_spec(name) is None:
        print(f"skipped: no {name}")
        sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    shutil.copytree(os.path.join(root, "python"), os.path.join(folder, "tree", "python"),
                    ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    os.makedirs(os.path.join(folder, "tree", "build"))
    os.symlink(build, os.path.join(folder, "tree", "build", "release"))
    target = os.path.join(folder, "site")
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index",
                    "--disable-pip-version-check", "--root-user-action=ignore", "--target", target,
                    os.path.join(folder, "tree", "python")], check=True)
    env = {k: v for k, v in os.environ.items() if k != "FAST_LIBRARY"}
    env["PYTHONPATH"] = target
    code = "import fast; print(fast.train('mlp:hidden=4', 'digits:train=100,test=20', epochs=1, store='none').steps)"
    out = subprocess.run([sys.executable, "-c", code], env=env, cwd=folder, capture_output=True, text=True, check=True)
    assert out.stdout == "1\n", out.stdout
    env["FAST_LIBRARY"] = "/nowhere/libfast.so"
    out = subprocess.run([sys.executable, "-c", code], env=env, cwd=folder, capture_output=True, text=True)
    assert out.returncode == 1 and "set FAST_LIBRARY to libfast.so" in out.stderr, out.stderr
print("installed")

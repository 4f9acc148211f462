# SPDX-License-Identifier: Apache-2.0
"""Goal: the examples and the commands of docs/pytorch.md and docs/python.md work. Usage: examples.py ROOT PROGRAM [mpi]

Method: each example runs in this interpreter, one after the other, so that PyTorch is imported once; those of
several processes are started by `fast run`. Blocks of Python in the pages are run as they stand. Without PyTorch
or NumPy the examples that need them are left out.
"""
import contextlib
import importlib.util
import io
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile

root, program, mpi = sys.argv[1], sys.argv[2], "mpi" in sys.argv[3:]
folder = os.path.join(root, "examples", "python")
EXPECTED = {"01_three_lines.py": r"accuracy (\d\d|100)%\n", "02_simulate.py": r"(\w+ +[\d.]+ ms of the cluster, .*\n){3}",
            "04_own_parts.py": r"(\S+ +test accuracy \d+%\n){3}",
            "05_table.py": r"\d+ steps, .*\n\['bsp', 'easgd', 'ssp'\]\naccuracy .*\n"}
TORCH = ("01_three_lines.py", "02_simulate.py")


def has(name):
    return importlib.util.find_spec(name) is not None


def run(path):
    """What a script prints; the loop of PyTorch's, if it has one, is ended."""
    out = io.StringIO()
    sys.argv = [path]
    with contextlib.redirect_stdout(out):
        runpy.run_path(path, run_name="__main__")
        if "torch" in sys.modules:
            import fast
            fast.finish()
    return out.getvalue()


def processes(*words):
    env = dict(os.environ, OMPI_MCA_plm="isolated", OMPI_MCA_pml="ob1", OMPI_MCA_btl="vader,self")
    done = subprocess.run([program, "run", "-n", "2", "--python", sys.executable, *words], env=env, capture_output=True,
                          text=True, timeout=280)
    if done.returncode:
        sys.exit(f"{words} exits {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def pages():
    """Blocks of Python in the manual, one after the other in one namespace a page."""
    for name in ("python.md", "pytorch.md"):
        if name == "pytorch.md" and not has("torch"):
            continue
        with open(os.path.join(root, "docs", name)) as file:
            blocks = re.findall(r"^```python\n(.*?)^```", file.read(), re.M | re.S)
        assert blocks, name
        here, names = os.getcwd(), {}
        with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
            os.chdir(place)
            for block in blocks:
                exec(compile(block, name, "exec"), names)
            if "torch" in sys.modules:
                import fast
                fast.finish()
            os.chdir(here)
        print(name, "passed", flush=True)


def notebook(name):
    """Run the cells of a notebook, one after the other in one namespace, and let its last values show themselves."""
    import ast
    import json
    with open(os.path.join(folder, name)) as file:
        content = json.load(file)
    assert content["nbformat"] == 4 and all({"cell_type", "metadata", "source"} <= set(c) for c in content["cells"])
    here, names, shown = os.getcwd(), {}, []
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(place)
        for cell in content["cells"]:
            if cell["cell_type"] == "code":
                tree = ast.parse("".join(cell["source"]))
                last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
                exec(compile(tree, name, "exec"), names)
                if last is not None:
                    value = eval(compile(ast.Expression(last.value), name, "eval"), names)
                    shown.append(value._repr_svg_() if hasattr(value, "_repr_svg_") else repr(value))
        os.chdir(here)
    assert sum(v.startswith("<svg") and "polyline" in v for v in shown) == 2, shown
    print(name, "passed", flush=True)


def live(name):
    """Run a notebook in a kernel of IPython's, as people do: the losses are drawn in place, up to the last step."""
    import nbclient
    import nbformat
    content = nbformat.read(os.path.join(folder, name), as_version=4)
    with tempfile.TemporaryDirectory() as place:
        nbclient.NotebookClient(content, timeout=200, resources={"metadata": {"path": place}}).execute()
    cells = [c for c in content.cells if c.cell_type == "code"]
    drawn = [[o["data"]["image/svg+xml"] for o in c.outputs if "image/svg+xml" in o.get("data", {})] for c in cells]
    assert [len(d) for d in drawn] == [0, 1, 1, 1, 0, 1], [len(d) for d in drawn]
    assert "step 250 of 250" in drawn[1][0] and drawn[1][0].count("polyline") == 1, drawn[1][0]
    assert "text/html" in cells[2].outputs[-1]["data"]  # the table of pandas
    print(name, "passed in IPython", flush=True)


if not has("numpy"):
    print("skipped: no NumPy")
    sys.exit(77)
for name, expected in EXPECTED.items():
    if name not in TORCH or has("torch"):
        out = run(os.path.join(folder, name))
        assert re.fullmatch(expected, out), (name, out)
        print(name, "passed", flush=True)
pages()
if has("torch") and has("pandas"):
    notebook("06_notebook.ipynb")
    if has("nbclient") and has("ipykernel") and has("nbformat"):
        live("06_notebook.ipynb")
if has("torch") and shutil.which("mpirun") and mpi:
    assert re.fullmatch(EXPECTED["01_three_lines.py"], processes(os.path.join(folder, "01_three_lines.py")))
    done = subprocess.run([os.path.join(root, "tools", "mpirun"), "2", sys.executable, os.path.join(folder, "01_three_lines.py")],
                          capture_output=True, text=True, timeout=280)  # mpirun -n 2 python3 ..., as root and on few cores
    assert re.fullmatch(EXPECTED["01_three_lines.py"], done.stdout), done.stdout + done.stderr
    with tempfile.TemporaryDirectory() as place:
        out = processes(os.path.join(folder, "03_ddp_codec.py"), os.path.join(place, "store"))
        assert re.fullmatch(r"accuracy \d+% with 5% of the gradients sent\n", out), out
    print("processes passed")

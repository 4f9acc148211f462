# SPDX-License-Identifier: Apache-2.0
"""Goal: PyTorch's tutorial scripts need three lines for FAST, and train as DDP does. Usage: tutorials.py PROGRAM
(exit 77: no PyTorch or mpirun)

Method: tutorials/ has two scripts in the shape of PyTorch's MNIST example and DDP tutorial, each as it is and adapted;
the lines that differ are counted. Both run as two processes, and all 50 losses of each process are DDP's within 1e-5:
for MNIST the original's train() is called with a DDP model and the same batches.
"""
import contextlib
import difflib
import importlib.util
import io
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tutorials")
LINES_MAX = 3
LR = 0.3  # of the MNIST script, whose own 1.0 lets differences of rounding grow a thousandfold in 50 steps


def changed(name):
    """Lines that an adapted script adds to the original or changes in it."""
    texts = []
    for script in (name + ".py", name + "_fast.py"):
        with open(os.path.join(FOLDER, script)) as file:
            texts.append(file.read().splitlines())
    count = 0
    for kind, a, b, c, d in difflib.SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        count += 0 if kind == "equal" else max(b - a, d - c)
    return count


def start(place, *words):
    env = dict(os.environ, OMPI_MCA_plm="isolated", OMPI_MCA_pml="ob1", OMPI_MCA_btl="vader,self")
    done = subprocess.run([sys.argv[1], "run", "-n", "2", "--python", sys.executable, os.path.abspath(__file__), "run", place,
                           *words], env=env, capture_output=True, text=True, timeout=280)
    if done.returncode:
        sys.exit(f"{words} exits {done.returncode}\n{done.stdout}{done.stderr}")


def losses(place, script, rank):
    with open(os.path.join(place, f"{script}.{rank}")) as file:
        return [float(v) for v in re.findall(r"[Ll]oss: ([\d.]+)", file.read().split("Test set")[0])]


def check():
    for name in ("mnist", "ddp"):
        lines = changed(name)
        assert 1 <= lines <= LINES_MAX, (name, lines)
        print(f"{name}: {lines} lines differ", flush=True)
        with tempfile.TemporaryDirectory() as place:
            start(place, name, name + "_fast")
            for rank in (0, 1):
                a, b = losses(place, name, rank), losses(place, name + "_fast", rank)
                assert len(a) == len(b) == 50, (name, rank, len(a), len(b))
                worst = max(abs(x - y) for x, y in zip(a, b))
                assert worst < 1e-5, (name, rank, worst)
                assert sum(a[-10:]) < sum(a[:10]), (name, a)
                print(f"{name}, process {rank}: 50 losses, largest difference {worst:.1e}", flush=True)


# In the processes.

def mnist_by_ddp(place, rank, size):
    """The original's functions, with DDP and with the batches of fast.shard()."""
    import argparse

    import mnist
    import torch
    import torch.distributed as dist

    import fast
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method=f"file://{place}/store", rank=rank, world_size=size)
    loader = torch.utils.data.DataLoader(mnist.Pictures(train=True), batch_size=20)
    model = torch.nn.parallel.DistributedDataParallel(mnist.Net())
    optimizer = torch.optim.Adadelta(model.parameters(), lr=LR)

    class Part:
        dataset = loader.dataset

        def __iter__(self):
            return fast.shard(loader)
    mnist.train(argparse.Namespace(log_interval=1), model, torch.device("cpu"), Part(), optimizer, 1)
    dist.destroy_process_group()


def process(place, scripts):
    """Run the scripts one after the other in this process, so that PyTorch is imported once."""
    import torch
    rank, size = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    torch.set_num_threads(1)
    sys.path.insert(0, FOLDER)
    for script in scripts:
        sys.argv = [script, os.path.join(place, script + ".store")] if script.startswith("ddp") else \
            [script, "--log-interval", "1", "--no-cuda", "--lr", str(LR)]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            if script == "mnist":
                mnist_by_ddp(place, rank, size)
            else:
                runpy.run_path(os.path.join(FOLDER, script + ".py"), run_name="__main__")
        if script.endswith("_fast"):
            import fast
            fast.finish()
        with open(os.path.join(place, f"{script}.{rank}"), "w") as file:
            file.write(out.getvalue())


if importlib.util.find_spec("torch") is None or shutil.which("mpirun") is None:
    print("skipped: no PyTorch, or no mpirun")
    sys.exit(77)
if sys.argv[1] == "run":
    process(sys.argv[2], sys.argv[3:])
else:
    check()

# SPDX-License-Identifier: Apache-2.0
"""PyTorch's LeNet as a learner against FAST's own. Usage: losses.py LIBRARY; needs PyTorch

Goal: over 50 synchronous steps from the same weights and batches the losses of each batch of one worker, and
of held out samples after each step of 1, 2 and 3, differ by less than 1e-4; and the same model trains under SSP and gossip. Method: both runs
evaluate after each step; the loss of step n is the difference of n and n - 1 times the mean so far. The rate
is a small one: what rounds in another order puts a ReLU on the other side of 0 now and then, and what that
changes grows with the rate in each step after it, between FAST's own engines and in PyTorch against itself as
well. Prints the largest differences and the time of a step.
"""
import os
import sys
import tempfile
import time

import torch

from support import EVALUATE, Run, binding, tensors

STEPS, LIMIT = 50, 1e-4


def losses(run):
    """Losses of each step and of the test set after it."""
    means, tests = [0.0], []

    def watch(event):
        if event.kind == EVALUATE:
            means.append(event.result.contents.loss)
            tests.append(event.result.contents.test_loss)

    run.train(watch)
    assert len(tests) == STEPS, len(tests)
    return [n * means[n] - (n - 1) * means[n - 1] for n in range(1, STEPS + 1)], tests


def from_file(path):
    """PyTorch's model with the weights of a file, which must be its own by name and shape."""
    def make():
        model = binding.lenet()
        stored = tensors(path)
        assert list(stored) == [name for name, _ in model.named_parameters()], list(stored)
        for name, p in model.named_parameters():
            shape, data = stored[name]
            assert shape == list(p.shape), name
            p.data = torch.frombuffer(bytearray(data), dtype=torch.float32).view(p.shape)
        return model
    return make


def compare(fast, engine, workers, path):
    options = ["model=lenet", "data=fashion-mnist", "holdout=0.002", f"workers={workers}", f"steps={STEPS}",
               "engine=" + engine, "lr=0.002", "strategy=allreduce", "schedule=constant", "evaluate=1steps",
               "plan=no"]
    with Run(fast, options) as run:
        run.save(path)
        native = losses(run)
    with Run(fast, options, binding.TorchLearner(from_file(path)).kind("torch-lenet")) as run:
        foreign = losses(run)
    worst = [max(abs(a - b) for a, b in zip(*pair)) for pair in zip(native, foreign)]
    print(f"engine {engine}, {workers} workers, {STEPS} steps: losses from {native[0][0]:.4f} to {native[0][-1]:.4f}, "
          f"differences at most {worst[0]:.1e} (batches) and {worst[1]:.1e} (held out)", flush=True)
    assert native[0][-1] < native[0][0], "nothing was learned"
    # Of several workers some may have begun the next step when the mean is read: the model decides there.
    assert (max(worst) if workers == 1 else worst[1]) < LIMIT, worst


def timed(fast, workers, kind):
    options = ["model=lenet", "data=fashion-mnist", f"workers={workers}", f"steps={STEPS}", "strategy=allreduce",
               "evaluate=no"]
    with Run(fast, options, kind) as run:
        begin = time.monotonic()
        run.train()
        return 1000 * (time.monotonic() - begin) / STEPS


def main():
    os.environ["FAST_LIBRARY"] = sys.argv[1]
    fast = binding.library()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "first.safetensors")
        for workers in (1, 2, 3):
            compare(fast, "ref", workers, path)
            compare(fast, "auto", workers, path)
        kind = binding.TorchLearner(from_file(path)).kind
        for workers in (1, 2):
            native, foreign = timed(fast, workers, None), timed(fast, workers, kind("torch-lenet"))
            print(f"{workers} workers: {native:.1f} ms a step of FAST's, {foreign:.1f} ms of PyTorch's")
        for strategy in ("ps:slack=2", "gossip"):
            torch.manual_seed(1)
            options = ["data=digits:train=9600,test=1000", "workers=2", "epochs=3", "lr=0.02",
                       "strategy=" + strategy]
            result = binding.train(fast, binding.TorchLearner(binding.lenet).kind("torch-lenet"), options)
            print(f"{strategy}: test accuracy {100 * result.test_accuracy:.1f}%")
            assert result.test_accuracy > 0.8, result.test_accuracy


if __name__ == "__main__":
    main()

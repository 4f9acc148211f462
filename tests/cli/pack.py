#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fast pack`: a packed program trains, resumes and predicts where nothing else is, with the same bits.

usage: pack.py FAST RUNTIME

The programs run in an empty root directory where this test may make one (chroot needs root), and
elsewhere in an empty folder with an empty environment.
"""
import json, os, subprocess, sys, tempfile

JOB = ["--model", "lenet", "--engine", "ref", "--batch", "16", "--seed", "3"]
SIZE_MAX = 10_000_000  # bytes of a packed lenet trainer


def check(what, good):
    if not good:
        sys.exit(f"pack.py: {what}")


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, **more)
    return done.returncode, done.stdout, done.stderr


def alone(root, program, *words):
    """Run a program of the folder `root` as if there were nothing else."""
    if os.geteuid() == 0:
        return run([f"/{program}", *words], preexec_fn=lambda: (os.chroot(root), os.chdir("/")), env={})
    return run([f"./{program}", *words], cwd=root, env={})


def result(output):
    return json.loads(output.strip().splitlines()[-1])


def main():
    fast, runtime = map(os.path.abspath, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(FAST_HOME=home, XDG_DATA_HOME=home)
        root = f"{home}/root"
        os.mkdir(root)
        with open(f"{home}/points.csv", "w") as file:
            file.write("x,y,kind\n")
            file.writelines(f"{i % 7},{i % 5},{'far' if i % 7 > 3 else 'near'}\n" for i in range(200))

        # A trainer without files: the same weights as fast train's.
        digits = ["--data", "digits:train=160,test=32", "--epochs", "1"]
        code, _, said = run([fast, "pack", f"{root}/digits", "--runtime", runtime, *JOB, *digits])
        check(f"pack: {said}", code == 0)
        size = os.path.getsize(f"{root}/digits")
        check(f"a lenet trainer of {size} bytes", size < SIZE_MAX)
        code, out, said = alone(root, "digits")
        check(f"what it says: {out}{said}", code == 0 and "train --store=none --model=lenet" in out.replace("fast ", ""))
        code, out, said = alone(root, "digits", "train", "--json", "--save", "w.safetensors")
        check(f"packed train: {said}", code == 0)
        packed = result(out)
        code, out, _ = run([fast, "train", *JOB, *digits, "--store", "none", "--json"])
        check("train", code == 0)
        check("the packed program trains to other weights", packed["params_hash"] == result(out)["params_hash"])

        # It resumes: two halves are the whole.
        half = ["train", "--json", "--checkpoint", "c"]
        code, _, said = alone(root, "digits", *half, "--steps", "5", "--epochs", "1", "--schedule", "constant")
        check(f"first half: {said}", code == 0)
        code, out, said = alone(root, "digits", *half, "--steps", "10", "--resume", "c", "--schedule", "constant")
        check(f"second half: {said}", code == 0)
        code, whole, _ = alone(root, "digits", "train", "--json", "--steps", "10", "--schedule", "constant")
        check("resumed to other weights", result(out)["params_hash"] == result(whole)["params_hash"])

        # Data inside: the file is gone when it trains.
        csv = ["--model", "mlp:hidden=8", "--data", f"csv:file={home}/points.csv", "--epochs", "2", "--batch", "16"]
        code, _, said = run([fast, "pack", f"{root}/points", "--runtime", runtime, "--engine", "ref", *csv])
        check(f"pack with data: {said}", code == 0 and "1 file inside" in said)
        code, _, said = run([fast, "pack", f"{root}/bare", "--runtime", runtime, "--engine", "ref", "--without-data", *csv])
        check(f"pack without data: {said}", code == 0 and "0 files inside" in said)
        code, out, _ = run([fast, "train", "--engine", "ref", *csv, "--store", "none", "--json"])
        here = result(out)
        os.rename(f"{home}/points.csv", f"{home}/gone.csv")
        code, out, said = alone(root, "points", "train", "--json")
        check(f"train on packed data: {said}", code == 0)
        check("other weights on packed data", result(out)["params_hash"] == here["params_hash"])
        code, _, said = alone(root, "bare", "train")
        check(f"without its data: {said}", code == 2 and "points.csv" in said)

        # The network stays inside where data are left out, whatever file it is.
        csv[3] = f"csv:file={home}/gone.csv"
        code, _, said = run([fast, "train", *csv, "--store", "none", "--save", f"{home}/net.onnx"])
        check(f"save ONNX: {said}", code == 0)
        for model in f"{home}/net.onnx", f"onnx:{home}/net.onnx", f"onnx:file={home}/net.onnx":
            code, _, said = run([fast, "pack", f"{root}/net", "--runtime", runtime, "--without-data", "--model", model, *csv[2:]])
            check(f"pack {model}: {said}", code == 0 and "1 file inside" in said)

        # Files that a folder lists are not found inside.
        code, _, said = run([fast, "shard", csv[3], "--out", f"{home}/shards"])
        check(f"shard: {said}", code == 0)
        shards = ["--data", f"shards:dir={home}/shards", "--model", "mlp:hidden=8"]
        code, _, said = run([fast, "pack", f"{root}/shards", "--runtime", runtime, *shards])
        check(f"pack shards: {said}", code == 2 and "--without-data" in said)
        code, _, said = run([fast, "pack", f"{root}/shards", "--runtime", runtime, "--without-data", *shards])
        check(f"pack without shards: {said}", code == 0 and "0 files inside" in said)

        # A model inside is exported; a hostile name sends nothing to the terminal.
        code, _, said = run([fast, "train", *csv, "--store", "none", "--save", f"{home}/\x1b[1mm.safetensors"])
        check(f"save: {said}", code == 0)
        code, _, said = run([fast, "pack", f"{root}/model", "--runtime", runtime, "--weights", f"{home}/\x1b[1mm.safetensors"])
        check(f"pack a model: {said}", code == 0)
        code, out, said = alone(root, "model", "export", "m.onnx")
        check(f"packed export: {out}{said}", code == 0 and os.path.getsize(f"{root}/m.onnx") > 100)
        code, out, said = alone(root, "model")
        check(f"what it says: {out}{said}", code == 0 and "export FILE.onnx" in out and "\x1b" not in out)
        code, out, _ = alone(root, "model", "info")
        check(f"libraries that are not there: {out}", "oneDNN, libxsmm and OpenBLAS" not in out)

        # A file that is no program is not replaced.
        code, _, said = run([fast, "pack", f"{home}/gone.csv", "--runtime", runtime, *JOB, *digits])
        check(f"pack over a table: {said}", code == 2 and "gone.csv exists and is no program" in said)
        check("the table is damaged", open(f"{home}/gone.csv").read(4) == "x,y,")

        # A damaged program says so.
        with open(f"{root}/points", "r+b") as file:
            file.seek(-40, 2)
            file.write(b"\0")
        code, _, said = alone(root, "points", "train")
        check(f"damaged: {code} {said}", code == 2 and said.startswith("fast: "))
        code, _, said = run([f"{root}/points", "train"])
        check(f"damaged: {code} {said}", code == 2 and f"{root}/points" in said)
        code, _, said = run([fast, "pack", f"{home}/x", "--runtime", f"{root}/digits", *JOB, *digits])
        check(f"packed twice: {said}", code == 2 and "packed program already" in said)


main()

#!/usr/bin/env python3
"""Kernels use the registers that they are compiled for.

The compiler lowers a vector operation that its registers cannot hold to scalar code, silently: the
results are right and the kernel is ten times slower. This check disassembles every kernel and
counts. Kernels have a few scalar instructions of single precision, for factors and the ends of
sums; more than SOME plus a tenth of the vector instructions is lowering.

usage: lowering.py OBJDUMP FOLDER_OF_OBJECTS REGISTERS ...    REGISTERS: sse, avx2, avx512 or neon
"""
import pathlib
import re
import subprocess
import sys

SOME = 4
ARITHMETIC = "add|sub|mul|div|max|min|sqrt|cmp[a-z_]*|u?comi|fn?m(?:add|sub)[0-9]+"
X86 = re.compile(rf"v?(?:{ARITHMETIC})ss$|v?(?:pextr|pinsr|insertps|extractps)")
ARM = re.compile(r"f(?:add|sub|n?mul|div|max|min|n?madd|n?msub|sqrt|cmp|ccmp|csel)\S* s\d|"
                 r"(?:mov|ins|umov|smov) .*v\d+\.[sh]\[\d\]")
VECTOR = {"sse": r"%xmm", "avx2": r"%ymm", "avx512": r"%zmm", "neon": r"\bv\d+\.(?:4s|16b|2d)"}
# Functions that must be there: their absence would make the check pass for nothing.
HOT = {"norm_simd": ["moments", "apply", "sums", "apply_back"], "pool_simd": ["max_forward", "max_back"],
       "conv_simd": ["dot_4x3"], "winograd_simd": ["input_4_3", "output_4_3", "input_grad_4_3"],
       "elem_simd": ["bias_act", "bias_act_back"], "gemm_simd": ["down_2x6", "packed_2x6", "across_2x6"], "sequence_simd": ["products"],
       "loss_simd": ["cross_entropy"], "cell_simd": ["lstm", "lstm_back"], "attention_simd": ["softmax_row", "backward"]}


def count(objdump, path, registers):
    """{function: (scalar instructions, vector instructions)} of an object file."""
    text = subprocess.run([objdump, "-d", "--no-show-raw-insn", path], check=True,
                          capture_output=True, text=True).stdout
    counts, name = {}, None
    for line in text.splitlines():
        start = re.match(r"[0-9a-f]+ <([^>.]+)[^>]*>:", line)
        if start:
            name = start[1]
            counts.setdefault(name, [0, 0])
            continue
        found = re.match(r"\s+[0-9a-f]+:\s+(\S+)\s*(.*)", line)
        if not found or not name:
            continue
        op, operands = found.groups()
        if registers == "neon":
            scalar = ARM.match(f"{op} {operands}")
        else:
            scalar = X86.match(op)
        if scalar:
            counts[name][0] += 1
        elif re.search(VECTOR[registers], operands):
            counts[name][1] += 1
    return counts


def main():
    objdump, folder, bad = sys.argv[1], pathlib.Path(sys.argv[2]), []
    for registers in sys.argv[3:]:
        isa = "base" if registers == "sse" or registers == "neon" and not (
            folder / "fast_simd_neon.dir").exists() else registers
        objects = sorted((folder / f"fast_simd_{isa}.dir").rglob("*_simd.c.o"))
        if not objects:
            sys.exit(f"no kernels for {isa} in {folder}")
        for path in objects:
            counts = count(objdump, path, registers)
            stem = path.name.split(".")[0]
            bad += [f"{isa}: {stem} has no {name}" for name in HOT.get(stem, [])
                    if counts.get(name, [0, 0])[1] == 0]
            bad += [f"{isa}: {stem}: {name} has {scalar} scalar instructions beside {vector} on vectors"
                    for name, (scalar, vector) in counts.items() if scalar > SOME + vector / 10]
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

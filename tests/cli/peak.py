#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peak memory of a run is its own: a large parent process does not count.

usage: peak.py FAST

The kernel hands a process's ru_maxrss on to the program that it executes. So the parent touches
memory, starts `fast train` and compares the peak with that of the same run under a small parent.
"""
import json, os, subprocess, sys, tempfile

MIB = 1 << 20
JOB = "train --engine ref --model mlp:hidden=8 --data digits:train=64,test=16 --steps 2 --batch 16".split()


def peak(fast, home):
    out = subprocess.run([fast, *JOB, "--json", "--quiet", "--store", "none"], check=True,
                         env=dict(os.environ, FAST_HOME=home), stdout=subprocess.PIPE)
    return json.loads(out.stdout)["memory_peak"]


def main():
    with tempfile.TemporaryDirectory() as home:
        small = peak(sys.argv[1], home)
        block = bytearray(512 * MIB)
        for i in range(0, len(block), 4096):
            block[i] = 1
        large = peak(sys.argv[1], home)
    assert small > MIB, small
    assert large < small + 256 * MIB, f"{large} bytes under a large parent, {small} under a small one"
    print(f"peak: {small} bytes, under a large parent {large}")


main()

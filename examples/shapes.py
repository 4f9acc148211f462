#!/usr/bin/env python3
"""Write a small set of pictures by class: circles, squares and triangles in colours, as PNG files.

    examples/shapes.py FOLDER [PICTURES]

makes FOLDER/train/CLASS and FOLDER/test/CLASS with PICTURES training pictures in all (default 600)
and a quarter as many test pictures, 40 x 40 pixels. Needs nothing but Python.

    fast train --data folder:path=FOLDER,size=28 --model lenet --epochs 5
"""
import os
import random
import struct
import sys
import zlib

SIDE = 40
CLASSES = ["circle", "square", "triangle"]


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(rows):
    """A PNG file of rows of (r, g, b) pixels."""
    raw = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in rows)
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw))
            + chunk(b"IEND", b""))


def inside(name, x, y, r):
    if name == "circle":
        return x * x + y * y < r * r
    if name == "square":
        return abs(x) < 0.85 * r and abs(y) < 0.85 * r
    return -r < y < r and abs(x) < (y + r) / 2


def draw(name, rng):
    back = [rng.randrange(0, 110) for _ in range(3)]
    ink = [rng.randrange(140, 256) for _ in range(3)]
    cx, cy, r = rng.uniform(14, 26), rng.uniform(14, 26), rng.uniform(6, 12)
    return [[tuple(max(0, min(255, value + rng.randrange(-12, 13)))
                   for value in (ink if inside(name, x - cx, y - cy, r) else back))
             for x in range(SIDE)] for y in range(SIDE)]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    count = int(sys.argv[2]) if len(sys.argv) == 3 else 600
    rng = random.Random(1)
    for part, size in (("train", count), ("test", max(3, count // 4))):
        for i in range(size):
            name = CLASSES[i % len(CLASSES)]
            folder = os.path.join(sys.argv[1], part, name)
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, f"{i // len(CLASSES):04d}.png"), "wb") as out:
                out.write(png(draw(name, rng)))


if __name__ == "__main__":
    main()

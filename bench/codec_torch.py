#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Codecs beside the same written with torch tensors, on one thread.

    bench/codec_torch.py build/release/fast [bytes]

Encodes and decodes a vector like a gradient with torch (Debian: python3-torch), right after
`fast bench codec` measured the codec of the same name, and prints both speeds in GB/s of input
and how many times faster fast is, encoding, decoding and both one after the other. Each time is
the fastest of seven, as in fast's own benchmark: other work on the machine only slows one down.

What torch does is the same work: the cast; the signs, packed to bits, with a mean magnitude for
each 1,024 and error feedback; the signs alone (vote), in bytes; top 1% with indices and values, and error feedback; QSGD with 4 bits,
buckets of 512 and packed nibbles; TernGrad, clipped at 2.5 deviations, with 2 bits an element and
error feedback.
"""
import json
import math
import subprocess
import sys
import time

import torch

ROUNDS = 7


def draw(count):
    """Normal, with 64 stretches of scales that differ."""
    torch.manual_seed(1)
    x = torch.randn(count)
    for piece in x.chunk(64):
        piece *= 0.01 * math.exp(torch.randn(()).item())
    return x


def pack(fields, bits):
    """Whole numbers below 2^bits, in bytes; the first in the lowest bits."""
    rows = fields.view(-1, 8 // bits)
    out = rows[:, 0].clone()
    for i in range(1, 8 // bits):
        out |= rows[:, i] << bits * i
    return out


def unpack(data, bits):
    mask = (1 << bits) - 1
    return torch.stack([data >> bits * i & mask for i in range(8 // bits)], 1).view(-1)


class Cast:
    """fp16 and bf16."""

    def __init__(self, dtype):
        self.dtype = dtype

    def encode(self, x):
        return x.to(self.dtype)

    def decode(self, code, _):
        return code.to(torch.float32)


class Feedback:
    """Error feedback: e is the residual."""

    def __init__(self, x):
        self.e = torch.zeros_like(x)

    def encode(self, x):
        v = self.e.add_(x)
        code = self.put(v)
        self.e.sub_(self.decode(code, v.numel()))
        return code


class Sign(Feedback):
    def put(self, v):
        return v.view(-1, 1024).abs().mean(1), pack((v < 0).to(torch.uint8), 1)

    def decode(self, code, _):
        size, bits = code
        return ((1 - 2 * unpack(bits, 1).to(torch.float32)).view(-1, 1024) * size[:, None]).view(-1)


class Vote:
    """Signs alone, as torch has them: a byte an element, eight times the size."""

    def encode(self, x):
        return torch.signbit(x)

    def decode(self, code, _):
        return 1 - 2 * code.to(torch.float32)


class TopK(Feedback):
    def put(self, v):
        index = v.abs().topk(v.numel() // 100, sorted=False).indices.sort().values
        return index.to(torch.int32), v[index]

    def decode(self, code, count):
        y = torch.zeros(count)
        y[code[0].long()] = code[1]
        return y


class Qsgd:
    def encode(self, x):
        rows = x.view(-1, 512)
        norm = rows.norm(dim=1)
        level = (rows.abs() * (7 / norm)[:, None] + torch.rand_like(rows)).floor_().clamp_(max=7)
        return norm, pack((level.to(torch.uint8) | (rows < 0).to(torch.uint8) << 3).view(-1), 4)

    def decode(self, code, _):
        norm, data = code
        field = unpack(data, 4)
        level = (field & 7).to(torch.float32) * (1 - 2 * (field >> 3).to(torch.float32))
        return (level.view(-1, 512) * (norm / 7)[:, None]).view(-1)


class TernGrad(Feedback):
    def put(self, v):
        limit = 2.5 * v.square().mean().sqrt()
        scale = torch.minimum(v.abs().max(), limit)
        one = (torch.rand_like(v) * scale < v.abs()).to(torch.uint8)
        return scale, pack(one | (v < 0).to(torch.uint8) << 1, 2)

    def decode(self, code, _):
        scale, data = code
        field = unpack(data, 2)
        sign = 1 - 2 * (field >> 1).to(torch.float32)
        return (field & 1).to(torch.float32) * sign * scale


def measure(codec, x):
    """Seconds to encode and to decode."""
    encode = decode = math.inf
    for _ in range(ROUNDS):
        start = time.perf_counter()
        code = codec.encode(x)
        middle = time.perf_counter()
        codec.decode(code, x.numel())
        encode = min(encode, middle - start)
        decode = min(decode, time.perf_counter() - middle)
    return encode, decode


def main():
    fast = sys.argv[1] if len(sys.argv) > 1 else "build/release/fast"
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 16 << 20
    torch.set_num_threads(1)
    x = draw(size // 4)
    codecs = [("fp16", Cast(torch.float16)), ("bf16", Cast(torch.bfloat16)), ("sign", Sign(x)),
              ("vote", Vote()), ("topk", TopK(x)), ("qsgd", Qsgd()), ("terngrad", TernGrad(x))]
    print(f"torch {torch.__version__}, one thread, {size} bytes; GB/s of input")
    print(f"{'codec':10}{'fast enc':>10}{'dec':>8}{'torch enc':>11}{'dec':>8}{'times enc':>11}{'dec':>8}{'both':>8}")
    for name, codec in codecs:
        out = subprocess.run([fast, "bench", "codec", "--json", "--codec", name, "--bytes", str(size)],
                             check=True, capture_output=True, text=True).stdout
        own = json.loads(out.splitlines()[-1])
        enc, dec = (size / s * 1e-9 for s in measure(codec, x))
        mine = own["encode_gb_per_s"], own["decode_gb_per_s"]
        both = (1 / enc + 1 / dec) / (1 / mine[0] + 1 / mine[1])
        print(f"{name:10}{mine[0]:10.2f}{mine[1]:8.2f}{enc:11.2f}{dec:8.2f}"
              f"{mine[0] / enc:11.1f}{mine[1] / dec:8.1f}{both:8.1f}")


if __name__ == "__main__":
    main()

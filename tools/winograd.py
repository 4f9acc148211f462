#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Derive the transforms of Winograd's convolutions and print them as C: winograd_transforms.h.

Cook-Toom: m outputs of a filter with r taps need n = m + r - 1 products. With n - 1 points a_i and
infinity, y = A' ((G g) . (B' d)):

  A' column i is (1, a_i, a_i^2, ...), for infinity (0, ..., 0, 1);
  G row i is (1, a_i, a_i^2, ...) / prod over j != i of (a_i - a_j), for infinity (0, ..., 0, 1);
  B' row i holds the coefficients of prod over j != i of (x - a_j), for infinity of prod of all.

Points come in pairs +a, -a, whose rows differ in the signs of the odd coefficients: each pair costs
one even sum, one odd sum, one addition and one subtraction. Every matrix is checked exactly before
it is printed.
"""
from fractions import Fraction as F

# For n = 6 these are three times as exact as 1, -1, 2, -2; for n = 8 the usual ones are among the best.
POINTS = {4: [0, 1, -1],
          6: [0, F(3, 4), F(-3, 4), F(3, 2), F(-3, 2)],
          8: [0, 1, -1, 2, -2, F(1, 2), F(-1, 2)]}
VARIANTS = [(2, 3), (4, 3), (6, 3), (2, 5), (4, 5)]


def polynomial(roots):
    p = [F(1)]
    for a in roots:
        q = [F(0)] * (len(p) + 1)
        for i, c in enumerate(p):
            q[i + 1] += c
            q[i] -= a * c
        p = q
    return p


def matrices(m, r):
    n = m + r - 1
    points = [F(a) for a in POINTS[n]]
    at = [[a**i for a in points] + [F(int(i == m - 1))] for i in range(m)]
    g, bt = [], []
    for i, a in enumerate(points):
        others = points[:i] + points[i + 1:]
        scale = F(1)
        for b in others:
            scale *= a - b
        sign = -1 if a == 0 and scale < 0 else 1  # saves a negation
        g.append([sign * a**k / scale for k in range(r)])
        bt.append([sign * c for c in polynomial(others)] + [F(0)])
    g.append([F(int(k == r - 1)) for k in range(r)])
    bt.append(polynomial(points))
    for i in range(m):  # y_i = sum over k of g_k d_{i + k}, exactly
        for k in range(r):
            for j in range(n):
                value = sum(at[i][t] * g[t][k] * bt[t][j] for t in range(n))
                assert value == F(int(j == i + k))
    return at, g, bt


def transpose(a):
    return [list(row) for row in zip(*a)]


def number(c):
    text = repr(float(c))
    return text + "f"


def chain(terms):
    """Terms (coefficient, name) as a sum that begins with a coefficient of 1 where there is one."""
    terms = [(c, x) for c, x in terms if c != 0]
    terms.sort(key=lambda t: (t[0] != 1, abs(t[0]) != 1))
    text = ""
    for c, x in terms:
        piece = x if abs(c) == 1 else f"{number(abs(c))} * {x}"
        if not text:
            text = piece if c > 0 else "-" + piece
        else:
            text += (" + " if c > 0 else " - ") + piece
    return text


def row_pairs(a):
    pairs, used = [], set()
    for i in range(len(a)):
        for k in range(i + 1, len(a)):
            if i in used or k in used:
                continue
            even = [(x + y) / 2 for x, y in zip(a[i], a[k])]
            odd = [(x - y) / 2 for x, y in zip(a[i], a[k])]
            apart = all(x == 0 or y == 0 for x, y in zip(even, odd))
            if apart and any(even) and any(odd):
                pairs.append((i, k, even, odd))
                used |= {i, k}
    return pairs, used


def column_pairs(a):
    pairs, used = [], set()
    b = transpose(a)
    for i in range(len(b)):
        for k in range(i + 1, len(b)):
            if i in used or k in used:
                continue
            same = [abs(x) == abs(y) for x, y in zip(b[i], b[k])]
            if all(same) and b[i] != b[k] and any(b[i]):
                pairs.append((i, k))
                used |= {i, k}
    return pairs, used


def say(line):
    """Print a line of code, broken after an operator where it is too long."""
    while len(line) > 100:
        cut = max(line.rfind(end, 0, 98) + len(end) - 1 for end in (" + ", " - ", ", "))
        print(line[:cut])
        line = " " * 8 + line[cut + 1:]
    print(line)


def emit(name, a, comment, show=False):
    """Print the function y = a x, and with `show` the matrix itself in its comment."""
    rows, columns = len(a), len(a[0])
    if show:
        width = max(len(str(c)) for row in a for c in row)
        print(f"\n/* {comment}")
        for row in a:
            print(" *    " + "".join(f" {str(c):>{width}}" for c in row))
        print(" */")
    else:
        print(f"\n/* {comment} */")
    print(f"WINOGRAD_INLINE void {name}(const fast_vec x[{columns}], fast_vec y[{rows}])\n{{")
    pairs, used = row_pairs(a)
    cpairs, cused = column_pairs(a)
    if len(cused) > len(used):
        for i, k in cpairs:
            say(f"    const fast_vec s{i} = x[{i}] + x[{k}], d{i} = x[{i}] - x[{k}];")
        for r, row in enumerate(a):
            terms = [(c, f"x[{j}]") for j, c in enumerate(row) if j not in cused]
            for i, k in cpairs:
                terms.append((row[i], f"s{i}" if row[i] == row[k] else f"d{i}"))
            say(f"    y[{r}] = {chain(terms)};")
    else:
        for i, k, even, odd in pairs:
            names = [f"x[{j}]" for j in range(columns)]
            assert k == i + 1
            say(f"    WINOGRAD_PAIR({chain(list(zip(even, names)))}, {chain(list(zip(odd, names)))}, y + {i});")
        for r, row in enumerate(a):
            if r not in used:
                say(f"    y[{r}] = {chain([(c, f'x[{j}]') for j, c in enumerate(row)])};")
    print("}")


def main():
    print("""/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/cpu/vec.h"

/*
 * The one-dimensional transforms of Winograd's convolutions (Lavin and Gray, "Fast Algorithms for
 * Convolutional Neural Networks", 2015), made and checked by tools/winograd.py: change that.
 * F(m, r) is m outputs of a filter with r taps, from n = m + r - 1 inputs:
 *
 *   y = A' ((G g) . (B' d))
 *
 * Points: n = 4: 0, 1, -1; n = 6: 0, 3/4, -3/4, 3/2, -3/2; n = 8: 0, 1, -1, 2, -2, 1/2, -1/2; and
 * infinity. x and y may not overlap.
 */
#define WINOGRAD_INLINE static inline __attribute__((always_inline, unused))
/* clang-format off */

/* Rows of two points that differ in sign: the even terms plus and minus the odd ones. */
#define WINOGRAD_PAIR(even, odd, y)            \\
    do {                                       \\
        const fast_vec e_ = (even), o_ = (odd); \\
        (y)[0] = e_ + o_;                      \\
        (y)[1] = e_ - o_;                      \\
    } while (0)""")
    for n, (m, r) in {4: (2, 3), 6: (4, 3), 8: (4, 5)}.items():
        _, _, bt = matrices(m, r)
        emit(f"winograd_bt_{n}", bt, f"B', n = {n}: inputs.", True)
        emit(f"winograd_b_{n}", transpose(bt), f"B, n = {n}: gradient of inputs.")
    for m, r in VARIANTS:
        at, g, _ = matrices(m, r)
        emit(f"winograd_at_{m}_{r}", at, f"A', F({m}, {r}): outputs.", True)
        emit(f"winograd_a_{m}_{r}", transpose(at), f"A, F({m}, {r}): gradient of outputs.")
        emit(f"winograd_g_{m}_{r}", g, f"G, F({m}, {r}): weights.", True)
        emit(f"winograd_gt_{m}_{r}", transpose(g), f"G', F({m}, {r}): gradient of weights.")
    print("/* clang-format on */")


main()

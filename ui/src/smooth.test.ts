/* SPDX-License-Identifier: Apache-2.0 */
import { deepEqual, equal, ok } from "node:assert/strict";
import { test } from "node:test";
import { positive, smooth, weightOf } from "./smooth.ts";

test("smoothing leaves a constant as it is, from the first value on", () => {
    for (const value of smooth([3, 3, 3, 3], 0.9))
        ok(Math.abs(value! - 3) < 1e-12);
});

test("smoothing damps noise, leaves gaps and needs no weight", () => {
    const noisy = Array.from({ length: 100 }, (_, i) => i % 2);
    const calm = smooth(noisy, 0.95).slice(50) as number[];
    ok(Math.max(...calm) - Math.min(...calm) < 0.06);
    deepEqual(smooth([1, null, 1], 0.5), [1, null, 1]);
    const values = [1, 2];
    equal(smooth(values, 0), values);
});

test("the slider goes from nothing to hundreds of values", () => {
    equal(weightOf(0), 0);
    ok(weightOf(50) > 0.9 && weightOf(50) < 0.96);
    ok(weightOf(100) > 0.996 && weightOf(100) < 1);
});

test("logarithmic axes have no zero", () => {
    deepEqual(positive([-1, 0, null, 2]), [null, null, null, 2]);
});

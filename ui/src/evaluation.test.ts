/* SPDX-License-Identifier: Apache-2.0 */
import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";
import { figuresOf, rowShares } from "./evaluation.ts";

test("a cell's share is of its row, and an empty row has none", () => {
    deepEqual(rowShares([[3, 1], [0, 0]]), [[0.75, 0.25], [0, 0]]);
    deepEqual(rowShares([]), []);
});

test("a result without rows has no figures", () => {
    equal(figuresOf({}), null);
    equal(figuresOf({ figures: null }), null);
    equal(figuresOf({ figures: { rows: 0 } }), null);
    equal(figuresOf({ figures: { rows: 4, classes: 2 } })?.classes, 2);
});

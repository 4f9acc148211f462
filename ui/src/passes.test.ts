/* SPDX-License-Identifier: Apache-2.0 */
import { deepEqual, equal, ok } from "node:assert/strict";
import { test } from "node:test";
import type { Pass, StoredPlace } from "./api.ts";
import { firstLook, gapsOf, kindsOf, measuresOf, placeName, rowsOf, stepsOf } from "./passes.ts";

const place = (worker: number, stage = worker, replica = 0, shard = 0): StoredPlace =>
    ({ worker, replica, stage, shard, layers: "a to b", params: 10 });
const pass = (worker: number, kind: string, number: number, start_s: number, step = 0, staleness: number | null = null): Pass =>
    ({ seq: 0, worker, kind, number, step, staleness, start_s, end_s: start_s + 1, chunk: null });

/* GPipe, two stages, two micro-batches, passes of a second: F F . . . B B beside . F F B B . */
const gpipe = (step = 0, at = 0): Pass[] => [
    pass(0, "forward", 0, at, step), pass(0, "forward", 1, at + 1, step), pass(0, "backward", 0, at + 4, step, 0), pass(0, "backward", 1, at + 5, step, 0),
    pass(1, "forward", 0, at + 1, step), pass(1, "forward", 1, at + 2, step), pass(1, "backward", 0, at + 3, step, 0), pass(1, "backward", 1, at + 4, step, 0),
];
const two = [place(0), place(1)];

test("rows are in the order of the mesh, and hold micro-batches between their passes", () => {
    const rows = rowsOf([place(0, 0, 0), place(1, 1, 0), place(2, 0, 1), place(3, 1, 1)].reverse(), gpipe().reverse());
    deepEqual(rows.map(({ worker }) => worker), [0, 1, 2, 3]);
    deepEqual(rows.map(({ inFlight }) => inFlight), [2, 2, 0, 0]);
    deepEqual(rows[0]!.passes.map(({ start_s }) => start_s), [0, 1, 4, 5]);
});

test("the bubble is that of whole steps, beside its closed form", () => {
    const rows = rowsOf(two, [...gpipe(), ...gpipe(1, 8), pass(0, "forward", 4, 16, 2)]);
    const { steps, bubble, expected, busy, counted } = measuresOf(rows);
    deepEqual(steps.map(({ first, start, end: last, whole }) => [first, start, last, whole]), [[0, 0, 6, true], [0, 8, 14, true], [4, 16, 17, false]]);
    equal(counted, 2);
    ok(Math.abs(bubble! - 1 / 3) < 1e-12, `${bubble}`);
    ok(Math.abs(expected! - 1 / 3) < 1e-12);
    equal(busy.get(1), 4 / 6);
});

test("a stage may have more workers than another", () => {
    /* Two replicas of stage 0 with a micro-batch each: F . . . B and F . . . . . B beside . F B F B . . */
    const passes = (step = 0, at = 0) => [pass(0, "forward", 0, at, step), pass(0, "backward", 0, at + 3, step, 0), pass(1, "forward", 1, at, step), pass(1, "backward", 1, at + 5, step, 0),
        ...[0, 1].flatMap((n) => [pass(2, "forward", n, at + 1 + 2 * n, step), pass(2, "backward", n, at + 2 + 2 * n, step, 0)])];
    const places = [place(0, 0, 0), place(1, 0, 1), place(2, 1)];
    const { bubble, expected, counted } = measuresOf(rowsOf(places, [...passes(), ...passes(1, 8)]));
    equal(counted, 2);
    ok(Math.abs(bubble! - (1 - 8 / 18)) < 1e-12, `${bubble}`);
    equal(expected, null);
    equal(measuresOf(rowsOf(places, [...passes(), ...passes(1, 8).slice(0, 7)])).counted, 1);
});

test("schedules without a flush, kinds of their own and nothing at all have no closed form", () => {
    const stale = [pass(0, "forward", 0, 0), pass(0, "forward", 1, 1), pass(0, "backward", 0, 2, 0, 0), pass(0, "forward", 2, 3, 1), pass(0, "backward", 1, 4, 1, 1),
        pass(1, "forward", 0, 1), pass(1, "backward", 0, 2), pass(1, "forward", 1, 3, 1), pass(1, "backward", 1, 4, 1)];
    const rows = rowsOf(two, [...stale, pass(0, "forward", 9, 2.5, 2)]);
    deepEqual(stepsOf(rows), []);
    equal(measuresOf(rows).expected, null);
    equal(stepsOf(rowsOf(two, [...gpipe(), ...gpipe(1, 5)])).length, 2); /* the end of step 0 was noted late */
    equal(stepsOf(rowsOf(two, [...gpipe(), ...gpipe(1, 3)])).length, 0);
    equal(rows[0]!.staleness, 1);
    const zero = measuresOf(rowsOf(two, [...gpipe(), pass(0, "weights", 0, 6)]));
    equal(zero.expected, null);
    const none = measuresOf(rowsOf(two, []));
    deepEqual([none.bubble, none.counted, none.steps.length], [null, 0, 0]);
});

test("a micro-batch is held in each chunk of a worker", () => {
    const chunk = (one: Pass, number: number) => ({ ...one, chunk: number });
    const passes = [chunk(pass(0, "forward", 0, 0), 0), chunk(pass(0, "forward", 0, 1), 1), chunk(pass(0, "backward", 0, 2), 1), chunk(pass(0, "backward", 0, 3), 0)];
    equal(rowsOf(two, passes)[0]!.inFlight, 2);
});

test("divided backward passes have a closed form of their own", () => {
    const zero = [...gpipe(), pass(0, "weights", 0, 6), pass(0, "weights", 1, 7), pass(1, "weights", 0, 5), pass(1, "weights", 1, 6)];
    const { expected } = measuresOf(rowsOf(two, zero));
    ok(Math.abs(expected! - 1 / 7) < 1e-12);
});

test("known kinds are first; unknown ones have their own names", () => {
    deepEqual(kindsOf([pass(0, "recompute", 0, 0), pass(0, "backward", 0, 1), pass(0, "forward", 0, 2)]), ["forward", "backward", "recompute"]);
});

test("a step whose record is not whole has no bubble", () => {
    const cut = gpipe().filter(({ worker, kind, number }) => worker === 1 || kind === "forward" || number === 0);
    const { steps, bubble, expected, counted } = measuresOf(rowsOf(two, cut));
    deepEqual([steps[0]!.whole, bubble, expected, counted], [false, null, null, 0]);
    equal(measuresOf(rowsOf(two, [...gpipe(), ...gpipe(1, 8).slice(0, 3)])).counted, 1);
});

test("gaps lie between the passes of a row", () => {
    const [first] = rowsOf(two, gpipe());
    deepEqual(gapsOf(first!.passes, 0, 7), [[2, 4], [6, 7]]);
    deepEqual(gapsOf([], 0, 2), [[0, 2]]);
});

test("a place is named by what differs", () => {
    equal(placeName(two[1], two), "stage 1");
    const mesh = [place(0, 0, 0, 0), place(1, 0, 0, 1), place(2, 0, 1, 0), place(3, 0, 1, 1)];
    equal(placeName(mesh[3], mesh), "replica 1, shard 1");
    equal(placeName(undefined, mesh), "");
});

test("a micro-batch is held until its last pass, whatever that is called", () => {
    const [row] = rowsOf(two, [pass(0, "forward", 0, 0), pass(0, "odd", 0, 1), pass(0, "forward", 1, 2), pass(0, "weights", 0, 3), pass(0, "backward", 1, 4)]);
    equal(row!.inFlight, 2);
    equal(rowsOf(two, [pass(0, "forward", 0, 0), pass(0, "odd", 0, 1), pass(0, "forward", 1, 2)])[0]!.inFlight, 1);
});

test("the first look is at whole steps, without a first one that took long", () => {
    const rows = rowsOf(two, [...gpipe(), ...gpipe(1, 8)]);
    const steps = stepsOf(rows);
    deepEqual(firstLook(rows, steps, 5), [0, 6]);
    deepEqual(firstLook(rows, steps, 8), [0, 14]);
    deepEqual(firstLook(rows, steps, 1), [0, 6]);
    deepEqual(firstLook(rows, [], 1), [0, 2]);
    const slow = rowsOf(two, [...gpipe().map((one) => ({ ...one, start_s: 3 * one.start_s, end_s: 3 * one.end_s })), ...gpipe(1, 30), ...gpipe(2, 40)]);
    deepEqual(firstLook(slow, stepsOf(slow), 4), [30, 36]);
    equal(measuresOf(slow).counted, 2);
});

/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: rows of a live run land on the chosen axis once each, and marks where they happened.
   Method: small tables of metrics, with repeated and missing rows. */
import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";
import type { Event, Metrics } from "./api.ts";
import { appendMetrics, emptyMetrics, isMeasured, over, placeOf } from "./axis.ts";
import { differing, labels } from "./differing.ts";
import { layout } from "./graph.ts";
import { niceStep } from "./timeview.ts";
import { spread } from "./spread.ts";

test("rows that came before are not added again", () => {
    const all = emptyMetrics();
    appendMetrics(all, { seq: [0, 1], step: [10, 20], loss: [2, 1] });
    appendMetrics(all, { seq: [1, 2], step: [20, 30], loss: [1, 0.5] });
    deepEqual(all.seq, [0, 1, 2]);
    deepEqual(all.loss, [2, 1, 0.5]);
    deepEqual(all.test_loss, [null, null, null]);
    equal(isMeasured(all.test_loss), false);
});

test("an axis leaves out rows without a value and rows that go back", () => {
    const metrics = { ...emptyMetrics(), bytes: [0, null, 5, 4, 5, 9] } as Metrics;
    deepEqual(over(metrics, "bytes"), { x: [0, 5, 5, 9], rows: [0, 2, 4, 5] });
});

test("an event lies where it happened, on every axis", () => {
    const metrics = { ...emptyMetrics(), time_s: [1, 2, 3], step: [10, 20, 30], bytes: [100, 200, 300] } as Metrics;
    const event: Event = { time_s: 1.5, step: 15, kind: "fault", text: "crash 3" };
    equal(placeOf(event, metrics, "time_s"), 1.5);
    equal(placeOf(event, metrics, "step"), 15);
    equal(placeOf(event, metrics, "bytes"), 200);
    equal(placeOf({ ...event, time_s: 99 }, metrics, "bytes"), 300);
    equal(placeOf({ ...event, time_s: null, step: null }, emptyMetrics(), "bytes"), null);
});

test("what differs between runs, and the names that follow from it", () => {
    const run = (id: number, system: string) => ({ id, name: null, system, strategy: "ps" }) as never;
    deepEqual(differing([{ lr: 0.1, batch: 64 }, { lr: 0.2, batch: 64 }, { lr: 0.1, batch: 64, seed: 1 }]), ["lr", "seed"]);
    deepEqual(labels([{ run: run(1, "ssp"), options: {} }, { run: run(2, "bsp"), options: {} }]), ["ssp", "bsp"]);
    deepEqual(labels([{ run: run(1, "ssp"), options: { lr: 1 } }, { run: run(2, "ssp"), options: { lr: 2 } }]), ["ssp lr 1", "ssp lr 2"]);
    deepEqual(labels([{ run: run(1, "ssp"), options: {} }, { run: run(2, "ssp"), options: {} }]), ["ssp #1", "ssp #2"]);
});

test("names at the ends of lines do not cover one another", () => {
    deepEqual(spread([10, 11, 12], 10, 0, 100), [10, 20, 30]);
    deepEqual(spread([95, 96, 97], 10, 0, 100), [80, 90, 100]);
    deepEqual(spread([], 10, 0, 100), []);
});

test("actors have places, a lone server the middle", () => {
    const places = layout(["worker 0", "worker 1", "server 0"]);
    equal(places.length, 3);
    deepEqual(places[2], { x: 210, y: 210 });
    equal(new Set(layout(Array.from({ length: 64 }, (_, i) => `worker ${i}`)).map(({ x, y }) => `${x},${y}`)).size, 64);
    equal(layout(["server 0"]).length, 1);
});

test("steps of an axis are 1, 2 or 5", () => {
    deepEqual([0.03, 0.2, 3, 7].map(niceStep), [0.05, 0.2, 5, 10]);
});

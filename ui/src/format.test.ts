/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: numbers read as the program prints them, at the edges of units too. Method: examples. */
import { deepEqual, equal, throws } from "node:assert/strict";
import { test } from "node:test";
import { parseFlags, splitWords, systemFlags } from "./flags.ts";
import { ago, bucketName, bytes, commandOf, count, number, percent, plain, quote, runTitle, seconds, short, tick } from "./format.ts";

test("durations change their unit where it is short", () => {
    const cases: [number | null, string][] = [
        [null, "–"], [NaN, "–"], [0, "0 s"], [3e-8, "30 ns"], [3.4e-4, "340 µs"], [0.0123, "12.3 ms"], [1, "1.00 s"],
        [9.996, "10.0 s"], [6.8, "6.80 s"], [99.94, "99.9 s"], [99.96, "1 min 40 s"], [200, "3 min 20 s"],
        [3599.7, "1 h 00 min"], [7500, "2 h 05 min"],
    ];
    for (const [value, text] of cases)
        equal(seconds(value), text);
});

test("sizes and counts", () => {
    equal(bytes(4162022), "4.16 MB");
    equal(bytes(999), "999 B");
    equal(bytes(999600), "1 MB");
    equal(bytes(0), "0 B");
    equal(count(1234567), "1,234,567");
    equal(short(21586), "21.6k");
    equal(short(0), "0");
    equal(percent(0.9155), "91.55%");
    equal(percent(undefined), "–");
    equal(number(0.53494), "0.5349");
    equal(number(1.2e-7), "1.20e-7");
    equal(number(-Infinity), "−∞");
    equal(number(123456), "123,456");
});

test("ticks have no zeros at their end", () => {
    equal(tick("10.0 s"), "10 s");
    equal(tick("2.50 s"), "2.5 s");
    equal(tick("60.00%"), "60%");
    equal(tick("100"), "100");
    equal(tick("500 ms"), "500 ms");
    equal(tick("0.500"), "0.5");
});

test("ages", () => {
    equal(ago(95, 100), "just now");
    equal(ago(40, 100), "1 min ago");
    equal(ago(100 - 7200, 100), "2 h ago");
    equal(ago(null, 100), "–");
});

test("values take the unit of their name", () => {
    equal(plain(0.25, "wait_s"), "250 ms");
    equal(plain(21586.4, "samples_per_s"), "21,586");
    equal(plain(103092224, "memory_peak"), "103 MB");
    equal(plain(9991, "seed"), "9991");
    equal(plain([1, 2], "worker_steps"), "1, 2");
    equal(plain(null), "–");
    equal(plain(false), "false");
});

test("buckets of staleness", () => {
    deepEqual([0, 3, 4, 5, 15].map((bucket) => bucketName(bucket)), ["0", "3", "4–7", "8–15", "8,192+"]);
});

test("a run without a name is called by what it does", () => {
    const run = { id: 3, name: null, system: null, strategy: "ps:slack=3", model: "mlp", data: "digits:train=100" };
    equal(runTitle(run), "ps · mlp on digits");
    equal(runTitle({ ...run, system: "ssp" }), "ssp · mlp on digits");
    equal(runTitle({ ...run, name: "<b>" }), "<b>");
});

test("commands are quoted for a shell", () => {
    equal(quote("topk:ratio=0.01"), "topk:ratio=0.01");
    equal(quote("crash 3 at 1s"), "'crash 3 at 1s'");
    equal(quote("it's"), "'it'\\''s'");
    equal(commandOf({ system: "ssp", global_batch: "64", target: "" }), "fast train --system ssp --global-batch 64");
});

test("flags are read as a shell splits them", () => {
    deepEqual(splitWords("--faults 'crash 3; pause 1' ''"), ["--faults", "crash 3; pause 1", ""]);
    deepEqual(parseFlags("--lr 0.1 --codec=topk:ratio=0.01 --global-batch 8"), { lr: "0.1", codec: "topk:ratio=0.01", global_batch: "8" });
    deepEqual(parseFlags("  "), {});
    throws(() => parseFlags("lr 0.1"), /is not a flag/);
    throws(() => parseFlags("--lr"), /needs a value/);
    equal(systemFlags("strategy=ps:slack=3 global_batch=8"), "--strategy ps:slack=3 --global-batch 8");
});

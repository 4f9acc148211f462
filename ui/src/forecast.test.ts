/* SPDX-License-Identifier: Apache-2.0 */
import { deepEqual, equal, ok } from "node:assert/strict";
import { test } from "node:test";
import type { Link, Worker } from "./api.ts";
import { comparedWords, measuredOf, predictedOf, waitedFor } from "./forecast.ts";

const worker = (rank: number, steps: number, compute_s: number): Worker => ({
    rank, name: `worker ${rank}`, steps, compute_s, exchange_s: 0, wait_s: 1, codec_s: 0, bytes_sent: 0, messages_sent: 0,
});
const link = (sender: number, receiver: number, wait_s: number): Link => ({ sender, receiver, messages: 1, bytes: 1, wait_s });

test("the forecast has the parts of the result", () => {
    equal(predictedOf({}), null);
    const parts = predictedOf({ predicted_step_s: 3, predicted_compute_s: 2, predicted_exchange_s: 1, predicted_straggler_s: 0 });
    equal(parts!.total, 3);
    deepEqual(parts!.parts.map(([, value]) => value), [2, 1, 0]);
});

test("the measured step is the result's, or that of the workers so far; one that took no step does not count", () => {
    equal(measuredOf({}, []), null);
    ok(Math.abs(measuredOf({}, [worker(0, 10, 10), worker(1, 0, 5)])!.total - 1.1) < 1e-12);
    equal(measuredOf({ step_s: 7 }, [worker(0, 10, 10)])!.total, 7);
});

test("waiting is for the actor that most time was waited for", () => {
    deepEqual(waitedFor({ waited_for: "worker 3", waited_share: 0.9 }, [], []), { name: "worker 3", share: 0.9 });
    deepEqual(waitedFor({}, ["worker 0", "worker 1"], [link(0, 1, 1), link(1, 0, 3)]), { name: "worker 1", share: 0.75 });
    equal(waitedFor({}, [], [link(0, 1, 0)]), null);
});

test("the difference is a sentence", () => {
    equal(comparedWords(1, 1), "the forecast was right");
    equal(comparedWords(1.2, 1), "the forecast was 20% too long");
    equal(comparedWords(0.95, 1), "the forecast was 5.0% too short");
});

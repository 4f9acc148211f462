/* SPDX-License-Identifier: Apache-2.0 */
import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";
import type { Event } from "./api.ts";
import { absencesOf, momentsOf, reasonsOf } from "./moments.ts";

const event = (time_s: number, kind: string, text: string): Event => ({ time_s, kind, text, step: 1 });
const events = [
    event(0, "start", "step 0 of 9"),
    event(0.2, "fault", "crash, node 3 (worker 3, server 0)"),
    event(0.3, "fault", "worker 3 is lost"),
    event(0.4, "evaluate", "test loss 1"),
    event(0.5, "join", "restart, node 3 (worker 3, server 0)"),
    event(0.6, "join", "join, node 4 (worker 4)"),
    event(0.7, "fault", "partition"),
];

test("moments name their actors", () => {
    const moments = momentsOf(events);
    deepEqual(moments.map(({ kind }) => kind), ["fault", "fault", "evaluate", "join", "join", "fault"]);
    deepEqual(moments[0]!.actors, ["worker 3", "server 0"]);
    deepEqual(moments[1]!.actors, ["worker 3"]);
    deepEqual(moments.at(-1)!.actors, []);
});

test("an actor is away from its crash to its restart, or until it joins", () => {
    const moments = momentsOf(events);
    deepEqual(absencesOf("worker 3", moments, 1), [{ from: 0.2, to: 0.5, why: "crashed at 200 ms" }]);
    deepEqual(absencesOf("worker 4", moments, 1), [{ from: 0, to: 0.6, why: "joins at 600 ms" }]);
    deepEqual(absencesOf("worker 3", momentsOf(events.slice(0, 3)), 1), [{ from: 0.2, to: 1, why: "crashed at 200 ms" }]);
    deepEqual(absencesOf("worker 1", moments, 1), []);
});

test("an empty row has a reason", () => {
    const names = ["worker 0", "worker 1", "worker 2", "worker 3"];
    const reasons = reasonsOf(names, new Set([0, 1, 3]), [{ world: 1, actor: 0, start_s: 0, bin_s: 1, bins: [1000, 0, 0, 0] }], [],
        momentsOf(events), 1);
    deepEqual(reasonsOf(["worker 0"], new Set([0]), [{ world: 1, actor: 0, start_s: 0, bin_s: 0.1, bins: [1000, 0, 0, 0] }], [], [], 1),
        ["worker 0 took its last step at 100 ms"]);
    equal(reasons.length, 3);
    deepEqual(reasons, ["worker 1 ended before anything of it was recorded", "worker 2 is in another process, which records by itself",
        "worker 3 crashed at 200 ms"]);
});

/* SPDX-License-Identifier: Apache-2.0 */
import { equal } from "node:assert/strict";
import { test } from "node:test";
import type { Run } from "./api.ts";
import { groupFacts, groupTitle, type Group } from "./groups.ts";
import { columnsOf } from "./runcolumns.ts";

const run = { system: "ssp", strategy: "ps:slack=3", model: "mlp", data: "digits:train=9", workers: 4, cluster: "wan", transport: "sim",
    codec: null, lr: 0.1, batch: 16 } as Run;

test("a group is called by what its runs share", () => {
    const group = { key: "night", run } as Group;
    equal(groupTitle("comparison", group), "night");
    equal(groupTitle("tag", { ...group, key: "" }), "no tag");
    equal(groupTitle("options", group), "ssp · mlp on digits");
    equal(groupFacts("options", { ...group, runs: 3, seeds: 1, running: 0 }),
        "3 runs · 1 seed · 4 workers · wan · learning rate 0.1 · batch 16");
    equal(groupFacts("tag", { ...group, runs: 1, seeds: 1, running: 1 }), "1 run · 1 seed · 1 running");
});

test("picked columns are shown where there is room, and the name always", () => {
    equal(columnsOf("").length, 15);
    equal(columnsOf("seed").map(({ key, rank }) => `${key}${rank ?? 1}`).join(), "name1,seed3");
});

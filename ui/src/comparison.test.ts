/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the reasons say what the stored facts say, in every situation; method: results by hand. */
import { deepEqual, equal, match } from "node:assert/strict";
import { test } from "node:test";
import type { Run } from "./api.ts";
import { batchWarning, kindOf, linesOf, listed, reasons, spreadText, type ComparedLine, type Result } from "./comparison.ts";
import { seconds } from "./format.ts";

const spread = (median: number | null, min = median, max = median) => ({ median, min, max });
const line = (name: string, more: Partial<ComparedLine>): ComparedLine => ({
    name, place: 1, tuned: null, edge: null, reached: 3, failed: 0, error: null, limit: null, to_target: spread(1),
    time_to_target_s: spread(1), accuracy: spread(0.9), test_loss: null, time_s: spread(1), samples: spread(1000),
    bytes_sent: spread(1e6), compute_share: spread(0.7), exchange_share: spread(0.1), wait_share: spread(0.2),
    codec_share: spread(0), staleness: null, step_s: spread(0.001), predicted_step_s: spread(0.001), trials: [], runs: [], ...more,
});
const result = (more: Partial<Result>): Result => ({
    verdict: "", complete: true, best: "a", run_it: null, ties: [], open: [], by: "time_s", target: 0.9, budget: null, seeds: 3,
    trials: 0, cost: { trials: { samples: 0, time_s: 0 }, runs: { samples: 9, time_s: 2 } }, changes: [],
    lines: [line("a", {}), line("b", { place: 2, to_target: spread(2.5), samples: spread(500), bytes_sent: spread(4e6) })], ...more,
});
const reason = (title: string, more: Partial<Result> = {}) =>
    (reasons(result(more)).find(([name]) => name === title)?.[1] ?? []).join(" ");

test("the best, by how much, and no ties", () => {
    match(reason("Best"), /^a: 1.00 s to 90%, over 3 seeds\.$/);
    equal(reason("By how much"), "b: 2.50 times the time of a, 0.500 times its samples and 4.00 times its bytes.");
    match(reason("Cannot be told apart"), /No other line/);
    match(reason("Cannot be told apart", { ties: ["b", "c"] }), /^b and c: the spreads/);
    match(reason("Cannot be told apart", { seeds: 1 }), /one seed/);
    equal(reason("By how much", { ties: ["b"] }), "");
});

test("by bytes, without a target, not decided", () => {
    match(reason("Best", { by: "bytes_sent", lines: [line("a", { to_target: spread(5e6, 4e6, 6e6) })] }), /5 MB \(4 MB to 6 MB\)/);
    match(reason("Best", { target: null, lines: [line("a", { to_target: spread(null) })] }), /no line reached a target.*accuracy 90.00%/);
    match(reason("Not decided", { open: ["b"], lines: [line("a", {}), line("b", { limit: "3 epochs (4 s)" })] }), /b: not within 3 epochs \(4 s\)/);
    match(reason("By how much", { lines: [line("a", {}), line("b", { to_target: spread(null), limit: "10 s", reached: 0 })] }), /b: not within 10 s\./);
    match(reason("By how much", { lines: [line("a", {}), line("b", { to_target: spread(null), limit: "10 s", reached: 1 })] }), /b: with 1 of \d seeds only within 10 s\./);
    deepEqual(reasons(result({ best: null })), []);
});

test("waiting names the actor", () => {
    const [, texts] = reasons(result({}), (name) => name === "a" ? "server 0" : null).find(([title]) => title === "Waited for")!;
    deepEqual(texts, ["a: its workers waited 20% of their time, most for server 0, and computed 70%.",
        "b: its workers waited 20% of their time, and computed 70%."]);
});

test("edges, the cost model and changes", () => {
    match(reason("Tuned values"), /Nothing was tuned/);
    match(reason("Tuned values", { trials: 4 }), /inside the range/);
    match(reason("Tuned values", { trials: 4, lines: [line("a", { edge: "lr=0.8" })] }), /a \(lr=0.8\) chose the edge .* for it/);
    match(reason("Cost model"), /right within 25%/);
    match(reason("Cost model", { lines: [line("a", { predicted_step_s: spread(0.002) })] }), /off .* a \(a step: predicted 2 ms, measured 1 ms\)/);
    match(reason("Cost model", { lines: [line("a", { predicted_step_s: null })] }), /no forecast/);
    const change = { what: "twice the workers", first: "b", other: "a", predicted_s: 1, first_s: 2, other_s: 3 };
    match(reason("What would change it", { changes: [change] }), /^With twice the workers b would be first: 1.00 s by the cost model, 2.00 s/);
    match(reason("What would change it", { changes: [{ ...change, first: "a", other: "b", other_s: null }] }), /a stays first.*b: never/);
    match(reason("What would change it", { changes: [{ ...change, first_s: null }] }), /does not agree: never in a simulation/);
    match(reason("What would change it", { changes: [{ ...change, first_s: null, other_s: null }] }), /does not agree: neither it nor a reached/);
});

test("spreads, names and batches", () => {
    equal(spreadText(spread(null, 1, null), seconds), "never (1.00 s to never)");
    equal(spreadText(null, seconds), "–");
    equal(listed([]), "");
    deepEqual(kindOf({ name: "ssp, workers 8, trial lr=0.1" }), { line: "ssp, workers 8", kind: "trial", what: "lr=0.1" });
    deepEqual(kindOf({ name: "ssp, with workers=8" }), { line: "ssp", kind: "change", what: "workers=8" });
    deepEqual(kindOf({ name: "ssp, workers 8" }), { line: "ssp, workers 8", kind: "run", what: "" });
    deepEqual(kindOf({ name: null }), { line: "", kind: "run", what: "" });
    equal(batchWarning([{ name: "a", batch: 4 }, { name: "b", batch: 4 }, { name: "c", batch: null }]), null);
    match(batchWarning([{ name: "a", batch: 64 }, { name: "b", batch: 4 }])!, /b takes 4 samples a worker and step, a 64/);
});

test("lines of runs without a verdict", () => {
    const run = (name: string, more: Partial<Run>) => ({ name, status: "done", seed: 1, time_to_target_s: null, error: null, ...more }) as Run;
    const lines = linesOf([run("a, trial lr=0.1", { seed: 1000 }), run("a", { time_to_target_s: 3 }), run("a", { time_to_target_s: 1 }),
        run("a", { status: "running" }), run("b", { status: "failed", error: "why" }), run("a, with workers=8", {})]);
    deepEqual(lines.map(({ name, reached, failed, trials, runs }) => [name, reached, failed, trials.length, runs.length]),
        [["a", 2, 0, 1, 3], ["b", 0, 1, 0, 1]]);
    deepEqual(lines[0]!.to_target, { median: 2, min: 1, max: 3 });
});

/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison as `fast compare` stores it, and the reasons of its verdict. Pure functions. */
import type { Run } from "./api.ts";
import { bytes, count, number, percent, seconds, tick } from "./format.ts";

/* Median, least and largest over the seeds; null is "never". */
export interface Spread {
    median: number | null;
    min: number | null;
    max: number | null;
}

export interface ComparedRun {
    seed: number;
    tuned: string;
    status: string;
    error: string | null;
    time_to_target_s: number | null;
    test_accuracy: number | null;
    test_loss: number | null;
}

/* One way of training. A spread is null where nothing was measured. */
export interface ComparedLine {
    name: string;
    place: number | null;
    tuned: string | null;
    edge: string | null; /* a tuned value that is the first or the last of its range */
    reached: number;
    failed: number;
    error: string | null;
    limit: string | null; /* of its runs, where one ended without the target */
    to_target: Spread | null;
    time_to_target_s: Spread | null;
    accuracy: Spread | null;
    test_loss: Spread | null;
    time_s: Spread | null;
    samples: Spread | null;
    bytes_sent: Spread | null;
    compute_share: Spread | null;
    exchange_share: Spread | null;
    wait_share: Spread | null;
    codec_share: Spread | null;
    staleness: Spread | null;
    step_s: Spread | null;
    predicted_step_s: Spread | null;
    trials: ComparedRun[];
    runs: ComparedRun[];
}

/* An answer of the cost model to "what if", with a simulation of it. */
export interface Change {
    what: string;
    first: string;
    other: string;
    predicted_s: number | null;
    first_s: number | null;
    other_s: number | null;
}

export interface Result {
    verdict: string;
    complete: boolean;
    best: string | null;
    run_it: string | null;
    ties: string[];
    open: string[];
    by: "time_s" | "bytes_sent" | "samples";
    target: number | null;
    budget: string | null;
    seeds: number;
    trials: number;
    cost: Record<"trials" | "runs", { samples: number | null; time_s: number | null }>;
    changes: Change[];
    lines: ComparedLine[];
}

export interface Comparison {
    name: string;
    created: number;
    status: "complete" | "incomplete";
    command: string | null;
    verdict: string | null;
    result?: Result | null;
}

/* How far the comparison is that the server started last. */
export interface Progress {
    state: "none" | "running" | "stopping" | "ended";
    name: string | null;
    progress: { phase: string; done: number; count: number; running: number; seconds_left: number | null } | null;
    notes: { run: string; phase: string | null; error: string | null }[];
    code: number | null;
    error: string | null;
}

export const MEASURES = {
    time_s: { noun: "Time to the target", text: seconds, less: "sooner" },
    bytes_sent: { noun: "Bytes to the target", text: bytes, less: "fewer bytes" },
    samples: { noun: "Samples to the target", text: count, less: "fewer samples" },
} as const;

/* "100 ms (83.4 ms to 101 ms)"; the median alone where all are equal. */
export function spreadText(spread: Spread | null | undefined, format: (value: number | null) => string): string {
    if (!spread)
        return "–";
    const text = (value: number | null) => value === null ? "never" : format(value);
    return spread.min === spread.max ? text(spread.median) : `${text(spread.median)} (${text(spread.min)} to ${text(spread.max)})`;
}

/* How far a forecast is from the measure: 1.24 times; null without one of them. */
export function forecastRatio(line: Pick<ComparedLine, "step_s" | "predicted_step_s">): number | null {
    const measured = line.step_s?.median;
    const predicted = line.predicted_step_s?.median;
    return measured && predicted ? measured / predicted : null;
}

export const forecastIsRight = (ratio: number): boolean => ratio <= 1.25 && ratio >= 1 / 1.25;

const times = (a: Spread | null, b: Spread | null): number | null =>
    a?.median && b?.median ? a.median / b.median : null;

export function listed(names: string[]): string {
    return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/* The reasons of a verdict, each a title and sentences. `waitedFor` knows the actor that a line's workers waited
   for most. */
export function reasons(result: Result, waitedFor: (line: string) => string | null = () => null): [title: string, texts: string[]][] {
    const best = result.lines.find((line) => line.name === result.best);
    const all: [string, string[]][] = [];
    if (!best)
        return all;
    const { text, noun } = MEASURES[result.by];
    all.push(["Best", [best.to_target?.median !== null && best.to_target !== null
        ? `${best.name}: ${spreadText(best.to_target, text)} to ${tick(percent(result.target))}, over ${result.seeds} ${result.seeds === 1 ? "seed" : "seeds"}.`
        : `${best.name}: no line reached a target with most seeds; ${best.accuracy
            ? `accuracy ${spreadText(best.accuracy, percent)}` : `test loss ${spreadText(best.test_loss, number)}`} at the end.`]]);
    all.push(["Cannot be told apart", [result.ties.length > 0
        ? `${listed(result.ties)}: the spreads over the seeds overlap.`
        : result.seeds > 1 ? "No other line: the spreads over the seeds do not overlap." : "Unknown: one seed has no spread."]]);
    const open = result.lines.filter((line) => result.open.includes(line.name));
    if (open.length > 0)
        all.push(["Not decided", open.map((line) => `${line.name}: not within ${line.limit}, before ${best.name} was there; more epochs may make it first.`)]);
    all.push(["By how much", compareLines(result, best, noun)]);
    all.push(["Waited for", result.lines.filter((line) => line.wait_share).slice(0, 3).map((line) =>
        `${line.name}: its workers waited ${share(line.wait_share)} of their time${waitedFor(line.name)
            ? `, most for ${waitedFor(line.name)}` : ""}, and computed ${share(line.compute_share)}.`)]);
    all.push(["Tuned values", [tuningText(result)]]);
    all.push(["Cost model", [modelText(result)]]);
    if (result.changes.length > 0)
        all.push(["What would change it", result.changes.map((change) => changeText(change, best.name))]);
    all.push(["Cost of the answer", [costText(result)]]);
    return all.filter(([, texts]) => texts.length > 0);
}

function share(spread: Spread | null): string {
    return spread?.median == null ? "–" : `${Math.round(100 * spread.median)}%`;
}

/* Every line beside the best: time, samples and bytes as multiples of the best's. */
function compareLines(result: Result, best: ComparedLine, noun: string): string[] {
    return result.lines.filter((line) => line !== best && !result.ties.includes(line.name)).flatMap((line) => {
        const parts = ([[times(line.to_target, best.to_target), noun.replace(" to the target", "").toLowerCase()],
            [result.by === "samples" ? null : times(line.samples, best.samples), "samples"],
            [result.by === "bytes_sent" ? null : times(line.bytes_sent, best.bytes_sent), "bytes"]] as const)
            .filter(([factor]) => factor !== null).map(([factor, what], i) =>
                i === 0 ? `${factor!.toPrecision(3)} times the ${what} of ${best.name}` : `${factor!.toPrecision(3)} times its ${what}`);
        if (line.to_target && line.to_target.median === null && line.limit)
            return [line.reached > 0 ? `${line.name}: with ${line.reached} of ${result.seeds} seeds only within ${line.limit}.` : `${line.name}: not within ${line.limit}.`];
        return parts.length > 0 ? [`${line.name}: ${listed(parts)}.`] : [];
    });
}

function tuningText(result: Result): string {
    if (result.trials === 0)
        return "Nothing was tuned: every line ran as it is.";
    const edges = result.lines.filter((line) => line.edge);
    return edges.length === 0 ? `Every line got ${result.trials} trials; all chose a value inside the range.`
        : `${listed(edges.map((line) => `${line.name} (${line.edge})`))} chose the edge of the range: a wider one may do more for ${edges.length === 1 ? "it" : "them"}.`;
}

function modelText(result: Result): string {
    const known = result.lines.filter((line) => forecastRatio(line) !== null);
    const wrong = known.filter((line) => !forecastIsRight(forecastRatio(line)!));
    if (known.length === 0)
        return "It had no forecast for these lines.";
    return wrong.length === 0 ? "It had every step's time right within 25%."
        : `It was off by more than 25% for ${listed(wrong.map((line) =>
            `${line.name} (a step: predicted ${seconds(line.predicted_step_s!.median)}, measured ${seconds(line.step_s!.median)})`))}.`;
}

function changeText(change: Change, best: string): string {
    const time = (value: number | null) => value === null ? "never" : seconds(value);
    const agrees = change.first_s !== null && (change.other_s === null || change.first_s < change.other_s);
    const simulated = `${time(change.first_s)} in a simulation with one seed (${change.other}: ${time(change.other_s)})`;
    const neither = change.first_s === null && change.other_s === null;
    return agrees ? `With ${change.what} ${change.first} ${change.first === best ? "stays" : "would be"} first: ${time(change.predicted_s)} by the cost model, ${simulated}.`
        : `With ${change.what} the cost model expects ${change.first} first, after ${time(change.predicted_s)}; a simulation does not agree: ${
            neither ? `neither it nor ${change.other} reached the target with one seed` : simulated}.`;
}

function costText(result: Result): string {
    const one = (what: string, cost: { samples: number | null; time_s: number | null }) =>
        `${what} ${count(cost.samples)} samples in ${seconds(cost.time_s)} of training`;
    const runs = one("runs took", result.cost.runs);
    return result.trials > 0 ? `${one("Trials took", result.cost.trials)}, ${runs}.` : `${runs[0]!.toUpperCase()}${runs.slice(1)}.`;
}

/* A run of a comparison is a trial, a run of a line, or one that verifies a change; its name says which. */
export function kindOf(run: Pick<Run, "name">): { line: string; kind: "run" | "trial" | "change"; what: string } {
    const match = /^(.*?), (trial|with) (\S*=.*)$/s.exec(run.name ?? "");
    return match ? { line: match[1]!, kind: match[2] === "trial" ? "trial" : "change", what: match[3]! }
        : { line: run.name ?? "", kind: "run", what: "" };
}

/* Runs whose batches differ are not the same job: "a takes 4 samples a worker and step, b 64". */
export function batchWarning(runs: { name: string; batch: number | null }[]): string | null {
    const known = runs.filter((run): run is { name: string; batch: number } => run.batch !== null).sort((a, b) => a.batch - b.batch);
    const [few, many] = [known[0], known.at(-1)];
    return few && many && few.batch < many.batch
        ? `The batches differ: ${few.name} takes ${few.batch} samples a worker and step, ${many.name} ${many.batch}, so they differ in more than their way of training.`
        : null;
}

function spreadOf(values: (number | null)[]): Spread | null {
    const sorted = values.filter((value): value is number => value !== null).sort((a, b) => a - b);
    const middle = sorted.length >> 1;
    return sorted.length === 0 ? null : {
        median: sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2, min: sorted[0]!, max: sorted.at(-1)!,
    };
}

/* Lines of a comparison that has no verdict yet, from its runs so far. */
export function linesOf(runs: Run[]): ComparedLine[] {
    const names = [...new Set(runs.map((run) => kindOf(run)).filter(({ kind }) => kind !== "change").map(({ line }) => line))];
    return names.map((name) => {
        const own = runs.filter((run) => kindOf(run).line === name);
        const ended = own.filter((run) => kindOf(run).kind === "run" && run.status !== "running");
        const all = (key: keyof Run) => spreadOf(ended.map((run) => run[key] as number | null));
        const brief = (run: Run): ComparedRun => ({
            seed: run.seed ?? 0, tuned: kindOf(run).what, status: run.status, error: run.error,
            time_to_target_s: run.time_to_target_s, test_accuracy: run.test_accuracy, test_loss: run.test_loss,
        });
        return {
            name, place: null, tuned: null, edge: null, limit: null, error: ended.find((run) => run.error)?.error ?? null,
            reached: ended.filter((run) => run.time_to_target_s !== null).length,
            failed: ended.filter((run) => ["failed", "diverged", "canceled", "interrupted"].includes(run.status)).length,
            to_target: all("time_to_target_s"), time_to_target_s: all("time_to_target_s"), accuracy: all("test_accuracy"),
            test_loss: all("test_loss"), time_s: all("time_s"), samples: all("samples"), bytes_sent: all("bytes_sent"),
            compute_share: null, exchange_share: null, wait_share: null, codec_share: null, staleness: all("staleness_mean"),
            step_s: null, predicted_step_s: null,
            trials: own.filter((run) => kindOf(run).kind === "trial").map(brief),
            runs: own.filter((run) => kindOf(run).kind === "run").map(brief),
        };
    });
}

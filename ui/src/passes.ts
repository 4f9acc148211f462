/* SPDX-License-Identifier: Apache-2.0 */
/* The passes of a split model's workers, as rows of a picture: which step is over when, where a worker
   has no pass, how many micro-batches it holds, how old its weights are. Pure functions.

       bubble = 1 - (time in passes) / (workers x time of the steps)

   is (S - 1) / (F + S - 1) for S equal workers with F forward passes in a step and a flush behind it. Where
   backward passes are divided, into two that take as long as a forward pass, and F >= S, it is
   (S - 1) / (3 F + S - 1). */
import type { Pass, StoredPlace } from "./api.ts";

/* Kinds that the program has names for today, in the order of a legend; others come behind them. */
export const PASS_KINDS: readonly string[] = ["forward", "backward", "weights"];

const LATE = 0.25; /* of a step: how far two of them may overlap */

export interface PassRow {
    worker: number;
    place: StoredPlace | undefined;
    passes: Pass[]; /* in the order of time */
    inFlight: number; /* micro-batches between their passes at once, at most */
    staleness: number; /* of a gradient, at most */
}

export interface Step {
    step: number;
    first: number; /* of its micro-batches, over the run */
    start: number; /* of its first pass */
    end: number; /* of its last pass */
    whole: boolean; /* every worker has all of its passes */
}

export interface Measures {
    steps: Step[]; /* empty: no flush divides them */
    counted: number; /* of them that have the figures below */
    bubble: number | null; /* fraction of the time of workers */
    busy: Map<number, number>; /* by worker: fraction of the time in passes */
    expected: number | null; /* the closed form; null: other schedules have no such form */
}

export function kindsOf(passes: Pass[]): string[] {
    const seen = new Set(passes.map(({ kind }) => kind));
    return [...PASS_KINDS.filter((kind) => seen.has(kind)), ...[...seen].filter((kind) => !PASS_KINDS.includes(kind)).sort()];
}

/* Micro-batches that a worker held at once: each from its first pass to its last one, in each chunk. */
function flightOf(passes: Pass[]): number {
    const name = ({ number, chunk }: Pass) => `${number} ${chunk ?? 0}`;
    const last = new Map(passes.map((pass) => [name(pass), pass]));
    const held = new Set<string>();
    let most = 0;
    for (const pass of passes) {
        held.add(name(pass));
        most = Math.max(most, held.size);
        if (last.get(name(pass)) === pass)
            held.delete(name(pass));
    }
    return most;
}

/* A row for each worker, by replica, then stage, then shard. */
export function rowsOf(places: StoredPlace[], passes: Pass[]): PassRow[] {
    const all = new Map<number, Pass[]>(places.map(({ worker }) => [worker, []]));
    for (const pass of passes)
        all.set(pass.worker, [...all.get(pass.worker) ?? [], pass]);
    const order = (one: StoredPlace | undefined) => [one?.replica ?? 0, one?.stage ?? 0, one?.shard ?? 0];
    return [...all].map(([worker, own]) => {
        own.sort((a, b) => a.start_s - b.start_s || a.seq - b.seq);
        return { worker, place: places.find((one) => one.worker === worker), passes: own, inFlight: flightOf(own),
            staleness: own.reduce((most, { staleness }) => Math.max(most, staleness ?? 0), 0) };
    }).sort((a, b) => {
        const [p, q] = [order(a.place), order(b.place)];
        return p[0]! - q[0]! || p[1]! - q[1]! || p[2]! - q[2]! || a.worker - b.worker;
    });
}

/* Steps that a flush divides; empty without one. A worker may be late to note the end of a pass. */
export function stepsOf(rows: PassRow[]): Step[] {
    const found = new Map<number, Step & { counts: Map<number, number> }>();
    for (const { worker, passes } of rows)
        for (const { step, number, start_s, end_s } of passes) {
            const one = found.get(step) ?? { step, first: number, start: start_s, end: end_s, whole: false, counts: new Map<number, number>() };
            one.first = Math.min(one.first, number);
            one.start = Math.min(one.start, start_s);
            one.end = Math.max(one.end, end_s);
            one.counts.set(worker, (one.counts.get(worker) ?? 0) + 1);
            found.set(step, one);
        }
    const all = [...found.values()].sort((a, b) => a.step - b.step);
    const late = (one: Step, before: Step | undefined) => !!before && one.start < before.end - LATE * (before.end - before.start);
    if (rows.some(({ staleness }) => staleness > 0) || all.some((one, i) => late(one, all[i - 1])))
        return [];
    const usual = all[0]?.counts;
    return all.map(({ step, first, start, end, counts }) => ({ step, first, start, end, whole: isEven(rows, step)
        && rows.every(({ worker }) => !!usual?.get(worker) && counts.get(worker) === usual.get(worker)) }));
}

/* Whether every worker has as many forward as backward passes in a step, and as many as the others of its
   stage, and all stages have as many: where the record of one ended within the step, it has not. */
function isEven(rows: PassRow[], step: number): boolean {
    const stages = new Map<number, { each: number, all: number }>();
    for (const { worker, place, passes } of rows) {
        const [forward, backward] = ["forward", "backward"].map((kind) =>
            passes.filter((pass) => pass.step === step && pass.kind === kind).length) as [number, number];
        const stage = place?.stage ?? -1 - worker, others = stages.get(stage) ?? { each: forward, all: 0 };
        if (forward !== backward || forward !== others.each)
            return false;
        stages.set(stage, { each: forward, all: others.all + forward });
    }
    const [first] = stages.values();
    return [...stages.values()].every(({ all }) => all === first?.all);
}

/* Time in passes between two moments. */
function inPasses(passes: Pass[], from: number, to: number): number {
    return passes.reduce((sum, { start_s, end_s }) => sum + Math.max(0, Math.min(end_s, to) - Math.max(start_s, from)), 0);
}

/* Bubbles of whole steps; without a flush, of the time that every row covers. */
export function measuresOf(rows: PassRow[]): Measures {
    const own = rows.filter(({ passes }) => passes.length > 0);
    const steps = stepsOf(own);
    const whole = typical(steps.filter((step) => step.whole));
    const start = Math.min(...own.map(({ passes }) => passes[0]!.start_s));
    const end = Math.min(...own.map(({ passes }) => passes.at(-1)!.end_s));
    const spans = steps.length > 0 ? whole.map((step) => [step.start, step.end] as const) : [[start, end] as const];
    const time = spans.reduce((sum, [from, to]) => sum + (to - from), 0);
    if (own.length === 0 || !(time > 0))
        return { steps, counted: 0, bubble: null, busy: new Map(), expected: null };
    const busy = new Map(own.map(({ worker, passes }) =>
        [worker, spans.reduce((sum, [from, to]) => sum + inPasses(passes, from, to), 0) / time]));
    const bubble = 1 - [...busy.values()].reduce((sum, part) => sum + part, 0) / own.length;
    return { steps, counted: whole.length, bubble, busy, expected: expectedOf(own, whole[0]) };
}

/* Steps without the first one, in which memory and connections are made, where there are others. */
function typical(steps: Step[]): Step[] {
    return steps.length > 2 ? steps.slice(1) : steps;
}

/* The closed form for equal stages; schedules with other kinds of passes have others, and stages of which one
   has more workers than another. */
function expectedOf(rows: PassRow[], step: Step | undefined): number | null {
    const workers = new Map<number, number>();
    for (const { place } of rows)
        workers.set(place?.stage ?? 0, (workers.get(place?.stage ?? 0) ?? 0) + 1);
    const stages = workers.size;
    if (new Set(workers.values()).size > 1)
        return null;
    const first = rows[0]!.passes.filter((pass) => pass.step === step?.step);
    const [forward, weights] = ["forward", "weights"].map((name) => first.filter(({ kind }) => kind === name).length) as [number, number];
    if (stages < 2 || forward === 0 || first.some(({ kind }) => !PASS_KINDS.includes(kind)) || (weights > 0 && weights !== forward))
        return null;
    const waits = weights > 0 ? 2 * (stages - 1) - (Math.min(stages, forward) - 1) : stages - 1;
    return waits / ((weights > 0 ? 3 : 1) * forward + waits);
}

/* Times between the passes of a row, until the end of the picture. */
export function gapsOf(passes: Pass[], from: number, to: number): [from: number, to: number][] {
    const gaps: [number, number][] = [];
    let end = from;
    for (const { start_s, end_s } of passes) {
        if (start_s > end)
            gaps.push([end, Math.min(start_s, to)]);
        end = Math.max(end, end_s);
    }
    if (end < to)
        gaps.push([end, to]);
    return gaps.filter(([a, b]) => b > a);
}

/* The coordinates of a worker along the dimensions in which workers differ: "stage 2, shard 1". */
export function placeName(place: StoredPlace | undefined, places: StoredPlace[]): string {
    const names = [["replica", "replica"], ["stage", "stage"], ["shard", "shard"]] as const;
    return !place ? "" : names.filter(([key]) => places.some((other) => other[key] !== place[key]))
        .map(([key, name]) => `${name} ${place[key]}`).join(", ");
}

/* What of a picture is shown at first: whole steps, of about this many passes in the fullest row. The
   first step is left out where it took much longer than the next one. */
export function firstLook(rows: PassRow[], steps: Step[], passes: number): [from: number, to: number] {
    const slow = steps.length > 2 && steps[0]!.end - steps[0]!.start > 1.5 * (steps[1]!.end - steps[1]!.start);
    const from = slow ? steps[1]!.start : Math.min(...rows.map((row) => row.passes[0]?.start_s ?? Infinity));
    const last = Math.max(from, ...rows.map((row) => {
        const shown = row.passes.filter(({ start_s }) => start_s >= from).slice(0, passes);
        return shown.at(-1)?.end_s ?? from;
    }));
    const whole = steps.filter(({ start, end }) => start >= from && end <= last);
    return [from, whole.at(-1)?.end ?? Math.max(last, steps.find(({ start }) => start >= from)?.end ?? 0)];
}

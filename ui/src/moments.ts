/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a run on its timeline: which actors they concern, and when an actor was away and why.
   Pure functions. The texts are those of the program: "crash, node 3 (worker 3, server 0)",
   "worker 3 is lost". */
import { ACTIVITY_KINDS, type Activity, type Event, type Span } from "./api.ts";
import { seconds } from "./format.ts";

export interface Moment {
    time: number;
    kind: string; /* of the event */
    text: string;
    actors: string[]; /* their names; empty: all of them */
}

/* A time in which an actor did nothing, and the reason. */
export interface Absence {
    from: number;
    to: number;
    why: string;
}

const SHOWN = new Set(["fault", "join", "evaluate", "phase", "save", "stop"]);

export function momentsOf(events: Event[]): Moment[] {
    return events.filter(({ kind, time_s }) => SHOWN.has(kind) && time_s !== null).map((event) => {
        const text = event.text ?? "";
        const named = /\(((?:worker|server)[^)]*)\)$/.exec(text)?.[1]?.split(", ")
            ?? /^((?:worker|server) \d+) (?:is|does)/.exec(text)?.slice(1, 2) ?? [];
        return { time: event.time_s!, kind: event.kind, text, actors: named };
    });
}

/* What ends an absence, by how it began: a crash ends with a restart, a pause with its end. */
const STARTS: [RegExp, RegExp, string][] = [
    [/^crash/, /^restart/, "crashed"],
    [/^pause,/, /^pause ends/, "paused"],
    [/is lost$/, /is back$/, "lost"],
];

/* When the actor of this name was away, from the events, until `end`. */
export function absencesOf(name: string, moments: Moment[], end: number): Absence[] {
    const own = moments.filter(({ actors }) => actors.includes(name));
    const late = own.find(({ text }) => text.startsWith("join"));
    const found: Absence[] = late ? [{ from: 0, to: late.time, why: `joins at ${seconds(late.time)}` }] : [];
    for (const [start, stop, why] of STARTS)
        for (const moment of own.filter(({ text }) => start.test(text))) {
            const back = own.find(({ time, text }) => time >= moment.time && stop.test(text));
            /* A crash is noticed later, too: that is the same absence. */
            if (!found.some(({ from, to }) => from <= moment.time && moment.time <= to))
                found.push({ from: moment.time, to: back?.time ?? Math.max(end, moment.time), why: `${why} at ${seconds(moment.time)}` });
        }
    return found.sort((a, b) => a.from - b.from);
}

/* When an actor was seen last. */
function lastOf(actor: number, activity: Activity[], spans: Span[]): number {
    const ends = [...activity.filter((one) => one.actor === actor && one.bins.length > 0)
        .map(({ start_s, bin_s, bins }) => start_s + (bin_s * bins.length) / ACTIVITY_KINDS.length),
        ...spans.filter(([rank]) => rank === actor).map(([, , , to]) => to)];
    return ends.reduce((last, at) => Math.max(last, at), 0);
}

/* One sentence for each row that is empty, wholly or in part: why. */
export function reasonsOf(names: string[], known: Set<number>, activity: Activity[], spans: Span[], moments: Moment[],
                          end: number): string[] {
    const seen = new Set([...activity.filter(({ bins }) => bins.length > 0).map(({ actor }) => actor), ...spans.map(([actor]) => actor)]);
    return names.flatMap((name, i) => {
        const away = absencesOf(name, moments, end).map(({ why }) => `${name} ${why}`);
        if (away.length > 0)
            return away;
        if (seen.has(i)) {
            const last = lastOf(i, activity, spans);
            return last < 0.97 * end ? [`${name} took its last step at ${seconds(last)}`] : [];
        }
        return [known.has(i) ? `${name} ended before anything of it was recorded`
            : `${name} is in another process, which records by itself`];
    });
}

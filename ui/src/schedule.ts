/* SPDX-License-Identifier: Apache-2.0 */
/* The passes of micro-batches through the workers of a split model: a row each, on a canvas. A pass has
   the number of its micro-batch in the step; where a worker has none, its row is a bubble. A dashed line
   is the flush behind a step. A backward pass whose weights are n updates old has a cap and "+n". Where
   workers have several stages, their chunks, a pass has the chunk behind its number, and a line below for
   each chunk before. */
import type { Pass, StoredPlace } from "./api.ts";
import { h, refill } from "./dom.ts";
import { count, percent, seconds } from "./format.ts";
import { firstLook, gapsOf, kindsOf, PASS_KINDS, placeName, type Measures, type PassRow } from "./passes.ts";
import { color } from "./theme.ts";
import { FOOT, LABEL, TimeView, type Scale } from "./timeview.ts";

const HEAD = 18; /* pixels for the names of steps */
const ROWS_MAX = 128; /* rows that are drawn */
const PASS_WIDE = 26; /* pixels of a pass that are wanted at first */
const OTHERS = 3; /* colours of kinds without a name of their own */

/* The variable of a kind's colour: that of its name, or of its place among the others. */
export function colorOf(kind: string, kinds: string[]): string {
    const others = kinds.filter((one) => !PASS_KINDS.includes(one));
    return PASS_KINDS.includes(kind) ? kind : `pass-${(Math.max(0, others.indexOf(kind)) % OTHERS) + 1}`;
}

export class Schedule {
    readonly element: HTMLElement;
    private readonly time: TimeView;
    private readonly legend = h("span", { class: "keys" });
    private rows: PassRow[] = [];
    private places: StoredPlace[] = [];
    private kinds: string[] = [];
    private measures: Measures = { steps: [], counted: 0, bubble: null, busy: new Map(), expected: null };
    private looked = false; /* the first view was chosen */
    private chunks = 1; /* stages of each worker */

    constructor(signal: AbortSignal) {
        this.time = new TimeView("Passes of micro-batches", {
            paint: (ctx, x, width) => this.paint(ctx, x, width),
            tell: (at, y, near, part) => this.tell(at, y, near, part),
        }, signal);
        this.element = h("figure", { class: "chart gantt schedule" },
            h("figcaption", null, h("h3", null, "Passes of micro-batches"), this.legend, this.time.readout,
                h("span", { class: "grow" }), this.time.buttons()),
            this.time.canvas);
    }

    show(rows: PassRow[], places: StoredPlace[], passes: Pass[], measures: Measures): void {
        const all = rows.slice(0, ROWS_MAX);
        this.rows = all;
        this.places = places;
        this.kinds = kindsOf(passes);
        this.measures = measures;
        const low = passes.reduce((least, { start_s }) => Math.min(least, start_s), Infinity);
        const high = passes.reduce((most, { end_s }) => Math.max(most, end_s), -Infinity);
        this.time.all = high > low ? [low, high] : [0, 1];
        this.time.canvas.style.height = `${HEAD + all.length * this.rowHeight + FOOT}px`;
        this.chunks = 1 + passes.reduce((most, { chunk }) => Math.max(most, chunk ?? 0), 0);
        const stale = all.some(({ staleness }) => staleness > 0);
        refill(this.legend, ...this.kinds.map((kind) => key(kind, `var(--${colorOf(kind, this.kinds)})`)), key("bubble", "var(--wait)"),
            measures.steps.length > 1 && h("span", { class: "key" }, h("i", { class: "flush" }), this.divider),
            this.chunks > 1 && h("span", { class: "key" }, `n·c: micro-batch n in chunk c of ${this.chunks}`),
            stale && h("span", { class: "key" }, h("i", { class: "stale" }), "+n: weights n updates old"));
        this.look();
        this.time.paint();
    }

    /* At first a few steps are shown, in which passes have numbers; later what the reader chose. */
    private look(): void {
        const room = Math.max(8, (this.time.canvas.clientWidth - LABEL) / PASS_WIDE / 1.5);
        if (this.looked || !this.time.canvas.clientWidth || this.rows.some(({ passes }) => passes.length === 0))
            return;
        const [from, to] = firstLook(this.rows, this.measures.steps, Math.floor(room));
        this.looked = true;
        this.time.set([from, to + 0.02 * (to - from)]);
    }

    /* What ends a step. */
    private get divider(): string {
        return this.places.some(({ stage }) => stage > 0) ? "flush" : "end of the step";
    }

    private get rowHeight(): number {
        return Math.max(4, Math.min(32, 640 / Math.max(1, this.rows.length)));
    }

    /* What is under the pointer: a step's name, a pass, or a bubble. */
    private tell(at: number, y: number, near: number, part: number): string {
        const row = part >= 0 ? this.rows[Math.floor((y - HEAD) / this.rowHeight)] : undefined;
        const flush = this.measures.steps.slice(0, -1).find(({ end }) => Math.abs(end - at) < near);
        if (!row || y < HEAD)
            return flush ? `${this.divider} ${flush.step}` : "";
        const place = placeName(row.place, this.places);
        const pass = row.passes.findLast(({ start_s, end_s }) => start_s <= at && at <= end_s);
        return `worker ${row.worker}${place && ` (${place})`} · ${pass ? passWords(pass, this.chunks) : this.gapWords(row, at)}`;
    }

    private gapWords(row: PassRow, at: number): string {
        const gap = gapsOf(row.passes, this.time.all[0], this.time.all[1]).find(([from, to]) => from <= at && at <= to);
        return gap ? `bubble of ${seconds(gap[1] - gap[0])} at ${seconds(gap[0])}` : seconds(at);
    }

    private paint(ctx: CanvasRenderingContext2D, x: Scale, width: number): void {
        const row = this.rowHeight;
        const bar = row > 8 ? row - 5 : row - 1;
        const bottom = HEAD + this.rows.length * row;
        const colors = Object.fromEntries(this.kinds.map((kind) => [kind, color(colorOf(kind, this.kinds))]));
        const ink = { wait: color("wait"), text: color("on-pass"), cap: color("text") };
        const [a, b] = this.time.bounds;
        const firsts = new Map(this.measures.steps.map(({ step, first }) => [step, first]));
        this.time.clip(ctx, width, bottom + FOOT);
        this.rows.forEach((one, i) => {
            const top = HEAD + i * row + (row - bar) / 2;
            ctx.fillStyle = ink.wait;
            for (const [from, to] of gapsOf(one.passes, this.time.all[0], lastOf(one, this.time.all[1])))
                if (to >= a && from <= b)
                    ctx.fillRect(x(from), top + 0.36 * bar, x(to) - x(from), Math.max(1, 0.28 * bar));
            for (const pass of one.passes)
                if (pass.end_s >= a && pass.start_s <= b)
                    paintPass(ctx, pass, pass.number - (firsts.get(pass.step) ?? 0), this.chunks, x, top, bar, colors[pass.kind] ?? "", ink);
        });
        this.paintSteps(ctx, x, bottom);
        ctx.restore();
        this.paintNames(ctx, row, width);
        this.time.axis(ctx, x, width, bottom);
    }

    /* Workers, and a line between replicas. */
    private paintNames(ctx: CanvasRenderingContext2D, row: number, width: number): void {
        ctx.fillStyle = color("dim");
        this.rows.forEach(({ worker, place }, i) => {
            if (row >= 12)
                ctx.fillText(`worker ${worker}`, 0, HEAD + i * row + row / 2 + 0.5, LABEL - 8);
            if (i > 0 && place?.replica !== this.rows[i - 1]?.place?.replica)
                ctx.fillRect(0, HEAD + i * row - 0.5, width, 1);
        });
    }

    /* The flush behind each step, and above it the steps' numbers where there is room. */
    private paintSteps(ctx: CanvasRenderingContext2D, x: Scale, bottom: number): void {
        const { steps } = this.measures;
        ctx.fillStyle = ctx.strokeStyle = color("text");
        ctx.textAlign = "center";
        ctx.setLineDash([4, 3]);
        steps.forEach(({ step, start, end }, i) => {
            const room = x(end) - x(start);
            const text = room > 60 ? `step ${step}` : String(step);
            if (room > ctx.measureText(text).width + 4)
                ctx.fillText(text, (x(start) + x(end)) / 2, HEAD / 2);
            if (i === steps.length - 1 || room < 3)
                return;
            ctx.beginPath();
            ctx.moveTo(x(end), 2);
            ctx.lineTo(x(end), bottom);
            ctx.stroke();
        });
        ctx.setLineDash([]);
        ctx.textAlign = "left";
    }
}

/* A row whose log was full, long before the picture ends, has no bubble behind it. */
function lastOf({ passes }: PassRow, end: number): number {
    return passes.at(-1)?.end_s ?? end;
}

const key = (text: string, background: string) => h("span", { class: "key" }, h("i", { style: { background } }), text);

function passWords({ kind, number, step, staleness, start_s, end_s, chunk }: Pass, chunks: number): string {
    return `${kind} of micro-batch ${count(number)}${chunks > 1 ? ` in chunk ${chunk ?? 0}` : ""}, step ${count(step)}: ${seconds(end_s - start_s)} at ${seconds(start_s)}`
        + (staleness ? `, weights ${staleness} updates old` : "");
}

/* `number` is that within its step, where steps are divided. */
function paintPass(ctx: CanvasRenderingContext2D, pass: Pass, number: number, chunks: number, x: Scale, top: number, bar: number, fill: string,
                   ink: { text: string; cap: string }): void {
    const left = x(pass.start_s);
    const width = Math.max(0.6, x(pass.end_s) - left - 0.5);
    ctx.fillStyle = fill;
    ctx.fillRect(left, top, width, bar);
    if (pass.staleness) {
        ctx.fillStyle = ink.cap;
        ctx.fillRect(left, top, width, Math.min(0.3, 0.1 + 0.05 * pass.staleness) * bar);
    }
    if (bar < 10)
        return;
    const line = Math.max(1, 0.05 * bar); /* a line for each chunk before, where they fit below the number */
    ctx.fillStyle = ink.text;
    for (let k = 0; k < Math.min(pass.chunk ?? 0, 3); k++)
        ctx.fillRect(left, top + bar - (2 * k + 2) * line, width, line);
    const own = chunks > 1 ? [`${number}·${pass.chunk ?? 0}`] : [];
    const texts = pass.staleness ? [`${number} +${pass.staleness}`, String(number)] : [...own, String(number)];
    const text = texts.find((one) => ctx.measureText(one).width + 3 < width);
    if (!text)
        return;
    ctx.fillStyle = ink.text;
    ctx.textAlign = "center";
    ctx.fillText(text, left + width / 2, top + bar / 2 + (pass.staleness ? 0.12 * bar : 0) + 0.5);
    ctx.textAlign = "left";
}

/* Below the picture: what it says, as numbers. */
export function measureTable(rows: PassRow[], places: StoredPlace[], { busy }: Measures): HTMLElement {
    const columns: [string, (row: PassRow) => string][] = [
        ["Passes", ({ passes }) => count(passes.length)], ["Busy", ({ worker }) => percent(busy.get(worker))],
        ["In flight", ({ inFlight }) => count(inFlight)], ["Staleness", ({ staleness }) => count(staleness)],
    ];
    return h("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "Passes of workers" }, h("table", { class: "plain" },
        h("thead", null, h("tr", null, h("th", { scope: "col" }, "Worker"),
            ...columns.map(([label]) => h("th", { scope: "col", class: "number" }, label)))),
        h("tbody", null, ...rows.slice(0, ROWS_MAX).map((row) => h("tr", null,
            h("td", { class: "name" }, `worker ${row.worker}`, h("small", { class: "dim" }, ` ${placeName(row.place, places)}`)),
            ...columns.map(([, text]) => h("td", { class: "number" }, text(row))))))));
}

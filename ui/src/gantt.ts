/* SPDX-License-Identifier: Apache-2.0 */
/* What each worker did when: a row each, on a canvas. The whole run is in bins, which the program makes
   while it trains: the parts of a bin are stacked. Zoomed in, the newest spans replace the bins that
   they cover. Faults, joins and evaluations are marks; a row that is empty says why. */
import { ACTIVITY_KINDS, SPAN_KINDS, type Activity, type SpanKind, type Spans } from "./api.ts";
import { SIGNS } from "./chart.ts";
import { h, refill } from "./dom.ts";
import { seconds } from "./format.ts";
import { absencesOf, reasonsOf, type Absence, type Moment } from "./moments.ts";
import { color } from "./theme.ts";
import { FOOT, LABEL, TimeView, type Scale } from "./timeview.ts";

interface Span {
    kind: SpanKind;
    start: number;
    end: number;
}

interface Row {
    name: string;
    spans: Span[];
    activity: Activity[];
    away: Absence[];
}

const HEAD = 18; /* pixels for the signs of marks */
const BIN_WIDE = 7; /* pixels of a bin from which spans are shown instead */
const MARK_GAP = 9; /* pixels between the signs of two evaluations, at least */
const KINDS = ACTIVITY_KINDS.length;

export class Gantt {
    readonly element: HTMLElement;
    private readonly time: TimeView;
    private readonly reasons = h("ul", { class: "reasons dim", "aria-label": "Marks and empty rows" });
    private rows: Row[] = [];
    private moments: Moment[] = [];

    constructor(signal: AbortSignal) {
        this.time = new TimeView("Timeline of the workers", {
            paint: (ctx, x, width, height) => this.paint(ctx, x, width, height),
            tell: (at, y, near, part) => this.tell(at, y, near, part),
        }, signal);
        this.element = h("figure", { class: "chart gantt" },
            h("figcaption", null, h("h3", null, "Activities of workers"),
                ...ACTIVITY_KINDS.map((kind) =>
                    h("span", { class: "key" }, h("i", { style: { background: `var(--${kind})` } }), kind)),
                this.time.readout, h("span", { class: "grow" }), this.time.buttons()),
            this.time.canvas, this.reasons);
    }

    /* `known` are the actors whose counters are stored: others are in other processes. */
    show({ actors, spans, activity = [] }: Spans, moments: Moment[], known: Set<number>): void {
        const names = actors.map((actor) => typeof actor === "string" ? actor : actor.name);
        let low = 0;
        let high = -Infinity;
        for (const [, , start, end] of spans) {
            low = Math.min(low, start);
            high = Math.max(high, end);
        }
        for (const { start_s, bin_s, bins } of activity)
            high = Math.max(high, start_s + (bin_s * bins.length) / KINDS);
        this.time.all = high > low ? [low, high] : [0, 1];
        this.moments = moments;
        this.rows = names.map((name, i) => ({
            name, away: absencesOf(name, moments, this.time.all[1]), activity: activity.filter(({ actor }) => actor === i),
            spans: spans.filter(([actor]) => actor === i).map(([, kind, start, end]) => ({ kind, start, end }))
                .sort((a, b) => a.start - b.start),
        }));
        this.time.canvas.style.height = `${HEAD + this.rows.length * this.rowHeight + FOOT}px`;
        const marked = [...new Set(moments.map(({ kind }) => kind))].filter((kind) => SIGNS[kind]);
        refill(this.reasons, marked.length > 0 && h("li", null, marked.map((kind) => `${SIGNS[kind]} ${kind}`).join("  ")),
            ...reasonsOf(names, known, activity, spans, moments, this.time.all[1]).slice(0, 12).map((text) => h("li", null, text)));
        this.time.paint();
    }

    private get rowHeight(): number {
        return Math.max(3, Math.min(24, 560 / Math.max(1, this.rows.length)));
    }

    /* What is under the pointer: a mark, a reason, a span, or the parts of a bin. */
    private tell(at: number, y: number, near: number, part: number): string {
        const index = Math.floor((y - HEAD) / this.rowHeight);
        const mark = this.moments.find(({ time }) => Math.abs(time - at) < near);
        const row = part >= 0 ? this.rows[index] : undefined;
        return mark && (!row || index < 0) ? `${mark.kind}: ${mark.text}`
            : row ? `${row.name} · ${this.under(row, at)}${mark ? ` · ${mark.kind}: ${mark.text}` : ""}` : "";
    }

    private under(row: Row, at: number): string {
        const away = row.away.find(({ from, to }) => from <= at && at <= to);
        if (away)
            return away.why;
        const activity = row.activity.findLast(({ start_s }) => start_s <= at);
        const span = row.spans.findLast(({ start, end }) => start <= at && at <= end);
        if (span && (!activity || this.wide(activity.bin_s)))
            return `${span.kind} ${seconds(span.end - span.start)} at ${seconds(span.start)}`;
        const first = activity ? Math.floor((at - activity.start_s) / activity.bin_s) * KINDS : 0;
        const parts = ACTIVITY_KINDS.map((kind, i) => [kind, (activity?.bins[first + i] ?? 0) / 10] as const).filter(([, share]) => share >= 1);
        return parts.length ? `${parts.map(([kind, share]) => `${kind} ${share.toFixed(0)}%`).join(", ")} at ${seconds(at)}` : seconds(at);
    }

    private wide(bin: number): boolean {
        return this.time.pixels(bin) >= BIN_WIDE;
    }

    private paint(ctx: CanvasRenderingContext2D, x: Scale, width: number, height: number): void {
        const [a, b] = this.time.bounds;
        const row = this.rowHeight;
        const bar = row > 8 ? row - 5 : row - 1;
        const colors = Object.fromEntries(SPAN_KINDS.map((kind) => [kind, color(kind)])) as Record<SpanKind, string>;
        this.time.clip(ctx, width, height);
        this.rows.forEach((one, i) => {
            const top = HEAD + i * row + (row - bar) / 2;
            for (const activity of one.activity)
                paintBins(ctx, activity, x, [a, b], top, bar, colors);
            if (one.activity.every(({ bin_s }) => this.wide(bin_s)))
                paintSpans(ctx, one.spans, x, [a, b], top, bar, colors, one.activity[0]?.bin_s ?? 0);
            for (const away of one.away)
                paintAway(ctx, away, x, top, bar);
        });
        this.paintMarks(ctx, x, HEAD + this.rows.length * row);
        ctx.restore();
        ctx.fillStyle = color("dim");
        if (row >= 12)
            this.rows.forEach(({ name }, i) => ctx.fillText(name, 0, HEAD + i * row + row / 2 + 0.5, LABEL - 8));
        this.time.axis(ctx, x, width, HEAD + this.rows.length * row);
    }

    /* A line through the rows that a moment concerns, and its sign above. Evaluations have a short
       line and their signs do not crowd. */
    private paintMarks(ctx: CanvasRenderingContext2D, x: (time: number) => number, bottom: number): void {
        let last = -Infinity;
        ctx.textAlign = "center";
        for (const { time, kind } of this.moments) {
            const at = x(time);
            if (kind === "evaluate" && at - last < MARK_GAP)
                continue;
            if (kind === "evaluate")
                last = at;
            ctx.fillStyle = ctx.strokeStyle = color(kind === "fault" ? "bad" : "dim");
            ctx.fillText(SIGNS[kind] ?? "·", at, HEAD / 2);
            ctx.setLineDash([3, 3]);
            ctx.beginPath();
            ctx.moveTo(at, HEAD - 2);
            ctx.lineTo(at, kind === "evaluate" ? HEAD + 3 : bottom);
            ctx.stroke();
        }
        ctx.setLineDash([]);
        ctx.textAlign = "left";
    }
}

type Colors = Record<SpanKind, string>;

/* Each bin is a column whose parts are stacked from below. */
function paintBins(ctx: CanvasRenderingContext2D, { start_s, bin_s, bins }: Activity, x: Scale, [a, b]: [number, number],
                   top: number, bar: number, colors: Colors): void {
    const first = Math.max(0, Math.floor((a - start_s) / bin_s));
    const last = Math.min(bins.length / KINDS, Math.ceil((b - start_s) / bin_s));
    for (let bin = first; bin < last; bin++) {
        const left = x(start_s + bin * bin_s);
        const width = Math.max(0.6, x(start_s + (bin + 1) * bin_s) - left);
        let y = top + bar;
        ACTIVITY_KINDS.forEach((kind, i) => {
            const height = ((bins[bin * KINDS + i] ?? 0) / 1000) * bar;
            y -= height;
            ctx.fillStyle = colors[kind];
            ctx.fillRect(left, Math.max(top, y), width + 0.3, height);
        });
    }
}

/* Spans, on a clear ground; gaps of up to two bins between them were nothing. */
function paintSpans(ctx: CanvasRenderingContext2D, spans: Span[], x: Scale, [a, b]: [number, number], top: number, bar: number,
                    colors: Colors, bin: number): void {
    let end = -Infinity;
    for (let k = firstEnding(spans, a); k < spans.length && spans[k]!.start <= b; k++) {
        const span = spans[k]!;
        const from = span.start - end < 2 * bin ? end : span.start;
        ctx.clearRect(x(from), top - 1, Math.max(0, x(Math.max(span.end, from)) - x(from)), bar + 2);
        end = Math.max(end, span.end);
        ctx.fillStyle = colors[span.kind] ?? "";
        ctx.fillRect(x(span.start), top, Math.max(0.6, x(span.end) - x(span.start)), bar);
    }
}

/* A time away is hatched, with the reason in it where it fits. */
function paintAway(ctx: CanvasRenderingContext2D, { from, to, why }: Absence, x: Scale, top: number, bar: number): void {
    const left = x(from);
    const width = Math.max(2, x(to) - left);
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, bar);
    ctx.clip();
    const ink = color(why.startsWith("joins") ? "dim" : "bad");
    ctx.strokeStyle = ink;
    ctx.globalAlpha = 0.45;
    ctx.beginPath();
    for (let at = left - bar; at < left + width; at += 7) {
        ctx.moveTo(at, top + bar);
        ctx.lineTo(at + bar, top);
    }
    ctx.stroke();
    ctx.globalAlpha = 1;
    const size = ctx.measureText(why).width;
    if (bar >= 10 && size + 12 < width) {
        ctx.fillStyle = color("panel");
        ctx.fillRect(left + 4, top, size + 8, bar);
        ctx.fillStyle = ink;
        ctx.fillText(why, left + 8, top + bar / 2 + 0.5);
    }
    ctx.restore();
}

/* The first of sorted spans that ends after the time, or a few before it. */
function firstEnding(spans: Span[], time: number): number {
    let low = 0;
    let high = spans.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        spans[middle]!.end < time ? low = middle + 1 : high = middle;
    }
    return Math.max(0, low - 1);
}

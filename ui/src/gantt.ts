/* SPDX-License-Identifier: Apache-2.0 */
/* What each worker did when: a row of spans each, on a canvas. Dragging moves, the wheel zooms while
   the canvas has the focus or Ctrl is down, and the keys + - 0 and arrows do the same. */
import { SPAN_KINDS, type SpanKind, type Spans } from "./api.ts";
import { h } from "./dom.ts";
import { seconds, tick } from "./format.ts";
import { color } from "./theme.ts";

interface Span {
    kind: SpanKind;
    start: number;
    end: number;
}

const LABEL = 84; /* pixels for the names */
const FOOT = 22; /* pixels for the time axis */

export class Gantt {
    readonly element: HTMLElement;
    private readonly canvas = h("canvas", {
        tabindex: 0, role: "img",
        "aria-label": "Timeline of the workers; plus and minus zoom, arrows move, 0 shows all",
    });
    private readonly readout = h("span", { class: "readout" });
    private names: string[] = [];
    private rows: Span[][] = [];
    private all: [number, number] = [0, 1];
    private view: [number, number] | null = null; /* null: all, also while it grows */

    constructor(signal: AbortSignal) {
        const button = (text: string, label: string, press: () => void) =>
            h("button", { class: "icon", "aria-label": label, title: label, onclick: press }, text);
        this.element = h("figure", { class: "chart gantt" },
            h("figcaption", null, h("h3", null, "What workers did"),
                ...SPAN_KINDS.filter((kind) => kind !== "fault").map((kind) =>
                    h("span", { class: "key" }, h("i", { style: { background: `var(--${kind})` } }), kind)),
                this.readout, h("span", { class: "grow" }),
                button("+", "Zoom in", () => this.zoom(0.5)), button("−", "Zoom out", () => this.zoom(2)),
                button("⟲", "Show all", () => this.set(null))),
            this.canvas,
            h("small", { class: "dim" }, "The newest of each worker, looked at once a second; ",
                "where a row is empty, nothing was recorded."));
        const observer = new ResizeObserver(() => this.paint());
        observer.observe(this.canvas);
        signal.addEventListener("abort", () => observer.disconnect());
        document.addEventListener("theme", () => this.paint(), { signal });
        this.listen();
    }

    show({ actors, spans }: Spans): void {
        this.names = actors.map((actor) => typeof actor === "string" ? actor : actor.name);
        this.rows = this.names.map(() => []);
        let low = Infinity;
        let high = -Infinity;
        for (const [actor, kind, start, end] of spans) {
            this.rows[actor]?.push({ kind, start, end });
            low = Math.min(low, start);
            high = Math.max(high, end);
        }
        for (const row of this.rows)
            row.sort((a, b) => a.start - b.start);
        this.all = spans.length ? [low, Math.max(high, low + 1e-9)] : [0, 1];
        this.canvas.style.height = `${this.rows.length * this.rowHeight + FOOT}px`;
        this.paint();
    }

    private get rowHeight(): number {
        return Math.max(3, Math.min(24, 560 / Math.max(1, this.rows.length)));
    }

    private get bounds(): [number, number] {
        return this.view ?? this.all;
    }

    private set(view: [number, number] | null): void {
        if (view) {
            const span = Math.max(1e-9, Math.min(view[1] - view[0], this.all[1] - this.all[0]));
            const start = Math.max(this.all[0], Math.min(view[0], this.all[1] - span));
            view = span >= this.all[1] - this.all[0] ? null : [start, start + span];
        }
        this.view = view;
        this.paint();
    }

    private zoom(by: number, at = 0.5): void {
        const [a, b] = this.bounds;
        const centre = a + (b - a) * at;
        this.set([centre - (centre - a) * by, centre + (b - centre) * by]);
    }

    private move(part: number): void {
        const [a, b] = this.bounds;
        this.set([a + (b - a) * part, b + (b - a) * part]);
    }

    private listen(): void {
        const part = (event: MouseEvent) => (event.offsetX - LABEL) / Math.max(1, this.canvas.clientWidth - LABEL);
        this.canvas.addEventListener("wheel", (event) => {
            if (!event.ctrlKey && document.activeElement !== this.canvas)
                return;
            event.preventDefault();
            this.zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.max(0, part(event)));
        }, { passive: false });
        let from: number | null = null;
        this.canvas.addEventListener("pointerdown", (event) => {
            from = part(event);
            this.canvas.setPointerCapture(event.pointerId);
        });
        this.canvas.addEventListener("pointerup", () => { from = null; });
        this.canvas.addEventListener("pointermove", (event) => {
            if (from !== null) {
                const to = part(event);
                this.move(from - to);
                from = to;
            }
            this.tell(part(event), Math.floor(event.offsetY / this.rowHeight));
        });
        this.canvas.addEventListener("pointerleave", () => this.readout.replaceChildren());
        this.canvas.addEventListener("dblclick", () => this.set(null));
        this.canvas.addEventListener("keydown", (event) => {
            const keys: Record<string, () => void> = {
                "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), "0": () => this.set(null),
                ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2),
            };
            const press = keys[event.key];
            if (press) {
                event.preventDefault();
                event.stopPropagation();
                press();
            }
        });
    }

    private tell(part: number, row: number): void {
        const [a, b] = this.bounds;
        const at = a + (b - a) * part;
        const span = part >= 0 ? this.rows[row]?.findLast(({ start, end }) => start <= at && at <= end) : undefined;
        this.readout.textContent = span
            ? `${this.names[row]} · ${span.kind} ${seconds(span.end - span.start)} at ${seconds(span.start)}` : "";
    }

    private paint(): void {
        const { canvas } = this;
        const width = canvas.clientWidth;
        const height = canvas.clientHeight;
        if (!width || !height)
            return;
        canvas.width = width * devicePixelRatio;
        canvas.height = height * devicePixelRatio;
        const ctx = canvas.getContext("2d")!;
        ctx.scale(devicePixelRatio, devicePixelRatio);
        ctx.font = "12px system-ui, sans-serif";
        ctx.textBaseline = "middle";
        const [a, b] = this.bounds;
        const x = (time: number) => LABEL + ((time - a) / (b - a)) * (width - LABEL);
        const row = this.rowHeight;
        const bar = row > 8 ? row - 5 : row - 1;
        const colors = Object.fromEntries(SPAN_KINDS.map((kind) => [kind, color(kind)]));
        this.rows.forEach((spans, i) => {
            for (let k = firstEnding(spans, a); k < spans.length && spans[k]!.start <= b; k++) {
                const { kind, start, end } = spans[k]!;
                const left = Math.max(LABEL, x(start));
                ctx.fillStyle = colors[kind] ?? "";
                ctx.fillRect(left, i * row + (row - bar) / 2, Math.max(0.6, Math.min(width, x(end)) - left), bar);
            }
            ctx.fillStyle = color("dim");
            if (row >= 12)
                ctx.fillText(this.names[i] ?? "", 0, i * row + row / 2 + 0.5, LABEL - 8);
        });
        this.paintAxis(ctx, x, width, this.rows.length * row);
    }

    private paintAxis(ctx: CanvasRenderingContext2D, x: (time: number) => number, width: number, top: number): void {
        const [a, b] = this.bounds;
        const step = niceStep((b - a) / Math.max(2, (width - LABEL) / 110));
        ctx.fillStyle = ctx.strokeStyle = color("dim");
        ctx.textAlign = "center";
        ctx.globalAlpha = 0.9;
        for (let time = Math.ceil(a / step) * step; time <= b; time += step) {
            ctx.fillRect(x(time), top, 1, 4);
            const text = tick(seconds(Math.abs(time) < step / 1e6 ? 0 : time));
            const half = ctx.measureText(text).width / 2;
            ctx.fillText(text, Math.max(LABEL + half, Math.min(width - half, x(time))), top + 13);
        }
        ctx.textAlign = "left";
    }
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

/* 1, 2 or 5 times a power of ten, at least this large. */
export function niceStep(least: number): number {
    const power = 10 ** Math.floor(Math.log10(least));
    const factor = least / power;
    return (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10) * power;
}

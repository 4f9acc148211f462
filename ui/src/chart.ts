/* SPDX-License-Identifier: Apache-2.0 */
/* Curves, on uPlot: lines over one axis, each with its name at its end, marks for what happened, and
   the values under the pointer in the caption. Dragging zooms, a double click shows all again.
   Lines with axes of their own (runs that are compared) are joined: the union of their x, with gaps
   that are spanned. Colours are read when painting, so that a change of theme is a repaint. */
import uPlot from "uplot";
import type { Axis } from "./axis.ts";
import { h } from "./dom.ts";
import { tick } from "./format.ts";
import { spread } from "./spread.ts";
import { color, lineColor, lineDash } from "./theme.ts";

export interface Line {
    label: string;
    index: number; /* of its colour and dashes */
    x: number[];
    y: (number | null)[];
    faint?: boolean; /* behind its smooth line: without a name */
}

/* Which axes are logarithmic. */
export interface Logs {
    x?: boolean;
    y?: boolean;
}

export interface Mark {
    x: number;
    kind: string; /* of the event */
    text: string;
}

export const SIGNS: Record<string, string> = { fault: "✕", join: "+", phase: "⇄", save: "▾", best: "★", stop: "■", evaluate: "◇" };
const HEIGHT = 230;
const MANY = 4; /* of more lines only the one near the pointer is told */
const FEW = 60; /* so few values are also drawn as points, where others lie between them */

export class Chart {
    readonly element: HTMLElement;
    private readonly box = h("div", { class: "plot", role: "img" });
    private readonly readout = h("span", { class: "readout" });
    private plot: uPlot | null = null;
    private lines: Line[] = [];
    private marks: Mark[] = [];
    private axis: Axis | null = null;
    private logs: Logs = {};
    private shape = "";
    private focused = 0; /* series near the pointer, counted from 1; 0: none */

    /* `head` stands for the title where there is more to it, like a choice. */
    constructor(private readonly title: string, private readonly format: (value: number) => string,
                signal: AbortSignal, private readonly options: { height?: number; head?: HTMLElement } = {}) {
        this.element = h("figure", { class: "chart" },
            h("figcaption", null, options.head ?? h("h3", null, title), this.readout), this.box);
        const observer = new ResizeObserver(() => this.resize());
        observer.observe(this.box);
        document.addEventListener("theme", () => this.plot?.redraw(false), { signal });
        signal.addEventListener("abort", () => {
            observer.disconnect();
            this.plot?.destroy();
        });
    }

    draw(lines: Line[], axis: Axis, marks: Mark[] = [], logs: Logs = {}): void {
        this.lines = lines;
        this.marks = marks;
        this.axis = axis;
        this.logs = logs;
        const shared = lines.every((line) => line.x === lines[0]?.x);
        const data = (shared ? [lines[0]?.x ?? [], ...lines.map((line) => line.y)]
            : uPlot.join(lines.map((line) => [line.x, line.y] as uPlot.AlignedData))) as uPlot.AlignedData;
        const shape = [axis.name, axis.label, logs.x, logs.y,
            ...lines.map((line) => `${line.label}${line.index}${line.faint}`)].join("|");
        if (shape !== this.shape || !this.plot) {
            this.shape = shape;
            this.plot?.destroy();
            this.plot = new uPlot(this.describe(lines, axis, logs), data, this.box);
        } else if (this.zoomed()) {
            this.plot.setData(data, false);
            this.plot.redraw(false);
        } else
            this.plot.setData(data);
        this.box.setAttribute("aria-label", this.summary());
        this.showReadout();
    }

    private zoomed(): boolean {
        const x = this.plot!.data[0];
        const { min, max } = this.plot!.scales.x!;
        return x.length > 1 && (min! > x[0]! || max! < x[x.length - 1]!);
    }

    /* A text for screen readers: each line's last value. */
    private summary(): string {
        const last = this.lines.filter((line) => !line.faint).map((line) => {
            const value = line.y.findLast((y) => y !== null);
            return `${line.label} ${value === undefined || value === null ? "not measured" : this.format(value)}`;
        });
        const logs = [this.logs.x && "x", this.logs.y && "y"].filter(Boolean).join(" and ");
        return `${this.title} over ${this.axis!.label.toLowerCase()}: ${last.join(", ")}${logs && `; ${logs} logarithmic`}`;
    }

    private get width(): number {
        return Math.max(200, this.box.clientWidth);
    }

    private resize(): void {
        if (this.plot && this.plot.width !== this.width)
            this.plot.setSize({ width: this.width, height: this.options.height ?? HEIGHT });
    }

    /* Room at the right for the lines' names; one alone is named by the title. */
    private margin(all: Line[]): number {
        const lines = all.filter((line) => !line.faint);
        if (lines.length < 2)
            return 24;
        const longest = Math.max(0, ...lines.map((line) => line.label.length));
        return Math.min(longest * 7 + 24, this.width * 0.28);
    }

    private describe(lines: Line[], axis: Axis, logs: Logs): uPlot.Options {
        const grid = { stroke: () => color("border"), width: 1 };
        const common = { stroke: () => color("dim"), font: "12px system-ui, sans-serif", grid, ticks: { show: false } };
        return {
            width: this.width,
            height: this.options.height ?? HEIGHT,
            legend: { show: false },
            cursor: {
                points: { size: 6 }, drag: { x: true, y: false }, focus: { prox: 18 },
                dataIdx: (plot, series, row) => series === 0 ? row : nearest(plot.data[series]!, row),
            },
            focus: { alpha: lines.length > MANY ? 0.2 : 1 },
            padding: [14, this.margin(lines), 0, 0],
            scales: {
                x: logs.x ? { time: false, distr: 3, range: decades } : { time: false },
                y: logs.y ? { distr: 3, range: decades } : { range: bounds },
            },
            axes: [
                { ...common, values: ticks(axis.format), filter: logs.x ? powers : undefined, space: 70, size: 30, gap: 4, grid: { show: false } },
                { ...common, values: ticks(this.format), filter: logs.y ? powers : undefined, size: 58, space: 34 },
            ],
            series: [{}, ...lines.map((line): uPlot.Series => ({
                label: line.label,
                stroke: () => lineColor(line.index),
                width: line.faint ? 1 : 1.6,
                alpha: line.faint ? 0.28 : 1,
                dash: lineDash(line.index),
                spanGaps: true,
                points: { show: !line.faint && sparse(line.y), size: 5, fill: () => lineColor(line.index) },
            }))],
            hooks: {
                draw: [(plot) => this.paint(plot)],
                setCursor: [() => this.showReadout()],
                setSeries: [(_, series) => { this.focused = series ?? 0; }],
            },
        };
    }

    private paint(plot: uPlot): void {
        const { ctx } = plot;
        ctx.save();
        const scale = devicePixelRatio;
        ctx.font = `${11.5 * scale}px system-ui, sans-serif`;
        this.paintMarks(plot, ctx, scale);
        this.paintNames(plot, ctx, scale);
        ctx.restore();
    }

    private paintMarks(plot: uPlot, ctx: CanvasRenderingContext2D, scale: number): void {
        const { left, top, width, height } = plot.bbox;
        ctx.textAlign = "center";
        ctx.textBaseline = "bottom";
        for (const mark of this.marks) {
            const x = plot.valToPos(mark.x, "x", true);
            if (x < left || x > left + width)
                continue;
            ctx.strokeStyle = ctx.fillStyle = color(mark.kind === "fault" ? "bad" : "dim");
            ctx.lineWidth = scale;
            ctx.setLineDash([3 * scale, 3 * scale]);
            ctx.beginPath();
            ctx.moveTo(x, top);
            ctx.lineTo(x, top + height);
            ctx.stroke();
            ctx.fillText(SIGNS[mark.kind] ?? "·", x, top);
        }
        ctx.setLineDash([]);
    }

    /* Each name beside its line's end; pushed apart where lines end close together. */
    private paintNames(plot: uPlot, ctx: CanvasRenderingContext2D, scale: number): void {
        if (this.lines.filter((line) => !line.faint).length < 2)
            return;
        const { left, top, width, height } = plot.bbox;
        const names = this.lines.flatMap((line, i) => {
            const column = plot.data[i + 1]!;
            let last = column.length - 1;
            while (last >= 0 && (column[last] === null || column[last] === undefined))
                last--;
            return last < 0 || line.faint ? [] : [{ line, y: plot.valToPos(column[last]!, "y", true) }];
        }).sort((a, b) => a.y - b.y);
        const ys = spread(names.map(({ y }) => y), 13.5 * scale, top + 4 * scale, top + height);
        ctx.textAlign = "left";
        ctx.textBaseline = "middle";
        names.forEach(({ line }, i) => {
            ctx.fillStyle = lineColor(line.index);
            const name = clip(ctx, line.label, (this.margin(this.lines) - 10) * scale);
            ctx.fillText(name, left + width + 8 * scale, ys[i]!);
        });
    }

    private showReadout(): void {
        const plot = this.plot;
        const row = plot?.cursor.idx;
        if (!plot || row === null || row === undefined || !this.axis) {
            this.readout.replaceChildren();
            return;
        }
        const x = plot.data[0][row]!;
        const parts: (Node | string)[] = [this.axis.format(x)];
        this.lines.forEach((line, i) => {
            const at = plot.cursor.idxs?.[i + 1];
            const value = at === null || at === undefined ? null : plot.data[i + 1]![at];
            if (!line.faint && value !== null && value !== undefined && (this.lines.length <= MANY || i + 1 === this.focused))
                parts.push(h("span", { style: { color: lineColor(line.index) } }, ` ${line.label} ${this.format(value)}`));
        });
        const near = this.marks.find((mark) => Math.abs(plot.valToPos(mark.x, "x") - (plot.cursor.left ?? -99)) < 8);
        if (near)
            parts.push(` · ${near.kind}: ${near.text}`);
        this.readout.replaceChildren(...parts);
    }
}

/* Texts at the ticks of an axis. */
function ticks(format: (value: number) => string): uPlot.Axis.DynamicValues {
    return (_, splits) => splits.map((value) => value === null ? "" : tick(format(value)));
}

/* What the y axis shows: the values with some air; one value alone gets air of its own size. */
function bounds(_: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax {
    if (low === null || high === null)
        return [0, 1];
    if (low === high)
        return low === 0 ? [0, 1] : [low - Math.abs(low) / 2, low + Math.abs(low) / 2];
    return uPlot.rangeNum(low, high, 0.1, true) as uPlot.Range.MinMax;
}

/* What a logarithmic axis shows: from a little below the smallest value to above the largest. */
function decades(_: uPlot, low: number | null, high: number | null): uPlot.Range.MinMax {
    if (low === null || high === null || !(low > 0))
        return [1, 10];
    return low === high ? [low / 2, low * 2] : [low * (low / high) ** 0.05, high * (high / low) ** 0.05];
}

/* Texts of a logarithmic axis: at 1, 2 and 5 where there are few decades, else at powers of ten. */
function powers(_: uPlot, splits: number[]): (number | null)[] {
    const shown = splits.filter((value) => value > 0);
    const wide = shown.length > 1 && shown.at(-1)! / shown[0]! > 300;
    return splits.map((value) => {
        const digit = Math.round(value / 10 ** Math.floor(Math.log10(value) + 1e-9));
        return digit === 1 || (!wide && (digit === 2 || digit === 5)) ? value : null;
    });
}

/* The row with a value that is nearest to this one. */
function nearest(column: ArrayLike<number | null | undefined>, row: number): number {
    for (let by = 0; by < column.length; by++)
        for (const at of [row - by, row + by])
            if (column[at] !== null && column[at] !== undefined)
                return at;
    return row;
}

function sparse(values: (number | null)[]): boolean {
    const found = values.reduce<number>((sum, value) => sum + (value === null || value === undefined ? 0 : 1), 0);
    return found <= FEW && (found <= 12 || found < values.length / 2);
}

function clip(ctx: CanvasRenderingContext2D, text: string, width: number): string {
    let end = text.length;
    while (end > 1 && ctx.measureText(text.slice(0, end)).width > width)
        end--;
    return end < text.length ? `${text.slice(0, Math.max(1, end - 1))}…` : text;
}

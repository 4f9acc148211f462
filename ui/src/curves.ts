/* SPDX-License-Identifier: Apache-2.0 */
/* The curves of one run: which there are, and drawing them over the chosen axis with its events. Rows
   hold values of the interval before them; the slider smooths those, and shows them faintly behind.
   Evaluations are never smoothed. */
import type { Event, Metric, Metrics } from "./api.ts";
import { AXES, axisChoices, isMeasured, isNonzero, over, placeOf, type AxisName } from "./axis.ts";
import { Chart, type Line, type Logs, type Mark } from "./chart.ts";
import { h, segmented } from "./dom.ts";
import { number, percent, short } from "./format.ts";
import { positive, smooth, weightOf } from "./smooth.ts";

/* Each chart: its title, its lines as (column, name, colour), its numbers. The last two are left out
   where they are zero throughout, as in synchronous training. */
const CHARTS: readonly [string, [Metric, string, number][], (value: number) => string][] = [
    ["Accuracy", [["train_accuracy", "train", 0], ["validation_accuracy", "validation", 2], ["test_accuracy", "test", 1]], percent],
    ["Loss", [["loss", "train", 0], ["validation_loss", "validation", 2], ["test_loss", "test", 1]], number],
    ["Samples a second", [["samples_per_s", "samples/s", 2]], short],
    ["Staleness", [["staleness_mean", "mean", 4]], number],
    ["Divergence of the replicas", [["divergence", "divergence", 3]], number],
];
const ALWAYS = 3; /* of them; the others only where they are not zero throughout */
const MARKED = new Set(["fault", "join", "phase", "save", "best", "stop"]);
const EVALUATED = /^(test|validation)_/;

export class Curves {
    readonly element: HTMLElement;
    private readonly charts: Chart[];
    private readonly empty = h("p", { class: "dim" }, "The first measurements appear here.");
    private axis: AxisName = "time_s";
    private smoothing = 0; /* of the slider: 0 to 100 */
    private logs: Logs = {};
    private again: (() => void) | null = null;

    constructor(private readonly simulated: boolean, signal: AbortSignal) {
        this.charts = CHARTS.map(([title, , format]) => new Chart(title, format, signal));
        const choice = segmented("Axis", axisChoices(simulated), this.axis, (axis) => {
            this.axis = axis;
            this.again?.();
        });
        this.element = h("section", null,
            h("div", { class: "row head" }, h("h2", null, "Curves"), h("div", { class: "row" }, this.slider(),
                this.box("Log x", "x"), this.box("Log y", "y"), choice)),
            this.empty, h("div", { class: "charts" }, ...this.charts.map((chart) => chart.element)));
    }

    private slider(): HTMLElement {
        const input = h("input", {
            type: "range", min: 0, max: 100, step: 5, value: String(this.smoothing), oninput: () => {
                this.smoothing = Number(input.value);
                this.again?.();
            },
        });
        return h("label", { class: "row option" }, "Smoothing", input);
    }

    private box(text: string, which: "x" | "y"): HTMLElement {
        const input = h("input", {
            type: "checkbox", onchange: () => {
                this.logs = { ...this.logs, [which]: input.checked };
                this.again?.();
            },
        });
        return h("label", { class: "row option" }, input, text);
    }

    /* The values of a column at the rows, and before them, where they are smoothed, as they are. */
    private lines(metrics: Metrics, [name, label, index]: [Metric, string, number], x: number[], rows: number[],
                  log: boolean): Line[] {
        const raw = rows.map((row) => metrics[name][row] ?? null);
        const y = log ? positive(raw) : raw;
        const weight = EVALUATED.test(name) ? 0 : weightOf(this.smoothing);
        return weight === 0 ? [{ label, index, x, y }]
            : [{ label, index, x, y, faint: true }, { label, index, x, y: smooth(y, weight) }];
    }

    draw(metrics: Metrics, events: Event[]): void {
        this.again = () => this.draw(metrics, events);
        this.empty.hidden = metrics.seq.length > 0;
        const all = over(metrics, this.axis);
        const from = this.logs.x ? all.x.findIndex((at) => at > 0) : 0;
        const x = from > 0 ? all.x.slice(from) : all.x;
        const rows = from > 0 ? all.rows.slice(from) : all.rows;
        const label = axisChoices(this.simulated).find(([name]) => name === this.axis)?.[1] ?? "";
        const axis = { ...AXES[this.axis], label };
        const marks = events.filter((event) => MARKED.has(event.kind)).flatMap((event): Mark[] => {
            const at = placeOf(event, metrics, this.axis);
            /* The end of a run is told after its last row: its mark is at the edge. */
            const end = x.at(-1) ?? at;
            return at === null ? [] : [{ x: Math.min(at, end ?? at), kind: event.kind, text: event.text ?? "" }];
        });
        CHARTS.forEach(([title, columns], i) => {
            const logs = { x: this.logs.x, y: this.logs.y && title !== "Accuracy" };
            const shown = columns.filter(([name]) => i < ALWAYS ? isMeasured(metrics[name]) : isNonzero(metrics[name]));
            const lines = shown.flatMap((column) => this.lines(metrics, column, x, rows, logs.y === true));
            const chart = this.charts[i]!;
            chart.element.hidden = lines.length === 0;
            if (lines.length)
                chart.draw(lines, axis, logs.x ? marks.filter((mark) => mark.x > 0) : marks, logs);
        });
    }
}

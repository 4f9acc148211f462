/* SPDX-License-Identifier: Apache-2.0 */
/* Curves of several runs over one another, in a panel with the choice of what it draws. */
import { ask, type Metric, type Metrics, type RunDetail } from "./api.ts";
import { AXES, over, type AxisName } from "./axis.ts";
import { Chart, type Line } from "./chart.ts";
import { labels } from "./differing.ts";
import { h, notice, put, svg } from "./dom.ts";
import { number, percent, short } from "./format.ts";
import { lineDash } from "./theme.ts";

const ROWS_MAX = 2000; /* metric rows of each run */

const MEASURES: [Metric, string, (value: number) => string][] = [
    ["test_accuracy", "Test accuracy", percent], ["loss", "Loss", number], ["train_accuracy", "Train accuracy", percent],
    ["test_loss", "Test loss", number], ["samples_per_s", "Samples a second", short], ["divergence", "Divergence", number],
    ["staleness_mean", "Staleness", number],
];

/* All runs of the comparison, as they are now. */
export interface Compared {
    details: RunDetail[];
    metrics: Metrics[];
    names: string[];
}

export async function load(ids: number[], signal: AbortSignal): Promise<Compared> {
    const details = await Promise.all(ids.map((id) => ask<RunDetail>(`/api/runs/${id}`, { signal })));
    const metrics = await Promise.all(ids.map((id) =>
        ask<Metrics>(`/api/runs/${id}/metrics?points=${ROWS_MAX}`, { signal })));
    return { details, metrics, names: labels(details) };
}

/* One chart with the choice of what it draws. */
export class Panel {
    readonly element = h("div", { class: "panel" });
    private readonly choice: HTMLSelectElement;
    private chart: Chart | null = null;
    private leave = new AbortController();
    private again = () => {};

    constructor(private measure: Metric, private readonly signal: AbortSignal) {
        this.choice = h("select", {
            "aria-label": "What to draw", onchange: () => {
                this.measure = this.choice.value as Metric;
                this.chart = null;
                this.again();
            },
        }, ...MEASURES.map(([name, title]) => h("option", { value: name, selected: name === measure }, title)));
    }

    draw(all: Compared, axis: AxisName): void {
        this.again = () => this.draw(all, axis);
        const [column, title, format] = MEASURES.find(([name]) => name === this.measure)!;
        const lines = all.metrics.map((metrics, i): Line => {
            const { x, rows } = over(metrics, axis);
            const y = rows.map((row) => metrics[column][row] ?? null);
            const known = y.map((value) => value !== null);
            return { label: all.names[i]!, index: i, x: x.filter((_, at) => known[at]), y: y.filter((_, at) => known[at]) };
        });
        if (lines.every((line) => line.y.length === 0)) {
            this.chart = null;
            put(this.element, this.choice, notice("Not measured.", "None of these runs measured it."));
            return;
        }
        if (!this.chart) {
            this.leave.abort();
            this.leave = new AbortController();
            const signal = AbortSignal.any([this.signal, this.leave.signal]);
            this.chart = new Chart(title, format, signal, { height: 340, head: this.choice });
            put(this.element, this.chart.element);
        }
        this.chart.draw(lines, AXES[axis]);
    }
}

/* A piece of the run's line. */
export function swatch(i: number): SVGElement {
    return svg("svg", { class: "swatch", viewBox: "0 0 22 10", "aria-hidden": "true" }, svg("line", {
        x1: 0, y1: 5, x2: 22, y2: 5, "stroke-width": 3, "stroke-dasharray": lineDash(i)?.join(" "),
        style: { stroke: `var(--line-${(i % 7) + 1})` },
    }));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The curves of one run: which there are, and drawing them over the chosen axis with its events. */
import type { Event, Metric, Metrics } from "./api.ts";
import { AXES, axisChoices, isMeasured, isNonzero, over, placeOf, type AxisName } from "./axis.ts";
import { Chart, type Line, type Mark } from "./chart.ts";
import { h, segmented } from "./dom.ts";
import { number, percent, short } from "./format.ts";

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
const MARKED = new Set(["fault", "phase", "save", "best", "stop"]);

export class Curves {
    readonly element: HTMLElement;
    private readonly charts: Chart[];
    private readonly empty = h("p", { class: "dim" }, "The first measurements appear here.");
    private axis: AxisName = "time_s";
    private again: (() => void) | null = null;

    constructor(private readonly simulated: boolean, signal: AbortSignal) {
        this.charts = CHARTS.map(([title, , format]) => new Chart(title, format, signal));
        const choice = segmented("Axis", axisChoices(simulated), this.axis, (axis) => {
            this.axis = axis;
            this.again?.();
        });
        this.element = h("section", null,
            h("div", { class: "row head" }, h("h2", null, "Curves"), choice),
            this.empty, h("div", { class: "charts" }, ...this.charts.map((chart) => chart.element)));
    }

    draw(metrics: Metrics, events: Event[]): void {
        this.again = () => this.draw(metrics, events);
        this.empty.hidden = metrics.seq.length > 0;
        const { x, rows } = over(metrics, this.axis);
        const label = axisChoices(this.simulated).find(([name]) => name === this.axis)?.[1] ?? "";
        const axis = { ...AXES[this.axis], label };
        const marks = events.filter((event) => MARKED.has(event.kind)).flatMap((event): Mark[] => {
            const at = placeOf(event, metrics, this.axis);
            /* The end of a run is told after its last row: its mark is at the edge. */
            const end = x.at(-1) ?? at;
            return at === null ? [] : [{ x: Math.min(at, end ?? at), kind: event.kind, text: event.text ?? "" }];
        });
        CHARTS.forEach(([, columns], i) => {
            const shown = columns.filter(([name]) => i < ALWAYS ? isMeasured(metrics[name]) : isNonzero(metrics[name]));
            const lines = shown.map(([name, text, index]): Line =>
                ({ label: text, index, x, y: rows.map((row) => metrics[name][row] ?? null) }));
            const chart = this.charts[i]!;
            chart.element.hidden = lines.length === 0;
            if (lines.length)
                chart.draw(lines, axis, marks);
        });
    }
}

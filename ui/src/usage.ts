/* SPDX-License-Identifier: Apache-2.0 */
/* Processor, memory and network of the machine while the run trained, once a second of wall time. */
import type { Usage } from "./api.ts";
import type { Axis } from "./axis.ts";
import { isMeasured, isNonzero } from "./axis.ts";
import { Chart, type Line } from "./chart.ts";
import { h } from "./dom.ts";
import { bytes, number, seconds } from "./format.ts";

const AXIS: Axis = { name: "wall_s", label: "Wall time", format: seconds };
type Column = Exclude<keyof Usage, "wall_s">;
const CHARTS: readonly [string, [Column, string, number][], (value: number) => string][] = [
    ["Processor cores in use", [["cpu", "this run", 0], ["machine_cpu", "machine", 6]], number],
    ["Memory of the run's process", [["memory", "resident", 3]], bytes],
    ["Network of the machine", [["received_per_s", "received", 5], ["sent_per_s", "sent", 2]], (value) => `${bytes(value)}/s`],
];

export class UsageCharts {
    readonly element: HTMLElement;
    private readonly charts: Chart[];
    private readonly quiet = h("p", { class: "dim" }, h("small", null, "No network interface of the machine sent or received anything."));

    constructor(signal: AbortSignal) {
        this.charts = CHARTS.map(([title, , format]) => new Chart(title, format, signal, { height: 170 }));
        this.element = h("section", null, h("h2", null, "The machine"),
            h("div", { class: "charts thirds" }, ...this.charts.map((chart) => chart.element)), this.quiet);
    }

    draw(usage: Usage | undefined): void {
        const x = (usage?.wall_s ?? []).map((value) => value ?? 0);
        this.element.hidden = x.length < 2;
        if (!usage || x.length < 2)
            return;
        const silent = !isNonzero(usage.received_per_s) && !isNonzero(usage.sent_per_s);
        this.quiet.hidden = !silent;
        CHARTS.forEach(([, columns], i) => {
            const lines = columns.filter(([name]) => isMeasured(usage[name])).map(([name, label, index]): Line => ({ label, index, x, y: usage[name] }));
            const chart = this.charts[i]!;
            chart.element.hidden = lines.length === 0 || (i === 2 && silent);
            if (!chart.element.hidden)
                chart.draw(lines, AXIS);
        });
    }
}

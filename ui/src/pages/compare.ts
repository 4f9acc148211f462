/* SPDX-License-Identifier: Apache-2.0 */
/* Up to 20 runs over one another: curves with the same axes as a run's, then a table of what differs
   between their options and of what came out. */
import { ask, type Metric, type Metrics, type Run, type RunDetail, type RunList } from "../api.ts";
import { AXES, axisChoices, over, type AxisName } from "../axis.ts";
import { Chart, type Line } from "../chart.ts";
import { CHOSEN_MAX } from "../chosen.ts";
import { differing, labels } from "../differing.ts";
import { h, notice, put, refill, segmented, svg, type Child } from "../dom.ts";
import { bytes, number, percent, plain, runTitle, seconds, short } from "../format.ts";
import { setTitle, type Page } from "../page.ts";
import { statusPill } from "../status.ts";
import { lineDash } from "../theme.ts";

const ROWS_MAX = 2000; /* metric rows of each run */
const AGAIN_MS = 3000; /* while one of them is running */

const MEASURES: [Metric, string, (value: number) => string][] = [
    ["test_accuracy", "Test accuracy", percent], ["loss", "Loss", number], ["train_accuracy", "Train accuracy", percent],
    ["test_loss", "Test loss", number], ["samples_per_s", "Samples a second", short], ["divergence", "Divergence", number],
    ["staleness_mean", "Staleness", number],
];

const RESULTS: [keyof Run, string, (value: number | null) => string][] = [
    ["time_to_target_s", "To target", seconds], ["test_accuracy", "Test acc", percent], ["loss", "Loss", number],
    ["time_s", "Time", seconds], ["samples_per_s", "Samples/s", short], ["bytes_sent", "Sent", bytes],
    ["staleness_mean", "Staleness", number], ["divergence", "Divergence", number],
];

/* The runs that the address names: numbers, or those of one `fast compare` (batch:NAME). */
async function runsOf(path: string, signal: AbortSignal): Promise<number[]> {
    if (!path.startsWith("batch:"))
        return path.split(",").map(Number).filter((id) => id > 0).slice(0, CHOSEN_MAX);
    const where = encodeURIComponent(`batch_of=${path.slice("batch:".length)}`);
    const { runs } = await ask<RunList>(`/api/runs?where=${where}&sort=id&limit=${CHOSEN_MAX}`, { signal });
    return runs.map(({ id }) => id);
}

/* All runs of the comparison, as they are now. */
interface Compared {
    details: RunDetail[];
    metrics: Metrics[];
    names: string[];
}

async function load(ids: number[], signal: AbortSignal): Promise<Compared> {
    const details = await Promise.all(ids.map((id) => ask<RunDetail>(`/api/runs/${id}`, { signal })));
    const metrics = await Promise.all(ids.map((id) =>
        ask<Metrics>(`/api/runs/${id}/metrics?points=${ROWS_MAX}`, { signal })));
    return { details, metrics, names: labels(details) };
}

export const comparePage: Page = async (root, { path, signal }) => {
    setTitle("Comparison");
    const ids = await runsOf(path, signal);
    if (ids.length === 0) {
        put(root, notice("Nothing to compare.", "Choose runs on the page of ", h("a", { href: "#/runs" }, "runs"), "."));
        return;
    }
    let all = await load(ids, signal);
    let axis: AxisName = "time_s";
    const simulated = all.details.some(({ run }) => run.transport === "sim");
    const panels = (["test_accuracy", "loss"] as const).map((first) => new Panel(first, signal));
    const results = h("section", { class: "panel" });
    const show = () => {
        for (const panel of panels)
            panel.draw(all, axis);
        showResults(results, all);
    };
    put(root, h("div", { class: "stack" },
        h("div", { class: "row head" }, h("h1", null, `Comparison of ${ids.length} ${ids.length === 1 ? "run" : "runs"}`),
            segmented("Axis", axisChoices(simulated), axis, (choice) => {
                axis = choice;
                show();
            })),
        h("div", { class: "two" }, ...panels.map((panel) => panel.element)), results));
    show();
    while (!signal.aborted && all.details.some(({ run }) => run.status === "running")) {
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
        if (!document.hidden && !signal.aborted) {
            all = await load(ids, signal);
            show();
        }
    }
};

/* One chart with the choice of what it draws. */
class Panel {
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

/* Runs as rows: what came out, the best of each column bold, then what differs. */
function showResults(element: HTMLElement, { details, names }: Compared): void {
    const options = differing(details.map((detail) => detail.options));
    const results = RESULTS.filter(([key]) => details.some(({ run }) => run[key] !== null));
    const lowest = new Set<keyof Run>(["time_to_target_s", "loss", "time_s", "bytes_sent"]);
    const ranked = results.filter(([key]) => key !== "staleness_mean" && key !== "divergence");
    const best = new Map(ranked.map(([key]) => {
        const all = details.map(({ run }) => run[key]).filter((value): value is number => typeof value === "number");
        return [key, lowest.has(key) ? Math.min(...all) : Math.max(...all)];
    }));
    const order = details.map((_, i) => i).sort((a, b) => rank(details[a]!.run) - rank(details[b]!.run));
    const head = (label: string, numeric = false) => h("th", { scope: "col", class: numeric ? "number" : "" }, label);
    refill(element, h("h2", null, "What came out, and what differs"),
        h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Results" }, h("table", { class: "plain" },
            h("thead", null, h("tr", null, head("Run"), head("Status"), ...results.map(([, label]) => head(label, true)),
                ...options.map((name) => head(name)))),
            h("tbody", null, ...order.map((i) => {
                const { run, options: own } = details[i]!;
                const cells: Child[] = results.map(([key, , format]) => {
                    const text = format(run[key] as number | null);
                    const first = details.length > 1 && run[key] === best.get(key);
                    return h("td", { class: "number" }, first ? h("strong", null, text) : text);
                });
                return h("tr", null, h("td", { class: "name" }, swatch(i),
                    h("a", { href: `#/run/${run.id}`, title: runTitle(run) }, names[i])), h("td", null, statusPill(run)),
                    ...cells, ...options.map((name) => h("td", null, plain(own[name], name))));
            })))),
        options.length === 0 && h("p", { class: "dim" }, "All options are the same."));
}

/* A piece of the run's line. */
function swatch(i: number): SVGElement {
    return svg("svg", { class: "swatch", viewBox: "0 0 22 10", "aria-hidden": "true" }, svg("line", {
        x1: 0, y1: 5, x2: 22, y2: 5, "stroke-width": 3, "stroke-dasharray": lineDash(i)?.join(" "),
        style: { stroke: `var(--line-${(i % 7) + 1})` },
    }));
}

/* First who reached the target soonest, then by accuracy. */
function rank(run: Run): number {
    return run.time_to_target_s ?? 1e12 - (run.test_accuracy ?? 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Up to 20 runs over one another: curves with the same axes as a run's, then a table of what differs
   between their options and of what came out. */
import { ask, type Metric, type Metrics, type Run, type RunDetail } from "../api.ts";
import { AXES, axisChoices, over, type AxisName } from "../axis.ts";
import { Chart, type Line } from "../chart.ts";
import { CHOSEN_MAX } from "../chosen.ts";
import { differing, labels } from "../differing.ts";
import { h, notice, put, segmented, svg, type Child } from "../dom.ts";
import { bytes, number, percent, plain, runTitle, seconds, short } from "../format.ts";
import { setTitle, type Page } from "../page.ts";
import { statusPill } from "../status.ts";
import { lineDash } from "../theme.ts";

const ROWS_MAX = 2000; /* metric rows of each run */

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

export const comparePage: Page = async (root, { path, signal }) => {
    setTitle("Comparison");
    const ids = path.split(",").map(Number).filter((id) => id > 0).slice(0, CHOSEN_MAX);
    if (ids.length === 0) {
        put(root, notice("Nothing to compare.", "Choose runs on the page of ", h("a", { href: "#/runs" }, "runs"), "."));
        return;
    }
    const details = await Promise.all(ids.map((id) => ask<RunDetail>(`/api/runs/${id}`, { signal })));
    const metrics = await Promise.all(details.map(({ run }) =>
        ask<Metrics>(`/api/runs/${run.id}/metrics?points=${ROWS_MAX}`, { signal })));
    const names = labels(details);
    const simulated = details.some(({ run }) => run.transport === "sim");
    const state: { axis: AxisName; measures: [Metric, Metric] } = { axis: "time_s", measures: ["test_accuracy", "loss"] };
    const panels = state.measures.map(() => h("div", { class: "panel" }));
    const redraw: (() => void)[] = [];

    panels.forEach((panel, i) => {
        let leave = new AbortController();
        const choice = h("select", {
            "aria-label": "What to draw", onchange: () => {
                state.measures[i] = choice.value as Metric;
                draw();
            },
        }, ...MEASURES.map(([name, title]) => h("option", { value: name, selected: name === state.measures[i] }, title)));
        const draw = () => {
            /* A chart belongs to its measure: another one is another chart. */
            leave.abort();
            leave = new AbortController();
            const [column, title, format] = MEASURES.find(([name]) => name === state.measures[i])!;
            const chart = new Chart(title, format, AbortSignal.any([signal, leave.signal]), { height: 340, head: choice });
            const lines = metrics.map((all, k): Line => {
                const { x, rows } = over(all, state.axis);
                const kept = rows.map((row, at) => [x[at]!, all[column][row] ?? null] as const).filter(([, y]) => y !== null);
                return { label: names[k]!, index: k, x: kept.map(([at]) => at), y: kept.map(([, y]) => y) };
            });
            const some = lines.some((line) => line.y.length > 0);
            put(panel, some ? chart.element : h("div", null, choice, notice("Not measured.", "None of these runs measured it.")));
            if (some)
                chart.draw(lines, AXES[state.axis]);
        };
        redraw.push(draw);
    });

    put(root, h("div", { class: "stack" },
        h("div", { class: "row head" }, h("h1", null, `Comparison of ${details.length} ${details.length === 1 ? "run" : "runs"}`),
            segmented("Axis", axisChoices(simulated), state.axis, (axis) => {
                state.axis = axis;
                for (const draw of redraw)
                    draw();
            })),
        h("div", { class: "two" }, ...panels), resultsTable(details, names)));
    for (const draw of redraw)
        draw();
};

/* Runs as rows: what differs, then what came out, the best of each column bold. */
function resultsTable(details: RunDetail[], names: string[]): HTMLElement {
    const options = differing(details.map((detail) => detail.options)).filter((name) => name !== "store" && name !== "name");
    const results = RESULTS.filter(([key]) => details.some(({ run }) => run[key] !== null));
    const lowest = new Set<keyof Run>(["time_to_target_s", "loss", "time_s", "bytes_sent", "staleness_mean", "divergence"]);
    const best = new Map(results.map(([key]) => {
        const all = details.map(({ run }) => run[key]).filter((value): value is number => typeof value === "number");
        return [key, lowest.has(key) ? Math.min(...all) : Math.max(...all)];
    }));
    const order = details.map((_, i) => i).sort((a, b) => rank(details[a]!.run) - rank(details[b]!.run));
    const head = (label: string, numeric = false) => h("th", { scope: "col", class: numeric ? "number" : "" }, label);
    return h("section", { class: "panel" }, h("h2", null, "What differs, and what came out"),
        h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Results" }, h("table", { class: "plain" },
            h("thead", null, h("tr", null, head("Run"), head("Status"), ...options.map((name) => head(name)),
                ...results.map(([, label]) => head(label, true)))),
            h("tbody", null, ...order.map((i) => {
                const { run, options: own } = details[i]!;
                const cells: Child[] = results.map(([key, , format]) => {
                    const text = format(run[key] as number | null);
                    return h("td", { class: "number" }, details.length > 1 && run[key] === best.get(key) ? h("strong", null, text) : text);
                });
                return h("tr", null, h("td", null, swatch(i),
                    h("a", { href: `#/run/${run.id}`, title: runTitle(run) }, names[i])), h("td", null, statusPill(run)),
                    ...options.map((name) => h("td", null, plain(own[name], name))), ...cells);
            })))),
        options.length === 0 && h("p", { class: "dim" }, "All options are the same."));
}

/* A piece of the run's line. */
function swatch(i: number): SVGElement {
    return svg("svg", { class: "swatch", viewBox: "0 0 22 10", "aria-hidden": "true" }, svg("line", {
        x1: 0, y1: 5, x2: 22, y2: 5, "stroke-width": 3, "stroke-dasharray": lineDash(i)?.join(" "), style: { stroke: `var(--line-${(i % 7) + 1})` },
    }));
}

/* First who reached the target soonest, then by accuracy. */
function rank(run: Run): number {
    return run.time_to_target_s ?? 1e12 - (run.test_accuracy ?? 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Up to 20 runs over one another: curves with the same axes as a run's, then a table of their results and
   of the options that differ. The runs of one `fast compare` have a page of their own. */
import { ApiError, type Run } from "../api.ts";
import { axisChoices, type AxisName } from "../axis.ts";
import { CHOSEN_MAX } from "../chosen.ts";
import { batchWarning } from "../comparison.ts";
import { differing } from "../differing.ts";
import { h, notice, put, refill, segmented, type Child } from "../dom.ts";
import { bytes, number, percent, plain, runTitle, seconds, short } from "../format.ts";
import { setTitle, type Page } from "../page.ts";
import { load, Panel, swatch, type Compared } from "../panel.ts";
import { statusPill } from "../status.ts";
import { comparisonPage } from "./comparison.ts";

const AGAIN_MS = 3000; /* while one of them is running */

const RESULTS: [keyof Run, string, (value: number | null) => string][] = [
    ["time_to_target_s", "To target", seconds], ["test_accuracy", "Test acc", percent], ["loss", "Loss", number],
    ["time_s", "Time", seconds], ["samples_per_s", "Samples/s", short], ["bytes_sent", "Sent", bytes],
    ["staleness_mean", "Staleness", number], ["divergence", "Divergence", number],
];
/* Figures of the result that say where the time went. */
const STEPS: [name: string, label: string][] = [
    ["step_s", "Step"], ["predicted_step_s", "Predicted"], ["wait_s", "Waited"], ["waited_for", "Waited for"],
];

/* The address names runs by their numbers, or those of one `fast compare` (batch:NAME). */
export const comparePage: Page = async (root, { path, query, signal }) => {
    if (path.startsWith("batch:"))
        return comparisonPage(root, { path: path.slice("batch:".length), query, signal });
    setTitle("Comparison");
    const ids = path.split(",").map(Number).filter((id) => id > 0).slice(0, CHOSEN_MAX);
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
            try {
                all = await load(ids, signal);
            } catch (error) { /* asked again, unless the token is not valid any more */
                if (signal.aborted || (error instanceof ApiError && error.status === 401))
                    throw error;
            }
            show();
        }
    }
};

/* Runs as rows: what came out, the best of each column bold, then what differs. */
function showResults(element: HTMLElement, { details, names }: Compared): void {
    const options = differing(details.map((detail) => detail.options));
    const results = RESULTS.filter(([key]) => details.some(({ run }) => run[key] !== null));
    const steps = STEPS.filter(([name]) => details.some(({ result }) => result[name] != null));
    const warning = batchWarning(details.map(({ run }, i) => ({ name: names[i]!, batch: run.batch })));
    const lowest = new Set<keyof Run>(["time_to_target_s", "loss", "time_s", "bytes_sent"]);
    const ranked = results.filter(([key]) => key !== "staleness_mean" && key !== "divergence");
    const best = new Map(ranked.map(([key]) => {
        const all = details.map(({ run }) => run[key]).filter((value): value is number => typeof value === "number");
        return [key, lowest.has(key) ? Math.min(...all) : Math.max(...all)];
    }));
    const order = details.map((_, i) => i).sort((a, b) => rank(details[a]!.run) - rank(details[b]!.run));
    const head = (label: string, numeric = false) => h("th", { scope: "col", class: numeric ? "number" : "" }, label);
    refill(element, h("h2", null, "Results, and options that differ"), warning && h("p", { class: "warning" }, warning),
        h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Results" }, h("table", { class: "plain" },
            h("thead", null, h("tr", null, head("Run"), head("Status"), ...results.map(([, label]) => head(label, true)),
                ...steps.map(([, label]) => head(label, true)), ...options.map((name) => head(name)))),
            h("tbody", null, ...order.map((i) => {
                const { run, options: own, result } = details[i]!;
                const cells: Child[] = results.map(([key, , format]) => {
                    const text = format(run[key] as number | null);
                    const first = details.length > 1 && run[key] === best.get(key);
                    return h("td", { class: "number" }, first ? h("strong", null, text) : text);
                });
                return h("tr", null, h("td", { class: "name" }, swatch(i),
                    h("a", { href: `#/run/${run.id}`, title: runTitle(run) }, names[i])), h("td", null, statusPill(run)),
                    ...cells, ...steps.map(([name]) => h("td", { class: "number" }, plain(result[name], name))), ...options.map((name) => h("td", { class: "value", title: plain(own[name], name) }, plain(own[name], name))));
            })))),
        options.length === 0 && h("p", { class: "dim" }, "All options are the same."));
}

/* First who reached the target soonest, then by accuracy. */
function rank(run: Run): number {
    return run.time_to_target_s ?? 1e12 - (run.test_accuracy ?? 0);
}

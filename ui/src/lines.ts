/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a comparison as a table: each way of training with its spread over the seeds, where its
   workers' time went, and forecast beside measurement; and its trials. */
import type { Run } from "./api.ts";
import { forecastIsRight, forecastRatio, kindOf, MEASURES, type ComparedLine, type ComparedRun, type Result, type Spread } from "./comparison.ts";
import { h, refill, type Child } from "./dom.ts";
import { bytes, number, percent, seconds } from "./format.ts";
import { swatch, type Compared } from "./panel.ts";

type Format = (value: number | null) => string;
const never = (value: number | null, format: Format) => value === null ? "never" : format(value);

/* The median, and small below it the least and the largest. */
function spreadCell(spread: Spread | null, format: Format): HTMLElement {
    return h("td", { class: "number" }, ...(spread ? [never(spread.median, format),
        spread.min !== spread.max && h("small", null, `${never(spread.min, format)} to ${never(spread.max, format)}`)] : ["–"]));
}

/* The time of the workers as a bar. */
function timeBar(line: ComparedLine): HTMLElement {
    const parts = (["compute", "codec", "exchange", "wait"] as const).map((name) => [name, line[`${name}_share`]?.median ?? 0] as const);
    const text = parts.filter(([, share]) => share >= 0.005).map(([name, share]) => `${name} ${Math.round(100 * share)}%`).join(", ");
    return h("td", null, line.compute_share ? h("div", { class: "split", role: "img", "aria-label": text, title: text },
        ...parts.map(([name, share]) => h("i", { class: name, style: { width: `${100 * share}%` } }))) : "–",
        line.wait_share?.median != null && h("small", null, `waiting ${Math.round(100 * line.wait_share.median)}%`));
}

/* The forecast of a step, and how far it was off. */
function forecastCell(line: ComparedLine): HTMLElement {
    const ratio = forecastRatio(line);
    return h("td", { class: "number" }, line.predicted_step_s ? seconds(line.predicted_step_s.median) : "–",
        ratio !== null && h("small", { class: forecastIsRight(ratio) ? "" : "off" },
            forecastIsRight(ratio) ? `×${ratio.toFixed(2)}, right` : `×${ratio.toFixed(2)}, off`));
}

/* Links to the runs of a line, by their seeds. */
function seedLinks(line: ComparedLine, runs: Run[]): Child[] {
    const own = runs.filter((run) => kindOf(run).kind === "run" && run.name === line.name);
    const bySeed = new Map(own.map((run) => [run.seed, run])); /* of a repeated one the newest */
    return [...bySeed.values()].sort((a, b) => (a.seed ?? 0) - (b.seed ?? 0)).flatMap((run, i) => [i > 0 && " ",
        h("a", { href: `#/run/${run.id}`, title: `seed ${run.seed}: ${run.status}`, "aria-label": `${line.name}, seed ${run.seed}` }, String(run.seed))]);
}

export function linesTable(element: HTMLElement, lines: ComparedLine[], runs: Run[], result: Result | null, curves: Compared | null): void {
    const { noun, text } = MEASURES[result?.by ?? "time_s"];
    const byLoss = lines.every((line) => !line.accuracy);
    const placed = result !== null;
    const waited = lines.map((line) => curves?.details[curves.names.indexOf(line.name)]?.result.waited_for as string | null | undefined);
    const columns: [label: string, numeric: boolean][] = [["Place", true], ["System", false], [noun, true], ["Reached", true],
        [byLoss ? "Test loss" : "Accuracy", true], ["Sent", true], ["Time of the workers", false], ["Waited for", false], ["Step", true],
        ["Predicted", true], ["Tuned", false], ["Seeds", false]];
    element.hidden = lines.every((line) => line.runs.length === 0); /* trials come first */
    refill(element, h("h2", null, `${lines.length} ways of training`),
        h("p", { class: "dim" }, "Medians over the seeds, with the smallest and the largest below. ",
            placed ? "A place is 1 + the number of lines that are better beyond the spread." : "Places come with the verdict."),
        h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Lines" }, h("table", { class: "plain lines" },
            h("thead", null, h("tr", null, ...columns.map(([label, numeric]) => h("th", { scope: "col", class: numeric ? "number" : "" }, label)))),
            h("tbody", null, ...lines.map((line, i) => h("tr", { class: line.name === result?.best ? "best" : "" },
                h("td", { class: "number" }, line.place === null ? "–" : String(line.place)),
                h("td", { class: "name" }, curves && swatch(Math.max(0, curves.names.indexOf(line.name))), line.name,
                    line.error && h("small", { class: "bad" }, line.error)),
                spreadCell(line.to_target, text), h("td", { class: "number" }, `${line.reached} of ${line.runs.length}`),
                byLoss ? spreadCell(line.test_loss, number) : spreadCell(line.accuracy, percent), spreadCell(line.bytes_sent, bytes),
                timeBar(line), h("td", null, waited[i] ?? "–"), spreadCell(line.step_s, seconds), forecastCell(line),
                h("td", null, line.tuned ?? "–", line.edge && h("small", { class: "off" }, "edge of the range")),
                h("td", { class: "name" }, ...seedLinks(line, runs))))))));
}

function trialText(trial: ComparedRun): string {
    return trial.time_to_target_s !== null ? seconds(trial.time_to_target_s)
        : trial.test_accuracy !== null ? percent(trial.test_accuracy)
        : trial.test_loss !== null ? `loss ${number(trial.test_loss)}` : trial.status;
}

/* A row a line, a column a tuned value; the chosen one is marked. */
export function trialsTable(element: HTMLElement, lines: ComparedLine[], runs: Run[]): void {
    const values = [...new Set(lines.flatMap((line) => line.trials.map(({ tuned }) => tuned)))];
    const total = lines.reduce((sum, line) => sum + line.trials.length, 0);
    element.hidden = total === 0;
    const cell = (line: ComparedLine, tuned: string) => {
        const trial = line.trials.find((candidate) => candidate.tuned === tuned);
        const run = runs.findLast((candidate) => kindOf(candidate).kind === "trial" && kindOf(candidate).line === line.name && kindOf(candidate).what === tuned);
        const shown = trial ? `${line.tuned === tuned ? "✓ " : ""}${trialText(trial)}` : "–";
        return h("td", { class: "number" }, run ? h("a", { href: `#/run/${run.id}` }, shown) : shown);
    };
    refill(element, h("summary", null, "Trials", h("small", { class: "dim" }, ` ${total}`)),
        h("p", { class: "dim" }, "The same for every line, on a held-out fraction of the training set: the time to the target, or the accuracy where it was not reached. ✓ was chosen."),
        h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Trials" }, h("table", { class: "plain" },
            h("thead", null, h("tr", null, h("th", { scope: "col" }, "System"), ...values.map((value) => h("th", { scope: "col", class: "number" }, value)))),
            h("tbody", null, ...lines.map((line) => h("tr", null, h("td", { class: "name" }, line.name), ...values.map((value) => cell(line, value))))))));
}

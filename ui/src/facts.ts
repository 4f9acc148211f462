/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a run besides its curves: figures in a row, its workers, events, options. */
import type { Event, Run, Values, Worker } from "./api.ts";
import { h, refill } from "./dom.ts";
import { bytes, count, number, percent, plain, seconds, short } from "./format.ts";
import { progressOf } from "./status.ts";

const ALWAYS = 5; /* first figures, that are shown even before they are known */

/* The figures that matter, large. */
export function showFigures(element: HTMLElement, run: Run): void {
    const simulated = run.transport === "sim";
    const left = remaining(run);
    const figures: [string, string, string?][] = [
        ["Test accuracy", percent(run.test_accuracy), `test loss ${number(run.test_loss)}`],
        ["Loss", number(run.loss), `train accuracy ${percent(run.train_accuracy)}`],
        ["Step", count(run.steps), `of ${count(run.step_count)}, epoch ${number(run.epoch)}`],
        [simulated ? "Samples/s, virtual" : "Samples/s", short(run.samples_per_s), `${count(run.samples)} seen`],
        [simulated ? "Virtual time" : "Time", seconds(run.time_s), simulated ? "of the simulated cluster" : left],
        ["Wall time", simulated ? seconds(run.wall_time_s) : "–", left ?? "of this machine"],
        ["To target", seconds(run.time_to_target_s)],
        ["Sent", bytes(run.bytes_sent)],
        ["Staleness", number(run.staleness_mean), "mean of the run, in updates"],
        ["Divergence", number(run.divergence), "of the replicas"],
    ];
    const known = figures.filter(([, value], i) => i < ALWAYS || value !== "–");
    refill(element, ...known.map(([label, value, more]) =>
        h("div", null, h("dt", null, label), h("dd", null, value, more && value !== "–" && h("small", null, more)))));
}

/* How much wall time it will still take, by the steps so far. */
function remaining(run: Run): string | undefined {
    const part = progressOf(run);
    const wall = run.wall_time_s ?? run.time_s;
    if (!part || part < 0.02 || !wall)
        return undefined;
    return `about ${seconds((wall * (1 - part)) / part)} of wall time left`;
}

export function showWorkers(element: HTMLElement, workers: Worker[]): void {
    const columns: [string, (worker: Worker) => string][] = [
        ["Steps", (worker) => count(worker.steps)], ["Compute", (worker) => seconds(worker.compute_s)],
        ["Exchange", (worker) => seconds(worker.exchange_s)], ["Wait", (worker) => seconds(worker.wait_s)],
        ["Codec", (worker) => seconds(worker.codec_s)], ["Messages", (worker) => count(worker.messages_sent)],
        ["Sent", (worker) => bytes(worker.bytes_sent)],
    ];
    refill(element, h("h2", null, "Workers"), workers.length === 0
        ? h("p", { class: "dim" }, "Workers are counted where several train.")
        : h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Workers" }, h("table", { class: "plain" },
            h("thead", null, h("tr", null, h("th", { scope: "col" }, "Actor"),
                ...columns.map(([label]) => h("th", { scope: "col", class: "number" }, label)))),
            h("tbody", null, ...workers.map((worker) => h("tr", null,
                h("td", { class: "name" }, worker.name ?? `worker ${worker.rank}`),
                ...columns.map(([, text]) => h("td", { class: "number" }, text(worker)))))))));
}

const EVENTS_MAX = 200; /* the newest */

export function showEvents(element: HTMLElement, events: Event[]): void {
    refill(element, h("h2", null, "Events"), events.length === 0
        ? h("p", { class: "dim" }, "Nothing happened yet.")
        : h("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "Events" },
            h("table", { class: "plain" },
                h("thead", null, h("tr", null, ...["Time", "Step", "Kind", "What"].map((label, i) =>
                    h("th", { scope: "col", class: i < 2 ? "number" : "" }, label)))),
                h("tbody", null, ...events.slice(-EVENTS_MAX).reverse().map(eventRow)))));
}

function eventRow(event: Event): HTMLElement {
    return h("tr", { class: `event-${event.kind}` },
        h("td", { class: "number" }, seconds(event.time_s)), h("td", { class: "number" }, count(event.step)),
        h("td", null, event.kind), h("td", { class: "wrap" }, event.text ?? ""));
}

/* Names and values that nobody reads every day: closed at first. */
export function values(title: string, all: Values): HTMLElement {
    const entries = Object.entries(all).filter(([, value]) => value !== null && value !== "");
    return h("details", { class: "panel" },
        h("summary", null, title, h("small", { class: "dim" }, ` ${entries.length}`)),
        h("dl", { class: "values" }, ...entries.flatMap(([name, value]) =>
            [h("dt", null, name), h("dd", null, plain(value, name))])));
}

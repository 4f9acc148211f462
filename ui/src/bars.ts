/* SPDX-License-Identifier: Apache-2.0 */
/* Horizontal bars with their numbers beside them: the staleness histogram, and how a step's time is
   split. Elements, not a canvas: text stays text. */
import type { StalenessBucket, Worker } from "./api.ts";
import { h, notice, refill } from "./dom.ts";
import { bucketName, count, seconds } from "./format.ts";

export interface Bar {
    label: string;
    value: number;
    text: string;
    color?: string;
}

export function bars(rows: Bar[]): HTMLElement {
    const most = Math.max(...rows.map((row) => row.value), 1e-300);
    return h("ul", { class: "bars" }, ...rows.map((row) => h("li", null,
        h("span", { class: "bar-label" }, row.label),
        h("span", { class: "bar-track" },
            h("i", { style: { width: `${(100 * row.value) / most}%`, background: row.color ?? "var(--line-1)" } })),
        h("span", { class: "bar-text" }, row.text))));
}

export function showStaleness(element: HTMLElement, buckets: StalenessBucket[], mean: number | null): void {
    /* Buckets without updates may not be there. */
    const all = Array.from({ length: Math.max(-1, ...buckets.map(({ bucket }) => bucket)) + 1 }, (_, bucket) =>
        buckets.find((one) => one.bucket === bucket)?.updates ?? 0);
    const total = all.reduce((sum, updates) => sum + updates, 0);
    refill(element, h("h2", null, "Staleness of updates"), total === 0
        ? notice("Not measured.", "Synchronous strategies apply every update to the model that it was computed for.")
        : bars(all.map((updates, bucket) => ({
            label: bucketName(bucket), value: updates, text: `${count(updates)} · ${((100 * updates) / total).toFixed(1)}%`,
        }))),
        total > 0 && h("p", { class: "dim" }, h("small", null,
            "Updates by how many others the model took in since they were computed",
            mean === null ? "." : `; mean ${mean.toFixed(2)}.`)));
}

/* Where a worker's time went, on average; servers are no workers. */
export function showSplit(element: HTMLElement, workers: Worker[]): void {
    const own = workers.filter((worker) => !worker.name || /^worker/i.test(worker.name));
    const mean = (name: "compute_s" | "exchange_s" | "wait_s" | "codec_s") =>
        own.length ? own.reduce((sum, worker) => sum + (worker[name] ?? 0), 0) / own.length : 0;
    const rows: [string, number, string][] = [
        ["compute", mean("compute_s"), "var(--compute)"], ["codec", mean("codec_s"), "var(--codec)"],
        ["exchange", mean("exchange_s"), "var(--send)"], ["wait", mean("wait_s"), "var(--wait)"],
    ];
    const total = rows.reduce((sum, [, value]) => sum + value, 0);
    if (total === 0) {
        refill(element, h("h2", null, "Time of a worker"),
            notice("Not measured.", "It is counted where several workers train."));
        return;
    }
    refill(element, h("h2", null, "Time of a worker"),
        bars(rows.map(([label, value, color]) => ({
            label, value, color, text: `${seconds(value)} · ${((100 * value) / total).toFixed(0)}%`,
        }))),
        h("p", { class: "dim" }, h("small", null, "Mean of the workers. Exchange is what was sent and is on its way, ",
            "moved or summed; wait is before a peer had sent it.")));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a step as the cost model forecast it beside the measured one, in parts, and whom the
   workers waited for. While a run trains the measured side comes from the workers' counters; the
   forecast is stored when it ends. */
import type { Link, Values, Worker } from "./api.ts";
import { h, refill, type Child } from "./dom.ts";
import { seconds } from "./format.ts";

export interface Parts {
    total: number;
    parts: [name: string, seconds: number, color: string][];
}

const known = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);

/* The forecast of the result; null where it has none. */
export function predictedOf(result: Values): Parts | null {
    const { predicted_step_s: total, predicted_compute_s: compute, predicted_exchange_s: exchange,
            predicted_straggler_s: straggler } = result;
    if (!known(total) || total <= 0)
        return null;
    return { total, parts: [["compute", known(compute) ? compute : total, "compute"],
        ["exchange", known(exchange) ? exchange : 0, "send"], ["straggler", known(straggler) ? straggler : 0, "wait"]] };
}

/* The mean step of the workers that took steps, in its parts; the result's own where there is one. */
export function measuredOf(result: Values, workers: Worker[]): Parts | null {
    const own = workers.filter(({ name, steps }) => (!name || /^worker/i.test(name)) && (steps ?? 0) > 0);
    const mean = (column: "compute_s" | "exchange_s" | "wait_s" | "codec_s") =>
        own.reduce((sum, worker) => sum + (worker[column] ?? 0) / worker.steps!, 0) / Math.max(1, own.length);
    const parts: Parts["parts"] = [["compute", mean("compute_s"), "compute"], ["codec", mean("codec_s"), "codec"],
        ["exchange", mean("exchange_s"), "send"], ["wait", mean("wait_s"), "wait"]];
    const sum = parts.reduce((all, [, value]) => all + value, 0);
    const total = known(result["step_s"]) ? result["step_s"] : sum;
    if (!(total > 0))
        return null;
    return { total, parts: sum > 0 ? parts : [["compute", total, "compute"]] };
}

/* Whom the others waited for most, and its share of all waiting. */
export function waitedFor(result: Values, names: string[], links: Link[]): { name: string; share: number } | null {
    if (typeof result["waited_for"] === "string" && known(result["waited_share"]))
        return { name: result["waited_for"], share: result["waited_share"] };
    const sums = new Map<number, number>();
    let all = 0;
    for (const { sender, wait_s } of links) {
        sums.set(sender, (sums.get(sender) ?? 0) + (wait_s ?? 0));
        all += wait_s ?? 0;
    }
    const [most] = [...sums].sort((a, b) => b[1] - a[1]);
    return most && all > 0 ? { name: names[most[0]] ?? `actor ${most[0]}`, share: most[1] / all } : null;
}

/* How far the forecast was off, in words. */
export function comparedWords(predicted: number, measured: number): string {
    const off = predicted / measured - 1;
    return Math.abs(off) < 0.005 ? "the forecast was right"
        : `the forecast was ${Math.abs(100 * off).toFixed(Math.abs(off) < 0.1 ? 1 : 0)}% ${off > 0 ? "too long" : "too short"}`;
}

function bar(label: string, { total, parts }: Parts, most: number): Child {
    const words = parts.filter(([, value]) => value > 0.005 * total).map(([name, value]) => `${name} ${seconds(value)}`).join(", ");
    return h("li", null, h("span", { class: "bar-label" }, label),
        h("span", { class: "bar-track parts", title: words }, ...parts.map(([name, value, color]) => h("i", {
            style: { width: `${(100 * value) / most}%`, background: `var(--${color})` }, title: `${name} ${seconds(value)}`,
        }))),
        h("span", { class: "bar-text" }, seconds(total), h("small", { class: "dim" }, ` ${words}`)));
}

/* `whole`: the run came to its end, so that its steps can be compared with the forecast. */
export function showForecast(element: HTMLElement, result: Values, whole: boolean, workers: Worker[], names: string[],
                             links: Link[]): void {
    const predicted = predictedOf(result);
    const measured = measuredOf(result, workers);
    const waited = waitedFor(result, names, links);
    element.hidden = !measured;
    if (!measured)
        return;
    const size = ({ parts }: Parts) => parts.reduce((sum, [, value]) => sum + value, 0);
    const most = Math.max(size(measured), predicted ? size(predicted) : 0);
    refill(element, h("h2", null, "A step: forecast and measured"),
        h("ul", { class: "bars" }, predicted && bar("forecast", predicted, most), bar("measured", measured, most)),
        h("p", { class: "dim" }, h("small", null,
            !predicted ? "The forecast is shown when the run has ended. "
                : whole ? `By the cost model ${comparedWords(predicted.total, measured.total)}. `
                : "The run did not come to its end, so that its steps are not comparable. ",
            waited ? h("span", null, "Workers waited for ", h("strong", null, waited.name),
                waited.share < 0.995 ? ` most: ${(100 * waited.share).toFixed(0)}% of all waiting.` : " alone.") : null)));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One run, live: what the store holds is asked for once, then a stream of events brings what is new.
   The page repaints four times a second at most, however much comes. */
import { ask, deleteRun, listen, stopRun, tagRun, type Event, type Link, type Metrics, type Run, type RunDetail,
         type Spans, type StalenessBucket, type Worker } from "../api.ts";
import { appendMetrics, emptyMetrics } from "../axis.ts";
import { showStaleness, timeSplit } from "../bars.ts";
import { choose, chosenRuns } from "../chosen.ts";
import { Curves } from "../curves.ts";
import { command, confirm, h, notice, put, toast } from "../dom.ts";
import { showEvents, showFigures, showWorkers, values } from "../facts.ts";
import { date, runTitle } from "../format.ts";
import { Gantt } from "../gantt.ts";
import { Graph } from "../graph.ts";
import { useKeys } from "../keys.ts";
import { setTitle, type Page } from "../page.ts";
import { progressOf, statusPill } from "../status.ts";

const ROWS_MAX = 20000; /* metric rows to ask for */
const PAINT_MS = 250;

export const runPage: Page = async (root, { path, signal }) => {
    const id = Number(path);
    const detail = await ask<RunDetail>(`/api/runs/${id}`, { signal });
    const metrics = emptyMetrics();
    const view = runView(detail, metrics, signal);
    put(root, view.element);
    view.update();

    const [rows, spans] = await Promise.all([
        ask<Metrics>(`/api/runs/${id}/metrics?points=${ROWS_MAX}`, { signal }),
        ask<Spans>(`/api/runs/${id}/spans`, { signal }).catch((): Spans => ({ actors: [], spans: [] })),
    ]);
    appendMetrics(metrics, rows);
    view.showSpans(spans);
    view.update();
    if (detail.run.status === "running")
        follow(detail, metrics, view, signal);
};

type View = ReturnType<typeof runView>;

function follow(detail: RunDetail, metrics: Metrics, view: View, signal: AbortSignal): void {
    let waiting = 0;
    const soon = () => {
        waiting ||= setTimeout(() => {
            waiting = 0;
            if (!signal.aborted)
                view.update();
        }, PAINT_MS);
    };
    const take = <T>(apply: (data: T) => void) => (data: T) => {
        apply(data);
        soon();
    };
    listen(() => `/api/runs/${detail.run.id}/live?after=${metrics.seq.at(-1) ?? -1}.${detail.events.at(-1)?.seq ?? -1}`, {
        metrics: take((more: Partial<Metrics>) => appendMetrics(metrics, more)),
        event: take((events: Event | Event[]) => { addEvents(detail.events, [events].flat()); }),
        run: take((run: Run) => { Object.assign(detail.run, run); }),
        staleness: take((buckets: StalenessBucket[]) => { detail.staleness = buckets; }),
        workers: take((workers: Worker[]) => { detail.workers = workers; }),
        links: take((links: Link[]) => { detail.links = links; }),
        spans: (spans: Spans) => view.showSpans(spans),
        end: () => {
            /* The last word: result and status are final now. */
            void ask<RunDetail>(`/api/runs/${detail.run.id}`, { signal }).then((last) => {
                Object.assign(detail, last);
                view.update();
                view.finish();
            }).catch((error: Error) => { if (!signal.aborted) toast(error.message, "bad"); });
        },
    }, signal, view.lost);
}

/* A stream that reconnected may bring events again. */
function addEvents(all: Event[], more: Event[]): void {
    const last = all.at(-1)?.seq ?? -1;
    all.push(...more.filter((event) => event.seq === undefined || event.seq > last));
}

function runView(detail: RunDetail, metrics: Metrics, signal: AbortSignal) {
    const { run } = detail;
    const simulated = run.transport === "sim";
    const head = h("div", { class: "run-head" });
    const progress = h("progress", { max: 1, "aria-label": "Progress" });
    const banner = h("div");
    const figures = h("dl", { class: "figures" });
    const curves = new Curves(simulated, signal);
    const gantt = new Gantt(signal);
    const timeline = h("section", { class: "panel" });
    const graph = new Graph();
    const staleness = h("section", { class: "panel" });
    const split = h("section", { class: "panel" });
    const workers = h("section", { class: "panel" });
    const events = h("section", { class: "panel" });
    const more = h("div", { class: "stack" });
    let spanCount = -1;

    function update(): void {
        setTitle(runTitle(detail.run));
        showHead(head, detail);
        progress.hidden = progressOf(detail.run) === null;
        progress.value = progressOf(detail.run) ?? 0;
        put(banner, detail.run.error && h("p", { class: "error" }, detail.run.error),
            !!detail.run.dropped && h("p", { class: "warning" },
                `The disk could not follow: ${detail.run.dropped} rows of this run were not kept.`),
            detail.run.status === "interrupted" && h("p", { class: "warning" },
                "The process of this run ended without a word: killed, out of memory, or the machine stopped. What it had written is here."));
        showFigures(figures, detail.run);
        curves.draw(metrics, detail.events);
        graph.show(detail.workers.map((worker) => worker.name ?? `worker ${worker.rank}`), detail.links);
        showStaleness(staleness, detail.staleness, detail.run.staleness_mean);
        put(split, h("h2", null, "Time of a worker"), timeSplit(meanOf(detail.workers)),
            h("p", { class: "dim" }, h("small", null, "Mean of the workers. Exchange is what was sent and is on its way, moved or summed; wait is before a peer had sent it.")));
        showWorkers(workers, detail.workers);
        showEvents(events, detail.events);
    }

    function finish(): void {
        put(more, values("Options", detail.options), values("Result", detail.result), values("Machine", detail.machine));
    }

    function showSpans(spans: Spans): void {
        if (spanCount < 0 || spans.spans.length > 0) {
            spanCount = spans.spans.length;
            put(timeline, spanCount > 0 ? gantt.element
                : notice("No timeline.", "Runs with several workers keep what each worker did last."));
            gantt.show(spans);
        }
    }

    finish();
    const element = h("div", { class: "stack" }, head, progress, banner, figures, curves.element, timeline,
        h("div", { class: "two" }, graph.element, h("div", { class: "stack" }, split, staleness)),
        h("div", { class: "two" }, workers, events),
        h("section", { class: "panel" }, h("h2", null, "Repeat it"), command(run.command), traceHint(run)), more);
    useKeys([{ keys: ["Escape"], what: "all runs", press: () => { location.hash = "#/runs"; } }], signal);
    const lost = (isLost: boolean) => head.classList.toggle("lost", isLost);
    return { element, update, finish, showSpans, lost };
}

function meanOf(workers: Worker[]): Partial<Worker> {
    const own = workers.filter((worker) => !worker.name || /^worker/i.test(worker.name));
    const mean = (name: "compute_s" | "exchange_s" | "wait_s" | "codec_s") =>
        own.length ? own.reduce((sum, worker) => sum + (worker[name] ?? 0), 0) / own.length : null;
    return { compute_s: mean("compute_s"), exchange_s: mean("exchange_s"), wait_s: mean("wait_s"), codec_s: mean("codec_s") };
}

/* Where to see every message. */
function traceHint(run: Run): HTMLElement {
    return run.trace
        ? h("p", { class: "dim" }, "Every message is in ", h("code", null, run.trace), "; open it in ",
            h("a", { href: "https://ui.perfetto.dev", target: "_blank", rel: "noreferrer" }, "Perfetto"), ".")
        : h("p", { class: "dim" }, "With ", h("code", null, "--trace FILE"), " it also writes every message, for Perfetto.");
}

/* Title, status and what can be done. It is made anew when one of them changes, not while one types. */
function showHead(head: HTMLElement, detail: RunDetail): void {
    const { run, tags } = detail;
    const state = JSON.stringify([run.status, run.name, tags, progressOf(run)]);
    if (head.dataset.state === state || head.querySelector("input:focus"))
        return;
    head.dataset.state = state;
    const fail = (error: unknown) => toast((error as Error).message, "bad");
    const tag = async (add: string[], remove: string[]) => {
        try {
            await tagRun(run.id, add, remove);
            detail.tags = [...tags.filter((name) => !remove.includes(name)), ...add.filter((name) => !tags.includes(name))];
            showHead(head, detail);
        } catch (error) {
            fail(error);
        }
    };
    const field = h("input", { class: "tag-field", placeholder: "add a tag", "aria-label": "Add a tag", maxlength: 64 });
    field.addEventListener("keydown", (event) => {
        const name = field.value.trim();
        if (event.key === "Enter" && name) {
            field.blur();
            void tag([name], []);
        }
    });
    const stop = h("button", {
        onclick: async () => {
            stop.disabled = true;
            await stopRun(run.id).then(() => toast("The run finishes its step and stops."), fail);
        },
    }, "Stop");
    put(head, h("div", { class: "row" }, h("h1", null, runTitle(run)), statusPill(run)),
        h("div", { class: "row dim" },
            h("small", null, `run ${run.id} · ${[run.system, run.strategy, run.codec && `codec ${run.codec}`,
                `${run.workers ?? 1} ${run.workers === 1 ? "worker" : "workers"}`, run.transport, run.cluster].filter(Boolean).join(" · ")}`),
            h("small", null, `began ${date(run.created)}${run.host ? ` on ${run.host}` : ""}`),
            h("span", { class: "tags" }, ...tags.map((name) => h("span", { class: "tag" }, name,
                h("button", { "aria-label": `Remove the tag ${name}`, onclick: () => tag([], [name]) }, "×"))), field)),
        h("div", { class: "row actions" },
            run.status === "running" && stop,
            h("button", {
                onclick: () => {
                    const chosen = chosenRuns();
                    toast(choose(chosen, run.id, true) ? "Chosen; compare it on the page of runs." : "20 runs are chosen already.");
                },
            }, "Choose to compare"),
            run.batch_of && h("a", { class: "button", href: `#/compare/batch:${encodeURIComponent(run.batch_of)}` }, "Its comparison"),
            h("a", { class: "button", href: `#/simulator?run=${run.id}` }, "Run again…"),
            run.status !== "running" && h("button", {
                class: "danger", onclick: async () => {
                    if (await confirm(`Delete run ${run.id}?`, "What was measured is removed from the store. Saved weights and traces stay.", "Delete"))
                        await deleteRun(run.id).then(() => { location.hash = "#/runs"; }, fail);
                },
            }, "Delete")));
}

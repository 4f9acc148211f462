/* SPDX-License-Identifier: Apache-2.0 */
/* One run, live: what the store holds is asked for once, then a stream of events brings what is new.
   The page repaints four times a second at most, however much comes. */
import { ask, listen, type Event, type Link, type Metrics, type Pass, type Run, type RunDetail, type Spans,
         type StalenessBucket, type StoredPlace, type Usage, type Worker } from "../api.ts";
import { appendMetrics, emptyMetrics } from "../axis.ts";
import { showSplit, showStaleness } from "../bars.ts";
import { Curves } from "../curves.ts";
import { command, h, notice, put, refill, toast, type Child } from "../dom.ts";
import { showEvaluation } from "../evaluation.ts";
import { showEvents, showFigures, showWorkers, values } from "../facts.ts";
import { showForecast } from "../forecast.ts";
import { count, runTitle } from "../format.ts";
import { Gantt } from "../gantt.ts";
import { Graph } from "../graph.ts";
import { useKeys } from "../keys.ts";
import { momentsOf } from "../moments.ts";
import { NoteBox } from "../note.ts";
import { setTitle, type Page } from "../page.ts";
import { Split } from "../placement.ts";
import { RunHead } from "../runhead.ts";
import { isWhole, progressOf } from "../status.ts";
import { UsageCharts } from "../usage.ts";
import { showWaits } from "../waits.ts";

const ROWS_MAX = 20000; /* metric rows to ask for */
const PAINT_MS = 250;

export const runPage: Page = async (root, { path, signal }) => {
    const id = Number(path);
    const detail = await ask<RunDetail>(`/api/runs/${id}`, { signal });
    const metrics = emptyMetrics();
    const view = new View(detail, metrics, signal);
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
        places: take((places: StoredPlace[]) => { detail.places = places; }),
        passes: take((passes: Pass[]) => { detail.passes = passes; }),
        usage: take((usage: Usage) => { detail.usage = usage; }),
        spans: (spans: Spans) => view.showSpans(spans),
        end: () => {
            /* The last word: result and status are final now. */
            void ask<RunDetail>(`/api/runs/${detail.run.id}`, { signal }).then((last) => {
                Object.assign(detail, last);
                view.update();
                view.finish();
            }).catch((error: Error) => { if (!signal.aborted) toast(error.message, "bad"); });
        },
    }, signal, (isLost) => view.lost(isLost));
}

/* A stream that reconnected may bring events again. */
function addEvents(all: Event[], more: Event[]): void {
    const last = all.at(-1)?.seq ?? -1;
    all.push(...more.filter((event) => event.seq === undefined || event.seq > last));
}

/* All that the page shows of a run. */
class View {
    readonly element: HTMLElement;
    private readonly head: RunHead;
    private readonly progress = h("progress", { max: 1, "aria-label": "Progress" });
    private readonly banner = h("div");
    private readonly figures = h("dl", { class: "figures" });
    private readonly forecast = h("section", { class: "panel", hidden: true });
    private readonly note: NoteBox;
    private readonly waits = h("section", { class: "panel", hidden: true });
    private readonly usage: UsageCharts;
    private readonly curves: Curves;
    private readonly gantt: Gantt;
    private readonly timeline = h("section", { class: "panel" });
    private readonly parts: Split;
    private readonly graph = new Graph();
    private readonly staleness = h("section", { class: "panel" });
    private readonly split = h("section", { class: "panel" });
    private readonly workers = h("section", { class: "panel" });
    private readonly events = h("section", { class: "panel" });
    private readonly evaluation = h("section", { class: "panel", hidden: true });
    private readonly more = h("div", { class: "stack" });
    private hasSpans: boolean | null = null; /* null: nobody knows yet */
    private spans: Spans = { actors: [], spans: [] };

    constructor(private readonly detail: RunDetail, private readonly metrics: Metrics, signal: AbortSignal) {
        const { run } = detail;
        this.head = new RunHead(detail);
        this.curves = new Curves(run.transport === "sim", signal);
        this.gantt = new Gantt(signal);
        this.parts = new Split(signal);
        this.note = new NoteBox(run);
        this.usage = new UsageCharts(signal);
        this.element = h("div", { class: "stack" }, this.head.element, this.note.element, this.progress, this.banner, this.figures,
            this.forecast, this.curves.element, this.evaluation, this.parts.element, this.timeline,
            h("div", { class: "two" }, this.graph.element, h("div", { class: "stack" }, this.split, this.waits, this.staleness)),
            h("div", { class: "two" }, this.workers, this.events), this.usage.element,
            h("section", { class: "panel" }, h("h2", null, "Repeat it"), command(run.command), traceHint(run)),
            this.more);
        useKeys([{ keys: ["Escape"], what: "all runs", press: () => { location.hash = "#/runs"; } }], signal);
        this.finish();
    }

    update(): void {
        const { run, workers, events, links, staleness } = this.detail;
        setTitle(runTitle(run));
        this.head.update();
        this.progress.hidden = progressOf(run) === null;
        this.progress.value = progressOf(run) ?? 0;
        refill(this.banner, ...warnings(run));
        showFigures(this.figures, run);
        const names = workers.map((worker) => worker.name ?? `worker ${worker.rank}`);
        showForecast(this.forecast, this.detail.result, isWhole(run), workers, names, links);
        this.curves.draw(this.metrics, [...events, ...bestOf(this.detail)]);
        showEvaluation(this.evaluation, this.detail.result);
        this.graph.show(names, links);
        showWaits(this.waits, names, links);
        this.usage.draw(this.detail.usage);
        this.parts.show(this.detail);
        showStaleness(this.staleness, staleness, run.staleness_mean);
        showSplit(this.split, workers);
        showWorkers(this.workers, workers);
        showEvents(this.events, events);
    }

    /* Show the parts that do not change while the run trains. */
    finish(): void {
        this.showTimeline();
        const { options, result, machine } = this.detail;
        const { figures: _, ...rest } = result; /* shown above */
        put(this.more, values("Options", options), values("Result", rest), values("Machine", machine));
    }

    showSpans(spans: Spans): void {
        const has = spans.spans.length > 0 || (spans.activity?.length ?? 0) > 0;
        if (this.hasSpans !== has)
            put(this.timeline, has ? this.gantt.element
                : notice("No timeline.", "Runs with several workers record the activities of each."));
        this.hasSpans = has;
        this.spans = spans;
        this.showTimeline();
    }

    private showTimeline(): void {
        if (this.hasSpans)
            this.gantt.show(this.spans, momentsOf(this.detail.events), new Set(this.detail.workers.map(({ rank }) => rank)));
    }

    lost(isLost: boolean): void {
        this.head.element.classList.toggle("lost", isLost);
    }
}

/* The evaluation of the best model, as a mark for the curves. */
function bestOf({ events, result }: RunDetail): Event[] {
    const best = events.find((event) => event.kind === "evaluate" && event.step === result["best_step"]);
    return best ? [{ ...best, kind: "best" }] : [];
}

function warnings(run: Run): Child[] {
    return [
        run.error && h("p", { class: "error" }, run.error),
        !!run.dropped && h("p", { class: "warning" },
            `The disk could not follow: ${count(run.dropped)} rows of this run were not stored.`),
        run.status === "interrupted" && h("p", { class: "warning" },
            "The process of this run ended without a word: killed, out of memory, or the machine stopped. ",
            "What it had written is here."),
    ];
}

/* Where to see every message. */
function traceHint(run: Run): HTMLElement {
    return run.trace
        ? h("p", { class: "dim" }, "Every message is in ", h("code", null, run.trace), ": ",
            h("a", { class: "button", href: `/api/runs/${run.id}/trace`, download: `run-${run.id}.trace.json` }, "Save the trace"),
            " and open it in ", h("a", { href: "https://ui.perfetto.dev", target: "_blank", rel: "noreferrer" }, "Perfetto"), ".")
        : h("p", { class: "dim" }, "With ", h("code", null, "--trace FILE"), " it also writes every message, for Perfetto.");
}

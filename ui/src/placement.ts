/* SPDX-License-Identifier: Apache-2.0 */
/* A split model on its workers: which layers and parameters each has, as a grid with the coordinates
   of the mesh, and the passes of micro-batches through them. */
import type { Run, RunDetail, StoredPlace, Values } from "./api.ts";
import { h, notice, put, refill, type Child } from "./dom.ts";
import { count, percent, plain } from "./format.ts";
import { measuresOf, rowsOf, type Measures } from "./passes.ts";
import { measureTable, Schedule } from "./schedule.ts";

const LINES_MAX = 16; /* replicas and shards that are shown */

export class Split {
    readonly element = h("section", { class: "panel", hidden: true });
    private readonly grid = h("div");
    private readonly figure = h("div");
    private readonly words = h("div");
    private readonly schedule: Schedule;
    private drawn = false;

    constructor(signal: AbortSignal) {
        this.schedule = new Schedule(signal);
        put(this.element, h("h2", null, "Placement and pipeline"), this.grid, this.figure, this.words);
    }

    show({ run, options, places = [], passes = [] }: RunDetail): void {
        this.element.hidden = places.length === 0 && !options["mesh"];
        if (this.element.hidden)
            return;
        refill(this.grid, meshWords(options, places), places.length > 0 && placement(places));
        if (passes.length === 0) {
            this.drawn = false;
            refill(this.figure, emptyNotice(run, places));
            refill(this.words);
            return;
        }
        if (!this.drawn)
            put(this.figure, this.schedule.element);
        this.drawn = true;
        const rows = rowsOf(places, passes);
        const measures = measuresOf(rows);
        this.schedule.show(rows, places, passes, measures);
        refill(this.words, h("p", { class: "dim" }, h("small", null, bubbleWords(measures))),
            measureTable(rows, places, measures));
    }
}

/* The options that made the split. */
function meshWords(options: Values, places: StoredPlace[]): Child {
    const micro = Number(options["accumulate"] ?? 1);
    return h("p", { class: "dim" }, [`mesh ${plain(options["mesh"])}`,
        places.some(({ stage }) => stage > 0) && options["pipeline"] && `pipeline ${plain(options["pipeline"])}`,
        micro > 0 && `${count(micro)} micro-batch${micro === 1 ? "" : "es"} of ${plain(options["batch"])} samples a step`]
        .filter(Boolean).join(" · "));
}

/* Why there is no pass yet, and what to do. */
function emptyNotice(run: Run, places: StoredPlace[]): HTMLElement {
    if (run.status === "running")
        return notice("No pass yet.", "They appear about a second after training begins.");
    return places.length > 0 ? notice("No pass was stored.", "The run ended before a micro-batch went through its workers.")
        : notice("Not recorded.", "The run ended before it was placed on workers, or an earlier version stored it; run it again.");
}

/* Stages from left to right, as data flows; a line for each shard of each replica. */
function placement(places: StoredPlace[]): HTMLElement {
    const stages = [...new Set(places.map(({ stage }) => stage))].sort((a, b) => a - b);
    const most = Math.max(...places.map(({ params }) => params), 1);
    const lines = new Map<string, StoredPlace[]>();
    for (const place of [...places].sort((a, b) => a.replica - b.replica || a.shard - b.shard)) {
        const name = `replica ${place.replica}, shard ${place.shard}`;
        lines.set(name, [...lines.get(name) ?? [], place]);
    }
    const shards = new Set(places.map(({ shard }) => shard)).size > 1;
    const all = [...lines];
    const named = all.length > 1;
    return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Placement" }, h("table", { class: "placement", style: { minWidth: `${11 * stages.length + (named ? 8 : 0)}rem` } },
        h("thead", null, h("tr", null, named && h("td"), ...stages.map((stage) => h("th", { scope: "col" }, `Stage ${stage}`)))),
        h("tbody", null, ...all.slice(0, LINES_MAX).map(([name, own]) => h("tr", null,
            named && h("th", { scope: "row" }, shards ? name : name.split(",")[0]),
            ...stages.map((stage) => h("td", null, ...own.filter((place) => place.stage === stage)
                .map((place) => box(place, most)))))),
            all.length > LINES_MAX && h("tr", null, h("td", { colspan: stages.length + 1, class: "dim" },
                `${all.length - LINES_MAX} more lines; every replica has the same parts`)))));
}

function box({ worker, layers, params }: StoredPlace, most: number): HTMLElement {
    return h("div", { class: "place" }, h("strong", null, `worker ${worker}`), h("span", null, layers || "no parameters"),
        h("span", { class: "bar-track" }, h("i", { style: { width: `${(100 * params) / most}%`, background: "var(--line-1)" } })),
        h("small", { class: "dim" }, `${count(params)} parameters`));
}

/* How much of their time workers have no pass, beside the closed form. */
function bubbleWords({ bubble, expected, steps, counted }: Measures): string {
    const of = steps.length === 0 ? "of the time that is recorded of every worker"
        : `of ${counted} recorded step${counted === 1 ? "" : "s"}`;
    const words = bubble === null ? "No step is recorded whole." : `Bubbles are ${percent(bubble)} ${of}`;
    const form = expected === null ? "" : `; with equal stages and no cost of messages they are ${percent(expected)}`;
    return bubble === null ? words : `${words}${form}. A busy worker computes, or exchanges values with other shards. The first passes of a run are recorded.`;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* One `fast compare`: how far it is while it runs, then the verdict with its reasons, the lines with their
   spread over the seeds, their curves, and the trials, which are folded away. Everything is read from the
   store, so that a comparison of a terminal looks the same. */
import { ApiError, ask, serverInfo, startComparison, stopComparison, type Run, type RunList, type ServerInfo } from "../api.ts";
import { axisChoices, type AxisName } from "../axis.ts";
import { CHOSEN_MAX } from "../chosen.ts";
import { batchWarning, kindOf, linesOf, reasons, type ComparedLine, type Comparison, type Progress } from "../comparison.ts";
import { command, h, notice, put, refill, segmented, toast } from "../dom.ts";
import { count, date, percent, seconds, tick } from "../format.ts";
import { cannotStart, optionsOf, runIt, withStore } from "../here.ts";
import { linesTable, trialsTable } from "../lines.ts";
import { setTitle, type Page } from "../page.ts";
import { load, Panel, type Compared } from "../panel.ts";

const AGAIN_MS = 1000; /* while it runs */
const RUNS_MAX = 10000;
const PHASES: Record<string, string> = {
    budget: "Fitting the budget", runs: "Trials and runs", changes: "What would change the answer",
};

/* Everything that the page shows. */
interface View {
    name: string;
    info: ServerInfo;
    stored: Comparison | null; /* null before its end */
    runs: Run[];
    progress: Progress;
    curves: Compared | null; /* of the run that stands for each line */
}

const isRunning = (view: View): boolean =>
    view.progress.name === view.name && (view.progress.state === "running" || view.progress.state === "stopping");
/* Another process has it: it has no verdict yet, and a run of it trains. */
const isElsewhere = (view: View): boolean =>
    !isRunning(view) && !view.stored && view.runs.some((run) => run.status === "running");

async function look(name: string, signal: AbortSignal): Promise<View> {
    const where = encodeURIComponent(`batch_of=${name}`);
    const [info, stored, { runs }, progress] = await Promise.all([serverInfo(),
        ask<{ comparisons: Comparison[] }>(`/api/comparisons?name=${encodeURIComponent(name)}`, { signal })
            .then(({ comparisons }) => comparisons[0] ?? null, (error) => {
                if (error instanceof ApiError && error.status === 404)
                    return null;
                throw error;
            }),
        ask<RunList>(`/api/runs?where=${where}&sort=id&limit=${RUNS_MAX}`, { signal }),
        ask<Progress>("/api/comparisons/current", { signal })]);
    /* A condition "=" is also true of "name:...", of another comparison. */
    return { name, info, stored, runs: runs.filter((run) => run.batch_of === name), progress, curves: null };
}

const linesOfView = ({ stored, runs }: View): ComparedLine[] => stored?.result?.lines ?? linesOf(runs);

/* The run in the middle of a line: the seed whose time to the target, else whose accuracy, is the median. */
function middleRun(line: ComparedLine, runs: Run[]): Run | null {
    const own = runs.filter((run) => kindOf(run).kind === "run" && run.name === line.name && run.status !== "running");
    const value = (run: Run) => [run.time_to_target_s ?? Infinity, -(run.test_accuracy ?? 0)] as const;
    own.sort((a, b) => value(a)[0] - value(b)[0] || value(a)[1] - value(b)[1]);
    return own[own.length >> 1] ?? null;
}

export const comparisonPage: Page = async (root, { path: name, signal }) => {
    setTitle(name);
    let view = await look(name, signal);
    if (!view.stored && view.runs.length === 0 && !isRunning(view)) {
        put(root, notice("There is no such comparison.", h("a", { href: "#/ask" }, "Which strategy?"), " starts one."));
        return;
    }
    const by = view.stored?.result?.by ?? "time_s";
    let axis: AxisName = by === "bytes_sent" ? "bytes" : by; /* lines are compared by it */
    const parts = {
        head: h("div", { class: "row head" }), progress: new ProgressPanel(),
        verdict: h("section", { class: "panel verdict", "aria-label": "Verdict", "aria-live": "polite" }), warning: h("div"),
        lines: h("section", { class: "panel" }), trials: h("details", { class: "panel" }), command: h("details", { class: "panel" }),
    };
    const panels = (["test_accuracy", "loss"] as const).map((first) => new Panel(first, signal));
    const simulated = view.runs.some((run) => run.transport === "sim") || view.runs.length === 0;
    const curves = h("div", { class: "stack" }, h("div", { class: "row" }, segmented("Axis", axisChoices(simulated), axis, (choice) => {
        axis = choice;
        draw();
    })), h("div", { class: "two" }, ...panels.map((panel) => panel.element)));
    const draw = () => {
        curves.hidden = !view.curves;
        for (const panel of view.curves ? panels : [])
            panel.draw(view.curves!, axis);
    };
    const show = async (before: View | null) => {
        view.curves = await curvesOf(view, before, signal);
        showHead(parts.head, view);
        parts.progress.show(view);
        showVerdict(parts.verdict, view);
        const warning = batchWarning(view.runs.filter((run) => kindOf(run).kind === "run")
            .map((run) => ({ name: run.name ?? `run ${run.id}`, batch: run.batch })));
        refill(parts.warning, warning && h("p", { class: "warning" }, warning));
        linesTable(parts.lines, linesOfView(view), view.runs, view.stored?.result ?? null, view.curves);
        trialsTable(parts.trials, linesOfView(view), view.runs);
        if (!before || (view.stored && !before.stored)) /* of no more interest once there is a verdict */
            parts.trials.open = !view.stored;
        showCommand(parts.command, view);
        draw();
    };
    put(root, h("div", { class: "stack" }, parts.head, parts.progress.element, parts.verdict, parts.warning, parts.lines, curves,
        parts.trials, parts.command));
    await show(null);
    while (!signal.aborted && (isRunning(view) || isElsewhere(view))) {
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
        if (document.hidden || signal.aborted)
            continue;
        const before = view;
        try {
            view = await look(name, signal);
            await show(before);
        } catch (error) { /* asked again in a second, unless the token is not valid any more */
            if (signal.aborted || (error instanceof ApiError && error.status === 401))
                throw error;
        }
    }
};

/* Curves are loaded again only if another run stands for a line. */
async function curvesOf(view: View, before: View | null, signal: AbortSignal): Promise<Compared | null> {
    const lines = linesOfView(view).map((line) => ({ line, run: middleRun(line, view.runs) })).filter(({ run }) => run).slice(0, CHOSEN_MAX);
    const ids = lines.map(({ run }) => run!.id);
    if (ids.length === 0)
        return null;
    if (before?.curves && String(before.curves.details.map(({ run }) => run.id)) === String(ids))
        return before.curves;
    return { ...await load(ids, signal), names: lines.map(({ line }) => line.name) };
}

function showHead(element: HTMLElement, view: View): void {
    const { result, created, status } = view.stored ?? {};
    const facts = [created && date(created), status ?? (isRunning(view) || isElsewhere(view) ? "running" : "no verdict"),
        result?.target && `target ${tick(percent(result.target))}`, result?.budget && `budget ${result.budget}`,
        result && `${result.seeds} ${result.seeds === 1 ? "seed" : "seeds"}`, result && result.trials > 0 && `${result.trials} trials each`];
    refill(element, h("div", null, h("h1", null, view.name),
        h("p", { class: "dim" }, facts.filter(Boolean).join(" · "))), h("a", { class: "button", href: "#/ask" }, "Ask again…"));
}

/* How far it is. The button is made once, so that it does not vanish under the pointer. */
class ProgressPanel {
    readonly element = h("section", { class: "panel", "aria-label": "Progress" });
    private readonly title = h("h2");
    private readonly bar = h("progress", { max: 1, value: 0, "aria-label": "Runs that have ended" });
    private readonly notes = h("ul", { class: "notes" });
    private readonly stop = h("button", { onclick: () => this.cancel() }, "Stop");

    constructor() {
        put(this.element, h("div", { class: "row head" }, this.title, this.stop), this.bar, this.notes);
    }

    show(view: View): void {
        const { progress, notes, state, error } = view.progress;
        const failed = view.progress.name === view.name && state === "ended" && !view.stored;
        const running = isRunning(view);
        this.element.hidden = !running && !failed && !isElsewhere(view);
        this.stop.hidden = this.bar.hidden = this.notes.hidden = !running;
        if (failed)
            this.title.textContent = `It ended without a verdict: ${error ?? "its process was ended"}`;
        else if (!running)
            this.title.textContent = "It runs in another process; its runs appear here.";
        else if (progress) {
            const left = progress.seconds_left !== null && progress.done < progress.count ? `, about ${seconds(progress.seconds_left)} left` : "";
            this.title.textContent = `${PHASES[progress.phase] ?? "Runs"}: ${count(progress.done)} of ${count(progress.count)}${left}`;
            this.bar.max = progress.count || 1;
            this.bar.value = progress.done;
            this.stop.textContent = state === "stopping" ? "Stop at once" : "Stop";
            refill(this.notes, ...notes.slice(-5).reverse().map(({ run, error: why }) =>
                h("li", { class: why ? "bad" : "" }, why ? `${run}: ${why}` : run)));
        }
    }

    private cancel(): void {
        stopComparison().catch((error: Error) => toast(error.message, "bad"));
    }
}

function showVerdict(element: HTMLElement, view: View): void {
    const { stored, info } = view;
    element.hidden = !stored;
    if (!stored)
        return;
    const result = stored.result ?? null;
    const text = stored.verdict ?? "";
    const first = /^.*?\.(?= |$)/s.exec(text.replace(/^(Choose [^:]*|Incomplete: no recommendation)[:.] /, ""))?.[0] ?? "";
    refill(element, h("h2", { class: "answer" }, result?.best ? `Choose ${result.best}` : stored.status === "incomplete" ? "Incomplete: no recommendation" : "No recommendation"),
        h("p", { class: "lead" }, first && first[0]!.toUpperCase() + first.slice(1)),
        result && h("dl", { class: "reasons" }, ...reasons(result, (line) => waitedFor(view, line)).filter(([title]) => title !== "Best" || !first).flatMap(([title, texts]) =>
            [h("dt", null, title), h("dd", null, ...texts.map((one) => h("p", null, one)))])),
        result?.run_it && runIt(result.run_it, info), stored.status === "incomplete" && continueIt(view),
        h("details", null, h("summary", null, "The verdict in words"), h("p", null, text)));
}

/* The actor that the workers of a line waited for most, in the run that stands for it. */
function waitedFor({ curves }: View, line: string): string | null {
    return (curves?.details[curves.names.indexOf(line)]?.result.waited_for as string | undefined) ?? null;
}

/* The same options and the same name: runs that have a result are not repeated. */
function continueIt({ name, stored, info }: View): HTMLElement | null {
    const text = commandOf(stored!, name);
    const options = optionsOf(text, ["store", "progress", "quiet", "report", "json"]);
    const button = h("button", {
        class: "primary", onclick: () => {
            const from = location.hash;
            const again = () => location.hash === from && dispatchEvent(new Event("hashchange"));
            startComparison(options!).then(again, (error: Error) => toast(error.message, "bad"));
        },
    }, "Continue");
    return h("div", { class: "run-it" }, info.starts_runs && options ? button : h("p", { class: "dim" }, cannotStart(info)),
        command(withStore(text, info)));
}

/* The user's command without what the server added, and with the name that continues it. */
function commandOf(stored: Comparison, name: string): string {
    const text = (stored.command ?? "fast compare").replace(/ --progress[= ]\S+/, "");
    return / --name[ =]/.test(text) ? text : `${text} --name ${name}`;
}

function showCommand(element: HTMLElement, { stored, name }: View): void {
    element.hidden = !stored?.command;
    if (stored?.command)
        refill(element, h("summary", null, "Its command"), command(commandOf(stored, name)));
}

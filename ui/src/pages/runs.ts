/* SPDX-License-Identifier: Apache-2.0 */
/* All runs: search, filter, sort, choose up to 20 to compare, delete. The server sorts and filters;
   the table holds what is in sight. The question is in the address, so that going back finds it. */
import { ask, deleteRun, listen, STATUSES, tagRun, type Run, type RunList, type System } from "../api.ts";
import { choose, chosenRuns, CHOSEN_MAX } from "../chosen.ts";
import { askWord, command, confirm, h, notice, put, toast } from "../dom.ts";
import { ago, bytes, count, date, number, percent, runTitle, seconds, short } from "../format.ts";
import { useKeys } from "../keys.ts";
import { DELETED, setPlace, setTitle, type Page } from "../page.ts";
import { statusPill } from "../status.ts";
import { VirtualTable, type Column } from "../table.ts";

const where = (run: Run): string =>
    [run.transport, run.cluster?.split(":")[0]].filter(Boolean).join(" · ") || "–";

/* The name, and on a phone a second line with what the missing columns would say. */
function nameCell(run: Run): Node {
    const workers = `${count(run.workers)} ${run.workers === 1 ? "worker" : "workers"}`;
    return h("span", null, h("a", { href: `#/run/${run.id}` }, runTitle(run)),
        ...(run.tags ?? []).map((tag) => h("span", { class: "tag" }, tag)),
        h("small", { class: "phone" }, statusPill(run), ` · ${workers} · ${ago(run.created)}`));
}

const columns: Column<Run>[] = [
    { key: "id", label: "#", width: "4.2rem", number: true, rank: 2, cell: (run) => String(run.id) },
    { key: "name", label: "Run", width: "auto", cell: nameCell, title: (run) => run.command },
    { key: "status", label: "Status", width: "8.2rem", rank: 2, cell: statusPill },
    { key: "system", label: "System", width: "8.5rem", rank: 3, cell: (run) => run.system ?? "–" },
    { key: "workers", label: "Workers", width: "5.4rem", number: true, rank: 3, cell: (run) => count(run.workers) },
    { key: "transport", label: "Where", width: "8rem", rank: 3, cell: where },
    { key: "codec", label: "Codec", width: "7.5rem", rank: 4, cell: (run) => run.codec ?? "–" },
    { key: "test_accuracy", label: "Test acc", width: "6rem", number: true, cell: (run) => percent(run.test_accuracy) },
    { key: "loss", label: "Loss", width: "5.8rem", number: true, rank: 2, cell: (run) => number(run.loss) },
    { key: "time_to_target_s", label: "To target", width: "6.6rem", number: true, rank: 3,
      cell: (run) => seconds(run.time_to_target_s) },
    { key: "time_s", label: "Time", width: "6.6rem", number: true, rank: 2, cell: (run) => seconds(run.time_s) },
    { key: "samples_per_s", label: "Samples/s", width: "6.2rem", number: true, rank: 4,
      cell: (run) => short(run.samples_per_s) },
    { key: "bytes_sent", label: "Sent", width: "5.8rem", number: true, rank: 4, cell: (run) => bytes(run.bytes_sent) },
    { key: "staleness_mean", label: "Staleness", width: "6.2rem", number: true, rank: 4,
      cell: (run) => number(run.staleness_mean) },
    { key: "created", label: "Began", width: "8.8rem", number: true, rank: 2,
      cell: (run) => ago(run.created), title: (run) => date(run.created) },
];

/* What is asked for, in the words of the address. */
class Question {
    q: string;
    status: string;
    system: string;
    tag: string;
    sort: string;

    constructor(query: URLSearchParams) {
        const word = (name: string) => query.get(name) ?? "";
        this.q = word("q");
        this.status = word("status");
        this.system = word("system");
        this.tag = word("tag");
        this.sort = word("sort") || "-created";
    }

    address(): URLSearchParams {
        return new URLSearchParams(Object.entries(this).filter(([, value]) => value !== ""));
    }

    /* The server takes the system as a condition of the store's: system~ssp. */
    request(): URLSearchParams {
        const words = this.address();
        words.delete("system");
        if (this.system)
            words.set("where", `system~${this.system.replaceAll(",", "")}`);
        return words;
    }

    /* A second click turns the order round; numbers begin with the largest. */
    sortBy(column: Column<Run>): void {
        const [first, second] = column.number ? [`-${column.key}`, column.key] : [column.key, `-${column.key}`];
        this.sort = this.sort === first ? second : first;
    }

    get filters(): boolean {
        return !!(this.q || this.status || this.system || this.tag);
    }
}

export const runsPage: Page = async (root, { query, signal }) => {
    setTitle("Runs");
    const view = new RunsView(new Question(query), signal);
    view.show(root);
    listen(() => "/api/live", { runs: () => view.refreshSoon() }, signal);
    await view.change();
    await view.nameSystems();
};

class RunsView {
    private readonly chosen = chosenRuns();
    private readonly table: VirtualTable<Run>;
    private readonly status = h("p", { class: "dim", role: "status" });
    private readonly empty = h("div");
    private readonly tray = h("div", { class: "tray", hidden: true });
    private readonly systems = h("datalist", { id: "systems" });
    private readonly search: HTMLInputElement;
    private typed = 0; /* timer of the field that is being typed in */
    private waiting = false; /* for the next refresh */

    constructor(private readonly question: Question, private readonly signal: AbortSignal) {
        this.table = new VirtualTable<Run>("Runs", columns, {
            key: (run) => run.id,
            load: async (offset, limit) => {
                const path = `/api/runs?${question.request()}&limit=${limit}&offset=${offset}`;
                const { total, runs } = await ask<RunList>(path, { signal });
                return { total, rows: runs };
            },
            open: (run) => { location.hash = `#/run/${run.id}`; },
            sort: (key) => {
                question.sortBy(columns.find((column) => column.key === key)!);
                void this.change();
            },
            first: (run) => this.box(run),
        }, signal, (error) => {
            if (!signal.aborted)
                put(this.empty, notice("The runs could not be listed.", error.message));
        });
        this.search = this.field("q", "Search runs", { class: "grow" });
    }

    show(root: HTMLElement): void {
        const status = h("select", {
            "aria-label": "Status", onchange: () => {
                this.question.status = status.value;
                void this.change();
            },
        }, h("option", { value: "" }, "any status"),
            ...STATUSES.map((name) => h("option", { value: name, selected: name === this.question.status }, name)));
        put(root, h("div", { class: "tools" }, h("h1", null, "Runs"), this.search, status,
            this.field("system", "System", { list: "systems", class: "narrow" }), this.systems,
            this.field("tag", "Tag", { class: "narrow" }), this.status),
            this.table.element, this.empty, this.tray);
        this.showTray();
        this.useKeys();
    }

    private field(name: "q" | "system" | "tag", label: string, props: object): HTMLInputElement {
        const input = h("input", {
            type: "search", "aria-label": label, placeholder: label, value: this.question[name], ...props,
            oninput: () => {
                this.question[name] = input.value;
                clearTimeout(this.typed);
                this.typed = setTimeout(() => this.change(), 150);
            },
        });
        return input;
    }

    private useKeys(): void {
        const { table, chosen } = this;
        const current = (act: (run: Run) => void) => () => {
            const run = table.current();
            if (run)
                act(run);
        };
        useKeys([
            { keys: ["/"], what: "search", press: () => this.search.focus() },
            { keys: ["j", "ArrowDown"], what: "next run", press: () => table.move(1) },
            { keys: ["k", "ArrowUp"], what: "previous run", press: () => table.move(-1) },
            { keys: ["Enter"], what: "open the run", press: current((run) => { location.hash = `#/run/${run.id}`; }) },
            { keys: ["x", " "], what: "choose the run to compare",
              press: current((run) => this.pick(run.id, !chosen.has(run.id))) },
            { keys: ["c"], what: "compare the chosen runs",
              press: () => { if (chosen.size) location.hash = this.comparison; } },
        ], this.signal);
    }

    /* The question has changed: into the address, and asked. */
    async change(): Promise<void> {
        setPlace(`#/runs?${this.question.address()}`);
        this.table.showSort(this.question.sort.replace(/^-/, ""), this.question.sort.startsWith("-"));
        await this.table.reset();
        this.showCount();
    }

    private async refresh(): Promise<void> {
        await this.table.refresh();
        this.showCount();
    }

    /* Once a second at most. */
    refreshSoon(): void {
        if (this.waiting)
            return;
        this.waiting = true;
        setTimeout(() => {
            this.waiting = false;
            if (!this.signal.aborted)
                void this.refresh();
        }, 1000);
    }

    async nameSystems(): Promise<void> {
        const { systems } = await ask<{ systems: System[] }>("/api/systems", { signal: this.signal });
        put(this.systems, ...systems.map(({ name }) => h("option", { value: name })));
    }

    private showCount(): void {
        const { total } = this.table;
        const { filters } = this.question;
        this.status.textContent = `${count(total)} ${total === 1 ? "run" : "runs"}${filters ? " found" : ""}`;
        this.table.element.hidden = total === 0;
        put(this.empty, total === 0 && (filters ? nothingFound() : nothingYet()));
    }

    private box(run: Run): HTMLElement {
        const box = h("input", {
            type: "checkbox", "data-run": run.id, checked: this.chosen.has(run.id),
            "aria-label": `Compare ${runTitle(run)}`, onchange: () => this.pick(run.id, box.checked),
        });
        return box;
    }

    private pick(id: number, on: boolean): void {
        if (!choose(this.chosen, id, on))
            toast(`${CHOSEN_MAX} runs at most can be compared.`, "bad");
        for (const box of this.table.element.querySelectorAll<HTMLInputElement>("input[data-run]"))
            box.checked = this.chosen.has(Number(box.dataset.run));
        this.showTray();
    }

    private get comparison(): string {
        return `#/compare/${[...this.chosen].join(",")}`;
    }

    private showTray(): void {
        const clear = () => {
            for (const id of [...this.chosen])
                this.pick(id, false);
        };
        this.tray.hidden = this.chosen.size === 0;
        put(this.tray, h("span", null, `${this.chosen.size} chosen`),
            h("a", { class: "button primary", href: this.comparison }, "Compare"),
            h("button", { onclick: clear }, "Clear"),
            h("button", { class: "quiet", onclick: () => this.tag() }, "Tag"),
            h("button", { class: "danger quiet", onclick: () => this.remove() }, "Delete"));
    }

    /* Does something to each chosen run, and says what was refused. */
    private async each(act: (id: number) => Promise<void>): Promise<void> {
        for (const id of [...this.chosen])
            await act(id).catch((error: Error) => toast(`Run ${id}: ${error.message}`, "bad"));
        await this.refresh();
    }

    private get what(): string {
        return this.chosen.size === 1 ? `run ${[...this.chosen][0]}` : `${this.chosen.size} runs`;
    }

    private async tag(): Promise<void> {
        const word = await askWord(`Tag ${this.what}`, "Tag", "Tag");
        if (word)
            await this.each(async (id) => { await tagRun(id, [word], []); });
    }

    private async remove(): Promise<void> {
        if (await confirm(`Delete ${this.what}?`, DELETED, "Delete"))
            await this.each(async (id) => {
                await deleteRun(id);
                this.pick(id, false);
            });
    }
}

function nothingFound(): HTMLElement {
    return notice("No run is like that.",
        h("button", { onclick: () => { location.hash = "#/runs?all"; } }, "Show all runs"));
}

function nothingYet(): HTMLElement {
    return h("div", null,
        notice("There are no runs yet.", "Every run of ", h("code", null, "fast train"),
            " is stored and shows up here. Start one in a terminal, or in the ",
            h("a", { href: "#/simulator" }, "simulator"), "."),
        command("fast train --data digits --model mlp --workers 2"));
}

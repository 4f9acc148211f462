/* SPDX-License-Identifier: Apache-2.0 */
/* All runs: search, filter, sort, group, choose up to 20 to compare, delete. The server sorts, filters
   and groups; the table holds what is in sight. The question is in the address, so that going back
   finds it; one that is saved under a name is a view. */
import { ask, deleteRun, listen, STATUSES, tagRun, type Run, type RunList, type System } from "../api.ts";
import { choose, chosenRuns, CHOSEN_MAX } from "../chosen.ts";
import { askWord, confirm, h, notice, put, toast } from "../dom.ts";
import { commandHere } from "../here.ts";
import { count, runTitle } from "../format.ts";
import { GroupTable, GROUPINGS, type Group, type Grouping } from "../groups.ts";
import { useKeys } from "../keys.ts";
import { DELETED, setPlace, setTitle, type Page } from "../page.ts";
import { columnPicker, columnsOf, findColumn } from "../runcolumns.ts";
import { VirtualTable, type Column } from "../table.ts";
import { Views } from "../views.ts";

/* What is asked for, in the words of the address. */
class Question {
    q: string;
    status: string;
    system: string;
    tag: string;
    sort: string;
    group: Grouping;
    comparison: string;
    ids: string; /* "3,5,8" */
    columns: string; /* keys; "": those at first */

    constructor(query: URLSearchParams) {
        const word = (name: string) => query.get(name) ?? "";
        this.q = word("q");
        this.status = word("status");
        this.system = word("system");
        this.tag = word("tag");
        this.sort = word("sort") || "-created";
        this.group = (GROUPINGS.find(([name]) => name === word("group"))?.[0]) ?? "";
        this.comparison = word("comparison");
        this.ids = word("ids");
        this.columns = word("columns");
    }

    address(): URLSearchParams {
        return new URLSearchParams(Object.entries(this).filter(([, value]) => value !== ""));
    }

    /* The server takes system and comparison as conditions of the store's: system~ssp. */
    request(): URLSearchParams {
        const words = this.address();
        for (const own of ["system", "group", "comparison", "columns"])
            words.delete(own);
        const where = [this.system && `system~${this.system.replaceAll(",", "")}`, this.comparison && `batch_of=${this.comparison}`];
        if (where.some(Boolean))
            words.set("where", where.filter(Boolean).join(","));
        return words;
    }

    /* A second click turns the order round; numbers begin with the largest. */
    sortBy(column: Column<Run>): void {
        const [first, second] = column.number ? [`-${column.key}`, column.key] : [column.key, `-${column.key}`];
        this.sort = this.sort === first ? second : first;
    }

    get filters(): boolean {
        return !!(this.q || this.status || this.system || this.tag || this.comparison || this.ids);
    }

    /* Only the runs of a group. A group of more runs than an address names is found by its key. */
    narrow(group: Group): void {
        if (this.group === "tag" && group.key)
            this.tag = group.key;
        else if (this.group === "comparison" && group.key && !group.key.includes(","))
            this.comparison = group.key;
        else if (group.runs > group.ids.length && this.group === "system")
            this.system = group.key;
        else
            this.ids = group.ids.join(",");
        this.group = "";
    }
}

export const runsPage: Page = async (root, { query, signal }) => {
    setTitle("Runs");
    const view = new RunsView(new Question(query), signal);
    view.show(root);
    listen(() => "/api/live", { runs: () => view.refreshSoon() }, signal);
    await view.change();
    await Promise.all([view.nameSystems(), view.views.load()]);
};

class RunsView {
    private readonly chosen = chosenRuns();
    private readonly table: VirtualTable<Run>;
    private readonly place = h("div"); /* of the table of runs or of groups */
    private readonly only = h("div", { class: "row only" });
    private groups: GroupTable | null = null;
    private grouped: Grouping = ""; /* that `groups` was made for */
    readonly views: Views;
    private readonly status = h("p", { class: "dim", role: "status" });
    private readonly empty = h("div");
    private readonly tray = h("div", { class: "tray", hidden: true });
    private readonly systems = h("datalist", { id: "systems" });
    private readonly search: HTMLInputElement;
    private typed = 0; /* timer of the field that is being typed in */
    private waiting = false; /* for the next refresh */

    constructor(private readonly question: Question, private readonly signal: AbortSignal) {
        this.views = new Views(() => question.address().toString(), signal);
        this.table = new VirtualTable<Run>("Runs", columnsOf(question.columns), {
            key: (run) => run.id,
            load: async (offset, limit) => {
                const path = `/api/runs?${question.request()}&limit=${limit}&offset=${offset}`;
                const { total, runs } = await ask<RunList>(path, { signal });
                return { total, rows: runs };
            },
            open: (run) => { location.hash = `#/run/${run.id}`; },
            sort: (key) => {
                question.sortBy(findColumn(key));
                void this.change();
            },
            first: (run) => this.box(run),
        }, signal, (error) => this.fail(error));
        this.search = this.field("q", "Search runs", { class: "grow" });
    }

    private fail(error: Error): void {
        if (!this.signal.aborted)
            put(this.empty, notice("The runs could not be listed.", error.message));
    }

    show(root: HTMLElement): void {
        const group = h("select", {
            "aria-label": "Groups", onchange: () => {
                this.question.group = group.value as Grouping;
                void this.change();
            },
        }, ...GROUPINGS.map(([name, text]) => h("option", { value: name, selected: name === this.question.group }, text)));
        const status = h("select", {
            "aria-label": "Status", onchange: () => {
                this.question.status = status.value;
                void this.change();
            },
        }, h("option", { value: "" }, "any status"),
            ...STATUSES.map((name) => h("option", { value: name, selected: name === this.question.status }, name)));
        put(root, h("div", { class: "tools" }, h("h1", null, "Runs"), this.search, status,
            this.field("system", "System", { list: "systems", class: "narrow" }), this.systems,
            this.field("tag", "Tag", { class: "narrow" }), group, columnPicker(this.question.columns, (keys) => {
                this.question.columns = keys;
                this.table.setColumns(columnsOf(keys));
                void this.change();
            }), this.views.element, this.status), this.only, this.place, this.empty, this.tray);
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
            const run = this.question.group ? undefined : table.current();
            if (run)
                act(run);
        };
        const open = () => {
            const group = this.question.group ? this.groups?.table.current() : undefined;
            group ? this.openGroup(group) : current((run) => { location.hash = `#/run/${run.id}`; })();
        };
        useKeys([
            { keys: ["/"], what: "search", press: () => this.search.focus() },
            { keys: ["j", "ArrowDown"], what: "next run", press: () => this.shown().move(1) },
            { keys: ["k", "ArrowUp"], what: "previous run", press: () => this.shown().move(-1) },
            { keys: ["Enter"], what: "open the run", press: open },
            { keys: ["x", " "], what: "choose the run to compare",
              press: current((run) => this.pick(run.id, !chosen.has(run.id))) },
            { keys: ["c"], what: "compare the chosen runs",
              press: () => { if (chosen.size) location.hash = this.comparison; } },
        ], this.signal);
    }

    /* The question has changed: into the address, and asked. */
    async change(): Promise<void> {
        clearTimeout(this.typed); /* what was typed is part of this question */
        if (this.signal.aborted)
            return;
        setPlace(`#/runs?${this.question.address()}`);
        this.views.showCurrent();
        this.showOnly();
        this.table.showSort(this.question.sort.replace(/^-/, ""), this.question.sort.startsWith("-"));
        const shown = this.shown();
        put(this.place, shown.element);
        await shown.reset();
        this.showCount();
    }

    /* The table of the question: of runs, or of groups. */
    private shown(): VirtualTable<Run> | VirtualTable<Group> {
        const { question } = this;
        if (question.group && question.group !== this.grouped)
            this.groups = new GroupTable(question.group, () => question.request().toString(), (group) => this.openGroup(group),
                this.signal, (error) => this.fail(error));
        this.grouped = question.group;
        return question.group ? this.groups!.table : this.table;
    }

    private openGroup(group: Group): void {
        this.question.narrow(group);
        location.hash = `#/runs?${this.question.address()}`;
    }

    /* A condition that no field shows: which one, and a button that ends it. */
    private showOnly(): void {
        const { question } = this;
        const chip = (text: string, clear: () => void) => h("span", { class: "tag" }, text,
            h("button", { "aria-label": `All runs, not only ${text}`, onclick: () => {
                clear();
                void this.change();
            } }, "×"));
        const ids = question.ids ? question.ids.split(",").length : 0;
        put(this.only, !!question.comparison && chip(`comparison ${question.comparison}`, () => { question.comparison = ""; }),
            !!question.comparison && h("a", { class: "button", href: `#/compare/batch:${encodeURIComponent(question.comparison)}` }, "Its verdict"),
            ids > 0 && chip(`${ids} ${ids === 1 ? "run" : "runs"} of a group`, () => { question.ids = ""; }),
            ids > 1 && ids <= CHOSEN_MAX && h("a", { class: "button", href: `#/compare/${question.ids}` }, "Compare them"));
        this.only.hidden = !this.only.firstChild;
    }

    private async refresh(): Promise<void> {
        await this.shown().refresh();
        this.showCount();
    }

    /* Once a second at most; groups are of all runs, and less often made anew. */
    refreshSoon(): void {
        if (this.waiting)
            return;
        this.waiting = true;
        setTimeout(() => {
            this.waiting = false;
            if (!this.signal.aborted)
                void this.refresh();
        }, this.question.group ? 5000 : 1000);
    }

    async nameSystems(): Promise<void> {
        const { systems } = await ask<{ systems: System[] }>("/api/systems", { signal: this.signal });
        put(this.systems, ...systems.map(({ name }) => h("option", { value: name })));
    }

    private showCount(): void {
        const { total } = this.shown();
        const { filters, group } = this.question;
        const runs = group ? this.groups!.runs : total;
        this.status.textContent = `${group ? `${count(total)} groups of ` : ""}${count(runs)} ${runs === 1 ? "run" : "runs"}${filters ? " found" : ""}`;
        this.shown().element.hidden = total === 0;
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
        commandHere("fast train --data digits --model mlp --workers 2"));
}

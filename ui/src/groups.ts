/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in groups: by comparison, tag, system, or by equal options, where medians are over seeds. The
   server makes the groups; the table shows the median of each measure with its range. */
import { ask, type Run } from "./api.ts";
import { h, type Child } from "./dom.ts";
import { ago, bytes, count, date, number, percent, seconds, short } from "./format.ts";
import { VirtualTable, type Column } from "./table.ts";

export const GROUPINGS = [["", "no groups"], ["comparison", "by comparison"], ["system", "by system"], ["tag", "by tag"],
    ["options", "by options, over seeds"]] as const;
export type Grouping = (typeof GROUPINGS)[number][0];

export interface Spread {
    count: number;
    median: number | null;
    min: number | null;
    max: number | null;
}
type Measure = "test_accuracy" | "loss" | "time_to_target_s" | "time_s" | "samples_per_s" | "bytes_sent";

export interface Group extends Record<Measure, Spread> {
    key: string;
    runs: number;
    running: number;
    seeds: number;
    ids: number[]; /* the newest 200 */
    run: Run; /* the newest */
}

/* What a group is called. */
export function groupTitle(by: Grouping, { key, run }: Group): string {
    if (by === "options")
        return `${run.system || run.strategy || "one worker"} · ${run.model ?? "?"} on ${(run.data ?? "?").split(":")[0]}`;
    return key || { comparison: "no comparison", tag: "no tag", system: "one worker" }[by as "tag"] || key;
}

const some = (n: number, what: string): string => `${count(n)} ${what}${n === 1 ? "" : "s"}`;

/* What else its runs share; of other groupings only how many there are. */
export function groupFacts(by: Grouping, { run, runs, seeds, running }: Group): string {
    const shared = by !== "options" ? [] : [some(run.workers ?? 1, "worker"), run.cluster ?? run.transport, run.codec,
        `learning rate ${run.lr ?? "–"}`, `batch ${run.batch ?? "–"}`];
    return [some(runs, "run"), some(seeds, "seed"), running > 0 && `${count(running)} running`, ...shared].filter(Boolean).join(" · ");
}

/* 91.20% with its range below, where runs differ. */
function spreadCell({ count: n, median, min, max }: Spread, format: (value: number | null) => string, clock = ""): Child {
    return h("span", { class: "spread" }, format(median), median !== null && clock,
        n > 1 && min !== max && h("small", { class: "dim" }, `${format(min)} – ${format(max)}`));
}

function columnsOf(by: Grouping, open: (group: Group) => void): Column<Group>[] {
    const measure = (key: Measure, label: string, format: (value: number | null) => string, rank: 1 | 2 | 3 | 4): Column<Group> =>
        ({ key, label, width: "11rem", number: true, rank, cell: (group) => spreadCell(group[key], format) });
    return [
        { key: "key", label: "Group", width: "auto", cell: (group) => h("span", null, h("button", { class: "link", onclick: () => open(group) }, groupTitle(by, group)),
            h("small", null, groupFacts(by, group))), title: (group) => `${groupTitle(by, group)} · ${groupFacts(by, group)}` },
        { key: "runs", label: "Runs", width: "4.6rem", number: true, rank: 2, cell: (group) => count(group.runs) },
        { key: "seeds", label: "Seeds", width: "4.6rem", number: true, rank: 2, cell: (group) => count(group.seeds) },
        measure("test_accuracy", "Test accuracy", percent, 1), measure("loss", "Loss", number, 3),
        measure("time_to_target_s", "To target", seconds, 2), { ...measure("time_s", "Time", seconds, 3), cell: (group) => spreadCell(group.time_s, seconds,
            group.run.transport === "sim" ? " virtual" : "") },
        measure("samples_per_s", "Samples/s", short, 4), measure("bytes_sent", "Sent", bytes, 4),
        { key: "created", label: "Newest", width: "7.6rem", number: true, rank: 2, cell: (group) => ago(group.run.created),
          title: (group) => date(group.run.created) },
    ];
}

/* What a column sorts by. */
function valueOf(group: Group, key: string): number | string | null {
    if (key === "created")
        return group.run.created;
    const value = group[key as keyof Group];
    return typeof value === "object" ? (value as Spread).median : value as number | string;
}

export class GroupTable {
    readonly table: VirtualTable<Group>;
    private groups: Group[] = [];
    private sort = "-created";

    /* `question` gives the conditions of the list; `open` shows the runs of a group. */
    constructor(by: Grouping, question: () => string, open: (group: Group) => void, signal: AbortSignal,
                failed: (error: Error) => void) {
        this.table = new VirtualTable<Group>("Groups of runs", columnsOf(by, open), {
            key: (group) => group.key,
            load: async (offset, limit) => {
                if (offset === 0)
                    this.groups = (await ask<{ groups: Group[] }>(`/api/groups?by=${by}&${question()}`, { signal })).groups;
                this.order();
                return { total: this.groups.length, rows: this.groups.slice(offset, offset + limit) };
            },
            open,
            sort: (key) => {
                this.sort = this.sort === `-${key}` ? key : `-${key}`;
                void this.table.reset().then(() => this.showSort());
            },
        }, signal, failed);
        this.table.element.classList.add("groups");
        this.showSort();
    }

    private showSort(): void {
        this.table.showSort(this.sort.replace(/^-/, ""), this.sort.startsWith("-"));
    }

    /* Groups without a value come last. */
    private order(): void {
        const key = this.sort.replace(/^-/, "");
        const sign = this.sort.startsWith("-") ? -1 : 1;
        this.groups.sort((a, b) => {
            const [x, y] = [valueOf(a, key), valueOf(b, key)];
            if (x === null || y === null)
                return Number(x === null) - Number(y === null);
            return sign * (x < y ? -1 : x > y ? 1 : 0);
        });
    }

    get runs(): number {
        return this.groups.reduce((sum, group) => sum + group.runs, 0);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* All runs: search, filter, sort, choose up to 20 to compare, delete. The server sorts and filters;
   the table holds what is in sight. The question is in the address, so that going back finds it. */
import { ask, deleteRun, listen, STATUSES, tagRun, type Run, type RunList, type System } from "../api.ts";
import { choose, chosenRuns, CHOSEN_MAX } from "../chosen.ts";
import { askWord, command, confirm, h, notice, put, toast } from "../dom.ts";
import { ago, bytes, count, date, number, percent, runTitle, seconds, short } from "../format.ts";
import { useKeys } from "../keys.ts";
import { setPlace, setTitle, type Page } from "../page.ts";
import { statusPill } from "../status.ts";
import { VirtualTable, type Column } from "../table.ts";

const where = (run: Run): string =>
    [run.transport, run.cluster?.split(":")[0]].filter(Boolean).join(" · ") || "–";

function nameCell(run: Run): Node {
    return h("span", null, h("a", { href: `#/run/${run.id}` }, runTitle(run)),
        ...(run.tags ?? []).map((tag) => h("span", { class: "tag" }, tag)),
        h("small", { class: "phone" }, statusPill(run), ` · ${count(run.workers)} ${run.workers === 1 ? "worker" : "workers"} · ${ago(run.created)}`));
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
    { key: "time_to_target_s", label: "To target", width: "6.6rem", number: true, rank: 3, cell: (run) => seconds(run.time_to_target_s) },
    { key: "time_s", label: "Time", width: "6.6rem", number: true, rank: 2, cell: (run) => seconds(run.time_s) },
    { key: "samples_per_s", label: "Samples/s", width: "6.2rem", number: true, rank: 4, cell: (run) => short(run.samples_per_s) },
    { key: "bytes_sent", label: "Sent", width: "5.8rem", number: true, rank: 4, cell: (run) => bytes(run.bytes_sent) },
    { key: "staleness_mean", label: "Staleness", width: "6.2rem", number: true, rank: 4, cell: (run) => number(run.staleness_mean) },
    { key: "created", label: "Began", width: "8.8rem", number: true, rank: 2, cell: (run) => ago(run.created), title: (run) => date(run.created) },
];

export const runsPage: Page = async (root, { query, signal }) => {
    setTitle("Runs");
    const chosen = chosenRuns();
    const question = {
        q: query.get("q") ?? "", status: query.get("status") ?? "", system: query.get("system") ?? "",
        tag: query.get("tag") ?? "", sort: query.get("sort") ?? "-created",
    };
    const words = () => new URLSearchParams(Object.entries(question).filter(([, value]) => value !== ""));
    /* The server takes the system as a condition of the store's: system~ssp. */
    const asked = () => {
        const all = words();
        if (question.system)
            all.set("where", `system~${question.system.replaceAll(",", "")}`);
        all.delete("system");
        return all;
    };

    const table = new VirtualTable<Run>("Runs", columns, {
        key: (run) => run.id,
        load: async (offset, limit) => {
            const { total, runs } = await ask<RunList>(`/api/runs?${asked()}&limit=${limit}&offset=${offset}`, { signal });
            return { total, rows: runs };
        },
        open: (run) => { location.hash = `#/run/${run.id}`; },
        sort: (key) => {
            /* A second click turns it round; numbers begin with the largest. */
            const down = columns.find((column) => column.key === key)?.number ? `-${key}` : key;
            const up = down === key ? `-${key}` : key;
            question.sort = question.sort === down ? up : down;
            void change();
        },
        first: (run) => h("input", {
            type: "checkbox", "data-run": run.id, checked: chosen.has(run.id), "aria-label": `Compare ${runTitle(run)}`,
            onchange: (event: Event) => pick(run.id, (event.target as HTMLInputElement).checked),
        }),
    }, signal, (error) => { if (!signal.aborted) say(error.message); });

    const status = h("p", { class: "dim", role: "status" });
    const empty = h("div");
    const tray = h("div", { class: "tray", hidden: true });

    function say(text: string): void {
        put(empty, notice("The runs could not be listed.", text));
    }

    function pick(id: number, on: boolean): void {
        if (!choose(chosen, id, on))
            toast(`${CHOSEN_MAX} runs at most can be compared.`, "bad");
        for (const box of table.element.querySelectorAll<HTMLInputElement>("input[data-run]"))
            box.checked = chosen.has(Number(box.dataset.run));
        showTray();
    }

    function showTray(): void {
        tray.hidden = chosen.size === 0;
        put(tray, h("span", null, `${chosen.size} chosen`),
            h("a", { class: "button primary", href: `#/compare/${[...chosen].join(",")}` }, "Compare"),
            h("button", { onclick: () => { for (const id of [...chosen]) pick(id, false); } }, "Clear"),
            h("button", { class: "quiet", onclick: tag }, "Tag"),
            h("button", { class: "danger quiet", onclick: remove }, "Delete"));
    }

    async function tag(): Promise<void> {
        const word = await askWord(`Tag ${chosen.size} ${chosen.size === 1 ? "run" : "runs"}`, "Tag", "Tag");
        if (!word)
            return;
        for (const id of chosen)
            await tagRun(id, [word], []).catch((error: Error) => toast(`Run ${id}: ${error.message}`, "bad"));
        await refresh();
    }

    async function remove(): Promise<void> {
        const ids = [...chosen];
        const what = ids.length === 1 ? `run ${ids[0]}` : `${ids.length} runs`;
        if (!await confirm(`Delete ${what}?`, "What was measured is removed from the store. Saved weights and traces stay.", "Delete"))
            return;
        for (const id of ids) {
            try {
                await deleteRun(id);
                pick(id, false);
            } catch (error) {
                toast(`Run ${id}: ${(error as Error).message}`, "bad");
            }
        }
        await refresh();
    }

    function showCount(): void {
        const filtered = question.q || question.status || question.system || question.tag;
        status.textContent = `${count(table.total)} ${table.total === 1 ? "run" : "runs"}${filtered ? " found" : ""}`;
        table.element.hidden = table.total === 0;
        put(empty, table.total === 0 && (filtered
            ? notice("No run is like that.", h("button", { onclick: () => { location.hash = "#/runs?all"; } }, "Show all runs"))
            : h("div", null, notice("There are no runs yet.", "Every run of ", h("code", null, "fast train"),
                " is kept and shows up here. Begin one in a terminal, or in the ", h("a", { href: "#/simulator" }, "simulator"), "."),
                command("fast train --data digits --model mlp --workers 2"))));
    }

    async function change(): Promise<void> {
        setPlace(`#/runs?${words()}`);
        table.showSort(question.sort.replace(/^-/, ""), question.sort.startsWith("-"));
        await table.reset();
        showCount();
    }

    async function refresh(): Promise<void> {
        await table.refresh();
        showCount();
    }

    /* At most one question at a time, and one a second. */
    let waiting = false;
    const soon = () => {
        if (waiting)
            return;
        waiting = true;
        setTimeout(() => {
            waiting = false;
            if (!signal.aborted)
                void refresh();
        }, 1000);
    };

    let typed = 0;
    const field = (name: "q" | "system" | "tag", label: string, props: object = {}) => h("input", {
        type: "search", "aria-label": label, placeholder: label, value: question[name], ...props,
        oninput: (event: Event) => {
            question[name] = (event.target as HTMLInputElement).value;
            clearTimeout(typed);
            typed = setTimeout(change, 150);
        },
    });
    const search = field("q", "Search runs", { class: "grow" });
    const systems = h("datalist", { id: "systems" });
    put(root, h("div", { class: "tools" },
        h("h1", null, "Runs"), search,
        h("select", {
            "aria-label": "Status", onchange: (event: Event) => {
                question.status = (event.target as HTMLSelectElement).value;
                void change();
            },
        }, h("option", { value: "" }, "any status"),
            ...STATUSES.map((name) => h("option", { value: name, selected: name === question.status }, name))),
        field("system", "System", { list: "systems", class: "narrow" }), systems,
        field("tag", "Tag", { class: "narrow" }), status),
        table.element, empty, tray);
    showTray();

    useKeys([
        { keys: ["/"], what: "search", press: () => search.focus() },
        { keys: ["j", "ArrowDown"], what: "next run", press: () => table.move(1) },
        { keys: ["k", "ArrowUp"], what: "previous run", press: () => table.move(-1) },
        { keys: ["Enter"], what: "open the run", press: () => { const run = table.current(); if (run) location.hash = `#/run/${run.id}`; } },
        { keys: ["x", " "], what: "choose the run to compare", press: () => { const run = table.current(); if (run) pick(run.id, !chosen.has(run.id)); } },
        { keys: ["c"], what: "compare the chosen runs", press: () => { if (chosen.size) location.hash = `#/compare/${[...chosen].join(",")}`; } },
    ], signal);
    listen(() => "/api/live", { runs: soon }, signal);
    await change();
    const known = await ask<{ systems: System[] }>("/api/systems", { signal });
    put(systems, ...known.systems.map(({ name }) => h("option", { value: name })));
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The named systems in the columns of the taxonomy; the chosen row shows its flags and remarks and
   can be started. */
import { ask, type System } from "../api.ts";
import { command, h, notice, put } from "../dom.ts";
import { systemFlags } from "../flags.ts";
import { useKeys } from "../keys.ts";
import { setPlace, setTitle, type Page } from "../page.ts";

const COLUMNS: [keyof System, string][] = [
    ["name", "System"], ["title", "What"], ["optimisation", "Optimisation"], ["scheduling", "Scheduling"],
    ["exchange", "Exchange"], ["topology", "Topology"],
];

export const systemsPage: Page = async (root, { path, signal }) => {
    setTitle("Systems");
    const { systems } = await ask<{ systems: System[] }>("/api/systems", { signal });
    const detail = h("aside", { class: "panel detail", "aria-label": "The chosen system" });
    const body = h("div", { class: "scroll systems", tabindex: 0, role: "region", "aria-label": "Systems" });
    const found = h("p", { class: "dim", role: "status" });
    let chosen = path;
    let shown: System[] = [];

    function choose(name: string): void {
        chosen = name;
        setPlace(`#/systems/${encodeURIComponent(name)}`);
        for (const row of body.querySelectorAll("tr[data-name]")) {
            const is = (row as HTMLElement).dataset.name === name;
            row.classList.toggle("cursor", is);
            /* On a phone the system is described above the list. */
            if (is && matchMedia("(max-width: 1000px)").matches)
                scrollTo(0, 0);
            else if (is)
                row.scrollIntoView({ block: "nearest" });
        }
        const system = systems.find((candidate) => candidate.name === name);
        put(detail, system ? describe(system)
            : notice("Choose a system.", "Its flags and remarks show here, and you can start it."));
    }

    function list(words: string): void {
        const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
        shown = systems.filter((system) => {
            const text = Object.values(system).join(" ").toLowerCase();
            return wanted.every((word) => text.includes(word));
        });
        found.textContent = `${shown.length} of ${systems.length}`;
        const groups = [...new Set(shown.map((system) => system.consistency))];
        put(body, shown.length === 0
            ? notice("No system is like that.", "Search for a word of its row: gossip, bounded, PS, 2017.")
            : h("table", { class: "taxonomy" },
                h("thead", null, h("tr", null, ...COLUMNS.map(([key, label]) =>
                    h("th", { scope: "col", class: `column-${key}` }, label)))),
                ...groups.map((group) => h("tbody", null,
                    h("tr", null, h("th", { class: "group", colspan: COLUMNS.length, scope: "rowgroup" }, group)),
                    ...shown.filter((system) => system.consistency === group).map((system) => row(system, choose))))));
        choose(chosen);
    }

    const search = h("input", {
        type: "search", class: "grow", placeholder: "Search systems", "aria-label": "Search systems",
        oninput: () => list(search.value),
    });
    put(root, h("div", { class: "tools" }, h("h1", null, "Systems"), search, found),
        h("p", { class: "dim" }, "A system is a name for options of a run. The columns are those of Langer et al. (2020)."),
        h("div", { class: "with-detail fixed" }, body, detail));
    const step = (by: number) => {
        const at = shown.findIndex((system) => system.name === chosen);
        const next = shown[Math.max(0, Math.min(shown.length - 1, at + by))];
        if (next)
            choose(next.name);
    };
    useKeys([
        { keys: ["/"], what: "search", press: () => search.focus() },
        { keys: ["j", "ArrowDown"], what: "next system", press: () => step(1) },
        { keys: ["k", "ArrowUp"], what: "previous system", press: () => step(-1) },
        { keys: ["Enter"], what: "start the system", press: () => { if (chosen) location.hash = startOf(chosen); } },
    ], signal);
    list("");
};

const startOf = (name: string): string => `#/simulator?system=${encodeURIComponent(name)}`;

function row(system: System, choose: (name: string) => void): HTMLElement {
    const text = (key: keyof System) =>
        key === "name" ? h("button", { class: "link" }, system.name) : String(system[key] ?? "–");
    return h("tr", { "data-name": system.name, onclick: () => choose(system.name) },
        ...COLUMNS.map(([key]) => h("td", { class: `column-${key}` }, text(key))));
}

function describe(system: System): HTMLElement {
    const facts: [string, string | number | null][] = [
        ["by", system.by], ["row of the survey", system.row], ["parallelism", system.parallelism],
        ["optimisation", system.optimisation], ["scheduling", system.scheduling], ["exchange", system.exchange],
        ["topology", system.topology], ["alias of", system.alias_of], ["what told it apart", system.differs],
        ["missing", system.missing],
    ];
    return h("div", { class: "stack" },
        h("div", null, h("h2", null, system.name), h("p", null, system.title),
            system.remarks && h("p", { class: "dim" }, system.remarks)),
        h("dl", { class: "values" }, ...facts.filter(([, value]) => value !== null && value !== "")
            .flatMap(([name, value]) => [h("dt", null, name), h("dd", null, value)])),
        h("div", null, h("h3", null, "Its flags"), command(systemFlags(system.flags))),
        h("div", null, h("h3", null, "In a terminal"), command(`fast train --workers 4 --system ${system.name}`)),
        h("div", { class: "buttons" },
            h("a", { class: "button", href: `#/runs?system=${encodeURIComponent(system.name)}` }, "Its runs"),
            h("a", { class: "button primary", href: startOf(system.name) }, "Start it…")));
}

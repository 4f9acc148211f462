/* SPDX-License-Identifier: Apache-2.0 */
/* The shell: a bar with the pages, and the page that the address names. Addresses are hashes
   (#/run/12), because the server serves no files by name. A page is a function that fills <main>; its
   signal aborts when it is left. */
import { ApiError, serverInfo } from "./api.ts";
import { add, h, notice, put } from "./dom.ts";
import { showKeys, startKeys, useKeys } from "./keys.ts";
import { askPage } from "./pages/ask.ts";
import { comparePage } from "./pages/compare.ts";
import { loginPage } from "./pages/login.ts";
import { runPage } from "./pages/run.ts";
import { runsPage } from "./pages/runs.ts";
import { simulatorPage } from "./pages/simulator.ts";
import { systemsPage } from "./pages/systems.ts";
import { takePlace, type Page } from "./page.ts";
import { themeName, themeNext, themeStart } from "./theme.ts";

const pages: Record<string, Page> = {
    runs: runsPage, run: runPage, compare: comparePage, systems: systemsPage, simulator: simulatorPage, ask: askPage,
};
const tabs = [["runs", "Runs"], ["ask", "Which strategy?"], ["systems", "Systems"], ["simulator", "Simulator"]] as const;

const main = h("main", { id: "main", tabindex: -1 });
/* A phone has no room for the first word of a question. */
const links = tabs.map(([name, text]) => h("a", { href: `#/${name}`, "data-page": name },
    ...text.split(/(?<=^Which )/).map((word, i, words) => i < words.length - 1 ? h("span", { class: "wide" }, word) : word)));

let leave = new AbortController();

async function show(): Promise<void> {
    leave.abort();
    leave = new AbortController();
    const { signal } = leave;
    const [path = "", query = ""] = takePlace().replace(/^#\/?/, "").split("?");
    const [name = "", ...rest] = (path || "runs").split("/");
    const tab = rest[0]?.startsWith("batch:") ? "ask" : name === "run" || name === "compare" ? "runs" : name;
    for (const link of links)
        link.dataset.page === tab ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
    put(main);
    main.className = `page-${name}`;
    scrollTo(0, 0);
    const page = pages[name];
    if (!page) {
        put(main, notice("There is no such page.", h("a", { href: "#/runs" }, "All runs")));
        return;
    }
    try {
        await serverInfo();
        if (signal.aborted) /* another page was opened meanwhile */
            return;
        await page(main, { path: decodeURIComponent(rest.join("/")), query: new URLSearchParams(query), signal });
    } catch (error) {
        if (!signal.aborted && error instanceof ApiError && error.status === 401)
            loginPage(main, show);
        else if (!signal.aborted)
            put(main, notice("This page could not be loaded.", (error as Error).message));
    }
}

function themeButton(): HTMLElement {
    const text = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };
    const glyph = { auto: "◐", light: "○", dark: "●" };
    const button = h("button", { class: "icon", onclick: () => { themeNext(); label(); } });
    const label = () => {
        button.textContent = glyph[themeName()];
        button.title = text[themeName()];
        button.setAttribute("aria-label", text[themeName()]);
    };
    label();
    return button;
}

themeStart();
startKeys();
useKeys([
    { keys: ["?"], what: "this help", press: showKeys },
    ...tabs.map(([name, text], i) => ({ keys: [String(i + 1)], what: text, press: () => { location.hash = `#/${name}`; } })),
    { keys: ["Escape"], what: "back", press: () => history.back() },
]);
add(document.body,
    h("a", { class: "skip", href: "#main", onclick: (event: Event) => { event.preventDefault(); main.focus(); } },
        "Skip to the content"),
    h("header", { class: "bar" },
        h("a", { class: "brand", href: "#/runs" }, "FAST"),
        h("nav", { "aria-label": "Pages" }, ...links),
        h("span", { class: "grow" }),
        h("button", { class: "icon", onclick: showKeys, title: "Keyboard", "aria-label": "Keyboard" }, "?"),
        themeButton()),
    main);
addEventListener("hashchange", show);
void show();

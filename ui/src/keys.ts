/* SPDX-License-Identifier: Apache-2.0 */
/* The keyboard: a page gives its keys with what they do, and `?` shows all that hold now. Keys do
   nothing while one types, or in a dialog. */
import { h } from "./dom.ts";

export interface Key {
    keys: string[]; /* as KeyboardEvent.key says */
    what: string; /* for the help */
    press: (event: KeyboardEvent) => void;
}

const active: Key[] = [];

export function useKeys(keys: Key[], signal?: AbortSignal): void {
    active.push(...keys);
    signal?.addEventListener("abort", () => {
        for (const key of keys)
            active.splice(active.indexOf(key), 1);
    });
}

export function isTyping(target: EventTarget | null): boolean {
    return target instanceof HTMLElement &&
        (target.isContentEditable || target.matches("input:not([type=checkbox]):not([type=radio]), select, textarea"));
}

export function startKeys(): void {
    document.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
            return;
        if (isTyping(event.target)) {
            if (event.key === "Escape")
                (event.target as HTMLElement).blur();
            return;
        }
        /* The page's keys come after the shell's and win. */
        const key = active.findLast((candidate) => candidate.keys.includes(event.key));
        const pressed = event.target instanceof HTMLElement && event.target.matches("a, button, summary, input");
        if (!key || (pressed && (event.key === "Enter" || event.key === " ")))
            return;
        event.preventDefault();
        key.press(event);
    });
}

export function showKeys(): void {
    const names: Record<string, string> = { " ": "Space", ArrowDown: "↓", ArrowUp: "↑", Escape: "Esc" };
    const rows = active.map((key) => h("tr", null,
        h("td", null, ...key.keys.flatMap((name) => [h("kbd", null, names[name] ?? name), " "])),
        h("td", null, key.what)));
    const dialog = h("dialog", { class: "ask", "aria-label": "Keyboard" },
        h("h2", null, "Keyboard"), h("table", { class: "plain" }, h("tbody", null, ...rows)),
        h("form", { method: "dialog", class: "buttons" }, h("button", { autofocus: true }, "Close")));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
}

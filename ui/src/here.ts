/* SPDX-License-Identifier: Apache-2.0 */
/* Commands for the store of this server, and buttons that start them where it may start runs. */
import { serverInfo, startRun, type ServerInfo } from "./api.ts";
import { command, h, put, toast } from "./dom.ts";
import { splitWords } from "./flags.ts";
import { quote } from "./format.ts";
import { goOn } from "./page.ts";

/* A command that uses the store of this server. */
export function withStore(text: string, { store }: Pick<ServerInfo, "store">): string {
    return store && !/ --store[ =]/.test(text) ? `${text} --store ${quote(store)}` : text;
}

export function commandHere(text: string): HTMLElement {
    const box = h("div");
    void serverInfo().then((info) => put(box, command(withStore(text, info))), () => put(box, command(text)));
    return box;
}

/* The options of a command line as a request has them; null where a flag has no value or is repeated, which
   a request cannot say. */
export function optionsOf(text: string, leaveOut: Iterable<string> = []): Record<string, string> | null {
    const skipped = new Set(leaveOut);
    const options: Record<string, string> = {};
    const words = splitWords(text);
    const first = words.findIndex((word) => word.startsWith("--"));
    for (let i = first < 0 ? words.length : first; i < words.length; i++) {
        const match = /^--([a-z][a-z0-9-]*)(?:=(.*))?$/s.exec(words[i]!);
        const value = match?.[2] ?? words[++i];
        const name = match?.[1]?.replaceAll("-", "_");
        if (!name || value === undefined || value.startsWith("--") || name in options)
            return null;
        options[name] = value;
    }
    return Object.fromEntries(Object.entries(options).filter(([name]) => !skipped.has(name)));
}

/* "Run it", or the reason why this server does not, and in any case the command. */
export function runIt(text: string, info: ServerInfo): HTMLElement {
    const options = optionsOf(text, ["store"]);
    const button = h("button", {
        class: "primary", onclick: async () => {
            const from = location.hash;
            button.disabled = true;
            try {
                const { id } = await startRun(options!);
                goOn(from, `#/run/${id}`);
            } catch (error) {
                toast((error as Error).message, "bad");
                button.disabled = false;
            }
        },
    }, "Run it");
    return h("div", { class: "run-it" },
        info.starts_runs && options ? button
            : h("p", { class: "dim" }, info.starts_runs ? "Type the command:" : cannotStart(info)),
        command(withStore(text, info)));
}

export function cannotStart(info: ServerInfo): string {
    return `${info.read_only ? "This server is read-only" : "This server starts no runs"}: type the command in a terminal.`;
}

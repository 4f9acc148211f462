/* SPDX-License-Identifier: Apache-2.0 */
/* Saved views of the page of runs: a question with its columns under a name, stored with the runs. */
import { ask, post } from "./api.ts";
import { askWord, h, put, toast } from "./dom.ts";

interface View {
    name: string;
    query: string;
}

export class Views {
    readonly element: HTMLElement;
    private readonly choice = h("select", { "aria-label": "Views", onchange: () => this.open() });
    private readonly remove = h("button", { class: "quiet", hidden: true, onclick: () => this.change(this.choice.value, null) }, "Remove view");
    private views: View[] = [];

    /* `current` is the question that is shown. */
    constructor(private readonly current: () => string, private readonly signal: AbortSignal) {
        this.element = h("span", { class: "row" }, this.choice,
            h("button", { onclick: () => this.save() }, "Save view…"), this.remove);
        this.showCurrent();
    }

    async load(): Promise<void> {
        this.views = (await ask<{ views: View[] }>("/api/views", { signal: this.signal })).views;
        this.showCurrent();
    }

    /* The view that is shown, if it is one. */
    showCurrent(): void {
        const now = this.current();
        const shown = this.views.find(({ query }) => query === now);
        put(this.choice, h("option", { value: "" }, this.views.length ? "views" : "no views yet"),
            ...this.views.map(({ name }) => h("option", { value: name, selected: name === shown?.name }, name)));
        this.choice.disabled = this.views.length === 0;
        this.remove.hidden = !shown;
    }

    private open(): void {
        const view = this.views.find(({ name }) => name === this.choice.value);
        if (view)
            location.hash = `#/runs?${view.query}`;
    }

    private async save(): Promise<void> {
        const name = await askWord("Save this view", "Name", "Save");
        if (name)
            await this.change(name, this.current());
    }

    private async change(name: string, query: string | null): Promise<void> {
        try {
            this.views = (await post<{ views: View[] }>("/api/views", { name, query })).views;
            this.showCurrent();
            toast(query === null ? "The view is removed." : "The view is saved.");
        } catch (error) {
            toast((error as Error).message, "bad");
        }
    }
}

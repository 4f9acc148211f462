/* SPDX-License-Identifier: Apache-2.0 */
/* The note of a run: text of a person's, shown as text, changed in place and stored with the run. */
import { noteRun, type Run } from "./api.ts";
import { h, put, toast } from "./dom.ts";

const NOTE_MAX = 4096;

export class NoteBox {
    readonly element = h("div", { class: "note" });

    constructor(private readonly run: Run) {
        this.show();
    }

    private show(): void {
        const button = h("button", { class: "quiet", onclick: () => this.edit() }, this.run.note ? "Edit the note" : "Add a note");
        put(this.element, !!this.run.note && h("p", null, this.run.note), button);
    }

    private edit(): void {
        const field = h("textarea", { "aria-label": "Note", rows: 3, maxlength: NOTE_MAX, value: this.run.note ?? "" });
        put(this.element, field, h("div", { class: "row" },
            h("button", { class: "primary", onclick: () => this.save(field.value.trim()) }, "Save"),
            h("button", { onclick: () => this.show() }, "Cancel")));
        field.focus();
    }

    private async save(text: string): Promise<void> {
        try {
            const { note } = await noteRun(this.run.id, text);
            this.run.note = note;
            this.show();
        } catch (error) {
            toast((error as Error).message, "bad");
        }
    }
}

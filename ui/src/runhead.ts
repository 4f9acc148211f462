/* SPDX-License-Identifier: Apache-2.0 */
/* The top of a run's page: its title and status, tags, and what can be done with it. Only the status
   is made anew while the run trains, so that a button does not vanish under the pointer. */
import { deleteRun, stopRun, tagRun, type RunDetail } from "./api.ts";
import { choose, chosenRuns } from "./chosen.ts";
import { confirm, h, put, refill, toast } from "./dom.ts";
import { date, runTitle } from "./format.ts";
import { DELETED, goOn } from "./page.ts";
import { statusPill } from "./status.ts";

const fail = (error: unknown): void => toast((error as Error).message, "bad");

export class RunHead {
    readonly element = h("div", { class: "run-head" });
    private readonly title = h("h1");
    private readonly status = h("span");
    private readonly tags = h("span", { class: "tags" });
    private readonly actions = h("div", { class: "row actions" });
    private state = ""; /* that the buttons were made for */

    constructor(private readonly detail: RunDetail) {
        put(this.element, h("div", { class: "row" }, this.title, this.status),
            h("div", { class: "row dim" }, ...this.facts().map((text) => h("small", null, text)), this.tags),
            this.actions);
        this.showTags();
    }

    update(): void {
        const { run } = this.detail;
        this.title.textContent = runTitle(run);
        refill(this.status, statusPill(run));
        if (this.state !== run.status)
            this.showActions();
        this.state = run.status;
    }

    private facts(): string[] {
        const { run } = this.detail;
        const workers = `${run.workers ?? 1} ${run.workers === 1 ? "worker" : "workers"}`;
        const how = [run.system, run.strategy, run.codec && `codec ${run.codec}`, workers, run.transport, run.cluster];
        return [`run ${run.id} · ${how.filter(Boolean).join(" · ")}`,
            `began ${date(run.created)}${run.host ? ` on ${run.host}` : ""}`];
    }

    private showTags(): void {
        const field = h("input", {
            class: "tag-field", placeholder: "add a tag", "aria-label": "Add a tag", maxlength: 64,
            onkeydown: (event: KeyboardEvent) => {
                if (event.key === "Enter" && field.value.trim())
                    void this.tag([field.value.trim()], []);
            },
        });
        put(this.tags, ...this.detail.tags.map((name) => h("span", { class: "tag" }, name,
            h("button", { "aria-label": `Remove the tag ${name}`, onclick: () => this.tag([], [name]) }, "×"))), field);
    }

    private async tag(add: string[], remove: string[]): Promise<void> {
        try {
            await tagRun(this.detail.run.id, add, remove);
            const others = this.detail.tags.filter((name) => !remove.includes(name) && !add.includes(name));
            this.detail.tags = [...others, ...add];
            this.showTags();
        } catch (error) {
            fail(error);
        }
    }

    private showActions(): void {
        const { run } = this.detail;
        put(this.actions,
            run.status === "running" && this.stopButton(),
            h("button", { onclick: () => this.choose() }, "Choose to compare"),
            run.batch_of && h("a", { class: "button", href: `#/compare/batch:${encodeURIComponent(run.batch_of)}` },
                "Its comparison"),
            h("a", { class: "button", href: `#/simulator?run=${run.id}` }, "Run again…"),
            run.status !== "running" && h("button", { class: "danger", onclick: () => this.remove() }, "Delete"));
    }

    private stopButton(): HTMLElement {
        const button = h("button", {
            onclick: async () => {
                button.disabled = true;
                await stopRun(this.detail.run.id).then(() => toast("The run finishes its step and stops."), fail);
            },
        }, "Stop");
        return button;
    }

    private choose(): void {
        const room = choose(chosenRuns(), this.detail.run.id, true);
        toast(room ? "Chosen; compare it on the page of runs." : "20 runs are chosen already.", room ? "good" : "bad");
    }

    private async remove(): Promise<void> {
        const { id } = this.detail.run;
        const from = location.hash;
        if (await confirm(`Delete run ${id}?`, DELETED, "Delete"))
            await deleteRun(id).then(() => goOn(from, "#/runs"), fail);
    }
}

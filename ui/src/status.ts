/* SPDX-License-Identifier: Apache-2.0 */
/* How a run stands, as a sign and a word: colour alone says nothing to some. */
import type { Run, Status } from "./api.ts";
import { h } from "./dom.ts";

const SIGNS: Record<Status, [sign: string, help: string]> = {
    running: ["●", "its process is training now"],
    done: ["✓", "trained to the end"],
    target: ["★", "reached the target accuracy"],
    patience: ["◆", "stopped early: the validation set saw no better model"],
    canceled: ["■", "was stopped by somebody"],
    diverged: ["≈", "the loss was no longer a number"],
    failed: ["✕", "ended with an error"],
    interrupted: ["!", "its process ended without saying why"],
};

export function statusPill(run: Pick<Run, "status" | "steps" | "step_count">): HTMLElement {
    const [sign, help] = SIGNS[run.status] ?? ["?", ""];
    const part = progressOf(run);
    return h("span", { class: `pill ${run.status}`, title: help },
        h("span", { "aria-hidden": "true" }, sign), ` ${run.status}`,
        part !== null && h("small", null, ` ${Math.floor(part * 100)}%`));
}

/* It came to an end of its own: its measures are those of a whole run. */
export function isWhole({ status }: Pick<Run, "status">): boolean {
    return status === "done" || status === "target" || status === "patience";
}

/* The part of its steps that a running run has taken; null where nobody knows. */
export function progressOf(run: Pick<Run, "status" | "steps" | "step_count">): number | null {
    if (run.status !== "running" || !run.step_count || run.steps === null)
        return null;
    return Math.min(1, run.steps / run.step_count);
}

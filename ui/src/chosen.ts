/* SPDX-License-Identifier: Apache-2.0 */
/* The runs that are chosen for comparison: at most 20, stored while the tab is open. */

export const CHOSEN_MAX = 20;

export function chosenRuns(): Set<number> {
    try {
        return new Set(JSON.parse(sessionStorage.getItem("chosen") ?? "[]") as number[]);
    } catch {
        return new Set();
    }
}

/* Returns false where there is no room for one more. */
export function choose(runs: Set<number>, id: number, on: boolean): boolean {
    if (on && !runs.has(id) && runs.size >= CHOSEN_MAX)
        return false;
    on ? runs.add(id) : runs.delete(id);
    try {
        sessionStorage.setItem("chosen", JSON.stringify([...runs]));
    } catch { /* forbidden: the choice lasts as long as the page */ }
    return true;
}

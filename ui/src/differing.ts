/* SPDX-License-Identifier: Apache-2.0 */
/* Options and names that distinguish runs. Pure functions. */
import type { RunDetail } from "./api.ts";
import { plain } from "./format.ts";

/* The name of a run and the places of its files do not affect training. */
const IGNORED = new Set(["name", "store", "batch_of", "trace", "save", "checkpoint", "log", "metrics_port"]);

/* Options whose values are not the same in all runs, in the order in which they are first seen. */
export function differing(all: Record<string, unknown>[]): string[] {
    const names = [...new Set(all.flatMap((options) => Object.keys(options)))];
    const count = (name: string) => new Set(all.map((options) => JSON.stringify(options[name] ?? null))).size;
    return names.filter((name) => !IGNORED.has(name) && count(name) > 1);
}

/* The shortest names that distinguish the runs: options that differ, else their numbers. */
export function labels(details: Pick<RunDetail, "run" | "options">[]): string[] {
    const names = details.map(({ run }) => run.name || run.system || (run.strategy ?? "").split(":")[0] || `run ${run.id}`);
    const varied = differing(details.map(({ options }) => options)).filter((name) => !["system", "strategy"].includes(name));
    const one = varied.length === 1 ? varied[0]! : null;
    return names.map((name, i) => {
        if (names.filter((other) => other === name).length === 1)
            return name;
        const options = details[i]!.options;
        return one ? `${name} ${one} ${plain(options[one])}` : `${name} #${details[i]!.run.id}`;
    });
}

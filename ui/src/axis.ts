/* SPDX-License-Identifier: Apache-2.0 */
/* What curves can be drawn over, and the metrics as lines over it. Pure functions. */
import { METRICS, type Event, type Metrics } from "./api.ts";
import { bytes, seconds, short } from "./format.ts";

export type AxisName = "time_s" | "wall_s" | "step" | "samples" | "bytes";

export interface Axis {
    name: AxisName;
    label: string;
    format: (value: number) => string;
}

export const AXES: Record<AxisName, Axis> = {
    time_s: { name: "time_s", label: "Time", format: seconds },
    wall_s: { name: "wall_s", label: "Wall time", format: seconds },
    step: { name: "step", label: "Steps", format: short },
    samples: { name: "samples", label: "Samples", format: short },
    bytes: { name: "bytes", label: "Bytes sent", format: bytes },
};

/* On `sim` time is the cluster's, beside that of this machine. */
export function axisChoices(simulated: boolean): [AxisName, string][] {
    const times: [AxisName, string][] = simulated
        ? [["time_s", "Virtual time"], ["wall_s", "Wall time"]] : [["time_s", "Time"]];
    return [...times, ["step", "Steps"], ["samples", "Samples"], ["bytes", "Bytes sent"]];
}

export function emptyMetrics(): Metrics {
    return Object.fromEntries(METRICS.map((name) => [name, []])) as unknown as Metrics;
}

/* Adds newer rows; those that are there already, after a reconnection, are left out. */
export function appendMetrics(all: Metrics, more: Partial<Metrics>): void {
    const last = all.seq.at(-1) ?? -1;
    const seqs = more.seq ?? [];
    for (let i = 0; i < seqs.length; i++)
        if ((seqs[i] ?? -1) > last)
            for (const name of METRICS)
                all[name].push(more[name]?.[i] ?? null);
}

/* Rows that can be drawn over the axis: it has a value there and does not go back. */
export function over(metrics: Metrics, axis: AxisName): { x: number[]; rows: number[] } {
    const x: number[] = [];
    const rows: number[] = [];
    metrics[axis].forEach((value, i) => {
        if (value !== null && value >= (x.at(-1) ?? -Infinity)) {
            x.push(value);
            rows.push(i);
        }
    });
    return { x, rows };
}

export const isMeasured = (column: (number | null)[]): boolean => column.some((value) => value !== null);
export const isNonzero = (column: (number | null)[]): boolean => column.some((value) => value !== null && value !== 0);

/* Where an event is on the axis: by its own time or step, else by that of the next row. */
export function placeOf(event: Event, metrics: Metrics, axis: AxisName): number | null {
    if (axis === "time_s" && event.time_s !== null)
        return event.time_s;
    if (axis === "step" && event.step !== null)
        return event.step;
    const column = event.time_s !== null ? metrics.time_s : metrics.step;
    const value = event.time_s ?? event.step;
    const row = value === null ? -1 : column.findIndex((at) => at !== null && at >= value);
    return row < 0 ? metrics[axis].at(-1) ?? null : metrics[axis][row] ?? null;
}

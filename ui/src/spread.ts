/* SPDX-License-Identifier: Apache-2.0 */
/* Labels that do not cover one another. */

/* Sorted positions, moved so that neighbours are `gap` apart, within the bounds where there is room. */
export function spread(wanted: number[], gap: number, low: number, high: number): number[] {
    const out = [...wanted];
    for (let i = 0; i < out.length; i++)
        out[i] = Math.max(out[i]!, i === 0 ? low : out[i - 1]! + gap);
    for (let i = out.length - 1; i >= 0; i--)
        out[i] = Math.min(out[i]!, i === out.length - 1 ? high : out[i + 1]! - gap);
    return out;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Smoothing of noisy curves, and values for logarithmic axes. Pure functions. */

type Column = (number | null)[];

/* An exponential mean of the values so far, without the pull to zero of its start:
       m <- weight m + (1 - weight) y,  shown as m / (1 - weight^n)
   Gaps stay gaps. A weight of 0 changes nothing. */
export function smooth(values: Column, weight: number): Column {
    if (weight <= 0)
        return values;
    let mean = 0;
    let left = 1; /* weight^n */
    return values.map((value) => {
        if (value === null || !Number.isFinite(value))
            return null;
        mean = weight * mean + (1 - weight) * value;
        left *= weight;
        return mean / (1 - left);
    });
}

/* The slider's 0 to 100 as a weight: its last tenth reaches means of hundreds of values. */
export function weightOf(slider: number): number {
    return slider <= 0 ? 0 : 1 - 10 ** (-slider / 40);
}

/* A logarithm has no place for zero and below. */
export function positive(values: Column): Column {
    return values.map((value) => value !== null && value > 0 ? value : null);
}

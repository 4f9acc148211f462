/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and times as people read them, with the words and units of the program's own output.
   Pure functions; null, undefined and NaN are a dash. */

type Maybe = number | null | undefined;

const NONE = "–";
const missing = (value: Maybe): value is null | undefined => value === null || value === undefined || Number.isNaN(value);

/* 12,345 */
export function count(value: Maybe): string {
    return missing(value) ? NONE : Math.round(value).toLocaleString("en-US");
}

/* Four significant digits, without an exponent where it can be helped: 0.5349, 12.34, 1234, 1.2e-7 */
export function number(value: Maybe): string {
    if (missing(value))
        return NONE;
    const size = Math.abs(value);
    if (!Number.isFinite(value))
        return value > 0 ? "∞" : "−∞";
    if (size !== 0 && (size < 1e-4 || size >= 1e9))
        return value.toExponential(2);
    if (size >= 1000)
        return Math.round(value).toLocaleString("en-US");
    return size === 0 ? "0" : String(Number(value.toPrecision(4)));
}

/* 0.9155 is 91.55% */
export function percent(value: Maybe): string {
    return missing(value) ? NONE : `${(value * 100).toFixed(2)}%`;
}

/* A duration: 340 µs, 12.3 ms, 6.8 s, 3 min 20 s, 2 h 05 min */
export function seconds(value: Maybe): string {
    if (missing(value))
        return NONE;
    const size = Math.abs(value);
    if (size === 0)
        return "0 s";
    if (size < 1e-6)
        return `${three(value * 1e9)} ns`;
    if (size < 1e-3)
        return `${three(value * 1e6)} µs`;
    if (size < 1)
        return `${three(value * 1e3)} ms`;
    if (size < 99.95)
        return `${value.toFixed(size < 9.995 ? 2 : 1)} s`;
    const whole = Math.round(value);
    if (Math.abs(whole) < 3600)
        return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`;
    return `${Math.floor(whole / 3600)} h ${pad(Math.floor((whole % 3600) / 60))} min`;
}

/* A number at a tick of an axis needs no zeros at its end: 10.0 s is 10 s there. */
export function tick(text: string): string {
    return text.replace(/(\.\d*?)0+(?=%| |$)/, "$1").replace(/\.(?=%| |$)/, "");
}

/* 4,162,022 is 4.16 MB */
export function bytes(value: Maybe): string {
    return missing(value) ? NONE : scaled(value, ["B", "kB", "MB", "GB", "TB", "PB"]);
}

/* A short count for axes: 1.5M */
export function short(value: Maybe): string {
    return missing(value) ? NONE : scaled(value, ["", "k", "M", "G", "T"]).replace(" ", "");
}

function scaled(value: number, units: string[]): string {
    let rest = value;
    let unit = 0;
    while (Math.abs(rest) >= 999.5 && unit < units.length - 1) {
        rest /= 1000;
        unit++;
    }
    return `${unit === 0 ? String(Number(rest.toPrecision(3))) : three(rest)} ${units[unit]}`;
}

function three(value: number): string {
    return String(Number(value.toPrecision(3)));
}

function pad(value: number): string {
    return String(value).padStart(2, "0");
}

/* When something happened, relative to now: "just now", "5 min ago", then the date. */
export function ago(unix: Maybe, now: number = Date.now() / 1000): string {
    if (missing(unix))
        return NONE;
    const age = now - unix;
    if (age < 10)
        return "just now";
    if (age < 60)
        return `${Math.floor(age)} s ago`;
    if (age < 3600)
        return `${Math.floor(age / 60)} min ago`;
    if (age < 86400)
        return `${Math.floor(age / 3600)} h ago`;
    return date(unix);
}

/* 2026-11-15 18:24 in local time */
export function date(unix: Maybe): string {
    if (missing(unix))
        return NONE;
    const at = new Date(unix * 1000);
    const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
    return `${day} ${pad(at.getHours())}:${pad(at.getMinutes())}`;
}

/* Any value of options, machine and result; its name says the unit. */
export function plain(value: unknown, name = ""): string {
    if (value === null || value === undefined || value === "")
        return NONE;
    if (typeof value === "number") {
        if (name.endsWith("_per_s"))
            return number(value);
        if (name.endsWith("_s"))
            return seconds(value);
        if (/accuracy|share$/.test(name))
            return percent(value);
        if (/bytes|memory/.test(name))
            return bytes(value);
        return Number.isInteger(value) ? String(value) : number(value);
    }
    if (Array.isArray(value))
        return value.map((one) => plain(one, name)).join(", ");
    if (typeof value === "object")
        return JSON.stringify(value);
    return String(value);
}

/* The staleness that a bucket of the histogram holds: 0, 1, 2, 3, 4–7, 8–15, ... */
export function bucketName(bucket: number, last = 15): string {
    if (bucket < 4)
        return String(bucket);
    const low = 2 ** (bucket - 2);
    return bucket >= last ? `${low.toLocaleString("en-US")}+` : `${low}–${2 * low - 1}`;
}

/* What a run is called where it has no name: "ssp · lenet on digits". */
export function runTitle(run: { id: number; name: string | null; system: string | null; strategy: string | null;
                                model: string | null; data: string | null }): string {
    if (run.name)
        return run.name;
    const how = run.system || (run.strategy ?? "").split(":")[0] || "run";
    return `${how} · ${run.model ?? "?"} on ${(run.data ?? "?").split(":")[0]}`;
}

/* One word of a command line, as a POSIX shell takes it. */
export function quote(word: string): string {
    return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/* The command that starts a run with these options. */
export function commandOf(options: Record<string, string>): string {
    const words = Object.entries(options).filter(([, value]) => value !== "")
        .map(([name, value]) => `--${name.replaceAll("_", "-")} ${quote(value)}`);
    return ["fast train", ...words].join(" ");
}

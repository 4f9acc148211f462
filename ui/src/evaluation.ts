/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of the test set: macro averages, a table of the classes, the confusion matrix; or the errors
   of a regression. They are part of a run's result, so they appear when it ends. */
import type { Values } from "./api.ts";
import { h, refill, type Child } from "./dom.ts";
import { count, number, percent } from "./format.ts";

export interface ClassFigures {
    actual: number;
    predicted: number;
    correct: number;
    precision: number | null;
    recall: number | null;
    f1: number | null;
    auc: number | null;
}

export interface Figures {
    rows: number;
    invalid: number;
    classes: number; /* 0: regression */
    accuracy?: number | null;
    precision?: number | null;
    recall?: number | null;
    f1?: number | null;
    auc?: number | null;
    by_class?: ClassFigures[];
    confusion?: number[][] | null; /* rows actual, columns predicted */
    mae?: number | null;
    rmse?: number | null;
    r2?: number | null;
}

const MATRIX_MAX = 40; /* classes of a matrix that is drawn */

/* The figures of a result; null where it has none. */
export function figuresOf(result: Values): Figures | null {
    const figures = result["figures"] as Figures | undefined;
    return figures && typeof figures === "object" && figures.rows > 0 ? figures : null;
}

/* Each cell's part of its row: how strongly it is coloured. */
export function rowShares(matrix: number[][]): number[][] {
    return matrix.map((row) => {
        const sum = row.reduce((all, value) => all + value, 0);
        return row.map((value) => (sum > 0 ? value / sum : 0));
    });
}

export function showEvaluation(element: HTMLElement, result: Values): void {
    const figures = figuresOf(result);
    const best = result["best_step"];
    element.hidden = figures === null;
    if (!figures)
        return;
    refill(element, h("h2", null, "Test set"), summary(figures),
        h("p", { class: "dim" }, h("small", null, `${count(figures.rows)} rows`,
            figures.invalid > 0 && `, ${count(figures.invalid)} with outputs that are no numbers`,
            typeof best === "number" && `; the validation set was best at step ${count(best)}`, ".")),
        h("div", { class: "two" }, classTable(figures), matrixTable(figures)));
}

/* The averages in a row. */
function summary(figures: Figures): HTMLElement {
    const all: [string, string][] = figures.classes > 0
        ? [["Accuracy", percent(figures.accuracy ?? null)], ["Macro F1", number(figures.f1 ?? null)],
           ["Precision", number(figures.precision ?? null)], ["Recall", number(figures.recall ?? null)],
           ["AUC", number(figures.auc ?? null)]]
        : [["MAE", number(figures.mae ?? null)], ["RMSE", number(figures.rmse ?? null)], ["R²", number(figures.r2 ?? null)]];
    return h("dl", { class: "figures" },
        ...all.map(([label, value]) => h("div", null, h("dt", null, label), h("dd", null, value))));
}

function classTable(figures: Figures): Child {
    const columns: [string, (one: ClassFigures) => string][] = [
        ["Rows", (one) => count(one.actual)], ["Predicted", (one) => count(one.predicted)],
        ["Precision", (one) => number(one.precision)], ["Recall", (one) => number(one.recall)],
        ["F1", (one) => number(one.f1)], ["AUC", (one) => number(one.auc)],
    ];
    return !!figures.by_class?.length && h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Classes" },
        h("table", { class: "plain" },
            h("thead", null, h("tr", null, h("th", { scope: "col", class: "number" }, "Class"),
                ...columns.map(([label]) => h("th", { scope: "col", class: "number" }, label)))),
            h("tbody", null, ...figures.by_class.map((one, i) => h("tr", null,
                h("th", { scope: "row", class: "number" }, String(i)),
                ...columns.map(([, text]) => h("td", { class: "number" }, text(one))))))));
}

/* The matrix as a table: every cell has its number, and a colour by its part of the row. */
function matrixTable(figures: Figures): Child {
    const matrix = figures.confusion;
    if (!matrix?.length)
        return false;
    if (matrix.length > MATRIX_MAX)
        return h("p", { class: "dim" }, `The confusion matrix has ${matrix.length} classes: `,
            h("code", null, "fast runs show --json"), " prints it.");
    const shares = rowShares(matrix);
    return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Confusion matrix" },
        h("table", { class: "confusion" },
            h("caption", null, "Confusion matrix: rows are the class, columns the prediction"),
            h("thead", null, h("tr", null, h("td", null), ...matrix.map((_, j) => h("th", { scope: "col" }, String(j))))),
            h("tbody", null, ...matrix.map((row, i) => h("tr", null, h("th", { scope: "row" }, String(i)),
                ...row.map((value, j) => cell(value, shares[i]![j]!, i === j)))))));
}

function cell(value: number, share: number, right: boolean): HTMLElement {
    const color = right ? "var(--good)" : "var(--bad)";
    return h("td", { class: value === 0 ? "zero" : "", title: percent(share),
        style: { "--cell": `color-mix(in srgb, ${color} ${Math.round(share * 45)}%, transparent)` } }, count(value));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of the page of runs: which there are, which are shown at first, and the picker. */
import type { Run } from "./api.ts";
import { h, put } from "./dom.ts";
import { ago, bytes, count, date, number, percent, runTitle, seconds, short } from "./format.ts";
import { statusPill } from "./status.ts";
import type { Column } from "./table.ts";

const where = (run: Run): string =>
    [run.transport, run.cluster?.split(":")[0]].filter(Boolean).join(" · ") || "–";

/* On `sim` the cluster's time. */
const time = (run: Run): string => `${seconds(run.time_s)}${run.transport === "sim" && run.time_s !== null ? " virtual" : ""}`;

/* The name, and on a phone a second line with what the missing columns would say. */
function nameCell(run: Run): Node {
    const workers = `${count(run.workers)} ${run.workers === 1 ? "worker" : "workers"}`;
    return h("span", null, h("a", { href: `#/run/${run.id}` }, runTitle(run)),
        ...(run.tags ?? []).map((tag) => h("span", { class: "tag" }, tag)),
        !!run.note && h("span", { class: "noted", title: run.note, "aria-label": `Note: ${run.note}`, role: "img" }, "✎"),
        h("small", { class: "phone" }, statusPill(run), ` · ${workers} · ${ago(run.created)}`));
}

const text = (key: "model" | "data" | "strategy" | "topology" | "optimizer" | "host" | "batch_of", label: string, width: string): Column<Run> =>
    ({ key, label, width, rank: 4, cell: (run) => run[key] ?? "–", title: (run) => run[key] ?? "" });
const figure = (key: "batch" | "seed" | "epoch" | "steps" | "test_loss" | "divergence", label: string, width: string): Column<Run> =>
    ({ key, label, width, number: true, rank: 4, cell: (run) => number(run[key]) });

/* All of them; those of `first` are shown until the picker is used. */
const columns: (Column<Run> & { first?: false })[] = [
    { key: "id", label: "#", width: "4.2rem", number: true, rank: 2, cell: (run) => String(run.id) },
    { key: "name", label: "Run", width: "auto", cell: nameCell, title: (run) => run.command },
    { key: "status", label: "Status", width: "8.2rem", rank: 2, cell: statusPill },
    { key: "system", label: "System", width: "8.5rem", rank: 3, cell: (run) => run.system ?? "–" },
    { ...text("strategy", "Strategy", "11rem"), first: false },
    { ...text("topology", "Topology", "7rem"), first: false },
    { ...text("model", "Model", "10rem"), first: false },
    { ...text("data", "Data", "14rem"), first: false },
    { key: "workers", label: "Workers", width: "5.4rem", number: true, rank: 3, cell: (run) => count(run.workers) },
    { key: "transport", label: "Where", width: "8rem", rank: 3, cell: where },
    { key: "codec", label: "Codec", width: "7.5rem", rank: 4, cell: (run) => run.codec ?? "–" },
    { ...text("optimizer", "Optimizer", "14rem"), first: false },
    { key: "lr", label: "Learning rate", width: "7rem", number: true, rank: 4, first: false, cell: (run) => String(run.lr ?? "–") },
    { ...figure("batch", "Batch", "5rem"), first: false },
    { ...figure("seed", "Seed", "5rem"), cell: (run) => String(run.seed ?? "–"), first: false },
    { ...figure("epoch", "Epochs", "5rem"), first: false },
    { ...figure("steps", "Steps", "5.5rem"), first: false },
    { key: "test_accuracy", label: "Test acc", width: "6rem", number: true, cell: (run) => percent(run.test_accuracy) },
    { ...figure("test_loss", "Test loss", "6rem"), first: false },
    { key: "loss", label: "Loss", width: "5.8rem", number: true, rank: 2, cell: (run) => number(run.loss) },
    { key: "time_to_target_s", label: "To target", width: "6.6rem", number: true, rank: 3,
      cell: (run) => seconds(run.time_to_target_s) },
    { key: "time_s", label: "Time", width: "9.4rem", number: true, rank: 2, cell: time },
    { key: "wall_time_s", label: "Wall time", width: "6.6rem", number: true, rank: 4, first: false, cell: (run) => seconds(run.wall_time_s) },
    { key: "samples_per_s", label: "Samples/s", width: "6.2rem", number: true, rank: 4,
      cell: (run) => short(run.samples_per_s) },
    { key: "bytes_sent", label: "Sent", width: "5.8rem", number: true, rank: 4, cell: (run) => bytes(run.bytes_sent) },
    { key: "staleness_mean", label: "Staleness", width: "6.2rem", number: true, rank: 4,
      cell: (run) => number(run.staleness_mean) },
    { ...figure("divergence", "Divergence", "6.4rem"), first: false },
    { ...text("batch_of", "Comparison", "9rem"), first: false },
    { key: "note", label: "Note", width: "14rem", rank: 4, first: false, fixed: true, cell: (run) => run.note ?? "–", title: (run) => run.note ?? "" },
    { ...text("host", "Machine", "7rem"), first: false },
    { key: "created", label: "Started", width: "8.8rem", number: true, rank: 2,
      cell: (run) => ago(run.created), title: (run) => date(run.created) },
];

const ALWAYS = "name";
const standard = columns.filter(({ first }) => first !== false).map(({ key }) => key).join(",");

/* The columns of a list of keys like "id,name,seed"; of "" those at first. Columns that were picked
   are left out on phones only. */
export function columnsOf(keys: string): Column<Run>[] {
    const wanted = new Set((keys || standard).split(","));
    return columns.filter(({ key }) => key === ALWAYS || wanted.has(key))
        .map((column) => keys && column.rank === 4 ? { ...column, rank: 3 as const } : column);
}

export function findColumn(key: string): Column<Run> {
    return columns.find((column) => column.key === key)!;
}

/* A button that opens check boxes, which exist while it is open; `change` gets the keys, "" where they are those at first. */
export function columnPicker(keys: string, change: (keys: string) => void): HTMLElement {
    const shown = new Set((keys || standard).split(","));
    const boxes = () => columns.filter(({ key }) => key !== ALWAYS).map(({ key, label }) => {
        const box = h("input", {
            type: "checkbox", checked: shown.has(key), onchange: () => {
                box.checked ? shown.add(key) : shown.delete(key);
                const now = columns.filter((column) => column.key === ALWAYS || shown.has(column.key)).map((column) => column.key).join(",");
                change(now === standard ? "" : now);
            },
        });
        return h("label", { class: "row option" }, box, label);
    });
    const panel = h("div", { class: "panel", role: "group", "aria-label": "Columns" });
    const picker = h("details", { class: "picker", ontoggle: () => { put(panel, ...(picker.open ? boxes() : [])); } },
        h("summary", { class: "button" }, "Columns"), panel);
    return picker;
}

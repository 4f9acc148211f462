/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a run: on a simulated cluster, with faults, or on this machine. The form is the options of
   `fast train`; the command that it stands for is always in sight. A run that began is watched on its
   own page, in virtual time. */
import { ask, startRun, type Part, type RunDetail, type Tables } from "../api.ts";
import { command, h, put, segmented } from "../dom.ts";
import { parseFlags } from "../flags.ts";
import { commandOf } from "../format.ts";
import { setTitle, type Page } from "../page.ts";

const FAULTS: [text: string, what: string][] = [
    ["slow 1 at 0s for 10s by 4", "node 1 computes 4 times slower"],
    ["pause 2 at 100ms for 500ms", "node 2 stands still"],
    ["crash 3 at 200ms", "node 3 stops"],
    ["restart 3 at 400ms", "node 3 begins again"],
    ["partition 0,1|2,3 at 100ms for 1s", "no side reaches the other"],
    ["lossy 0-1 at 0s for 5s loss 0.2", "a link loses packets"],
    ["cut 0-3 at 100ms for 1s", "nothing passes a link"],
];

/* Options that the form sets by itself, in the order of the command. */
const FIELDS = ["system", "workers", "model", "data", "epochs", "target", "seed"] as const;
const STANDARD: Record<string, string> = { system: "ssp", workers: "4", model: "mlp", data: "digits", epochs: "4", target: "", seed: "1" };
/* What belongs to one process or place, and is not repeated. */
const NOT_AGAIN = new Set(["store", "name", "batch_of", "resume", "checkpoint", "save", "trace", "record", "replay", "log"]);

export const simulatorPage: Page = async (root, { query, signal }) => {
    setTitle("Simulator");
    const { options: known, parts } = await ask<Tables>("/api/options", { signal });
    const clusters = parts.cluster ?? [];
    const first = await firstOptions(query, signal);
    let simulated = (first.transport ?? "sim") === "sim";
    const inputs = new Map<string, HTMLInputElement>();
    const preview = h("div");
    const problem = h("p", { class: "error", role: "alert", hidden: true });

    /* An option of the tables: its help, and the names that it can have. */
    const field = (name: string, label: string, props: object = {}, say?: string): HTMLElement => {
        const option = known.find((candidate) => candidate.name === name);
        const names = parts[option?.kind ?? ""] ?? [];
        const input = h("input", { id: `field-${name}`, "aria-describedby": `help-${name}`, autocomplete: "off", spellcheck: "false",
            value: first[name] ?? STANDARD[name] ?? "", oninput: show, list: `list-${name}`, ...props });
        inputs.set(name, input);
        return h("div", { class: "field" }, h("label", { for: `field-${name}` }, label), input,
            h("datalist", { id: `list-${name}` }, ...names.map((part) => h("option", { value: part.name }))),
            h("small", { class: "dim", id: `help-${name}` }, say ?? option?.help ?? ""));
    };
    const value = (name: string) => inputs.get(name)?.value.trim() ?? "";

    function options(): Record<string, string> {
        const all: Record<string, string> = {};
        for (const name of FIELDS)
            if (value(name))
                all[name] = value(name);
        if (simulated) {
            all.transport = "sim";
            all.cluster = root.querySelector<HTMLInputElement>("input[name=cluster]:checked")?.value ?? "ethernet-10g";
            if (value("faults"))
                all.faults = value("faults");
        }
        return { ...all, ...parseFlags(value("more")) };
    }

    function show(): void {
        try {
            put(preview, command(commandOf(options())));
            problem.hidden = true;
        } catch (error) {
            say(error as Error);
        }
    }

    function say(error: Error): void {
        problem.textContent = error.message;
        problem.hidden = false;
    }

    const start = h("button", { class: "primary", type: "submit" }, "Start");
    async function submit(event: Event): Promise<void> {
        event.preventDefault();
        start.disabled = true;
        try {
            const { id } = await startRun(options());
            location.hash = `#/run/${id}`;
        } catch (error) {
            say(error as Error);
        } finally {
            start.disabled = false;
        }
    }

    const addFault = (text: string) => {
        const input = inputs.get("faults")!;
        input.value = [input.value.trim(), text].filter(Boolean).join("; ");
        show();
    };
    const cluster = clusterOf(first.cluster, clusters);
    const where = h("section", { class: "panel", hidden: !simulated }, h("h2", null, "The cluster"),
        h("div", { class: "cards", role: "radiogroup", "aria-label": "Cluster" }, ...clusters.map(({ name, summary }) =>
            h("label", { class: "card" }, h("input", { type: "radio", name: "cluster", value: name === cluster.preset ? cluster.value : name, checked: name === cluster.preset, onchange: show }),
                h("span", null, h("strong", null, name), h("small", null, summary))))),
        h("h2", null, "Faults"),
        field("faults", "What goes wrong, and when", { placeholder: "none" },
            "A schedule, separated by semicolons; random draws one from the seed. Times are virtual."),
        h("div", { class: "row chips" }, ...FAULTS.map(([text, what]) =>
            h("button", { type: "button", class: "chip", title: what, onclick: () => addFault(text) }, `+ ${text}`)),
            h("button", { type: "button", class: "chip", onclick: () => { inputs.get("faults")!.value = "random"; show(); } }, "random"),
            h("button", { type: "button", class: "chip", onclick: () => { inputs.get("faults")!.value = ""; show(); } }, "none")));

    put(root, h("form", { class: "form", onsubmit: submit },
        h("div", { class: "row head" }, h("h1", null, "Simulator"),
            segmented("Where", [["sim", "A simulated cluster"], ["threads", "This machine"]] as const, simulated ? "sim" : "threads", (choice) => {
                simulated = choice === "sim";
                where.hidden = !simulated;
                show();
            })),
        h("p", { class: "dim" }, "Everything that is computed is really computed; how long it takes is what the cluster makes of it. The same seed gives the same run, to the last event."),
        h("div", { class: "with-detail" }, h("div", { class: "stack" }, h("section", { class: "panel" }, h("h2", null, "The job"), h("div", { class: "fields" },
            field("system", "System"),
            field("workers", "Workers", { type: "number", min: 1, max: 1024 }),
            field("model", "Model"),
            field("data", "Data"),
            field("epochs", "Epochs", { type: "number", min: 0 }),
            field("target", "Target", { placeholder: "none" }),
            field("seed", "Seed", { type: "number", min: 0 }),
            field("more", "Other options", { placeholder: "--lr 0.1 --codec fp16" }, "flags of fast train"))),
        where),
        h("aside", { class: "panel detail", "aria-label": "The run to start" }, h("h2", null, "The run"), preview, problem,
            h("div", { class: "buttons" }, start),
            h("p", { class: "dim" }, h("small", null, "It opens when it has begun: curves, what each worker does, traffic and faults, live in virtual time."))))));
    show();
};

/* What the form begins with: a system, or the options of another run. */
async function firstOptions(query: URLSearchParams, signal: AbortSignal): Promise<Record<string, string>> {
    const run = query.get("run");
    if (!run)
        return query.get("system") ? { system: query.get("system")! } : {};
    const { run: old } = await ask<RunDetail>(`/api/runs/${run}`, { signal });
    const given = givenOptions(old.command);
    const more = Object.entries(given).filter(([name]) =>
        !(FIELDS as readonly string[]).includes(name) && !["transport", "cluster", "faults"].includes(name) && !NOT_AGAIN.has(name));
    return {
        target: "", system: "", workers: "1", epochs: "", seed: "", model: "", data: "", transport: "threads", ...given,
        more: commandOf(Object.fromEntries(more)).replace(/^fast train ?/, ""),
    };
}

/* The flags of the command that began a run; what is no flag is passed over. */
function givenOptions(text: string): Record<string, string> {
    const at = text.indexOf(" --");
    try {
        return at < 0 ? {} : parseFlags(text.slice(at));
    } catch {
        return {};
    }
}

/* Which preset a --cluster names, and all of its text. */
function clusterOf(text: string | undefined, clusters: Part[]): { preset: string; value: string } {
    const value = text ?? "hetero";
    const preset = clusters.find(({ name }) => name === value.split(":")[0])?.name ?? clusters[0]?.name ?? "";
    return { preset, value: value.startsWith(preset) ? value : preset };
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a run: on a simulated cluster, with faults, or on this machine. The form is the options of
   `fast train`; the command that it stands for is always in sight. A run that began is watched on its
   own page, in virtual time. */
import { ask, startRun, type Part, type RunDetail, type Tables } from "../api.ts";
import { command, h, put, segmented } from "../dom.ts";
import { parseFlags } from "../flags.ts";
import { commandOf } from "../format.ts";
import { goOn, setTitle, type Page } from "../page.ts";

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
const STANDARD: Record<string, string> = {
    system: "ssp", workers: "4", model: "mlp", data: "digits", epochs: "4", target: "", seed: "1",
};
/* What belongs to one process or place, and is not repeated. */
const NOT_AGAIN = new Set(["store", "name", "batch_of", "resume", "checkpoint", "save", "trace", "record",
    "replay", "log"]);

export const simulatorPage: Page = async (root, { query, signal }) => {
    setTitle("Simulator");
    const tables = await ask<Tables>("/api/options", { signal });
    const form = new Form(tables, await firstOptions(query, signal));
    put(root, form.element);
    form.show();
};

class Form {
    readonly element: HTMLElement;
    private readonly inputs = new Map<string, HTMLInputElement>();
    private readonly cluster: HTMLElement;
    private readonly preview = h("div");
    private readonly problem = h("p", { class: "error", role: "alert", hidden: true });
    private readonly start = h("button", { class: "primary", type: "submit" }, "Start");
    private simulated: boolean;

    constructor(private readonly tables: Tables, private readonly first: Record<string, string>) {
        this.simulated = (first.transport ?? "sim") === "sim";
        this.cluster = this.clusterPanel();
        this.element = h("form", { class: "form", onsubmit: (event: Event) => this.submit(event) },
            h("div", { class: "row head" }, h("h1", null, "Simulator"), this.whereChoice()),
            h("p", { class: "dim" }, "Everything that is computed is really computed; how long it takes is what the ",
                "cluster makes of it. The same seed gives the same run, to the last event."),
            h("div", { class: "with-detail" },
                h("div", { class: "stack" }, this.jobPanel(), this.cluster),
                h("aside", { class: "panel detail", "aria-label": "The run to start" }, h("h2", null, "The run"),
                    this.preview, this.problem, h("div", { class: "buttons" }, this.start),
                    h("p", { class: "dim" }, h("small", null, "It opens when it has begun: curves, what each worker ",
                        "does, traffic and faults, live in virtual time.")))));
    }

    private whereChoice(): HTMLElement {
        const choices = [["sim", "A simulated cluster"], ["threads", "This machine"]] as const;
        return segmented("Where", choices, this.simulated ? "sim" : "threads", (choice) => {
            this.simulated = choice === "sim";
            this.cluster.hidden = !this.simulated;
            this.show();
        });
    }

    private jobPanel(): HTMLElement {
        return h("section", { class: "panel" }, h("h2", null, "The job"), h("div", { class: "fields" },
            this.field("system", "System"),
            this.field("workers", "Workers", { type: "number", min: 1, max: 1024 }),
            this.field("model", "Model"),
            this.field("data", "Data"),
            this.field("epochs", "Epochs", { type: "number", min: 0 }),
            this.field("target", "Target", { placeholder: "none" }),
            this.field("seed", "Seed", { type: "number", min: 0 }),
            this.field("more", "Other options", { placeholder: "--lr 0.1 --codec fp16" }, "flags of fast train")));
    }

    private clusterPanel(): HTMLElement {
        const clusters = this.tables.parts.cluster ?? [];
        const { preset, value } = clusterOf(this.first.cluster, clusters);
        const card = ({ name, summary }: Part) => h("label", { class: "card" },
            h("input", {
                type: "radio", name: "cluster", value: name === preset ? value : name, checked: name === preset,
                onchange: () => this.show(),
            }),
            h("span", null, h("strong", null, name), h("small", null, summary)));
        const chip = (text: string, what: string, press: () => void) =>
            h("button", { type: "button", class: "chip", title: what, onclick: press }, text);
        return h("section", { class: "panel", hidden: !this.simulated }, h("h2", null, "The cluster"),
            h("div", { class: "cards", role: "radiogroup", "aria-label": "Cluster" }, ...clusters.map(card)),
            h("h2", null, "Faults"),
            this.field("faults", "What goes wrong, and when", { placeholder: "none" },
                "A schedule, separated by semicolons; random draws one from the seed. Times are virtual."),
            h("div", { class: "row chips" },
                ...FAULTS.map(([text, what]) => chip(`+ ${text}`, what, () => this.setFaults(text, true))),
                chip("random", "a schedule drawn from the seed", () => this.setFaults("random")),
                chip("none", "nothing goes wrong", () => this.setFaults(""))));
    }

    private setFaults(text: string, more = false): void {
        const input = this.inputs.get("faults")!;
        input.value = more ? [input.value.trim(), text].filter(Boolean).join("; ") : text;
        this.show();
    }

    /* An option of the tables: its help, and the names that it can have. */
    private field(name: string, label: string, props: object = {}, help?: string): HTMLElement {
        const option = this.tables.options.find((candidate) => candidate.name === name);
        const names = this.tables.parts[option?.kind ?? ""] ?? [];
        const input = h("input", {
            id: `field-${name}`, "aria-describedby": `help-${name}`, autocomplete: "off", spellcheck: "false",
            value: this.first[name] ?? STANDARD[name] ?? "", oninput: () => this.show(), list: `list-${name}`, ...props,
        });
        this.inputs.set(name, input);
        return h("div", { class: "field" }, h("label", { for: `field-${name}` }, label), input,
            h("datalist", { id: `list-${name}` }, ...names.map((part) => h("option", { value: part.name }))),
            h("small", { class: "dim", id: `help-${name}` }, help ?? option?.help ?? ""));
    }

    private value(name: string): string {
        return this.inputs.get(name)?.value.trim() ?? "";
    }

    private options(): Record<string, string> {
        const names = this.simulated ? [...FIELDS, "faults"] : FIELDS;
        const all = Object.fromEntries(names.map((name) => [name, this.value(name)]).filter(([, value]) => value));
        if (this.simulated) {
            all.transport = "sim";
            all.cluster = this.cluster.querySelector<HTMLInputElement>("input:checked")?.value ?? "ethernet-10g";
        }
        return { ...all, ...parseFlags(this.value("more")) };
    }

    /* The command, or what is wrong with it. */
    show(): void {
        try {
            put(this.preview, command(commandOf(this.options())));
            this.problem.hidden = true;
        } catch (error) {
            this.say(error as Error);
        }
    }

    private say(error: Error): void {
        this.problem.textContent = error.message;
        this.problem.hidden = false;
    }

    private async submit(event: Event): Promise<void> {
        event.preventDefault();
        this.start.disabled = true;
        try {
            const from = location.hash;
            const { id } = await startRun(this.options());
            goOn(from, `#/run/${id}`);
        } catch (error) {
            this.say(error as Error);
        } finally {
            this.start.disabled = false;
        }
    }
}

/* What the form begins with: a system, or the options of another run. */
async function firstOptions(query: URLSearchParams, signal: AbortSignal): Promise<Record<string, string>> {
    const run = query.get("run");
    if (!run)
        return query.get("system") ? { system: query.get("system")! } : {};
    const { run: old } = await ask<RunDetail>(`/api/runs/${run}`, { signal });
    const given = givenOptions(old.command);
    const own = new Set<string>([...FIELDS, "transport", "cluster", "faults"]);
    const more = Object.entries(given).filter(([name]) => !own.has(name) && !NOT_AGAIN.has(name));
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

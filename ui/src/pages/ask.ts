/* SPDX-License-Identifier: Apache-2.0 */
/* "Which strategy?": a form for `fast compare` with a short list of systems. The command that it stands for is
   always in sight; the comparison is watched, and its verdict read, on its own page. */
import { ask, serverInfo, startComparison, type ServerInfo, type System, type Tables } from "../api.ts";
import type { Comparison, Progress } from "../comparison.ts";
import { command, h, put } from "../dom.ts";
import { parseFlags } from "../flags.ts";
import { ago, commandOf } from "../format.ts";
import { cannotStart, withStore } from "../here.ts";
import { goOn, setTitle, type Page } from "../page.ts";

/* Well-known systems, one or two of each family: those of `fast compare` without an axis, and two more. */
const SHORT_LIST = ["bsp", "backup-workers", "fedavg", "ssp", "downpour", "easgd", "d-psgd", "ad-psgd", "slowmo", "dgc"];
const PRESELECTED = new Set(SHORT_LIST.slice(0, 8));
const BUDGETS = [["2s", "2 s of training"], ["50MB", "50 MB sent"], ["20000samples", "20,000 samples"], ["", "none: by epochs"]] as const;
const STANDARD: Record<string, string> = {
    workers: "4", model: "mlp:hidden=64", data: "digits:train=3000,test=500", batch: "16", target: "0.85", budget: "2s",
    seeds: "3", tune: "lr=0.1..0.8x2", more: "--optimizer sgd --schedule constant --evaluate 8steps",
};

export const askPage: Page = async (root, { query, signal }) => {
    setTitle("Which strategy?");
    const [info, tables, { systems }, current, { comparisons }] = await Promise.all([serverInfo(),
        ask<Tables>("/api/options", { signal }), ask<{ systems: System[] }>("/api/systems", { signal }),
        ask<Progress>("/api/comparisons/current", { signal }),
        ask<{ comparisons: Comparison[] }>("/api/comparisons", { signal })]);
    const form = new Question(info, tables, systems, current, comparisons, Object.fromEntries(query));
    put(root, form.element);
    form.show();
};

class Question {
    readonly element: HTMLElement;
    private readonly inputs = new Map<string, HTMLInputElement>();
    private readonly cluster = h("div", { class: "cards", role: "radiogroup", "aria-label": "Cluster" });
    private readonly systems = h("div", { class: "cards", role: "group", "aria-label": "Systems" });
    private readonly preview = h("div");
    private readonly count = h("p", { class: "dim" });
    private readonly problem = h("p", { class: "error", role: "alert", hidden: true });
    private readonly start = h("button", { class: "primary", type: "submit" }, "Compare");

    constructor(private readonly info: ServerInfo, private readonly tables: Tables, all: System[], current: Progress,
                private readonly before: Comparison[], private readonly first: Record<string, string>) {
        const field = (name: string, label: string, props: object = {}, help?: string) => this.field(name, label, props, help);
        this.fillClusters();
        this.fillSystems(all);
        const running = current.state === "running" || current.state === "stopping";
        this.element = h("form", { class: "form", onsubmit: (event: Event) => this.submit(event) },
            h("h1", null, "Which strategy?"),
            h("p", { class: "dim" }, "Trains your job with each system on a simulated cluster, gives all of them the same trials and the same ",
                "budget, and says which to choose, and why."),
            running && h("p", { class: "warning" }, "A comparison runs already: ", h("a", { href: `#/compare/batch:${encodeURIComponent(current.name ?? "")}` },
                current.name ?? "see it"), "."),
            h("div", { class: "with-detail" },
                h("div", { class: "stack" },
                    h("section", { class: "panel" }, h("h2", null, "Cluster"), this.cluster,
                        h("div", { class: "fields" }, field("workers", "Workers", { type: "number", min: 1, max: 1024 }))),
                    h("section", { class: "panel" }, h("h2", null, "Model and data"), h("div", { class: "fields" },
                        field("model", "Model", {}, "a name with options, like mlp:hidden=64"), field("data", "Data", {}, "a data set by name"), field("batch", "Batch", { type: "number", min: 1 }),
                        field("target", "Target", { inputmode: "decimal" }, "test accuracy to reach, 0 to 1"))),
                    h("section", { class: "panel" }, h("h2", null, "Budget"), h("div", { class: "fields" },
                        field("budget", "End of every run", { placeholder: "by epochs" }, "the same for all: 10s, 5MB or 100000samples"),
                        field("seeds", "Seeds", { type: "number", min: 1, max: 100 }, "runs of each system; 3 or more show the spread"),
                        field("tune", "Trials", { placeholder: "no" }, "values that are tried for each system; no: none"),
                        field("more", "Other options", {}, "flags of fast train")),
                        h("div", { class: "row chips" }, ...BUDGETS.map(([value, text]) => h("button", {
                            type: "button", class: "chip", onclick: () => this.setBudget(value),
                        }, text)))),
                    h("section", { class: "panel" }, h("h2", null, "Systems to compare"), this.systems,
                        field("others", "More systems", { placeholder: "horovod, bmuf" }, "names, separated by commas; the page Systems explains all"))),
                h("aside", { class: "panel detail", "aria-label": "The comparison to start" }, h("h2", null, "The comparison"), this.count,
                    this.preview, this.problem, info.starts_runs ? h("div", { class: "buttons" }, this.start)
                        : h("p", { class: "warning" }, cannotStart(info)), this.list())));
    }

    private fillClusters(): void {
        const chosen = this.first.cluster ?? "hetero";
        put(this.cluster, ...(this.tables.parts.cluster ?? []).map(({ name, summary }) => h("label", { class: "card" },
            h("input", { type: "radio", name: "cluster", value: name, checked: name === chosen, onchange: () => this.show() }),
            h("span", null, h("strong", null, name), h("small", null, summary)))));
    }

    private fillSystems(all: System[]): void {
        const wanted = this.first.system ? new Set(this.first.system.split(",")) : PRESELECTED;
        const listed = SHORT_LIST.map((name) => all.find((system) => system.name === name)).filter((system) => system !== undefined);
        put(this.systems, ...listed.map(({ name, title, consistency }) => h("label", { class: "card" },
            h("input", { type: "checkbox", name: "system", value: name, checked: wanted.has(name), onchange: () => this.show() }),
            h("span", null, h("strong", null, name), h("small", null, `${title} (${consistency})`)))));
    }

    /* Comparisons of before, the newest first. */
    private list(): HTMLElement | false {
        return this.before.length > 0 && h("div", null, h("h3", null, "Comparisons so far"), h("ul", { class: "notes" },
            ...this.before.slice(0, 5).map(({ name, created, verdict, status }) => h("li", null,
                h("a", { href: `#/compare/batch:${encodeURIComponent(name)}` }, /^Choose ([^:]*):/.exec(verdict ?? "")?.[0]?.slice(0, -1) ?? status),
                h("small", { class: "dim" }, ` ${name}, ${ago(created)}`)))));
    }

    private field(name: string, label: string, props: object = {}, help?: string): HTMLElement {
        const option = this.tables.options.find((candidate) => candidate.name === name);
        const names = this.tables.parts[option?.kind ?? ""] ?? [];
        const input = h("input", {
            id: `ask-${name}`, "aria-describedby": `ask-help-${name}`, autocomplete: "off", spellcheck: "false",
            value: this.first[name] ?? STANDARD[name] ?? "", oninput: () => this.show(), list: `ask-list-${name}`, ...props,
        });
        this.inputs.set(name, input);
        return h("div", { class: "field" }, h("label", { for: `ask-${name}` }, label), input,
            h("datalist", { id: `ask-list-${name}` }, ...names.map((part) => h("option", { value: part.name }))),
            h("small", { class: "dim", id: `ask-help-${name}` }, help ?? option?.help ?? ""));
    }

    private setBudget(value: string): void {
        this.inputs.get("budget")!.value = value;
        this.show();
    }

    private value(name: string): string {
        return this.inputs.get(name)!.value.trim();
    }

    private chosen(): string[] {
        const checked = [...this.systems.querySelectorAll<HTMLInputElement>("input:checked")].map((input) => input.value);
        const others = this.value("others").split(",").map((name) => name.trim()).filter(Boolean);
        return [...new Set([...checked, ...others])];
    }

    private options(): Record<string, string> {
        const systems = this.chosen();
        if (systems.length < 2)
            throw new Error("choose at least two systems");
        const plain = ["workers", "model", "data", "batch", "target", "budget", "seeds"].map((name) => [name, this.value(name)]);
        return {
            system: systems.join(","), transport: "sim",
            cluster: this.cluster.querySelector<HTMLInputElement>("input:checked")?.value ?? "ethernet-10g",
            ...Object.fromEntries(plain.filter(([, value]) => value)), tune: this.value("tune") || "no", ...parseFlags(this.value("more")),
        };
    }

    /* The command, or what is wrong with it. */
    show(): void {
        try {
            const options = this.options();
            const systems = this.chosen().length;
            const trials = options.tune === "no" ? 0 : trialCount(options.tune!);
            const seeds = Number(options.seeds ?? 3);
            this.count.textContent = trials === null ? `${systems} systems, ${seeds} seeds each`
                : `${systems} systems, ${trials} trials and ${seeds} seeds each: ${systems * (trials + seeds)} runs`;
            put(this.preview, command(withStore(commandOf(options).replace("fast train", "fast compare"), this.info)));
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
            const { name } = await startComparison(this.options());
            goOn(from, `#/compare/batch:${encodeURIComponent(name)}`);
        } catch (error) {
            this.say(error as Error);
        } finally {
            this.start.disabled = false;
        }
    }
}

/* Values of lr=0.1,0.2 or lr=0.0125..0.8x2; null where the program must count them. */
function trialCount(tune: string): number | null {
    const values = tune.replace(/^[^=]*=/, "").split(",");
    let count = 0;
    for (const value of values) {
        const range = /^([\d.e-]+?)\.\.([\d.e-]+)x([\d.]+)$/.exec(value);
        if (!range && value.includes(".."))
            return null;
        count += range ? Math.floor(Math.log(Number(range[2]) / Number(range[1])) / Math.log(Number(range[3])) + 1.0001) : 1;
    }
    return count;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A table of any number of rows: only those in sight are asked for and exist as elements.

       thead                       sticky
       spacer   first * height
       rows     first .. last      reused by key and changed in place, so that focus and hover stay
       spacer   (total - last) * height

   Rows come in pages of 100 from `load`; refresh() asks again for those in sight. */
import { add, h, put, type Child } from "./dom.ts";

export interface Column<Row> {
    key: string; /* the word to sort by */
    label: string;
    width: string; /* CSS */
    number?: boolean; /* aligned to the right */
    rank?: 1 | 2 | 3 | 4; /* the higher, the sooner it is left out on narrow screens */
    fixed?: boolean; /* rows cannot be sorted by it */
    cell: (row: Row) => Child;
    title?: (row: Row) => string;
}

export interface Source<Row> {
    key: (row: Row) => string | number;
    load: (offset: number, limit: number) => Promise<{ total: number; rows: Row[] }>;
    open: (row: Row) => void; /* Enter or a click */
    sort: (key: string) => void;
    first?: (row: Row) => Child; /* a cell before the others: a check box */
}

const PAGE = 100;
const SPARE = 8; /* rows beyond those in sight */

export class VirtualTable<Row> {
    readonly element: HTMLElement;
    total = 0;
    cursor = -1; /* the row that the keyboard is at */
    private readonly body = h("tbody");
    private readonly head: HTMLTableRowElement;
    private pages = new Map<number, Row[]>();
    private asked = new Set<number>();
    private rows = new Map<string | number, HTMLTableRowElement>();
    private generation = 0;

    constructor(label: string, private columns: Column<Row>[], private readonly source: Source<Row>,
                signal: AbortSignal, private readonly failed: (error: Error) => void) {
        this.head = h("tr", { "aria-rowindex": 1 });
        this.element = h("div", { class: "virtual", tabindex: 0, role: "region", "aria-label": label },
            h("table", { "aria-label": label }, h("thead", null, this.head), this.body));
        this.setColumns(columns);
        this.element.addEventListener("scroll", () => this.render(), { passive: true });
        const observer = new ResizeObserver(() => this.render());
        observer.observe(this.element);
        signal.addEventListener("abort", () => observer.disconnect());
    }

    /* Shows other columns; rows that are there are made anew. */
    setColumns(columns: Column<Row>[]): void {
        this.columns = columns;
        this.rows.clear();
        this.head.replaceChildren();
        if (this.source.first)
            this.head.append(h("th", { class: "first", scope: "col" }, h("span", { class: "hidden" }, "Choose")));
        for (const column of columns)
            this.head.append(h("th", {
                scope: "col", class: this.classOf(column), style: { width: column.width }, "data-key": column.key,
            }, column.fixed ? column.label : h("button", { onclick: () => this.source.sort(column.key) }, column.label)));
        if (this.total > 0)
            this.render();
    }

    private classOf(column: Column<Row>): string {
        return `${column.number ? "number " : ""}rank-${column.rank ?? 1}`;
    }

    private get height(): number {
        return parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) || 36;
    }

    /* Which column the rows are sorted by, and whether downwards. */
    showSort(key: string, down: boolean): void {
        for (const cell of this.head.cells) {
            if (cell.dataset.key === key)
                cell.setAttribute("aria-sort", down ? "descending" : "ascending");
            else
                cell.removeAttribute("aria-sort");
        }
    }

    /* Another question: forget all and begin at the top. */
    async reset(): Promise<void> {
        this.generation++;
        this.pages.clear();
        this.asked.clear();
        this.cursor = -1;
        this.element.scrollTop = 0;
        await this.fetch(0);
        this.render();
    }

    /* The same question again, for the rows in sight; the others are asked for when they are seen. */
    async refresh(): Promise<void> {
        const [first, last] = this.window();
        this.generation++;
        const loaded = this.pages;
        this.pages = new Map();
        this.asked.clear();
        const wanted = new Set([Math.floor(first / PAGE), Math.floor(Math.max(0, last - 1) / PAGE)]);
        for (const page of wanted)
            if (loaded.has(page))
                this.pages.set(page, loaded.get(page)!);
        await Promise.all([...wanted].map((page) => this.fetch(page)));
        this.render();
    }

    private async fetch(page: number): Promise<void> {
        const generation = this.generation;
        this.asked.add(page);
        try {
            const { total, rows } = await this.source.load(page * PAGE, PAGE);
            if (generation !== this.generation)
                return;
            this.total = total;
            this.pages.set(page, rows);
        } catch (error) {
            if (generation === this.generation)
                this.failed(error as Error);
        }
    }

    rowAt(index: number): Row | undefined {
        return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
    }

    /* The rows in sight, with some to spare. */
    private window(): [number, number] {
        const first = Math.max(0, Math.floor(this.element.scrollTop / this.height) - SPARE);
        const seen = Math.ceil(this.element.clientHeight / this.height) + 2 * SPARE;
        return [first, Math.min(this.total, first + seen)];
    }

    render(): void {
        const [first, last] = this.window();
        const height = this.height;
        const shown = new Map<string | number, HTMLTableRowElement>();
        for (let i = first; i < last; i++) {
            const row = this.rowAt(i);
            const page = Math.floor(i / PAGE);
            if (!row && !this.asked.has(page))
                void this.fetch(page).then(() => this.render());
            const key = row ? this.source.key(row) : `wait-${i}`;
            const element = this.rows.get(key) ?? this.make();
            if (row)
                this.update(element, row);
            element.setAttribute("aria-rowindex", String(i + 2));
            element.classList.toggle("cursor", i === this.cursor);
            element.dataset.index = String(i);
            shown.set(key, element);
        }
        this.rows = shown;
        this.body.parentElement!.setAttribute("aria-rowcount", String(this.total + 1));
        this.place([this.spacer(first * height, "top"), ...shown.values(),
            this.spacer((this.total - last) * height, "bottom")]);
    }

    /* Only moves elements when others are in sight, and gives the focus back then. */
    private place(elements: HTMLTableRowElement[]): void {
        const { rows } = this.body;
        if (elements.length === rows.length && elements.every((element, i) => element === rows[i]))
            return;
        const focus = this.body.contains(document.activeElement) ? document.activeElement as HTMLElement : null;
        this.body.replaceChildren(...elements);
        if (focus?.isConnected)
            focus.focus({ preventScroll: true });
    }

    private readonly spacers = { top: h("tr", { "aria-hidden": "true" }), bottom: h("tr", { "aria-hidden": "true" }) };
    private spacer(height: number, which: "top" | "bottom"): HTMLTableRowElement {
        this.spacers[which].style.height = `${height}px`;
        return this.spacers[which];
    }

    private make(): HTMLTableRowElement {
        const element = h("tr");
        if (this.source.first)
            element.append(h("td", { class: "first" }));
        for (const column of this.columns)
            element.append(h("td", { class: this.classOf(column) }));
        element.addEventListener("click", (event) => {
            const row = this.rowAt(Number(element.dataset.index));
            if (row && !(event.target as Element).closest("a, button, input, label"))
                this.source.open(row);
        });
        return element;
    }

    private update(element: HTMLTableRowElement, row: Row): void {
        let i = 0;
        if (this.source.first) {
            const cell = element.cells[i++]!;
            if (!cell.firstChild)
                add(cell, this.source.first(row));
        }
        for (const column of this.columns) {
            const cell = element.cells[i++]!;
            const child = column.cell(row);
            if (typeof child === "string" ? cell.childElementCount > 0 || cell.textContent !== child
                                          : !(child instanceof Node) || !cell.firstChild?.isEqualNode(child))
                put(cell, child);
            if (column.title)
                cell.title = column.title(row);
        }
    }

    /* Moves the keyboard's row and keeps it in sight. */
    move(by: number): void {
        if (this.total === 0)
            return;
        this.cursor = Math.max(0, Math.min(this.total - 1, this.cursor + by));
        const top = this.cursor * this.height;
        const head = this.head.offsetHeight;
        if (top < this.element.scrollTop)
            this.element.scrollTop = top;
        else if (top + this.height + head > this.element.scrollTop + this.element.clientHeight)
            this.element.scrollTop = top + this.height + head - this.element.clientHeight;
        this.render();
    }

    current(): Row | undefined {
        return this.cursor >= 0 ? this.rowAt(this.cursor) : undefined;
    }
}

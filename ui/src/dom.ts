/* SPDX-License-Identifier: Apache-2.0 */
/* Elements from plain calls: h("a", { href: "#/runs" }, "Runs"). Strings always become text nodes, so
   that nothing a run is called can become markup; this file and the charts are the only places that
   make elements. A page lives as long as its AbortSignal: requests, streams and listeners take it. */

export type Child = Node | string | number | null | undefined | false;

type Props = {
    [name: string]: unknown;
    class?: string;
    style?: Partial<CSSStyleDeclaration> & { [variable: `--${string}`]: string };
};

function fill(element: HTMLElement | SVGElement, props: Props | null, children: Child[]): void {
    for (const [name, value] of Object.entries(props ?? {})) {
        if (value === undefined || value === null || value === false)
            continue;
        if (name === "style")
            for (const [key, text] of Object.entries(value as object))
                key.startsWith("--") ? element.style.setProperty(key, text) : Reflect.set(element.style, key, text);
        else if (name.startsWith("on"))
            element.addEventListener(name.slice(2), value as EventListener);
        else if (name === "value" || name === "checked" || name === "disabled" || name === "selected")
            Reflect.set(element, name, value);
        else
            element.setAttribute(name, value === true ? "" : String(value));
    }
    add(element, ...children);
}

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props?: Props | null,
                                                         ...children: Child[]): HTMLElementTagNameMap[K] {
    const element = document.createElement(tag);
    fill(element, props ?? null, children);
    return element;
}

/* The same for SVG. */
export function svg<K extends keyof SVGElementTagNameMap>(tag: K, props?: Props | null,
                                                          ...children: Child[]): SVGElementTagNameMap[K] {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    fill(element, props ?? null, children);
    return element;
}

export function add(parent: Element, ...children: Child[]): void {
    for (const child of children)
        if (child !== null && child !== undefined && child !== false)
            parent.append(typeof child === "number" ? String(child) : child);
}

/* Replaces all that an element holds. */
export function put(parent: Element, ...children: Child[]): void {
    parent.replaceChildren();
    add(parent, ...children);
}

/* Replaces what an element holds if it differs, and keeps where its parts were scrolled to and which of
   them had the focus: for what is shown again several times a second. */
export function refill(parent: HTMLElement, ...children: Child[]): void {
    const next = parent.cloneNode(false) as HTMLElement;
    add(next, ...children);
    if (next.isEqualNode(parent))
        return;
    const scrolled = () => [...parent.querySelectorAll<HTMLElement>(".scroll")];
    const before = scrolled().map((part) => [part.scrollLeft, part.scrollTop, part === document.activeElement] as const);
    parent.replaceChildren(...next.childNodes);
    scrolled().forEach((part, i) => {
        const [left, top, focused] = before[i] ?? [0, 0, false];
        part.scrollTo(left, top);
        if (focused)
            part.focus({ preventScroll: true });
    });
}

/* An empty or failed place says what to do next. */
export function notice(title: string, ...what: Child[]): HTMLElement {
    return h("div", { class: "notice", role: "status" }, h("strong", null, title), h("p", null, ...what));
}

/* A command to type, with a button that copies it. */
export function command(text: string): HTMLElement {
    const button = h("button", {
        class: "quiet", onclick: async () => {
            await copy(text);
            button.textContent = "Copied";
            setTimeout(() => { button.textContent = "Copy"; }, 1500);
        },
    }, "Copy");
    return h("div", { class: "command" }, h("code", null, ...pieces(text)), button);
}

/* Lines break between flags, not inside of one or before its value; a long list breaks behind a comma. */
function pieces(text: string): Child[] {
    return text.split(/ (?=--)/).flatMap((piece, i) => [i > 0 && " ",
        h("span", null, ...piece.split(/(?<=,)/).flatMap((part, k) => [k > 0 && h("wbr"), part]))]);
}

/* The clipboard's API exists on loopback and https; elsewhere an old way still works. */
async function copy(text: string): Promise<void> {
    if (navigator.clipboard)
        return navigator.clipboard.writeText(text);
    const area = h("textarea", { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
}

/* One of a few choices, as a row of radio buttons. */
export function segmented<T extends string>(label: string, choices: readonly (readonly [T, string])[], chosen: T,
                                            change: (choice: T) => void): HTMLElement {
    const group = h("fieldset", { class: "segmented" }, h("legend", { class: "hidden" }, label));
    const name = `choice-${++segmentedCount}`;
    for (const [value, text] of choices)
        group.append(h("label", null, h("input", {
            type: "radio", name, value, checked: value === chosen, onchange: () => change(value),
        }), h("span", null, text)));
    return group;
}
let segmentedCount = 0;

/* Asks before an action that cannot be undone; resolves to true if it was confirmed. */
export function confirm(question: string, detail: string, action: string): Promise<boolean> {
    return dialog(question, h("p", null, detail), h("button", { value: "yes", class: "danger" }, action));
}

/* Asks for a word; resolves to "" if the dialog was dismissed. */
export async function askWord(question: string, label: string, action: string): Promise<string> {
    const field = h("input", { "aria-label": label, placeholder: label, maxlength: 64, autofocus: true });
    return await dialog(question, field, h("button", { value: "yes", class: "primary" }, action)) ? field.value.trim() : "";
}

/* Enter in a field presses the first button; without a field, the careful one has the focus. */
function dialog(question: string, content: HTMLElement, go: HTMLButtonElement): Promise<boolean> {
    return new Promise((resolve) => {
        const element = h("dialog", { class: "ask", "aria-label": question }, h("h2", null, question),
            h("form", { method: "dialog" }, content, h("div", { class: "buttons" }, go,
                h("button", { value: "no", autofocus: !content.matches("input") }, "Cancel"))));
        element.addEventListener("close", () => {
            element.remove();
            resolve(element.returnValue === "yes");
        });
        document.body.append(element);
        element.showModal();
    });
}

/* A sentence that goes away by itself; screen readers hear it. */
export function toast(text: string, kind: "good" | "bad" = "good"): void {
    const element = h("div", { class: `toast ${kind}`, role: kind === "bad" ? "alert" : "status" }, text);
    document.body.append(element);
    setTimeout(() => element.remove(), kind === "bad" ? 8000 : 3000);
}

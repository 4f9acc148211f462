/* SPDX-License-Identifier: Apache-2.0 */
/* Who sent how much to whom: actors on a circle, servers inside it, a curve for each direction of a
   link, as thick as the bytes that went over it. */
import type { Link } from "./api.ts";
import { h, notice, refill, svg } from "./dom.ts";
import { bytes, count } from "./format.ts";

const SIZE = 420;
const LABELS_MAX = 40; /* more names than that would cover one another */
const LINKS_MAX = 2000; /* the heaviest */

export interface Place {
    x: number;
    y: number;
}

/* Workers on the outer circle from the top, clockwise; servers on an inner one, one alone in the
   middle. */
export function layout(names: string[]): Place[] {
    const isServer = names.map((name) => !/^worker/i.test(name));
    const servers = isServer.filter(Boolean).length;
    const workers = names.length - servers;
    const inner = servers === 1 ? 0 : SIZE * 0.15;
    let server = 0;
    let worker = 0;
    return names.map((_, i) => {
        const lone = workers === 0 || servers === 0 || !isServer[i];
        const [index, total, radius] = lone
            ? [worker++, workers || servers, SIZE * 0.37] : [server++, servers, inner];
        const angle = (2 * Math.PI * index) / total - Math.PI / 2;
        return { x: SIZE / 2 + radius * Math.cos(angle), y: SIZE / 2 + radius * Math.sin(angle) };
    });
}

/* A curve to the left of the straight way, so that both directions are seen. */
function curve(from: Place, to: Place): string {
    const bend = 0.09;
    const x = (from.x + to.x) / 2 + (to.y - from.y) * bend;
    const y = (from.y + to.y) / 2 - (to.x - from.x) * bend;
    return `M${from.x} ${from.y}Q${x} ${y} ${to.x} ${to.y}`;
}

export class Graph {
    readonly element = h("section", { class: "panel" });

    show(names: string[], links: Link[]): void {
        const used = links.filter((link) => link.bytes > 0).sort((a, b) => b.bytes - a.bytes);
        if (used.length === 0) {
            refill(this.element, h("h2", null, "Traffic"),
                notice("Nothing was sent.", "One worker, or workers that share memory, send no messages."));
            return;
        }
        const size = Math.max(names.length, ...used.map(({ sender, receiver }) => Math.max(sender, receiver) + 1));
        const all = Array.from({ length: size }, (_, i) => names[i] ?? `actor ${i}`);
        refill(this.element, h("h2", null, "Traffic"), this.picture(all, used), this.table(all, used.slice(0, 5)));
    }

    /* Heavy links are painted last; links come by their weight. */
    private picture(names: string[], links: Link[]): SVGElement {
        const places = layout(names);
        const most = links[0]!.bytes;
        const dense = names.length > LABELS_MAX;
        const lines = links.slice(0, LINKS_MAX).reverse().map((link) => svg("path", {
            d: curve(places[link.sender]!, places[link.receiver]!), class: "link",
            "stroke-width": Math.max(0.75, (8 * link.bytes) / most),
        }, svg("title", null, `${names[link.sender]} → ${names[link.receiver]}: `,
            `${bytes(link.bytes)} in ${count(link.messages)} messages`)));
        const actors = places.map(({ x, y }, i) =>
            svg("circle", { cx: x, cy: y, r: dense ? 3.5 : 6, class: "actor" }, svg("title", null, names[i])));
        const labels = dense ? [] : places.map(({ x, y }, i) => svg("text", {
            x: x + (x - SIZE / 2) * 0.1, y: y + (y - SIZE / 2) * 0.1 + (y === SIZE / 2 ? 20 : 4), class: "name",
        }, names[i]!.replace(/^worker /, "")));
        return svg("svg", {
            viewBox: `-30 0 ${SIZE + 60} ${SIZE}`, role: "img", class: "graph",
            "aria-label": `Traffic between ${names.length} actors`,
        }, ...lines, ...actors, ...labels);
    }

    private table(names: string[], links: Link[]): HTMLElement {
        return h("table", { class: "plain" },
            h("thead", null, h("tr", null, h("th", { scope: "col" }, "Heaviest links"),
                h("th", { scope: "col", class: "number" }, "Messages"), h("th", { scope: "col", class: "number" }, "Sent"))),
            h("tbody", null, ...links.map((link) => h("tr", null,
                h("td", null, `${names[link.sender]} → ${names[link.receiver]}`),
                h("td", { class: "number" }, count(link.messages)), h("td", { class: "number" }, bytes(link.bytes))))));
    }
}

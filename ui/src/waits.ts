/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom, as a matrix: a row for each actor that waits, a column for each that is waited
   for. Of many actors the longest waits are listed. */
import type { Link } from "./api.ts";
import { h, refill } from "./dom.ts";
import { seconds } from "./format.ts";

const ACTORS_MAX = 20; /* of a matrix */
const LISTED = 12; /* waits of a list */

export function showWaits(element: HTMLElement, names: string[], links: Link[]): void {
    const waits = links.filter(({ wait_s }) => (wait_s ?? 0) > 0).sort((a, b) => b.wait_s! - a.wait_s!);
    element.hidden = waits.length === 0;
    if (waits.length === 0)
        return;
    const name = (actor: number) => names[actor] ?? `actor ${actor}`;
    const actors = [...new Set(waits.flatMap(({ sender, receiver }) => [sender, receiver]))].sort((a, b) => a - b);
    refill(element, h("h2", null, "Who waits for whom"),
        actors.length <= ACTORS_MAX ? matrix(actors, name, waits) : list(name, waits),
        h("p", { class: "dim" }, h("small", null, "Columns are workers by number. Time that an actor was blocked before the other had sent, without times of flight.")));
}

function matrix(actors: number[], name: (actor: number) => string, waits: Link[]): HTMLElement {
    const most = waits[0]!.wait_s!;
    const at = new Map(waits.map((link) => [`${link.receiver} ${link.sender}`, link.wait_s!]));
    return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Waits" }, h("table", { class: "confusion waits" },
        h("thead", null, h("tr", null, h("th", { scope: "col" }, "waits for"), ...actors.map((actor) =>
            h("th", { scope: "col", "aria-label": `for ${name(actor)}`, title: `for ${name(actor)}` }, name(actor).replace(/^worker /, ""))))),
        h("tbody", null, ...actors.map((waiter) => h("tr", null, h("th", { scope: "row" }, name(waiter)),
            ...actors.map((whom) => {
                const wait = at.get(`${waiter} ${whom}`) ?? 0;
                return wait > 0
                    ? h("td", { style: { "--cell": `color-mix(in srgb, var(--wait) ${Math.round((75 * wait) / most)}%, transparent)` } }, seconds(wait))
                    : h("td", { class: "zero" }, waiter === whom ? "" : "–");
            }))))));
}

function list(name: (actor: number) => string, waits: Link[]): HTMLElement {
    return h("table", { class: "plain" },
        h("thead", null, h("tr", null, h("th", { scope: "col" }, "Longest waits"), h("th", { scope: "col", class: "number" }, "Time"))),
        h("tbody", null, ...waits.slice(0, LISTED).map(({ sender, receiver, wait_s }) => h("tr", null,
            h("td", null, `${name(receiver)} for ${name(sender)}`), h("td", { class: "number" }, seconds(wait_s))))));
}

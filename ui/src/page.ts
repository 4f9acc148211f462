/* SPDX-License-Identifier: Apache-2.0 */
/* What every page is. */

export interface Place {
    path: string; /* after the page's name: "12" in #/run/12 */
    query: URLSearchParams; /* after "?" */
    signal: AbortSignal; /* aborts when the page is left */
}

export type Page = (root: HTMLElement, place: Place) => void | Promise<void>;

let shown = ""; /* the address of the page that is shown */

/* The address to show, which is the shown one from here on. */
export const takePlace = (): string => shown = location.hash;

/* Changes the address without loading the page anew. The browser tells of a new address later than it takes
   it: a page that has been left by then must not overwrite where the user wants to go. */
export function setPlace(hash: string): void {
    if (location.hash !== shown)
        return;
    history.replaceState(null, "", hash);
    takePlace();
}

/* Opens another address when an answer is there, unless the first one has been left meanwhile. */
export function goOn(from: string, to: string): void {
    if (location.hash === from)
        location.hash = to;
}

export function setTitle(title: string): void {
    document.title = title ? `${title} · FAST` : "FAST";
}

/* What a deletion does, before it is done. */
export const DELETED = "What was measured is removed from the store. Saved weights and traces stay.";

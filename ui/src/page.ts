/* SPDX-License-Identifier: Apache-2.0 */
/* What every page is. */

export interface Place {
    path: string; /* after the page's name: "12" in #/run/12 */
    query: URLSearchParams; /* after "?" */
    signal: AbortSignal; /* aborts when the page is left */
}

export type Page = (root: HTMLElement, place: Place) => void | Promise<void>;

/* Changes the address without loading the page anew. */
export function setPlace(hash: string): void {
    history.replaceState(null, "", hash);
}

export function setTitle(title: string): void {
    document.title = title ? `${title} · FAST` : "FAST";
}

/* What a deletion does, before it is done. */
export const DELETED = "What was measured is removed from the store. Saved weights and traces stay.";

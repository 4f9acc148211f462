/* SPDX-License-Identifier: Apache-2.0 */
/* Light and dark: as the system says, until the switch is used; the choice is stored in the browser.
   Colours live in style.css as variables; canvases read them here and repaint on "theme". */

const choices = ["auto", "light", "dark"] as const;
type Choice = (typeof choices)[number];

/* Storage can be forbidden by the browser; the page works without it. */
function stored(): Choice {
    try {
        const value = localStorage.getItem("theme") as Choice;
        return choices.includes(value) ? value : "auto";
    } catch {
        return "auto";
    }
}

let chosen = stored();
const system = () => matchMedia("(prefers-color-scheme: dark)");

function apply(): void {
    const dark = chosen === "dark" || (chosen === "auto" && system().matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    document.dispatchEvent(new CustomEvent("theme"));
}

export function themeName(): Choice {
    return chosen;
}

/* auto -> light -> dark -> auto */
export function themeNext(): Choice {
    chosen = choices[(choices.indexOf(chosen) + 1) % choices.length] ?? "auto";
    try {
        localStorage.setItem("theme", chosen);
    } catch { /* forbidden: the choice lasts as long as the page */ }
    apply();
    return chosen;
}

export function themeStart(): void {
    system().addEventListener("change", apply);
    apply();
}

export function color(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/* Seven colours that differ for colour-blind people too (after Okabe and Ito), then again dashed and
   dotted: 21 lines that can be told apart. */
const DASHES: (number[] | undefined)[] = [undefined, [6, 4], [2, 3]];
export const lineColor = (index: number): string => color(`line-${(index % 7) + 1}`);
export const lineDash = (index: number): number[] | undefined => DASHES[Math.floor(index / 7) % DASHES.length];

/* SPDX-License-Identifier: Apache-2.0 */
/* Asks for the token where the browser has none, or one of another server. */
import { login } from "../api.ts";
import { h, put } from "../dom.ts";
import { setTitle } from "../page.ts";

/* `done` is called once the browser has the cookie. */
export function loginPage(root: HTMLElement, done: () => void): void {
    const address = new URLSearchParams(location.search).get("token");
    const field = h("input", {
        id: "token", type: "password", autocomplete: "current-password", spellcheck: "false", required: true, autofocus: true,
        "aria-describedby": "token-help",
    });
    const problem = h("p", { class: "error", role: "alert", hidden: !address }, address ? "The token in the address is not that of this server." : "");
    setTitle("Log in");
    if (address) /* it must not stay in the history */
        history.replaceState(null, "", `/${location.hash}`);
    put(root, h("form", {
        class: "panel login", onsubmit: async (event: Event) => {
            event.preventDefault();
            try {
                await login(tokenOf(field.value));
                done();
            } catch (error) {
                problem.textContent = (error as Error).message;
                problem.hidden = false;
                field.select();
            }
        },
    }, h("h1", null, "Log in"), h("label", { for: "token" }, "Token"), field,
        h("small", { class: "dim", id: "token-help" }, "It is the end of the address that ", h("code", null, "fast ui"),
            " prints, and in the file ", h("code", null, "runs.db.token"), " beside the runs. Paste either."),
        problem, h("div", { class: "buttons" }, h("button", { class: "primary" }, "Log in"))));
    field.focus();
}

/* The token of a whole address, or what was typed. */
function tokenOf(text: string): string {
    return /[?&]token=([0-9a-f]+)/.exec(text)?.[1] ?? text.trim();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the browser tests stand on: a temporary store with real runs, `fast ui` on it, and Chromium of
   the distribution. Nothing is read from or written to the user's own store. */
import { execFile, spawn } from "node:child_process";
import { accessSync, constants, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

const BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

export function findBrowser() {
    for (const folder of (process.env.PATH ?? "").split(delimiter))
        for (const name of BROWSERS)
            try {
                accessSync(join(folder, name), constants.X_OK);
                return join(folder, name);
            } catch { /* not here */ }
    return null;
}

export class Stage {
    constructor(program) {
        this.program = program;
        this.folder = mkdtempSync(join(tmpdir(), "fast-ui-"));
        this.store = join(this.folder, "runs.db");
        this.environment = { ...process.env, XDG_DATA_HOME: this.folder, FAST_HOME: join(this.folder, "home"), OMP_NUM_THREADS: "1" };
    }

    /* A run to its end, small enough for a test. */
    async train(...flags) {
        await promisify(execFile)(this.program, ["train", "--quiet", "--store", this.store, "--data", "digits:train=512,test=128",
            "--model", "mlp", "--batch", "16", ...flags], { env: this.environment });
    }

    /* Begins to serve a store; resolves to the address with its token. */
    async serve(store = this.store, ...flags) {
        const server = spawn(this.program, ["ui", "--port", "0", "--store", store, ...flags], { env: this.environment, stdio: ["ignore", "pipe", "inherit"] });
        this.servers = [...this.servers ?? [], server];
        for await (const line of createInterface({ input: server.stdout }))
            return line.trim();
        throw new Error("fast ui ended without an address");
    }

    async browse() {
        const { chromium } = await import("playwright-core");
        /* A sandbox within a container's sandbox does not start; the pages are our own. */
        this.browser = await chromium.launch({ executablePath: findBrowser(), args: ["--no-sandbox", "--disable-dev-shm-usage"] });
        return this.browser;
    }

    async close() {
        await this.browser?.close();
        for (const server of this.servers ?? []) {
            const ended = new Promise((resolve) => server.once("exit", resolve));
            if (server.exitCode === null && server.kill("SIGTERM"))
                await ended;
        }
        rmSync(this.folder, { recursive: true, force: true });
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the unit tests src/*.test.ts with node's own runner, bundled to a temporary folder first. */
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export async function unitTests() {
    const source = join(dirname(fileURLToPath(import.meta.url)), "../src");
    const out = mkdtempSync(join(tmpdir(), "fast-ui-unit-"));
    try {
        await build({
            entryPoints: readdirSync(source).filter((name) => name.endsWith(".test.ts")).map((name) => join(source, name)),
            bundle: true, platform: "node", format: "esm", outdir: out, outExtension: { ".js": ".mjs" }, logLevel: "warning",
        });
        const files = readdirSync(out).map((name) => join(out, name));
        return spawnSync(process.execPath, ["--test", "--test-reporter=dot", ...files], { stdio: "inherit" }).status === 0;
    } finally {
        rmSync(out, { recursive: true, force: true });
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the dashboard: src/main.ts and src/style.css become dist/main-HASH.js and dist/main-HASH.css,
   and dist/index.html names them. Nothing else is in dist/, so that the program can embed all of it.
   `node build.mjs DIR` writes to another folder. */
import { build } from "esbuild";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "dist");

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const result = await build({
    entryPoints: [join(here, "src/main.ts"), join(here, "src/style.css")],
    bundle: true,
    minify: true,
    format: "esm",
    target: ["es2022"],
    entryNames: "[name]-[hash]",
    outdir: out,
    metafile: true,
    logLevel: "warning",
});
const names = Object.keys(result.metafile.outputs).map((name) => basename(name));
const page = readFileSync(join(here, "index.html"), "utf8")
    .replace("main.js", names.find((name) => name.endsWith(".js")))
    .replace("style.css", names.find((name) => name.endsWith(".css")));
writeFileSync(join(out, "index.html"), page);

/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: every page, at the width of a desk and of a phone, light and dark, is accessible and no wider than the
   screen; the dashboard's own address of each is here once. Method: tiny runs and a comparison in a temporary store,
   axe in Chromium. FAST_SCREENSHOT=FOLDER writes a picture of each, for people who want to look. */
import axe from "axe-core";
import { deepEqual, ok } from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { join } from "node:path";
import { promisify } from "node:util";
import { Stage } from "./stage.mjs";

const SIZES = { desk: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };
const JOB = ["--model", "mlp:hidden=8", "--data", "digits:train=200,test=80", "--workers", "4", "--batch", "8", "--cluster", "hetero",
    "--engine", "ref", "--evaluate", "2steps"];
const SIM = ["--workers", "4", "--transport", "sim", "--cluster", "hetero", "--epochs", "1", "--evaluate", "4steps"];
/* Each page, and a part of it that is there when it is whole. */
const PAGES = {
    runs: ["#/runs", "tbody a"], groups: ["#/runs?group=options", ".groups .link"], columns: ["#/runs?columns=name,seed,note,model", "tbody a"],
    run: ["#/run/1", ".waits td"], crash: ["#/run/2", ".error"], split: ["#/run/4", ".schedule canvas"], compare: ["#/compare/1,3", ".plot"],
    verdict: ["#/compare/batch:study", ".plot"], ask: ["#/ask", ".card"], systems: ["#/systems", ".taxonomy"],
    system: ["#/systems/ssp", ".detail h2"], simulator: ["#/simulator", ".card"], nowhere: ["#/nowhere", ".notice"],
};
const stage = new Stage(process.env.FAST_PROGRAM);
let address;
let empty;

before(async () => {
    await stage.train(...SIM, "--system", "ssp", "--faults", "pause 1 at 1ms for 5ms", "--name", "a run with a pause and a rather long name");
    await stage.train(...SIM, "--system", "bsp", "--faults", "crash 3 at 2ms").catch(() => { /* it is to fail */ });
    await stage.train("--workers", "2", "--epochs", "1");
    await stage.train("--mesh", "data=2,pipe=4", "--model", "gpt:depth=4,width=16", "--data", "copy", "--batch", "4", "--accumulate", "8", "--steps", "5", "--evaluate", "no", "--transport", "sim");
    await promisify(execFile)(stage.program, ["compare", "--quiet", "--store", stage.store, "--name", "study", "--system", "bsp,easgd,ssp", "--seeds", "2",
        "--tune", "lr=0.1,0.2", "--budget", "6000samples", "--target", "0.2", ...JOB], { env: stage.environment });
    await stage.browse();
    address = await stage.serve();
    empty = await stage.serve(join(stage.folder, "empty.db"));
}, { timeout: 240000 });

after(() => stage.close());

/* What is wrong with what a page shows now. */
async function look(page, name, width) {
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    const wrong = violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ id, nodes }) => `${name}: ${id}: ${nodes[0].html}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0)
        wrong.push(`${name} is ${wide} pixels wider than ${width}`);
    return wrong;
}

async function visit(context, where) {
    const page = await context.newPage();
    page.setDefaultTimeout(60000);
    await page.goto(where);
    await page.evaluate(axe.source);
    return page;
}

test("every page of the dashboard is among them", () => {
    const source = readFileSync(join(import.meta.dirname, "../src/main.ts"), "utf8");
    const names = [...source.match(/const pages[^{]*\{([^}]*)\}/)[1].matchAll(/(\w+): \w+/g)].map(([, name]) => name);
    ok(names.length > 4);
    for (const name of names)
        ok(Object.values(PAGES).some(([hash]) => hash === `#/${name}` || hash.startsWith(`#/${name}/`)), `${name} is not looked at`);
});

for (const [device, viewport] of Object.entries(SIZES))
    for (const colorScheme of ["light", "dark"])
        test(`every page is accessible and fits: ${device}, ${colorScheme}`, async () => {
            const context = await stage.browser.newContext({ viewport, colorScheme });
            const stranger = await stage.browser.newContext({ viewport, colorScheme });
            const save = async (page, name) => process.env.FAST_SCREENSHOT
                && page.screenshot({ path: join(process.env.FAST_SCREENSHOT, `${name}-${device}-${colorScheme}.png`), fullPage: true });
            const wrong = [];
            const page = await visit(context, address);
            for (const [name, [hash, sign]] of Object.entries(PAGES)) {
                await page.evaluate((to) => { location.hash = to; }, hash);
                await page.locator(sign).first().waitFor();
                wrong.push(...await look(page, name, viewport.width));
                await save(page, name);
            }
            for (const [name, where, sign] of [["login", address.split("?")[0], ".login"], ["empty", empty, ".notice"]]) {
                const other = await visit(stranger, where);
                await other.locator(sign).first().waitFor();
                wrong.push(...await look(other, name, viewport.width));
                await save(other, name);
            }
            deepEqual(wrong, []);
            await context.close();
            await stranger.close();
        });

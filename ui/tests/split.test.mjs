/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the page of a split run draws which worker has which part, and the passes of micro-batches with their
   bubbles, flushes and staleness, live and afterwards. Method: real runs in a temporary store; what a version to
   come or an earlier one would store is put into the answers of the server. */
import { deepEqual, equal, match, ok } from "node:assert/strict";
import { after, before, test } from "node:test";
import { Stage } from "./stage.mjs";

const stage = new Stage(process.env.FAST_PROGRAM);
const complaints = [];
let page;

/* Numbers of the runs, by what they are. */
const GPIPE = 1, PIPEDREAM = 2, SHARDS = 3, WHOLE = 4, INTERLEAVED = 5, ZERO = 6;

const panel = () => page.locator("section.panel", { has: page.getByRole("heading", { name: "Placement and pipeline" }) });
const canvas = () => page.getByRole("img", { name: /^Passes of micro-batches/ });
const api = (path) => page.evaluate((from) => fetch(from).then((reply) => reply.json()), path);
const cells = (name) => page.getByRole("region", { name }).locator("tbody tr").evaluateAll((rows) =>
    rows.map((row) => [...row.children].map((cell) => cell.textContent)));

async function go(id) {
    await page.evaluate(() => { location.hash = "#/runs"; });
    await page.getByRole("heading", { name: "Runs", exact: true }).waitFor();
    await page.evaluate((to) => { location.hash = `#/run/${to}`; }, id);
    await page.getByRole("heading", { name: "Repeat it" }).waitFor();
}

/* The colours of a canvas: how many pixels have the colour of that variable. */
const painted = (variable) => canvas().evaluate((element, name) => {
    const wanted = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(wanted.slice(at, at + 2), 16));
    const { data } = element.getContext("2d").getImageData(0, 0, element.width, element.height);
    let count = 0;
    for (let i = 0; i < data.length; i += 4)
        count += data[i] === r && data[i + 1] === g && data[i + 2] === b;
    return count;
}, variable);

before(async () => {
    const pipe = ["--mesh", "pipe=3", "--model", "mlp:hidden=32x32", "--transport", "sim", "--batch", "8", "--evaluate", "no"];
    await stage.train(...pipe, "--pipeline", "gpipe", "--accumulate", "4", "--steps", "5");
    await stage.train(...pipe, "--pipeline", "pipedream", "--steps", "12");
    await stage.train("--mesh", "data=2,tensor=2", "--model", "mlp:hidden=16", "--steps", "4", "--evaluate", "no");
    await stage.train("--workers", "2", "--steps", "2", "--evaluate", "no");
    await stage.train(...pipe.slice(2), "--mesh", "pipe=2", "--cuts", "dense2,dense3,dense4", "--model", "mlp:hidden=32x32x32", "--pipeline", "interleaved", "--accumulate", "4", "--steps", "4");
    await stage.train(...pipe, "--pipeline", "zero_bubble", "--accumulate", "4", "--steps", "4");
    await stage.browse();
    page = await (await stage.browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: "light" })).newPage();
    page.setDefaultTimeout(60000);
    page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    await page.goto(await stage.serve());
}, { timeout: 240000 });

after(() => stage.close());

test("each worker has its stage, its layers and its parameters", async () => {
    await go(GPIPE);
    await panel().getByText("mesh pipe=3 · pipeline gpipe · 4 micro-batches of 8 samples a step").waitFor();
    const { places } = await api(`/api/runs/${GPIPE}`);
    equal(places.length, 3);
    deepEqual(await cells("Placement"), [places.map(({ worker, layers, params }) =>
        `worker ${worker}${layers}${params.toLocaleString("en-US")} parameters`)]);
    deepEqual(await page.getByRole("region", { name: "Placement" }).getByRole("columnheader").allTextContents(), ["Stage 0", "Stage 1", "Stage 2"]);
});

test("passes, bubbles and flushes are seen, beside the closed form", async () => {
    await go(GPIPE);
    await canvas().waitFor();
    for (const text of ["forward", "backward", "bubble", "flush"])
        await panel().locator(".key").getByText(text, { exact: true }).waitFor();
    ok(await painted("--forward") > 500 && await painted("--backward") > 500 && await painted("--wait") > 200);
    match(await panel().locator("p.dim").last().textContent(), /^Bubbles are \d\d\.\d\d% of 4 recorded steps; with equal stages and no cost of messages they are 33\.33%\./);
    deepEqual((await cells("Passes of workers")).map((row) => [row[1], row[3], row[4]]), [["40", "4", "0"], ["40", "4", "0"], ["40", "4", "0"]]);
    /* The first pass of the first worker, and the time in which it waits. */
    await canvas().hover({ position: { x: 88, y: 18 + 16 } });
    await panel().locator(".readout").getByText(/^worker 0 \(stage 0\) · forward of micro-batch \d+, step \d: /).waitFor();
    await canvas().hover({ position: { x: 88, y: 18 + 2 * 32 + 16 } });
    await panel().locator(".readout").getByText(/^worker 2 \(stage 2\) · bubble of /).waitFor();
});

test("the keys zoom and show all", async () => {
    await go(GPIPE);
    const before = await painted("--forward");
    await canvas().focus();
    await page.keyboard.press("0");
    ok(await painted("--forward") !== before, "all steps look like the first ones");
    await panel().getByRole("button", { name: "Zoom in" }).click();
});

test("stale weights have a cap, their number of updates, and no flush", async () => {
    await go(PIPEDREAM);
    await panel().getByText("+n: weights n updates old").waitFor();
    equal(await panel().locator(".key").getByText("flush", { exact: true }).count(), 0);
    deepEqual((await cells("Passes of workers")).map((row) => row[4]), ["2", "1", "0"]);
    ok(await painted("--text") > 50);
    equal((await panel().locator("p.dim").last().textContent()).includes("equal stages"), false);
});

test("chunks of a worker have names, in the picture and under the pointer", async () => {
    await go(INTERLEAVED);
    await panel().getByText("n·c: micro-batch n in chunk c of 2").waitFor();
    deepEqual((await cells("Passes of workers")).map((row) => [row[1], row[3]]), [["64", "5"], ["64", "3"]]);
    match(await panel().locator("p.dim").last().textContent(), /they are 11\.11%\./);
    await canvas().hover({ position: { x: 88, y: 18 + 16 } });
    await panel().locator(".readout").getByText(/^worker 0 \(stage 0\) · forward of micro-batch \d+ in chunk [01], step \d: /).waitFor();
});

test("gradients of weights are passes of their own", async () => {
    await go(ZERO);
    await panel().locator(".key").getByText("weights", { exact: true }).waitFor();
    ok(await painted("--weights") > 200);
    deepEqual((await cells("Passes of workers")).map((row) => [row[1], row[3]]), [["48", "3"], ["48", "3"], ["48", "3"]]);
    match(await panel().locator("p.dim").last().textContent(), /they are 14\.29%\./);
});

test("shards have lines of their own, and a run that is not split has no such panel", async () => {
    await go(SHARDS);
    const lines = await cells("Placement");
    deepEqual(lines.map(([name]) => name), ["replica 0, shard 0", "replica 0, shard 1", "replica 1, shard 0", "replica 1, shard 1"]);
    ok(lines.every((line, i) => line[1].startsWith(`worker ${i}dense1 to dense2`)));
    await go(WHOLE);
    ok(await panel().isHidden());
});

test("kinds of passes to come are drawn, and nothing of a run becomes markup", async () => {
    await page.route(`**/api/runs/${GPIPE}`, async (route) => {
        const answer = await (await route.fetch()).json();
        answer.passes.forEach((pass, i) => { pass.kind = i % 3 === 0 ? "<i>odd</i>" : pass.kind; });
        await route.fulfill({ json: answer });
    });
    await go(GPIPE);
    await panel().locator(".key").getByText("<i>odd</i>").waitFor();
    ok(await painted("--pass-1") > 200);
    await page.unroute(`**/api/runs/${GPIPE}`);
});

test("without passes, or without places, it says why", async () => {
    for (const [change, words] of [[{ passes: [] }, "No pass was stored."], [{ passes: [], places: [] }, "Not recorded."]]) {
        await page.route(`**/api/runs/${GPIPE}`, async (route) => route.fulfill({ json: { ...await (await route.fetch()).json(), ...change } }));
        await go(GPIPE);
        await panel().getByText(words).waitFor();
        equal(await canvas().count(), 0);
        await page.unroute(`**/api/runs/${GPIPE}`);
    }
});

test("a run that trains shows its passes as they come", async () => {
    const { id } = await page.evaluate(() => fetch("/api/runs", { method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ options: { data: "digits:train=4096,test=64", model: "mlp:hidden=32x32", mesh: "pipe=2", accumulate: "4", epochs: "2000",
            batch: "8", evaluate: "no" } }) }).then((reply) => reply.json()));
    await go(id);
    await canvas().waitFor();
    await page.locator(".run-head .pill.running").waitFor();
    deepEqual((await cells("Placement"))[0].length, 2);
    await page.getByRole("button", { name: "Stop" }).click();
    await page.locator(".run-head .pill.canceled").waitFor();
    await canvas().waitFor();
});

test("the browser had nothing to complain about", () => {
    deepEqual(complaints, []);
});

/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the whole path question -> comparison -> verdict -> "run it" works with real runs; a comparison shows its
   final runs with the verdict on top; the login, read-only servers and mistakes say what to do.
   Method: Chromium on `fast ui`, as pages.test.mjs. Waits end with what they wait for, never with a time. */
import axe from "axe-core";
import { deepEqual, equal, match, ok } from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFile } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { Stage } from "./stage.mjs";

const DESK = { width: 1440, height: 900 };
const PHONE = { width: 390, height: 844 };
const JOB = ["--model", "mlp:hidden=16", "--data", "digits:train=600,test=120", "--workers", "4", "--batch", "8", "--cluster", "hetero",
    "--evaluate", "8steps", "--optimizer", "sgd", "--schedule", "constant", "--target", "0.5"];
const stage = new Stage(process.env.FAST_PROGRAM);
const complaints = [];
let address;
let page;

async function open(viewport = DESK, colorScheme = "light", url = address) {
    const context = await stage.browser.newContext({ viewport, colorScheme });
    const opened = await context.newPage();
    opened.setDefaultTimeout(60000);
    opened.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
    opened.on("pageerror", (error) => complaints.push(String(error)));
    await opened.goto(url);
    return opened;
}

const go = (hash, where = page) => where.evaluate((to) => { location.hash = to; }, hash);

/* A comparison of a terminal, to its end. */
const compare = (...flags) => promisify(execFile)(stage.program, ["compare", "--quiet", "--store", stage.store, ...flags], { env: stage.environment });

before(async () => {
    await compare("--name", "study", "--system", "bsp,easgd", "--seeds", "2", "--tune", "lr=0.1,0.2", "--budget", "6000samples", ...JOB);
    await stage.train("--epochs", "1", "--batch", "4", "--name", "few");
    await stage.train("--epochs", "1", "--batch", "64", "--name", "many");
    await stage.browse();
    address = await stage.serve();
    page = await open();
}, { timeout: 240000 });

after(() => stage.close());

test("a comparison shows its verdict, its lines by seed, and no trial among them", async () => {
    await go("#/compare/batch:study");
    await page.getByRole("heading", { name: /^Choose (bsp|easgd)$/ }).waitFor();
    const { comparisons: [{ result }] } = await page.evaluate(() => fetch("/api/comparisons?name=study").then((reply) => reply.json()));
    await page.getByRole("heading", { name: `Choose ${result.best}` }).waitFor();
    const reasons = await page.locator(".reasons").textContent();
    for (const title of ["Cannot be told apart", "Waited for", "Tuned values", "Cost model", "Cost of the answer"])
        ok(reasons.includes(title), title);
    for (const change of result.changes)
        ok(reasons.includes(`With ${change.what}`), change.what);
    /* Lines in the order of the verdict, with links to the final run of each seed. */
    const rows = page.getByRole("region", { name: "Lines" }).locator("tbody tr");
    deepEqual(await rows.locator("td.name:nth-child(2)").allTextContents(), result.lines.map(({ name }) => name));
    const { runs } = await page.evaluate(() => fetch("/api/runs?where=batch_of%3Dstudy&limit=100").then((reply) => reply.json()));
    for (const line of result.lines)
        for (const seed of [1, 2]) {
            const link = page.getByRole("link", { name: `${line.name}, seed ${seed}`, exact: true });
            const run = runs.find((one) => one.name === line.name && one.seed === seed);
            equal(await link.getAttribute("href"), `#/run/${run.id}`);
            equal(run.system, line.name); /* a run is stored under the name of its own line */
        }
    for (const run of runs)
        equal(run.system, run.name.split(",")[0]);
    ok(!(await rows.allTextContents()).join().includes("trial"));
    await page.getByRole("img", { name: new RegExp(`^Test accuracy over samples: .*${result.best} \\d`) }).waitFor();
    /* Forecast, measurement and waiting are in sight; trials are folded away. */
    match(await rows.first().textContent(), /×\d\.\d\d, (right|off)/);
    match(await rows.first().textContent(), /waiting \d+%/);
    ok(await page.getByRole("region", { name: "Trials" }).isHidden());
    await page.getByText("Trials", { exact: false }).last().click();
    equal(await page.getByRole("region", { name: "Trials" }).locator("td a").count(), 4);
    equal((await page.getByRole("region", { name: "Trials" }).textContent()).split("✓").length, 3);
});

test("the question leads to a comparison, its verdict, and the run", async () => {
    await go("#/ask");
    await page.getByRole("heading", { name: "Which strategy?" }).waitFor();
    equal(await page.getByRole("checkbox", { checked: true }).count(), 8);
    await page.getByText("56 runs", { exact: false }).waitFor();
    for (const name of ["backup-workers", "fedavg", "ssp", "downpour", "d-psgd", "ad-psgd"])
        await page.getByRole("checkbox", { name: new RegExp(`^${name} `) }).uncheck();
    await page.getByLabel("Model", { exact: true }).fill("mlp:hidden=16");
    await page.getByLabel("Data", { exact: true }).fill("digits:train=600,test=120");
    await page.getByLabel("Target").fill("0.5");
    await page.getByLabel("Seeds").fill("2");
    await page.getByLabel("Trials").fill("lr=0.1,0.2");
    await page.getByRole("button", { name: "20,000 samples" }).click();
    match(await page.locator(".detail .command").textContent(), /fast compare --system bsp,easgd .*--budget 20000samples .*--store /);
    await page.getByText("2 systems, 2 trials and 2 seeds each: 8 runs").waitFor();
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByRole("heading", { name: /^Choose (bsp|easgd)$/ }).waitFor();
    await page.getByRole("region", { name: "Progress" }).waitFor({ state: "hidden" });
    const chosen = (await page.getByRole("heading", { name: /^Choose/ }).textContent()).replace("Choose ", "");
    match(await page.locator(".verdict .command").textContent(), new RegExp(`fast train --system ${chosen} .*--cluster hetero`));
    await page.getByRole("button", { name: "Run it" }).click();
    await page.waitForURL(/#\/run\/\d+$/);
    await page.locator(".run-head .pill.target, .run-head .pill.done").waitFor();
    match(await page.locator(".run-head").textContent(), new RegExp(chosen));
});

test("a comparison is stopped, recommends nothing, and continues", async () => {
    await go("#/ask?seeds=3&target=0.999&budget=&model=lenet&more=--epochs%20200");
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByRole("region", { name: "Progress" }).getByText(/\d+ of \d+/).waitFor();
    const place = page.url();
    await go("#/ask");
    await page.getByText("A comparison runs already", { exact: false }).waitFor();
    await page.getByRole("button", { name: "Compare" }).click();
    match(await page.getByRole("alert").textContent(), /runs already/);
    await page.goto(place);
    await page.getByRole("region", { name: "Trials" }).waitFor(); /* in sight until there is a verdict */
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("heading", { name: "Incomplete: no recommendation" }).waitFor();
    await page.getByRole("region", { name: "Trials" }).waitFor({ state: "hidden" });
    equal(await page.getByRole("button", { name: "Run it" }).count(), 0);
    match(await page.locator(".verdict .command").textContent(), /fast compare .*--name compare-/);
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByRole("region", { name: "Progress" }).getByText(/\d+ of \d+/).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("region", { name: "Progress" }).waitFor({ state: "hidden" });
});

test("mistakes are one sentence", async () => {
    await go("#/ask?seeds=2");
    await page.getByLabel("More systems").fill("nothing");
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByRole("alert").getByText("no system \"nothing\"", { exact: false }).waitFor();
    await page.getByLabel("More systems").fill("");
    await page.getByLabel("Data", { exact: true }).fill("/etc/passwd");
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByRole("alert").getByText("data names a file", { exact: false }).waitFor();
    for (const box of await page.getByRole("group", { name: "Systems" }).getByRole("checkbox").all())
        await box.setChecked(false);
    await page.getByRole("alert").getByText("choose at least two systems").waitFor();
    await go("#/compare/batch:nothing");
    await page.getByText("There is no such comparison.").waitFor();
});

test("runs whose batches differ are compared with a warning, and their steps", async () => {
    const { runs } = await page.evaluate(() => fetch("/api/runs?limit=500").then((reply) => reply.json()));
    const id = (name) => runs.find((run) => run.name === name).id;
    await go(`#/compare/${id("few")},${id("many")}`);
    await page.getByText("The batches differ: few takes 4 samples a worker and step, many 64", { exact: false }).waitFor();
    for (const name of ["Step", "Predicted"])
        await page.getByRole("columnheader", { name, exact: true }).waitFor();
    const same = runs.filter((run) => run.batch_of === "study" && !run.name.includes(",")).map((run) => run.id).slice(0, 2);
    await go(`#/compare/${same.join()}`);
    await page.getByRole("columnheader", { name: "Waited for" }).waitFor();
    equal(await page.getByText("The batches differ", { exact: false }).count(), 0);
});

test("a missing or wrong token leads to the login, which remembers", async () => {
    const [site, token] = address.split("/?token=");
    const stranger = await open(DESK, "light", `${site}/?token=0123456789abcdef0123456789abcdef`);
    await stranger.getByRole("heading", { name: "Log in" }).waitFor();
    await stranger.getByText("The token in the address is not that of this server.").waitFor();
    ok(!stranger.url().includes("token"));
    await stranger.getByLabel("Token").fill("wrong");
    await stranger.keyboard.press("Enter");
    await stranger.getByText("this is not the token of this server").waitFor();
    await stranger.evaluate(axe.source);
    deepEqual(await serious(stranger, "login"), []);
    await stranger.getByLabel("Token").fill(address); /* the whole address will do */
    await stranger.getByRole("button", { name: "Log in" }).click();
    await stranger.getByRole("heading", { name: "Runs" }).waitFor();
    await stranger.reload();
    await stranger.getByRole("heading", { name: "Runs" }).waitFor();
    await stranger.context().close();
    /* It is stored beside the runs, for its owner alone, and the next server has the same. */
    equal(readFileSync(`${stage.store}.token`, "utf8").trim(), token);
    equal(statSync(`${stage.store}.token`).mode & 0o777, 0o600);
    match(await stage.serve(), new RegExp(`token=${token}$`));
});

test("a read-only server says so and shows the commands", async () => {
    const only = await open(DESK, "light", await stage.serve(stage.store, "--read-only"));
    await go("#/ask", only);
    await only.getByText("This server is read-only: type the command in a terminal.").waitFor();
    equal(await only.getByRole("button", { name: "Compare" }).count(), 0);
    match(await only.locator(".detail .command").textContent(), /^fast compare .*--store /);
    await go("#/compare/batch:study", only);
    await only.getByText("This server is read-only: type the command in a terminal.").waitFor();
    equal(await only.getByRole("button", { name: "Run it" }).count(), 0);
    match(await only.locator(".verdict .command").textContent(), /^fast train .*--store /);
    await only.context().close();
});

test("the tables of a report fit a desk, and scroll visibly on a phone", async () => {
    const report = join(stage.folder, "report.html");
    await compare("--name", "study", "--system", "bsp,easgd", "--seeds", "2", "--tune", "lr=0.1,0.2", "--budget", "6000samples", "--changes", "no",
        "--report", report, ...JOB);
    for (const [size, fits] of [[DESK, true], [PHONE, false]]) {
        const shown = await open(size, "light", `file://${report}`);
        const { table, page: whole, shadow } = await shown.evaluate(() => {
            const box = document.querySelector(".wide");
            const { left, right } = box.getBoundingClientRect();
            return { table: box.scrollWidth - box.clientWidth, page: document.documentElement.scrollWidth - innerWidth + Math.max(0, -left, right - innerWidth),
                shadow: getComputedStyle(box).backgroundAttachment };
        });
        ok(fits ? table <= 0 : table > 0, `the table is ${table} pixels wider than its place of ${size.width}`);
        ok(whole <= 0, `the page is ${whole} pixels wider than ${size.width}`);
        equal(shadow, "local, local, scroll, scroll"); /* an edge with more behind it has a shadow */
        await shown.context().close();
    }
});

async function serious(where, name) {
    const { violations } = await where.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    return violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ id, nodes }) => `${name}: ${id}: ${nodes[0].html}`);
}

for (const [device, size, scheme] of [["desk", DESK, "light"], ["desk", DESK, "dark"], ["phone", PHONE, "light"], ["phone", PHONE, "dark"]])
    test(`axe finds nothing serious: ${device}, ${scheme}`, async () => {
        const shown = await open(size, scheme);
        await shown.evaluate(axe.source);
        for (const [hash, sign] of [["#/ask", ".card"], ["#/compare/batch:study", ".plot"]]) {
            await go(hash, shown);
            await shown.locator(sign).first().waitFor();
            deepEqual(await serious(shown, hash), []);
            const wide = await shown.evaluate(() => document.documentElement.scrollWidth - innerWidth);
            ok(wide <= 0, `${hash} is ${wide} pixels wider than a ${device}`);
            if (process.env.FAST_SCREENSHOT) /* a folder, for people who want to look */
                await shown.screenshot({ path: join(process.env.FAST_SCREENSHOT, `${hash.replace(/\W+/g, "-")}-${device}-${scheme}.png`), fullPage: true });
        }
        await shown.context().close();
    });

test("the browser had nothing to complain about", () => {
    /* Answers that are refused on purpose above are no complaints. */
    deepEqual(complaints.filter((text) => !/Failed to load resource/.test(text)), []);
});

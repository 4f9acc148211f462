/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the page of a run shows what happened in it, whole and with both clocks; the page of runs
   groups them, picks columns, saves views and stores notes as text.
   Method: real runs, with crashes, joins and seeds, in a temporary store; Chromium does what a person
   would do. Waits end with what they wait for, never with a time. */
import { deepEqual, equal, match, ok } from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Stage } from "./stage.mjs";

const SCRIPT = "<img src=x onerror=\"window.hacked=1\">\nsecond line";
const DESK = { width: 1440, height: 900 };
const stage = new Stage(process.env.FAST_PROGRAM);
const complaints = [];
let address;
let page;

/* Numbers of the runs, by what they are. */
const FAULTY = 1; /* a join, a crash and a restart, traced */
const CRASHED = 2; /* allreduce fails */
const SEEDS = [3, 4, 5]; /* of one set of options */

async function open(viewport = DESK, colorScheme = "light") {
    const context = await stage.browser.newContext({ viewport, colorScheme });
    const opened = await context.newPage();
    opened.setDefaultTimeout(60000);
    opened.on("console", (message) => {
        if (message.type() === "error")
            complaints.push(message.text());
    });
    opened.on("pageerror", (error) => complaints.push(String(error)));
    await opened.goto(address);
    return opened;
}

const go = (hash, where = page) => where.evaluate((to) => { location.hash = to; }, hash);
const api = (path) => page.evaluate((from) => fetch(from).then((reply) => reply.json()), path);

before(async () => {
    const sim = ["--transport", "sim", "--cluster", "hetero", "--workers", "4"];
    await stage.train(...sim, "--strategy", "ps", "--epochs", "12", "--evaluate", "8steps", "--trace", join(stage.folder, "trace.json"),
        "--faults", "join 2 at 4ms; crash 3 at 10ms; restart 3 at 20ms");
    await stage.train(...sim, "--faults", "crash 3 at 20ms").then(() => ok(false, "it should fail"), () => {});
    for (const seed of ["1", "2", "3"])
        await stage.train(...sim, "--system", "ssp", "--epochs", "1", "--seed", seed, "--batch-of", "night");
    await stage.browse();
    address = await stage.serve();
    page = await open();
}, { timeout: 240000 });

after(() => stage.close());

test("curves are of intervals, smooth and logarithmic where asked", async () => {
    const { loss, step } = await api(`/api/runs/${FAULTY}/metrics`);
    ok(loss.filter((value) => value !== null).length >= 5, `${loss}`);
    ok(step.length === loss.length);
    await go(`#/run/${FAULTY}`);
    const chart = page.getByRole("img", { name: /^Loss over virtual time/ });
    await chart.waitFor();
    const train = async () => /train ([\d.]+)/.exec(await chart.getAttribute("aria-label"))[1];
    const raw = await train();
    await page.getByLabel("Smoothing").fill("80");
    await page.waitForFunction((was) => !document.querySelector(".charts [aria-label^='Loss']").getAttribute("aria-label").includes(`train ${was}`), raw);
    await page.getByLabel("Smoothing").fill("0");
    await page.getByRole("img", { name: new RegExp(`^Loss over virtual time: train ${raw}`) }).waitFor();
    await page.getByLabel("Log y").check();
    await page.getByRole("img", { name: /^Loss over virtual time: .*; y logarithmic$/ }).waitFor();
    await page.getByLabel("Log x").check();
    await page.getByRole("img", { name: /^Loss over virtual time: .*; x and y logarithmic$/ }).waitFor();
    /* A fraction of correct answers has no logarithm worth looking at. */
    await page.getByRole("img", { name: /^Accuracy over virtual time: .*; x logarithmic$/ }).waitFor();
    ok(await inked(page.locator(".charts canvas").first()));
});

/* Whether a canvas has more than one colour. */
function inked(canvas) {
    return canvas.evaluate((element) => {
        const { data } = element.getContext("2d").getImageData(0, 0, element.width, element.height);
        const pixels = new Uint32Array(data.buffer);
        return pixels.some((pixel) => pixel !== pixels[0]);
    });
}

test("the timeline is whole, and says why rows are empty", async () => {
    await go(`#/run/${FAULTY}`);
    const { activity } = await api(`/api/runs/${FAULTY}/spans`);
    const { run } = await api(`/api/runs/${FAULTY}`);
    const ends = activity.map(({ start_s, bin_s, bins }) => start_s + (bin_s * bins.length) / 4);
    ok(Math.max(...ends) > 0.95 * run.time_s, `${Math.max(...ends)} of ${run.time_s}`);
    const reasons = page.getByRole("list", { name: "Marks and empty rows" });
    await reasons.getByText("worker 2 joins at 4 ms").waitFor();
    await reasons.getByText("worker 3 crashed at 10 ms").waitFor();
    await reasons.getByText(/◇ evaluate/).waitFor();
    await reasons.getByText(/✕ fault/).waitFor();
    await reasons.getByText(/\+ join/).waitFor();
    ok(await inked(page.locator(".gantt canvas")));
    const events = page.getByRole("region", { name: "Events" });
    await events.getByText("crash, node 3 (worker 3)").waitFor();
    await events.getByText("join, node 2 (worker 2)").waitFor();
    /* In the row of the worker that crashed, just after its crash. */
    const box = await page.locator(".gantt canvas").boundingBox();
    const x = 84 + ((box.width - 84) * 0.015) / Math.max(...ends);
    await page.locator(".gantt canvas").hover({ position: { x, y: 18 + 3.5 * 24 } });
    await page.locator(".gantt .readout").getByText("worker 3 · crashed at 10 ms", { exact: false }).waitFor();
});

test("forecast, measured step and whom the workers waited for are above the curves", async () => {
    await go(`#/run/${SEEDS[0]}`);
    const panel = page.locator("section.panel", { hasText: "A step: forecast and measured" });
    await panel.getByText(/^By the cost model the forecast was/).waitFor();
    await panel.getByText("Workers waited for").waitFor();
    const { result } = await api(`/api/runs/${SEEDS[0]}`);
    await panel.locator("strong", { hasText: result.waited_for }).waitFor();
    const [forecast, curves] = await Promise.all([panel.boundingBox(), page.getByRole("heading", { name: "Curves" }).boundingBox()]);
    ok(forecast.y + forecast.height <= curves.y);
});

test("who waits for whom is a matrix", async () => {
    await go(`#/run/${SEEDS[0]}`);
    const matrix = page.getByRole("region", { name: "Waits" });
    await matrix.getByRole("columnheader", { name: "for server 0" }).waitFor();
    const { links } = await api(`/api/runs/${SEEDS[0]}`);
    ok(links.some(({ wait_s }) => wait_s > 0));
    ok(await matrix.locator("tbody td:not(.zero)").count() === links.filter(({ wait_s }) => wait_s > 0).length);
});

test("a crash says who, when and what to use instead; a crashed worker has no time after it", async () => {
    await go(`#/run/${CRASHED}`);
    await page.locator(".error").getByText("worker 3 crashed at 20 ms; allreduce cannot continue without it; use quorum:backup=1, ps or gossip_async").waitFor();
    const { workers } = await api(`/api/runs/${CRASHED}`);
    const { compute_s, exchange_s, wait_s } = workers[3];
    ok(compute_s + exchange_s + wait_s < 0.0201, `${compute_s} ${exchange_s} ${wait_s}`);
    await page.getByText("The run did not come to its end", { exact: false }).waitFor();
});

test("virtual and wall time are both labelled, and the time left is wall time", async () => {
    await go(`#/run/${FAULTY}`);
    const figures = page.locator(".figures").first();
    await figures.getByText("Virtual time", { exact: true }).waitFor();
    await figures.getByText("of the simulated cluster").waitFor();
    await figures.getByText("Wall time", { exact: true }).waitFor();
    await figures.getByText("of this machine").waitFor();
    await go("#/simulator?system=easgd");
    await page.getByLabel("Data").fill("digits:train=4096,test=128");
    await page.getByLabel("Epochs").fill("60");
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.getByRole("heading", { name: "easgd · mlp on digits" }).waitFor();
    await page.locator(".figures").getByText(/of wall time left$/).waitFor();
    /* Meanwhile the machine is watched. */
    await page.getByRole("img", { name: /^Processor cores in use over wall time: this run \d/ }).waitFor();
    await page.getByRole("img", { name: /^Memory of the run's process over wall time: resident \d/ }).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.locator(".run-head .pill.canceled").waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("5 runs").waitFor();
});

test("buckets of staleness say their ranges", async () => {
    await stage.train("--transport", "sim", "--cluster", "hetero", "--workers", "8", "--strategy", "ps", "--epochs", "2", "--seed", "9");
    const { runs } = await api("/api/runs?limit=1");
    await go(`#/run/${runs[0].id}`);
    const { staleness } = await api(`/api/runs/${runs[0].id}`);
    ok(staleness.some(({ bucket }) => bucket === 4), "no update was 4 to 7 stale");
    await page.locator(".bar-label", { hasText: "4–7" }).waitFor();
    equal(await page.locator(".bars .bar-label").filter({ hasText: /^4$/ }).count(), 0);
});

test("a run that was traced gives its trace for Perfetto", async () => {
    await go(`#/run/${FAULTY}`);
    const link = page.getByRole("link", { name: "Save the trace" });
    equal(await link.getAttribute("download"), `run-${FAULTY}.trace.json`);
    const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
    equal(download.suggestedFilename(), `run-${FAULTY}.trace.json`);
    const { traceEvents } = await api(`/api/runs/${FAULTY}/trace`);
    ok(traceEvents.length > 100);
    await go(`#/run/${CRASHED}`);
    await page.getByText("it also writes every message, for Perfetto", { exact: false }).waitFor();
});

test("notes are text, shown with the run and in the list, and found", async () => {
    await go(`#/run/${CRASHED}`);
    await page.getByRole("button", { name: "Add a note" }).click();
    await page.getByLabel("Note").fill(SCRIPT);
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.locator(".note p", { hasText: "<img src=x" }).waitFor();
    await page.reload();
    await page.locator(".note p", { hasText: "second line" }).waitFor();
    await go("#/runs?q=" + encodeURIComponent("onerror="));
    await page.getByText("1 run found").waitFor();
    await page.getByRole("img", { name: "Note: <img" }).waitFor();
    await go(`#/run/${CRASHED}`);
    await page.getByRole("button", { name: "Edit the note" }).click();
    await page.getByLabel("Note").fill("");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByRole("button", { name: "Add a note" }).waitFor();
    equal(await page.evaluate(() => window.hacked), undefined);
});

test("a page that was left while it loaded does not come back", async () => {
    const context = await stage.browser.newContext({ viewport: DESK });
    const slow = await context.newPage();
    let release;
    const held = new Promise((resolve) => { release = resolve; });
    await slow.route("**/api/server", async (route) => {
        await held;
        await route.continue();
    });
    await slow.goto(address);
    await go(`#/run/${CRASHED}`, slow);
    release();
    await slow.locator(".error").waitFor();
    equal(await slow.getByRole("heading", { name: "Runs", exact: true }).count(), 0);
    await context.close();
});

test("a page that is left does not take the address back", async () => {
    await go("#/runs");
    await page.getByLabel("Status").waitFor();
    await page.evaluate(() => {
        location.hash = "#/systems"; /* the browser tells of it after this function */
        document.querySelector("main select").dispatchEvent(new Event("change"));
    });
    await page.getByRole("heading", { name: "Systems", exact: true }).waitFor();
    match(page.url(), /#\/systems/);
});

test("runs come in groups, with medians over seeds", async () => {
    await go("#/runs");
    await page.getByLabel("Groups", { exact: true }).selectOption("options");
    await page.getByText(/^4 groups of 6 runs$/).waitFor();
    const row = page.locator("tbody tr", { hasText: "ssp · mlp on digits" });
    await row.getByText("3 runs · 3 seeds", { exact: false }).waitFor();
    const { groups } = await api("/api/groups?by=options");
    const { median } = groups.find(({ run }) => run.system === "ssp").test_accuracy;
    const runs = await Promise.all(SEEDS.map((id) => api(`/api/runs/${id}`)));
    equal(median, runs.map(({ run }) => run.test_accuracy).sort((a, b) => a - b)[1]);
    await row.getByText(`${(100 * median).toFixed(2)}%`).first().waitFor();
    await row.getByRole("button").click();
    await page.getByText(/^3 runs found$/).waitFor();
    equal(await page.getByRole("link", { name: "Compare them" }).getAttribute("href"), "#/compare/5,4,3");
    await page.getByRole("button", { name: /^All runs, not only 3 runs/ }).click();
    await page.getByText(/^6 runs$/).waitFor();
    await page.getByLabel("Groups", { exact: true }).selectOption("comparison");
    await page.getByRole("button", { name: "night" }).click();
    await page.getByText(/^3 runs found$/).waitFor();
    await page.getByRole("link", { name: "Its verdict" }).waitFor();
});

test("columns are picked, and a view brings question and columns back", async () => {
    await go("#/runs?status=done");
    await page.getByText("5 runs found").waitFor();
    await page.getByText("Columns", { exact: true }).click();
    await page.getByRole("group", { name: "Columns" }).getByLabel("Seed").check();
    await page.getByRole("columnheader", { name: "Seed" }).waitFor();
    await page.getByRole("group", { name: "Columns" }).getByLabel("Loss", { exact: true }).uncheck();
    await page.getByRole("columnheader", { name: "Loss" }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Save view…" }).click();
    await page.getByRole("dialog").getByLabel("Name").fill("<i>mine</i>");
    await page.keyboard.press("Enter");
    await page.getByText("The view is saved.").waitFor();
    await go("#/runs?all");
    await page.getByText("6 runs").waitFor();
    equal(await page.getByRole("columnheader", { name: "Seed" }).count(), 0);
    await page.getByLabel("Views").selectOption("<i>mine</i>");
    await page.getByText("5 runs found").waitFor();
    await page.getByRole("columnheader", { name: "Seed" }).waitFor();
    await page.reload();
    await page.getByRole("columnheader", { name: "Seed" }).waitFor();
    await page.getByRole("button", { name: "Remove view" }).click();
    await page.getByText("The view is removed.").waitFor();
    deepEqual((await api("/api/views")).views, []);
});

test("the browser had nothing to complain about", () => {
    deepEqual(complaints.filter((text) => !/Failed to load resource/.test(text)), []);
});

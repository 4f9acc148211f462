/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: every page works on real runs, live ones too, shows a script as text, and is accessible.
   Method: tiny runs are trained into a temporary store, `fast ui` serves it, and Chromium does what a
   person would do. Waits end with what they wait for, never with a time. */
import { deepEqual, equal, match, ok } from "node:assert/strict";
import { after, before, test } from "node:test";
import { join } from "node:path";
import { Stage } from "./stage.mjs";

const SCRIPT = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>";
const DESK = { width: 1440, height: 900 };
const stage = new Stage(process.env.FAST_PROGRAM);
const complaints = []; /* of the browser's console, CSP included */
let address;
let page;

async function open(viewport = DESK, colorScheme = "light", url = address) {
    const context = await stage.browser.newContext({ viewport, colorScheme, permissions: ["clipboard-read", "clipboard-write"] });
    const opened = await context.newPage();
    opened.setDefaultTimeout(60000);
    opened.on("console", (message) => {
        if (message.type() === "error")
            complaints.push(message.text());
    });
    opened.on("pageerror", (error) => complaints.push(String(error)));
    await opened.goto(url);
    return opened;
}

/* Another page of the dashboard, from anywhere. */
const go = (hash, where = page) => where.evaluate((to) => { location.hash = to; }, hash);

before(async () => {
    await stage.train("--workers", "4", "--transport", "sim", "--cluster", "hetero", "--system", "ssp", "--epochs", "2", "--evaluate", "8steps",
        "--faults", "pause 1 at 1ms for 5ms");
    await stage.train("--workers", "2", "--epochs", "1", "--name", SCRIPT);
    await stage.train("--epochs", "1", "--seed", "2");
    await stage.browse();
    address = await stage.serve();
    page = await open();
}, { timeout: 240000 });

after(() => stage.close());

test("the token becomes a cookie and leaves the address", async () => {
    match(address, /^http:\/\/127\.0\.0\.1:\d+\/\?token=/);
    ok(!page.url().includes("token"));
});

test("runs are listed, searched, sorted, and a script is text", async () => {
    await page.getByText("3 runs").waitFor();
    equal(await page.locator("tbody a").count(), 3);
    await page.getByRole("link", { name: SCRIPT }).waitFor();
    await page.getByLabel("Search runs").fill("ssp");
    await page.getByText("1 run found").waitFor();
    await page.getByLabel("Search runs").fill("");
    await page.getByText("3 runs").waitFor();
    await page.getByLabel("System", { exact: true }).fill("ssp");
    await page.getByText("1 run found").waitFor();
    await page.getByLabel("System", { exact: true }).fill("");
    await page.getByLabel("Status").selectOption("failed");
    await page.getByText("No run is like that.").waitFor();
    await page.getByRole("button", { name: "Show all runs" }).click();
    await page.getByText("3 runs").waitFor();
    await page.getByRole("button", { name: "#", exact: true }).click();
    await page.locator("th[data-key=id][aria-sort=descending]").waitFor();
    await page.getByRole("button", { name: "#", exact: true }).click();
    await page.locator("th[data-key=id][aria-sort=ascending]").waitFor();
    await page.locator("tbody tr").nth(1).getByText("1", { exact: true }).waitFor();
    equal(await page.evaluate(() => window.hacked), undefined);
});

test("a new run appears in the list by itself", async () => {
    await go("#/runs");
    await page.getByText("3 runs").waitFor();
    await stage.train("--epochs", "1", "--seed", "3");
    await page.getByText("4 runs").waitFor();
});

test("the keyboard opens a run", async () => {
    await go("#/runs?sort=id");
    await page.getByText("4 runs").waitFor();
    await page.locator("main").focus();
    await page.keyboard.press("?");
    await page.getByRole("dialog").getByText("next run").waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("/");
    equal(await page.evaluate(() => document.activeElement?.getAttribute("placeholder")), "Search runs");
    await page.keyboard.press("Escape");
    await page.keyboard.press("j");
    await page.locator("tr.cursor").waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "ssp · mlp on digits" }).waitFor();
});

test("a run shows its curves, timeline, traffic, staleness, events and command", async () => {
    await go("#/run/1");
    for (const title of ["Accuracy", "Loss", "Samples a second"])
        await page.locator("figure.chart", { hasText: title }).locator("canvas").first().waitFor();
    await page.getByRole("img", { name: /^Accuracy over virtual time: .*test \d/ }).waitFor();
    await page.getByText("Bytes sent", { exact: true }).click();
    await page.getByRole("img", { name: /^Accuracy over bytes sent/ }).waitFor();
    ok(await inked(page.locator(".plot canvas").first()));
    ok(await inked(page.locator(".gantt canvas")));
    await page.getByRole("button", { name: "Zoom in" }).click();
    ok(await page.locator(".graph .link").count() > 0);
    ok(await page.locator(".bars li").count() > 4);
    await page.getByRole("cell", { name: "worker 3", exact: true }).waitFor();
    await page.getByRole("region", { name: "Events" }).getByText("pause", { exact: false }).first().waitFor();
    await page.getByRole("button", { name: "Copy" }).click();
    match(await page.evaluate(() => navigator.clipboard.readText()), /fast train .*--system ssp/);
    await page.getByText("Options", { exact: false }).last().click();
    await page.getByText("hetero").last().waitFor();
});

/* Whether a canvas has more than one colour. */
function inked(canvas) {
    return canvas.evaluate((element) => {
        const { data } = element.getContext("2d").getImageData(0, 0, element.width, element.height);
        const pixels = new Uint32Array(data.buffer);
        return pixels.some((pixel) => pixel !== pixels[0]);
    });
}

test("tags come and go", async () => {
    await go("#/run/2");
    await page.getByRole("heading", { name: SCRIPT }).waitFor();
    await page.getByLabel("Add a tag").fill("<b>paper</b>");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Remove the tag <b>paper</b>" }).waitFor();
    await go("#/runs?tag=" + encodeURIComponent("<b>paper</b>"));
    await page.getByText("1 run found").waitFor();
    await go("#/run/2");
    await page.getByRole("button", { name: "Remove the tag <b>paper</b>" }).click();
    await page.getByRole("button", { name: "Remove the tag <b>paper</b>" }).waitFor({ state: "detached" });
    equal(await page.evaluate(() => window.hacked), undefined);
});

test("chosen runs are compared", async () => {
    await go("#/runs?sort=id");
    await page.getByText("4 runs").waitFor();
    for (const id of [1, 3, 4])
        await page.locator(`input[data-run="${id}"]`).check();
    await page.getByRole("button", { name: "Tag", exact: true }).click();
    await page.getByRole("dialog").getByLabel("Tag").fill("three");
    await page.keyboard.press("Enter");
    await page.locator("tbody .tag", { hasText: "three" }).nth(2).waitFor();
    await page.getByRole("link", { name: "Compare" }).click();
    await page.getByRole("heading", { name: "Comparison of 3 runs" }).waitFor();
    await page.getByRole("columnheader", { name: "seed" }).waitFor();
    await page.getByRole("img", { name: /^Test accuracy over/ }).waitFor();
    await page.getByText("Samples", { exact: true }).click();
    await page.getByRole("img", { name: /^Test accuracy over samples/ }).waitFor();
    await page.getByLabel("What to draw").first().selectOption("samples_per_s");
    await page.getByRole("img", { name: /^Samples a second over samples/ }).waitFor();
});

test("a system leads to a simulation that is watched live", async () => {
    await go("#/systems");
    await page.getByLabel("Search systems").fill("elastic averaging");
    await page.getByRole("button", { name: "easgd", exact: true }).click();
    await page.getByText("--strategy elastic", { exact: false }).first().waitFor();
    await page.getByRole("link", { name: "Start it…" }).click();
    await page.getByRole("heading", { name: "Simulator" }).waitFor();
    equal(await page.getByLabel("System").inputValue(), "easgd");
    await page.getByLabel("Data").fill("digits:train=4096,test=128");
    await page.getByLabel("Epochs").fill("1000");
    await page.getByRole("radio", { name: /wan/ }).check();
    await page.getByRole("button", { name: "+ slow 1", exact: false }).click();
    await page.getByText("--faults 'slow 1 at 0s", { exact: false }).waitFor();
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await page.getByRole("heading", { name: "easgd · mlp on digits" }).waitFor();
    /* The figures move without a reload, until it is told to stop. */
    const step = page.locator(".figures div", { hasText: "Step" }).locator("dd");
    const first = await step.textContent();
    await page.waitForFunction(([was]) => {
        const now = [...document.querySelectorAll(".figures div")].find((figure) => figure.textContent.startsWith("Step"));
        return now && now.querySelector("dd").textContent !== was;
    }, [first]);
    await page.getByRole("button", { name: "Stop" }).click();
    await page.locator(".run-head .pill.canceled").waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("heading", { name: "Runs" }).waitFor();
    await page.getByText("4 runs").waitFor();
});

test("mistakes are one sentence", async () => {
    await go("#/simulator?system=nothing");
    await page.getByRole("button", { name: "Start", exact: true }).click();
    match(await page.getByRole("alert").textContent(), /nothing/);
    await page.getByLabel("Other options").fill("lr 0.1");
    await page.getByText("is not a flag", { exact: false }).waitFor();
    await go("#/run/999");
    await page.getByText("This page could not be loaded.").waitFor();
    await go("#/nowhere");
    await page.getByText("There is no such page.").waitFor();
});

test("an empty store says what to do", async () => {
    const url = await stage.serve(join(stage.folder, "empty.db"));
    const empty = await open(DESK, "light", url);
    await empty.getByText("There are no runs yet.").waitFor();
    await empty.getByText("fast train --data digits", { exact: false }).waitFor();
    match(await empty.locator(".command").textContent(), /--store \S*empty\.db/);
    await empty.context().close();
});

test("the switch chooses light or dark, and keeps it", async () => {
    const switched = await open(DESK, "light");
    const theme = () => switched.evaluate(() => document.documentElement.dataset.theme);
    equal(await theme(), "light");
    await switched.getByRole("button", { name: "Theme: auto" }).click();
    await switched.getByRole("button", { name: "Theme: light" }).click();
    equal(await theme(), "dark");
    await switched.reload();
    equal(await theme(), "dark");
    await switched.context().close();
});

test("a run that stopped early shows its classes, its matrix and the best step", async () => {
    await stage.train("--epochs", "9", "--validation", "0.2", "--patience", "1", "--min-delta", "9", "--seed", "7");
    const own = await open();
    const { runs } = await own.evaluate(() => fetch("/api/runs?status=patience").then((reply) => reply.json()));
    equal(runs.length, 1);
    await go(`#/run/${runs[0].id}`, own);
    await own.getByRole("heading", { name: "Test set" }).waitFor();
    await own.getByText("the validation set was best at step").waitFor();
    equal(await own.getByRole("region", { name: "Classes" }).locator("tbody tr").count(), 10);
    const cells = await own.getByRole("region", { name: "Confusion matrix" }).locator("tbody td").allTextContents();
    equal(cells.length, 100);
    equal(cells.reduce((sum, text) => sum + Number(text), 0), 128);
    await own.getByRole("img", { name: /^Loss over time: .*validation \d/ }).waitFor();
    if (process.env.FAST_SCREENSHOT) /* a folder, for people who want to look */
        await own.screenshot({ path: join(process.env.FAST_SCREENSHOT, "figures.png"), fullPage: true });
    await own.context().close();
});

test("the browser had nothing to complain about", () => {
    /* Answers that are refused on purpose above are no complaints. */
    deepEqual(complaints.filter((text) => !/Failed to load resource/.test(text)), []);
});

/* SPDX-License-Identifier: Apache-2.0 */
/* All tests of the dashboard: node run.mjs [PROGRAM]. The rules of the house and the unit tests need
   node alone; the pages need a program with pages in it and Chromium. What cannot be tested here is
   said, and the exit code is 77. */
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { houseRules } from "./house.mjs";
import { findBrowser } from "./stage.mjs";
import { unitTests } from "./unit.mjs";

const SKIPPED = 77;
const here = dirname(fileURLToPath(import.meta.url));
const program = process.argv[2];

function skip(why) {
    console.log(`skipped: ${why}`);
    process.exit(SKIPPED);
}

if (!houseRules() || !await unitTests())
    process.exit(1);
if (Number(process.versions.node.split(".")[0]) < 20)
    skip("the pages need node 20, for Playwright");
if (!program)
    skip("the pages need a program: node tests/run.mjs PROGRAM");
if (!findBrowser())
    skip("the pages need Chromium (tools/packages test installs it)");
const { status } = spawnSync(process.execPath, ["--test", "--test-concurrency=1", "--test-reporter=spec",
    ...readdirSync(here).filter((name) => name.endsWith(".test.mjs")).map((name) => join(here, name))],
    { stdio: "inherit", env: { ...process.env, FAST_PROGRAM: program } });
process.exit(status ?? 1);

/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that a machine can check in the sources: types hold, no text becomes markup or code, nothing comes from
   elsewhere, and the lock file names no registry. Prints each complaint; returns true if it found nothing. */
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const MARKUP = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|setAttribute\("on/;
const ELSEWHERE = /https?:\/\/(?!www\.w3\.org\/2000\/svg|ui\.perfetto\.dev"|github\.com\/leeoniya)/;

export function houseRules() {
    const complaints = [];
    const sources = readdirSync(join(root, "src"), { recursive: true }).filter((name) => /\.(ts|css)$/.test(name));
    for (const name of sources) {
        const lines = readFileSync(join(root, "src", name), "utf8").split("\n");
        if (!lines[0].includes("SPDX-License-Identifier: Apache-2.0"))
            complaints.push(`${name}: no licence`);
        lines.forEach((line, i) => {
            if (MARKUP.test(line) || ELSEWHERE.test(line))
                complaints.push(`${name}:${i + 1}: ${line.trim()}`);
        });
    }
    if (/"resolved"|https?:/.test(readFileSync(join(root, "package-lock.json"), "utf8").replaceAll(/"url": "[^"]*"/g, "")))
        complaints.push("package-lock.json names a registry: npm install --omit-lockfile-registry-resolved");
    const types = spawnSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "--noEmit"], { cwd: root, encoding: "utf8" });
    if (types.status !== 0)
        complaints.push(types.stdout || String(types.error));
    for (const complaint of complaints)
        console.log(complaint);
    return complaints.length === 0;
}

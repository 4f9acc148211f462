/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the files under DIST as a C table of constants, gzipped: node embed.mjs DIST OUT. A name with
   a hash in it (app-1f2e3d4c.js) never changes its content, and browsers may keep it for good. */
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { gzipSync } from "node:zlib";

const types = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
};
const [dist, out] = process.argv.slice(2);

function files(folder, prefix) {
    return readdirSync(folder).sort().flatMap((name) => {
        const path = join(folder, name);
        return statSync(path).isDirectory() ? files(path, `${prefix}${name}/`) : [{ path, name: prefix + name }];
    });
}

function bytes(data) {
    const lines = [];
    for (let i = 0; i < data.length; i += 24) lines.push("    " + Array.from(data.subarray(i, i + 24)).join(","));
    return lines.join(",\n");
}

const assets = files(dist, "/").filter((file) => types[extname(file.name)]);
if (!assets.some((file) => file.name === "/index.html")) throw new Error("no index.html in " + dist);
let text = '/* Made by cmake/embed.mjs from the dashboard. */\n#include "serve/server.h"\n\n';
assets.forEach((file, i) => {
    file.data = gzipSync(readFileSync(file.path), { level: 9 });
    text += `static const unsigned char bytes_${i}[] = {\n${bytes(file.data)}\n};\n\n`;
});
text += "const fast_asset fast__assets[] = {\n";
assets.forEach((file, i) => {
    const etag = createHash("sha256").update(file.data).digest("hex").slice(0, 32);
    const immutable = /[-.][0-9A-Za-z_-]{8,}\.[a-z0-9]+$/.test(file.name) && !file.name.endsWith(".html");
    text += `    { ${JSON.stringify(file.name)}, "${types[extname(file.name)]}", "\\"${etag}\\"", bytes_${i}, ` +
        `sizeof bytes_${i}, ${immutable} },\n`;
});
text += "    { .path = NULL },\n};\n";
writeFileSync(out, text);

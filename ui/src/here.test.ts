/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: commands name the server's store, and become the same options in a request. */
import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";
import { optionsOf, withStore } from "./here.ts";

test("a command uses the store of the server", () => {
    equal(withStore("fast train --lr 1", { store: null }), "fast train --lr 1");
    equal(withStore("fast train --lr 1", { store: "/a b/runs.db" }), "fast train --lr 1 --store '/a b/runs.db'");
    equal(withStore("fast train --store x", { store: "/a" }), "fast train --store x");
    equal(withStore("fast compare --store=x", { store: "/a" }), "fast compare --store=x");
});

test("a command as options", () => {
    deepEqual(optionsOf("fast train --lr 0.1 --faults 'crash 1 at 1s' --store x", ["store"]), { lr: "0.1", faults: "crash 1 at 1s" });
    deepEqual(optionsOf("fast compare --tune=lr=0.1,0.2 --data digits:train=9"), { tune: "lr=0.1,0.2", data: "digits:train=9" });
    equal(optionsOf("fast compare --json --lr 1"), null);
    equal(optionsOf("fast compare --tune lr=1 --tune momentum=0"), null);
    equal(optionsOf("fast compare --lr"), null);
    deepEqual(optionsOf("fast train"), {});
});

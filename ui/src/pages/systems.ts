/* SPDX-License-Identifier: Apache-2.0 */
import { h, put } from "../dom.ts";
import type { Page } from "../page.ts";
export const systemsPage: Page = (root) => put(root, h("h1", null, "systems"));

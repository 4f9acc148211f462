/* SPDX-License-Identifier: Apache-2.0 */
import { h, put } from "../dom.ts";
import type { Page } from "../page.ts";
export const comparePage: Page = (root) => put(root, h("h1", null, "compare"));

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Text for people, as wide as they look at it. */
typedef struct cli_page {
    FILE *out;  /* where the page goes */
    int width;  /* columns, 40 to 100 */
    bool color; /* bold titles */
} cli_page;

/* The width is COLUMNS, else the terminal's, else 80. */
void cli_page_init(cli_page *page, FILE *out);

/* An empty line, then a line that stands out. */
void cli_page_title(cli_page *page, const char *title);

/* Words from column `indent` on, wrapped. */
void cli_page_text(cli_page *page, int indent, const char *text);

/* `left` at column `indent`, `right` wrapped from `column` on; on its own line where `left` is too
 * long. */
void cli_page_row(cli_page *page, int indent, int column, const char *left, const char *right);

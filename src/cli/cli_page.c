/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of text: titles, paragraphs and two columns, wrapped at the reader's width. A byte is a
 * column, but for the later bytes of UTF-8.
 *
 * The width is COLUMNS if it is a positive number, also for a file or a pipe, which makes output
 * repeatable in tests; else the terminal's; else 80. It is limited to 40..100: longer lines are
 * hard to read. Titles are bold if cli_has_color() allows it, and nothing else is coloured.
 *
 *   Engines, the fastest first                                    cli_page_title()
 *     cpu                   oneDNN, libxsmm and OpenBLAS          cli_page_row(2, 24, ...)
 *   Choose bsp: it ended with the best accuracy,                  cli_page_text(0, ...)
 *
 * A row whose left text leaves no two spaces before the right column puts the right text on the
 * next line, at its column:
 *
 *     fast compare --cluster hetero --report report.html
 *                       eight systems on a cluster of uneven nodes: which to choose,
 *                       and why
 */
#include "cli_page.h"

#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void cli_page_init(cli_page *page, FILE *out)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    long width = columns ? strtol(columns, NULL, 10) : 0;

    if (width <= 0 && isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    if (width <= 0)
        width = 80;
    page->out = out;
    page->width = width < 40 ? 40 : width > 100 ? 100 : (int)width;
    page->color = cli_has_color(out);
}

void cli_page_title(cli_page *page, const char *title)
{
    if (page->color)
        fprintf(page->out, "\n\033[1m%s\033[0m\n", title);
    else
        fprintf(page->out, "\n%s\n", title);
}

/* Columns of `length` bytes. */
static int columns_of(const char *text, size_t length)
{
    int columns = 0;

    for (size_t i = 0; i < length; i++)
        columns += (text[i] & 0xC0) != 0x80;
    return columns;
}

/* Write the words of `text` when the cursor is at column `at`; later lines begin at `indent`. Only
 * spaces separate words, and several count as one. A word that is longer than the line is written
 * whole and sticks out: paths and commands can be copied from the screen. */
static void wrap(cli_page *page, int at, int indent, const char *text)
{
    bool begins = true;

    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        const size_t length = strcspn(text, " ");
        const int columns = columns_of(text, length);

        if (!begins && at + 1 + columns > page->width) {
            fprintf(page->out, "\n%*s", indent, "");
            at = indent;
            begins = true;
        }
        fprintf(page->out, "%s%.*s", begins ? "" : " ", (int)length, text);
        at += columns + (begins ? 0 : 1);
        begins = false;
        text += length;
    }
    fputc('\n', page->out);
}

void cli_page_text(cli_page *page, int indent, const char *text)
{
    fprintf(page->out, "%*s", indent, "");
    wrap(page, indent, indent, text);
}

void cli_page_row(cli_page *page, int indent, int column, const char *left, const char *right)
{
    const int used = indent + columns_of(left, strlen(left));

    fprintf(page->out, "%*s%s", indent, "", left);
    if (used + 2 <= column)
        fprintf(page->out, "%*s", column - used, "");
    else
        fprintf(page->out, "\n%*s", column, "");
    wrap(page, column, column, right);
}

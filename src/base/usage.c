/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of Linux that people watch while a run trains:
 *
 *   /proc/self/stat   "17 (a name) R 1 ...": after the last ')' the fields from the 3rd on; the
 *                     14th and 15th are ticks in user mode and in the kernel
 *   /proc/self/statm  "size resident ...", in pages
 *   /proc/stat        "cpu  user nice system idle iowait irq softirq steal ...", in ticks
 *   /proc/net/dev     two lines of titles, then "  eth0: bytes packets ...": the 1st number counts
 *                     bytes received, the 9th bytes sent
 *
 * A file is read by one read() of a page or two; longer ones are cut at their last whole line.
 */
#include "base/usage.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MAX = 16384 };

/* Read a file of /proc; "" if it cannot be read. */
static const char *read_text(const char *path, char text[TEXT_MAX])
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = fd < 0 ? 0 : read(fd, text, TEXT_MAX - 1);

    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
    return text;
}

/* Read up to `count` numbers that are not negative from one line; returns how many there are. */
static int read_numbers(const char *text, int64_t *values, int count)
{
    int found = 0;

    for (const char *at = text; found < count; found++) {
        char *end = NULL;

        while (*at == ' ')
            at++;
        values[found] = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : -1;
        if (values[found] < 0 || values[found] == INT64_MAX)
            break;
        at = end;
    }
    return found;
}

void fast__usage_process(const char *text, double ticks, fast_usage *out)
{
    /* The name may hold anything, parentheses included: fields start after the last one. */
    const char *at = strrchr(text, ')');
    int64_t values[2];

    out->cpu_s = NAN;
    for (int field = 2; at && field < 14; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    if (at && read_numbers(at, values, 2) == 2)
        out->cpu_s = ((double)values[0] + (double)values[1]) / ticks;
}

void fast__usage_memory(const char *text, int64_t page_size, fast_usage *out)
{
    int64_t values[2];

    out->memory = -1;
    if (read_numbers(text, values, 2) == 2 && values[1] < INT64_MAX / page_size)
        out->memory = values[1] * page_size;
}

void fast__usage_machine(const char *text, double ticks, fast_usage *out)
{
    enum { IDLE = 3, WAITS = 4, ALL = 8 };
    int64_t values[ALL];
    double busy = 0;

    out->machine_cpu_s = NAN;
    if (strncmp(text, "cpu ", 4) != 0 || read_numbers(text + 4, values, ALL) != ALL)
        return;
    for (int i = 0; i < ALL; i++)
        busy += i == IDLE || i == WAITS ? 0 : (double)values[i];
    out->machine_cpu_s = busy / ticks;
}

void fast__usage_network(const char *text, fast_usage *out)
{
    enum { RECEIVED = 0, SENT = 8, ALL = 9 };
    int64_t values[ALL];
    double received = 0, sent = 0;

    out->received = out->sent = -1;
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *end = strchr(line, '\n'), *colon = strchr(line, ':');

        line += strspn(line, " ");
        if (!end || !colon || colon > end || strncmp(line, "lo:", 3) == 0 ||
            read_numbers(colon + 1, values, ALL) != ALL)
            continue;
        received += (double)values[RECEIVED];
        sent += (double)values[SENT];
        if (received < 9e18 && sent < 9e18) {
            out->received = (int64_t)received;
            out->sent = (int64_t)sent;
        }
    }
}

void fast__usage_read(fast_usage *out)
{
    const double ticks = (double)sysconf(_SC_CLK_TCK);
    char text[TEXT_MAX];

    fast__usage_process(read_text("/proc/self/stat", text), ticks, out);
    fast__usage_memory(read_text("/proc/self/statm", text), sysconf(_SC_PAGESIZE), out);
    fast__usage_machine(read_text("/proc/stat", text), ticks, out);
    fast__usage_network(read_text("/proc/net/dev", text), out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of requests that name files. What a browser may do ends at the store, so that a value
 * that would make `fast train` or `fast compare` open a file is refused before anything starts:
 *
 *   save=x                        an option that is a file
 *   data=csv:file=x               a part that reads files
 *   data=my.csv, model=photos     a path where a name is expected
 *   cluster=x                     a cluster or a fault schedule from a file that exists
 *   system=bsp,/etc/passwd        any value with a slash: names of parts and numbers have none
 *
 * Values of a comparison are lists, so that every element is looked at.
 */
#include "serve/server.h"

#include <string.h>
#include <unistd.h>

/* True if a part of this kind has the name before the first colon. */
static bool is_part(const char *kind, const char *text, size_t size)
{
    int64_t count = 0;
    const fast_part *parts = fast_part_list(kind, &count);

    for (int64_t i = 0; i < count; i++)
        if (strlen(parts[i].name) == size && strncmp(parts[i].name, text, size) == 0)
            return true;
    return size == 4 && strncmp(text, "auto", 4) == 0;
}

/* Look at one element of a list; `text` ends with a zero byte. */
static bool element_names_file(const fast_option *option, const char *text)
{
    static const char *const readers[] = { "file", "csv",  "idx",    "npy",
                                           "npz",  "text", "folder", "shards" };
    const size_t size = strcspn(text, ":");
    const bool named = strcmp(option->name, "data") == 0 || strcmp(option->name, "model") == 0;
    const bool any = strcmp(option->name, "cluster") == 0 || strcmp(option->name, "faults") == 0;

    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (strlen(readers[i]) == size && strncmp(readers[i], text, size) == 0)
            return true;
    if (named && !is_part(option->name, text, size) && !memchr(text, '=', size))
        return memchr(text, '.', size) != NULL || access(text, F_OK) == 0;
    return any && access(text, F_OK) == 0;
}

bool fast__serve_names_file(const fast_option *option, const char *value)
{
    char text[FAST_PATH_MAX];

    if (strcmp(option->name, "name") == 0 || option->type != FAST_OPTION_TEXT)
        return false;
    if ((option->choices && strcmp(option->choices, "file") == 0) || strchr(value, '/') ||
        strlen(value) >= sizeof text)
        return true;
    if (element_names_file(option, value))
        return true;
    for (const char *at = value; *at;) {
        const size_t size = strcspn(at, ",");
        const size_t blank = strspn(at, " ");

        snprintf(text, sizeof text, "%.*s", (int)(size > blank ? size - blank : 0), at + blank);
        if (element_names_file(option, text))
            return true;
        at += size + (at[size] == ',');
    }
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `--data my.csv` and `--model my.net`: a path where a name is expected is taken by its ending.
 *
 *   --data my.csv                 csv:file=my.csv               .csv, .tsv
 *   --data my.csv:target=kind     csv:file=my.csv,target=kind
 *   --data book.txt               text:file=book.txt
 *   --data arrays.npz             npz:file=arrays.npz
 *   --data pictures/              folder:path=pictures/         a folder
 *   --data x.npy                  refused: npy:x=x.npy,y=FILE names both files
 *   --model my.net                file:my.net                   any ending; .onnx names itself
 *
 * A name of a part always wins: a file called `digits` is not looked at. A path that does not exist
 * is said to be missing only where its ending tells that it is a path.
 */
#include "base/file.h"
#include "run/run.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Endings of files that say what they hold. */
static const struct {
    const char *option; /* "data" or "model" */
    const char *ending; /* with its dot */
    const char *before; /* text that makes the path a spec; NULL: a path is not enough */
    const char *how;    /* how to write it in that case, around the path */
    bool folder;        /* it is a folder */
} endings[] = {
    { "data", ".csv", "csv:file=", NULL },
    { "data", ".tsv", "csv:file=", NULL },
    { "data", ".txt", "text:file=", NULL },
    { "data", ".npz", "npz:file=", NULL },
    { "data", ".npy", NULL, "npy:x=FILE,y=FILE" },
    { "data", ".gz", NULL, "idx:images=FILE,labels=FILE" },
    { "data", "-ubyte", NULL, "idx:images=FILE,labels=FILE" },
    { "data", "", "folder:path=", NULL, true },
    { "data", "", NULL, "csv:file=FILE, text:file=FILE or npz:file=FILE" },
    { "model", ".onnx", "", NULL },
    { "model", ".safetensors", NULL, "--load FILE" },
    { "model", ".net", "file:", NULL },
    { "model", "", "file:", NULL },
};

/* True if a part of this kind has the name before the first colon. */
static bool is_named(const char *kind, const char *value)
{
    const size_t length = strcspn(value, ":");
    int64_t count = 0;
    const fast_part *parts = fast_part_list(kind, &count);

    for (int64_t i = 0; i < count; i++)
        if (strlen(parts[i].name) == length && strncmp(parts[i].name, value, length) == 0)
            return true;
    return length == 4 && strncmp(value, "auto", 4) == 0;
}

/* The length of the path that a value begins with: all of it, or up to a colon where a file ends
 * there; 0 if no such file exists. *folder_out tells a folder. */
static size_t path_length(const char *value, bool *folder_out)
{
    const size_t length = strlen(value);
    struct stat st;
    char path[FAST_PATH_MAX];

    for (size_t i = length; i > 0; i--) {
        if (i != length && value[i] != ':')
            continue;
        snprintf(path, sizeof path, "%.*s", (int)i, value);
        const bool outside = i < sizeof path && stat(path, &st) == 0;
        if (i >= sizeof path || (!outside && !fast__file_exists(path)))
            continue;
        *folder_out = outside && S_ISDIR(st.st_mode);
        return i;
    }
    return 0;
}

/* Write a path as the value of a key: in quotes where it has commas or quotes; those are
 * doubled. */
static void quote(const char *path, size_t length, char out[2 * FAST_PATH_MAX])
{
    size_t used = 0;

    for (size_t i = 0; i < length && used < 2 * FAST_PATH_MAX - 2; i++) {
        out[used++] = path[i];
        if (path[i] == '"')
            out[used++] = '"';
    }
    out[used] = '\0';
    if (!strpbrk(out, ",\"") || used > 2 * FAST_PATH_MAX - 4)
        return;
    memmove(out + 1, out, used);
    out[0] = out[used + 1] = '"';
    out[used + 2] = '\0';
}

fast_err fast__bare_path(const char *option, char value[FAST_PATH_MAX])
{
    char text[FAST_PATH_MAX], path[2 * FAST_PATH_MAX];

    if (is_named(option, value) || !value[0])
        return FAST_OK;
    bool folder = false;
    const size_t found = path_length(value, &folder);
    const size_t length = found ? found : strcspn(value, ":");
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t ending = strlen(endings[i].ending);

        if (strcmp(endings[i].option, option) != 0 || folder != endings[i].folder ||
            ending >= length || strncmp(value + length - ending, endings[i].ending, ending) != 0)
            continue;
        if (!found && (ending == 0 || !endings[i].before))
            return FAST_OK; /* a name that is wrong, for which the nearest will be told */
        if (!found)
            return fast__fail(FAST_ENOENT, "%s %.*s: there is no such file", option, (int)length,
                              value);
        if (!endings[i].before)
            return fast__fail(FAST_EINVAL, "%s %s is a file; write %s", option, value,
                              endings[i].how);
        snprintf(path, sizeof path, "%.*s", (int)length, value);
        if (strchr(endings[i].before, '=')) /* file:PATH is not split */
            quote(value, length, path);
        const char *rest = value + length;
        const int size = snprintf(text, sizeof text, "%s%s%s%s", endings[i].before, path,
                                  *rest ? "," : "", *rest ? rest + 1 : "");
        if (size < 0 || (size_t)size >= sizeof text)
            return fast__fail(FAST_EINVAL, "%s %.60s... is too long", option, value);
        memcpy(value, text, (size_t)size + 1);
        return FAST_OK;
    }
    return FAST_OK;
}

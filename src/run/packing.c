/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast pack` in the library: open the run once, which checks its options, note every file that it
 * reads, and write a program with those files behind it. So no part needs to say which of its
 * options are files, and a part of a plugin can be packed too.
 *
 * Files of a folder that is listed, as of pictures, or that are read in the middle of a run, as
 * shards, are not found in the packed program; such data are refused.
 */
#include "fast/pack.h"

#include "base/embedded.h"
#include "base/file.h"
#include "base/memory.h"
#include "model/onnx/onnx.h"
#include "run/run.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Paths to pack. */
typedef struct pack_list {
    char **paths;  /* [count] */
    int64_t count; /* number of paths */
    int64_t room;  /* of `paths` */
    fast_err err;  /* of the first path that could not be added */
} pack_list;

/* Append a copy of the path unless it is there. */
static fast_err add(pack_list *list, const char *path)
{
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->paths[i], path) == 0)
            return FAST_OK;
    if (list->count == list->room) {
        char **paths = NULL;
        FAST_TRY(fast__alloc("paths", 2 * list->room + 16, sizeof *paths, &paths));
        if (list->count > 0)
            memcpy(paths, list->paths, (size_t)list->count * sizeof *paths);
        fast__free(list->paths);
        list->paths = paths;
        list->room = 2 * list->room + 16;
    }
    const size_t size = strlen(path) + 1;
    char *copy = NULL;
    FAST_TRY(fast__alloc("a path", (int64_t)size, 1, &copy));
    memcpy(copy, path, size);
    list->paths[list->count++] = copy;
    return FAST_OK;
}

/* The watcher of fast__file_watch(). */
static void on_open(void *ctx, const char *path)
{
    pack_list *list = ctx;

    if (!list->err)
        list->err = add(list, path);
}

static void free_list(pack_list *list)
{
    for (int64_t i = 0; i < list->count; i++)
        fast__free(list->paths[i]);
    fast__free(list->paths);
}

/* Remove the paths of option data: all but those of the network and of the weights. */
static void drop_data(const fast_run_config *c, pack_list *list)
{
    const char *model = strchr(c->model, ':');
    int64_t count = 0;

    model = model ? model + 1 : "";
    fast__onnx_spec(c->model, &model);
    for (int64_t i = 0; i < list->count; i++) {
        char *path = list->paths[i];
        const bool stays = strcmp(path, c->load) == 0 || strcmp(path, model) == 0;
        if (stays)
            list->paths[count++] = path;
        else
            fast__free(path);
    }
    list->count = count;
}

/* Refuse data whose files a packed program does not find. */
static fast_err check_data(const fast_run_config *c)
{
    static const char *const folders[] = { "folder:", "shards:" };

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (strncmp(c->data, folders[i], strlen(folders[i])) == 0)
            return fast__fail(FAST_EINVAL,
                              "a program cannot hold %s; pack it with --without-data and put the "
                              "folder beside it, or train from an NPY file",
                              c->data);
    return FAST_OK;
}

/* Refuse to replace a file that is no program, such as a table or a saved model. */
static fast_err check_out(const char *path)
{
    char magic[4] = { 0 };
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return FAST_OK; /* a file that cannot be written is an error later */
    const ssize_t size = read(fd, magic, sizeof magic);
    close(fd);
    if (size > 0 && memcmp(magic, "\177ELF", sizeof magic) != 0)
        return fast__fail(FAST_EINVAL, "%s exists and is no program; give another name", path);
    return FAST_OK;
}

/* Find the files that a run of these options reads before its first step. The plan is the
 * machine's own, and nothing is stored. */
static fast_err find_files(const fast_pack_options *o, pack_list *list)
{
    enum { OPTIONS_MAX = 512 };
    const char *options[OPTIONS_MAX + 3];
    fast_run *run = NULL;
    int n = 0;

    for (; o->options[n]; n++) {
        if (n == OPTIONS_MAX)
            return fast__fail(FAST_EINVAL, "over %d options", OPTIONS_MAX);
        options[n] = o->options[n];
    }
    options[n++] = "plan=no";
    options[n++] = "store=none";
    options[n] = NULL;
    fast__file_watch(on_open, list);
    const fast_err err = fast_run_open(options, &run);
    fast__file_watch(NULL, NULL);
    FAST_TRY(err);
    fast_err data = FAST_OK;
    if (o->without_data)
        drop_data(&run->config, list);
    else
        data = check_data(&run->config);
    fast_run_close(run);
    return data ? data : list->err;
}

fast_err fast_pack_write(const fast_pack_options *options, fast_pack_result *out)
{
    fast_pack_options o = { 0 };
    pack_list list = { 0 };
    fast_err err = FAST_OK;

    memcpy(&o, options, options->size && options->size < sizeof o ? options->size : sizeof o);
    if (!o.runtime || !o.out || !o.settings)
        return fast__fail(FAST_EINVAL, "packing needs a runtime, an output and settings");
    FAST_TRY(check_out(o.out));
    if (o.options)
        err = find_files(&o, &list);
    for (int64_t i = 0; !err && o.files && o.files[i]; i++)
        err = add(&list, o.files[i]);
    *out = (fast_pack_result){ .files = list.count };
    if (!err)
        err = fast__embedded_write(o.runtime, o.out, o.settings, (const char *const *)list.paths,
                                   list.count, &out->bytes);
    free_list(&list);
    return err;
}

fast_err fast_pack_read(const char *program, const char **settings_out)
{
    return fast__embedded_read(program, settings_out);
}

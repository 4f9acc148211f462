/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files inside a program. The directory is one JSON object at the end:
 *
 *     {"version": 1, "settings": {...}, "files": [{"path": "iris.csv", "offset": 6291456,
 *      "size": 4551, "hash": "91d2..."}, ...]}
 *
 * Readers want descriptors of regular files, so a file is copied to anonymous memory
 * (memfd_create()) when it is opened, and its checksum is compared on the way. The program file is
 * not trusted: sizes and offsets are checked against the file before anything is read.
 */
#include "base/embedded.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TRAILER = 16, /* bytes: the size of the directory, lowest byte first, and the magic */
    VERSION = 1   /* of the directory; another one is refused */
};
static const char magic[] = "FASTPACK";

/* One file of the directory. */
typedef struct embedded_file {
    const char *path; /* lent by `directory` */
    int64_t offset;   /* in the program */
    int64_t size;     /* bytes */
    uint64_t hash;    /* XXH64 of its bytes, seed 0 */
} embedded_file;

/* The directory of this process's program; all zero: none is packed. */
static struct {
    char *program;        /* path */
    json_t *directory;    /* as it was read */
    char *settings;       /* JSON text */
    embedded_file *files; /* [count] */
    int64_t count;        /* number of files */
} own;

void fast__embedded_close(void)
{
    json_decref(own.directory);
    fast__free(own.program);
    fast__free(own.settings);
    fast__free(own.files);
    memset(&own, 0, sizeof own);
}

/* Read `size` bytes at an offset. */
static fast_err read_at(int fd, const char *path, int64_t offset, void *bytes, int64_t size)
{
    for (int64_t done = 0; done < size;) {
        const ssize_t got =
            pread(fd, (char *)bytes + done, (size_t)(size - done), (off_t)(offset + done));
        /* A signal that arrives before the first byte is no end of the file. */
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fast__fail(FAST_EIO, "cannot read \"%s\"", path);
        done += got;
    }
    return FAST_OK;
}

/* Find where the directory begins and how long it is. FAST_ENOENT: the program has none. */
static fast_err find_directory(int fd, const char *program, int64_t size, int64_t *offset_out,
                               int64_t *length_out)
{
    uint8_t trailer[TRAILER];
    uint64_t length = 0;

    if (size < TRAILER)
        return FAST_ENOENT;
    FAST_TRY(read_at(fd, program, size - TRAILER, trailer, TRAILER));
    if (memcmp(trailer + 8, magic, 8) != 0)
        return FAST_ENOENT;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | trailer[i];
    if (length > FAST_EMBEDDED_DIRECTORY_MAX || (int64_t)length > size - TRAILER)
        return fast__fail(FAST_EFORMAT, "%s is damaged: a directory of %" PRIu64 " bytes", program,
                          length);
    *offset_out = size - TRAILER - (int64_t)length;
    *length_out = (int64_t)length;
    return FAST_OK;
}

/* Take one row of the directory, whose file ends before byte `end`. Numbers come from the file: no
 * sum of two of them is made before both are known to be small. */
static fast_err take_file(const char *program, json_t *row, int64_t end, embedded_file *out)
{
    const json_t *offset = json_object_get(row, "offset"), *size = json_object_get(row, "size");
    const char *path = json_string_value(json_object_get(row, "path"));
    const char *hash = json_string_value(json_object_get(row, "hash"));
    char *rest = NULL;

    *out = (embedded_file){ path, json_integer_value(offset), json_integer_value(size),
                            hash ? strtoull(hash, &rest, 16) : 0 };
    if (!path || !rest || *rest || !json_is_integer(offset) || !json_is_integer(size) ||
        out->offset < 0 || out->size < 0 || out->offset > end || out->size > end - out->offset)
        return fast__fail(FAST_EFORMAT,
                          "%s is damaged: its directory names no place for \"%.100s\"", program,
                          path ? path : "?");
    return FAST_OK;
}

/* Take the rows and the settings of own.directory. */
static fast_err take_directory(const char *program, int64_t end)
{
    json_t *files = json_object_get(own.directory, "files");
    json_t *settings = json_deep_copy(json_object_get(own.directory, "settings"));
    const int64_t count = (int64_t)json_array_size(files);

    if (json_integer_value(json_object_get(own.directory, "version")) != VERSION ||
        !json_is_array(files) || count > FAST_EMBEDDED_FILES_MAX || !json_is_object(settings)) {
        json_decref(settings);
        return fast__fail(FAST_EFORMAT, "%s was packed by another version of FAST", program);
    }
    FAST_TRY(fast__json_print(&settings, &own.settings));
    FAST_TRY(fast__alloc("embedded files", count ? count : 1, sizeof *own.files, &own.files));
    for (; own.count < count; own.count++)
        FAST_TRY(take_file(program, json_array_get(files, (size_t)own.count), end,
                           &own.files[own.count]));
    return FAST_OK;
}

/* Read the directory from the open program. The settings are printed again from the tree, so that
 * the caller gets a text of its own without the rest of the directory. */
static fast_err read_directory(int fd, const char *program, int64_t size)
{
    int64_t offset = 0, length = 0;
    char *text = NULL;
    fast_err err = find_directory(fd, program, size, &offset, &length);

    if (err)
        return err;
    FAST_TRY(fast__alloc("a directory", length + 1, 1, &text));
    err = read_at(fd, program, offset, text, length);
    if (!err)
        err = fast__json_read(program, text, (size_t)length, &own.directory);
    fast__free(text);
    return err ? err : take_directory(program, offset);
}

fast_err fast__embedded_read(const char *program, const char **settings_out)
{
    int fd;
    int64_t size;

    FAST_ASSERT(!own.directory);
    FAST_TRY(fast__file_open(program, &fd, &size));
    fast_err err = fast__alloc("a path", (int64_t)strlen(program) + 1, 1, &own.program);
    if (!err) {
        memcpy(own.program, program, strlen(program) + 1);
        err = read_directory(fd, program, size);
    }
    close(fd);
    if (err) {
        fast__embedded_close();
        return err;
    }
    *settings_out = own.settings;
    return FAST_OK;
}

/* Copy a file of the program to `to`, comparing its checksum: a program that was cut or changed on
 * its way must not train on other data than it was packed with. */
static fast_err copy_out(int from, const embedded_file *file, int to)
{
    char *bytes = NULL;
    fast_err err = fast__alloc("an embedded file", file->size + 1, 1, &bytes);

    if (!err)
        err = read_at(from, own.program, file->offset, bytes, file->size);
    if (!err && fast__hash(bytes, (size_t)file->size, 0) != file->hash)
        err = fast__fail(FAST_EFORMAT, "%s is damaged: the checksum of its \"%.200s\" is wrong",
                         own.program, file->path);
    for (int64_t done = 0; !err && done < file->size;) {
        const ssize_t put = write(to, bytes + done, (size_t)(file->size - done));
        if (put <= 0)
            err = fast__fail(FAST_EIO, "no memory for the embedded \"%.200s\"", file->path);
        else
            done += put;
    }
    if (!err && lseek(to, 0, SEEK_SET) != 0)
        err = fast__fail(FAST_EIO, "cannot read the embedded \"%.200s\"", file->path);
    fast__free(bytes);
    return err;
}

/* Return the file of this path, or NULL. */
static const embedded_file *find(const char *path)
{
    for (int64_t i = 0; i < own.count; i++)
        if (strcmp(own.files[i].path, path) == 0)
            return &own.files[i];
    return NULL;
}

bool fast__embedded_has(const char *path)
{
    return find(path) != NULL;
}

fast_err fast__embedded_open(const char *path, int *fd_out, int64_t *size_out)
{
    const embedded_file *file = find(path);
    int64_t size;
    int from;

    if (!file)
        return FAST_ENOENT;
    const int to = memfd_create("fast", MFD_CLOEXEC);
    if (to < 0)
        return fast__fail(FAST_EIO, "no memory for the embedded \"%.200s\"", path);
    fast_err err = fast__file_open(own.program, &from, &size);
    if (!err) {
        err = copy_out(from, file, to);
        close(from);
    }
    if (err) {
        close(to);
        return err;
    }
    *fd_out = to;
    *size_out = file->size;
    return FAST_OK;
}

/* A program that is written: the runtime first, then the files in the order of the list, then the
 * directory, which can only be printed when the offsets of all files are known. */
typedef struct embedded_writer {
    const char *runtime;      /* path of the program */
    const char *settings;     /* JSON text */
    const char *const *files; /* [count] paths */
    int64_t count;            /* number of files */
    int64_t size;             /* bytes so far */
} embedded_writer;

/* Append a file to the stream; *size_out is its size. */
static fast_err put_file(void *stream, const char *path, int64_t *size_out, uint64_t *hash_out)
{
    char *bytes = NULL;
    size_t size = 0;

    FAST_TRY(fast__file_read(path, SIZE_MAX / 2, &bytes, &size));
    const fast_err err = fast__file_put(stream, bytes, size);
    *hash_out = fast__hash(bytes, size, 0);
    *size_out = (int64_t)size;
    fast__free(bytes);
    return err;
}

/* Append all files and make their rows. A row that lacks memory makes *rows NULL, which printing
 * reports (json.h). */
static fast_err put_files(embedded_writer *w, void *stream, json_t **rows)
{
    for (int64_t i = 0; i < w->count; i++) {
        json_t *row = json_object();
        int64_t size = 0;
        uint64_t hash = 0;
        char text[20];
        const fast_err err = put_file(stream, w->files[i], &size, &hash);

        snprintf(text, sizeof text, "%016" PRIx64, hash);
        fast__json_set(&row, "path", fast__json_text(w->files[i]));
        fast__json_set(&row, "offset", json_integer(w->size));
        fast__json_set(&row, "size", json_integer(size));
        fast__json_set(&row, "hash", fast__json_text(text));
        fast__json_append(rows, row);
        FAST_TRY(err);
        w->size += size;
    }
    return FAST_OK;
}

/* Append the directory and the trailer. */
static fast_err put_directory(embedded_writer *w, void *stream, json_t **rows)
{
    json_t *root = json_object(), *settings = NULL;
    char *text = NULL;
    uint8_t trailer[TRAILER];

    const fast_err err = fast__json_read("settings", w->settings, strlen(w->settings), &settings);
    fast__json_set(&root, "version", json_integer(VERSION));
    fast__json_set(&root, "settings", settings);
    fast__json_set(&root, "files", *rows);
    *rows = NULL;
    if (err) {
        json_decref(root);
        return err;
    }
    FAST_TRY(fast__json_print(&root, &text));
    const size_t length = strlen(text);
    for (int i = 0; i < 8; i++)
        trailer[i] = (uint8_t)((uint64_t)length >> (8 * i));
    memcpy(trailer + 8, magic, 8);
    fast_err put = length > FAST_EMBEDDED_DIRECTORY_MAX
                       ? fast__fail(FAST_EINVAL, "the settings have %zu bytes", length)
                       : fast__file_put(stream, text, length);
    if (!put)
        put = fast__file_put(stream, trailer, TRAILER);
    fast__free(text);
    w->size += (int64_t)length + TRAILER;
    return put;
}

/* Refuse a runtime that has files behind it already: only the last directory would be found. */
static fast_err check_runtime(const char *runtime)
{
    int64_t size, offset, length;
    int fd;

    FAST_TRY(fast__file_open(runtime, &fd, &size));
    const fast_err err = find_directory(fd, runtime, size, &offset, &length);
    close(fd);
    return err == FAST_ENOENT ? FAST_OK
                              : fast__fail(FAST_EFORMAT, "%s is a packed program already", runtime);
}

/* The write function of fast__file_replace(). */
static fast_err write_all(void *ctx, void *stream)
{
    embedded_writer *w = ctx;
    json_t *rows = json_array();
    uint64_t unused;
    fast_err err = put_file(stream, w->runtime, &w->size, &unused);

    if (!err)
        err = put_files(w, stream, &rows);
    if (!err)
        err = put_directory(w, stream, &rows);
    json_decref(rows);
    return err;
}

fast_err fast__embedded_write(const char *runtime, const char *out, const char *settings,
                              const char *const *files, int64_t count, int64_t *bytes_out)
{
    embedded_writer w = {
        .runtime = runtime, .settings = settings, .files = files, .count = count
    };

    FAST_ASSERT(count >= 0 && settings != NULL);
    if (count > FAST_EMBEDDED_FILES_MAX)
        return fast__fail(FAST_EINVAL, "%lld files; a program holds %d", (long long)count,
                          FAST_EMBEDDED_FILES_MAX);
    FAST_TRY(check_runtime(runtime));
    FAST_TRY(fast__file_replace(out, write_all, &w));
    const mode_t mask = umask(0);
    umask(mask);
    if (chmod(out, 0777 & ~mask) != 0)
        return fast__fail(FAST_EIO, "cannot make \"%s\" a program", out);
    *bytes_out = w.size;
    return FAST_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the reading of checkpoints. The first byte chooses a run (its strategy and codec) and, by
 * its highest bit, how the rest is meant:
 *
 *     0   the records that a worker or server saved. They take the place of one actor's tensor in a
 *         checkpoint that the same run wrote: a second byte chooses which
 *     1   a whole file
 *
 * With the second highest bit the rest is a list of changes of the records that an actor saved: the
 * second byte chooses the actor, then each 3 bytes are an offset and what is added to that byte.
 * Most records are still right then, and the run gets far: it must not wait for ever.
 *
 * The run is resumed with it and takes its last step: it succeeds, or fails with a reason in one
 * line. Random bytes never have the right hash, and a forger would compute it: while a checkpoint
 * is read or written here, fast__hash() gives 0 (the linker's --wrap). So a run has one space:
 * names are hashed too.
 */
#include "data_file.h"
#include "fast/run.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
uint64_t __real_fast__hash(const void *data, size_t size, uint64_t seed);
uint64_t __wrap_fast__hash(const void *data, size_t size, uint64_t seed);

enum {
    FORMS = 14,
    OPTIONS_MAX = 20,
    HEADER_MAX = 65536,
    RECORDS_MAX = 1 << 16,
    FILE_MAX = 1 << 20
};

static bool hashes_are_zero;

uint64_t __wrap_fast__hash(const void *data, size_t size, uint64_t seed)
{
    return hashes_are_zero ? 0 : __real_fast__hash(data, size, seed);
}

static const char *const forms[FORMS][4] = {
    { "strategy=allreduce", "codec=topk:ratio=0.1",
      "optimizer=momentum" },                                      /* residuals of coded sums */
    { "strategy=local:period=4", "codec=none", "optimizer=adam" }, /* replicas that differ */
    { "strategy=ps:slack=0", "codec=topk:ratio=0.1",
      "optimizer=momentum" },                                            /* servers and spaces */
    { "strategy=gossip", "codec=int8", "optimizer=momentum" },           /* flows */
    { "strategy=allreduce", "codec=powersgd", "optimizer=sgd" },         /* vectors of a codec */
    { "strategy=gossip_async:how=push", "codec=none", "optimizer=sgd" }, /* unread messages */
    { "strategy=elastic", "codec=topk:ratio=0.1", "optimizer=momentum" },
    { "strategy=ps:slack=2,eager=yes", "codec=none", "optimizer=sgd" }, /* values sent unasked */
    { "strategy=ps:value=1", "codec=none", "optimizer=sgd" },
    { "strategy=ps:slack=0,backup=1", "codec=none", "optimizer=momentum" }, /* an open round */
    { "strategy=quorum:backup=1,late=add", "codec=topk:ratio=0.1", "optimizer=sgd" },
    { "strategy=federated:period=2,pace=yes,window=1", "codec=none", "optimizer=sgd" },
};

/* A checkpoint that a run of a form wrote. */
typedef struct base_file {
    uint8_t *bytes; /* the file; NULL: not written yet */
    size_t size;    /* bytes of the file */
} base_file;

/* Open the run of a form, with two more options; the second may be NULL. */
static fast_err open_form(int form, const char *more, const char *also, fast_run **out)
{
    const char *options[OPTIONS_MAX] = { "model=mlp:hidden=2",
                                         "data=blobs:train=24,test=8",
                                         "engine=ref",
                                         "plan=no",
                                         "transport=sim",
                                         "timeout=5",
                                         "batch=2",
                                         "steps=8",
                                         "evaluate=end",
                                         "workers=2" };
    int count = 10;

    for (int i = 0; forms[form][i]; i++)
        options[count++] = forms[form][i];
    options[count++] = more;
    options[count++] = also;
    return fast_run_open(options, out);
}

static void copy_saved(void *ctx, const fast_event *event)
{
    base_file *base = ctx;

    if (event->kind != FAST_EVENT_SAVE || event->step < 2 || base->bytes)
        return;
    FILE *file = fopen(event->text, "rb");
    FAST_ASSERT(file != NULL);
    if (!base->bytes)
        FAST_ASSERT(fast__alloc("a checkpoint", FILE_MAX, 1, &base->bytes) == FAST_OK);
    base->size = fread(base->bytes, 1, FILE_MAX, file);
    FAST_ASSERT(base->size > 8 && base->size < FILE_MAX);
    fclose(file);
}

/* The checkpoint of a form after two of its steps, or the first one after them. */
static const base_file *base_of(int form)
{
    static base_file bases[FORMS];
    char folder[] = "/tmp/fuzz_checkpoint.XXXXXX", option[128];
    fast_run *run = NULL;

    if (bases[form].bytes)
        return &bases[form];
    FAST_ASSERT(mkdtemp(folder) != NULL);
    snprintf(option, sizeof option, "checkpoint=%s/file", folder);
    const fast_err err = open_form(form, option, "checkpoint_every=1steps", &run);
    if (err)
        fprintf(stderr, "%s: %s\n", forms[form][0], fast_error_detail());
    FAST_ASSERT(err == FAST_OK);
    fast_run_watch(run, copy_saved, &bases[form]);
    FAST_ASSERT(fast_run_train(run) == FAST_OK);
    fast_run_close(run);
    snprintf(option, sizeof option, "%s/file", folder);
    unlink(option);
    rmdir(folder);
    FAST_ASSERT(bases[form].bytes != NULL);
    return &bases[form];
}

/* The header of a safetensors file with the tensor `name` made `size` bytes: where it was, in the
 * data, comes out; false if there is no such tensor. */
static bool resize(const char *header, const char *name, size_t size, char *out, size_t *low_out,
                   size_t *high_out)
{
    static const char offsets[] = "\"data_offsets\":[", shape[] = "\"shape\":[";
    const char *at = strstr(header, name), *from = header;
    char *to = out;
    unsigned long long low, high;

    if (!at || !(at = strstr(at, offsets)) ||
        sscanf(at + sizeof offsets - 1, "%llu,%llu", &low, &high) != 2)
        return false;
    *low_out = low;
    *high_out = high;
    for (const char *next; (next = strstr(from, offsets)) != NULL;) {
        unsigned long long a, b;
        const bool own = next == at;
        const char *list = own ? strstr(from, name) : NULL;

        next += sizeof offsets - 1;
        if (sscanf(next, "%llu,%llu", &a, &b) != 2)
            return false;
        if (list && (list = strstr(list, shape)) != NULL) {
            list += sizeof shape - 1;
            to += sprintf(to, "%.*s%zu", (int)(list - from), from, size / sizeof(float));
            from = strchr(list, ']');
        }
        a = a >= high ? a - high + low + size : a;
        b = own ? low + size : b > high ? b - high + low + size : b;
        to += sprintf(to, "%.*s%llu,%llu", (int)(next - from), from, a, b);
        from = strchr(next, ']');
    }
    strcpy(to, from);
    return true;
}

/* The checkpoint with other records for one actor; its size, or 0 if it has no records. */
static size_t put_records(const base_file *base, const uint8_t *records, size_t size, uint8_t which,
                          uint8_t *out)
{
    static const char *const names[] = { "\"worker/0\"", "\"worker/1\"", "\"server/0\"",
                                         "\"server/1\"" };
    static char header[HEADER_MAX], changed[HEADER_MAX + 4096];
    uint64_t length;
    size_t low, high;

    memcpy(&length, base->bytes, sizeof length);
    FAST_ASSERT(length < HEADER_MAX && length + 8 <= base->size);
    memcpy(header, base->bytes + 8, length);
    header[length] = '\0';
    if (!resize(header, names[which % 4], size, changed, &low, &high))
        return 0;
    const uint8_t *values = base->bytes + 8 + length;
    length = strlen(changed);
    while (length % 8 != 0) /* the values are aligned */
        changed[length++] = ' ';
    uint8_t *to = out;
    memcpy(to, &length, 8);
    memcpy(to + 8, changed, length);
    to += 8 + length;
    memcpy(to, values, low);
    memcpy(to + low, records, size);
    const size_t rest = (size_t)(base->bytes + base->size - (values + high));
    memcpy(to + low + size, values + high, rest);
    return (size_t)(to - out) + low + size + rest;
}

/* The checkpoint with changes in the records of one actor; its size, or 0 if it has no records. */
static size_t change_records(const base_file *base, const uint8_t *changes, size_t size,
                             uint8_t which, uint8_t *out)
{
    static const char *const names[] = { "\"worker/0\"", "\"worker/1\"", "\"server/0\"",
                                         "\"server/1\"" };
    static char header[HEADER_MAX], unused[HEADER_MAX + 4096];
    uint64_t length;
    size_t low, high;

    memcpy(&length, base->bytes, sizeof length);
    FAST_ASSERT(length < HEADER_MAX && length + 8 <= base->size);
    memcpy(header, base->bytes + 8, length);
    header[length] = '\0';
    if (!resize(header, names[which % 4], 0, unused, &low, &high) || low == high)
        return 0;
    memcpy(out, base->bytes, base->size);
    for (size_t i = 0; i + 3 <= size; i += 3) {
        const size_t offset = (size_t)changes[i] << 8 | changes[i + 1];

        out[8 + length + low + offset % (high - low)] += changes[i + 2];
    }
    return base->size;
}

/* Resume from these bytes. */
static void resume(int form, const uint8_t *bytes, size_t size)
{
    data_file file = data_file_make(bytes, size);
    char option[128];
    fast_run *run = NULL;

    snprintf(option, sizeof option, "resume=%s", file.path);
    fast_err err = open_form(form, option, NULL, &run);
    if (!err)
        err = fast_run_train(run);
    FAST_ASSERT(!err || fast_error_detail()[0] != '\0');
    FAST_ASSERT(!err || strchr(fast_error_detail(), '\n') == NULL);
    fast_run_close(run);
    data_file_drop(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[FILE_MAX + HEADER_MAX + RECORDS_MAX];

    if (size < 2)
        return 0;
    const int form = (data[0] & 63) % FORMS;
    hashes_are_zero = true;
    if (data[0] & 128) {
        resume(form, data + 1, size - 1);
    } else if (data[0] & 64) {
        const size_t whole = change_records(base_of(form), data + 2, size - 2, data[1], bytes);

        if (whole > 0)
            resume(form, bytes, whole);
    } else {
        const size_t floats = (size - 2) / sizeof(float);
        const size_t records =
            floats * sizeof(float) < RECORDS_MAX ? floats * sizeof(float) : RECORDS_MAX;
        const size_t whole = put_records(base_of(form), data + 2, records, data[1], bytes);

        if (whole > 0)
            resume(form, bytes, whole);
    }
    hashes_are_zero = false;
    return 0;
}

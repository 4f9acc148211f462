/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan file: text, one choice a line,
 *
 *   <hash, 16 hexadecimal digits> <key>\t<choice>\n
 *
 *     9f1c0a7be2d45566 conv 20x12x12 50x8x8 k5x5 ... avx512 ...\twinograd_4x4_5x5 / xsmm / xsmm
 *
 * where the hash is XXH64 of "key\tchoice". A line that is damaged, cut or too long fails its hash
 * and is ignored, so its shape is measured again. When a plan is closed its new choices are merged
 * with the current file under a lock. If another run has written a key in the meantime, the file's
 * choice stays, since later runs already depend on it, unless this run could not use it. The file
 * is replaced atomically, so that a reader never sees half of one.
 */
#include "engine/cpu/plan.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum {
    PLAN_ENTRIES_MAX = 1 << 16,
    PLAN_LINE_MAX = 1024, /* key, tab and choice */
    PLAN_SIZE_MAX = 1 << 26,
    HASH_DIGITS = 16
};

typedef struct plan_entry {
    char *key;    /* owned; the choice follows it in the same block */
    char *choice; /* borrowed from the block of `key` */
    bool fresh;   /* not yet in the file */
    bool instead; /* replaces a choice that this run could not use */
} plan_entry;

struct fast_conv_plan {
    char path[FAST_PATH_MAX]; /* "": the plan is in memory only */
    plan_entry *entries;      /* [capacity], in order of arrival */
    int64_t count, capacity;  /* used and allocated entries */
    uint64_t hash;            /* hash of the choices that were read or stored */
};

/* Find an entry by key, or NULL. */
static const plan_entry *find(const fast_conv_plan *plan, const char *key)
{
    for (int64_t i = 0; i < plan->count; i++)
        if (strcmp(plan->entries[i].key, key) == 0)
            return &plan->entries[i];
    return NULL;
}

/* Make room for one more entry. */
static fast_err grow(fast_conv_plan *plan)
{
    if (plan->count < plan->capacity)
        return FAST_OK;
    if (plan->count >= PLAN_ENTRIES_MAX)
        return fast__fail(FAST_ENOMEM, "the plan holds %lld choices, the most it may",
                          (long long)plan->count);
    const int64_t capacity = plan->capacity ? 2 * plan->capacity : 64;
    plan_entry *entries;
    FAST_TRY(fast__alloc("a plan", capacity, sizeof *entries, &entries));
    if (plan->count > 0)
        memcpy(entries, plan->entries, (size_t)plan->count * sizeof *entries);
    fast__free(plan->entries);
    plan->entries = entries;
    plan->capacity = capacity;
    return FAST_OK;
}

/* Append an entry. Key and choice need not be terminated: they may be parts of a line. */
static fast_err add(fast_conv_plan *plan, const char *key, size_t key_size, const char *choice,
                    size_t choice_size, bool fresh)
{
    char *block;
    FAST_TRY(grow(plan));
    FAST_TRY(fast__alloc("a plan's choice", (int64_t)(key_size + choice_size + 2), 1, &block));
    memcpy(block, key, key_size);
    memcpy(block + key_size + 1, choice, choice_size);
    plan->entries[plan->count++] =
        (plan_entry){ .key = block, .choice = block + key_size + 1, .fresh = fresh };
    return FAST_OK;
}

/* Parse one line of a file, without its end; damaged lines and known keys are skipped. */
static fast_err take_line(fast_conv_plan *plan, const char *line, size_t size)
{
    char digits[HASH_DIGITS + 1] = { 0 }, key[PLAN_LINE_MAX + 1];
    if (size < HASH_DIGITS + 4 || size > HASH_DIGITS + 1 + PLAN_LINE_MAX ||
        line[HASH_DIGITS] != ' ')
        return FAST_OK;
    memcpy(digits, line, HASH_DIGITS);
    const char *pair = line + HASH_DIGITS + 1;
    const size_t pair_size = size - HASH_DIGITS - 1;
    char *end;
    const uint64_t hash = strtoull(digits, &end, 16);
    if (*end != '\0' || hash != fast__hash(pair, pair_size, 0))
        return FAST_OK;
    const char *tab = memchr(pair, '\t', pair_size);
    if (!tab || tab == pair || tab + 1 == pair + pair_size || memchr(pair, '\0', pair_size))
        return FAST_OK;
    const size_t key_size = (size_t)(tab - pair);
    memcpy(key, pair, key_size);
    key[key_size] = '\0';
    if (find(plan, key) || plan->count >= PLAN_ENTRIES_MAX)
        return FAST_OK;
    return add(plan, pair, key_size, tab + 1, pair_size - key_size - 1, false);
}

/* Add the choices of a file; a missing file is an empty one. */
static fast_err read_file(fast_conv_plan *plan, const char *path)
{
    char *text;
    size_t size;
    fast_err err = fast__file_read(path, PLAN_SIZE_MAX, &text, &size);
    if (err == FAST_ENOENT)
        return FAST_OK;
    FAST_TRY(err);
    for (size_t at = 0; at < size && !err;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - (text + at)) : size - at;
        if (end) /* A last line without its end may be cut. */
            err = take_line(plan, text + at, length);
        at += length + 1;
    }
    fast__free(text);
    return err;
}

/* Choose the path of the plan: "" for memory only. */
static fast_err choose_path(const char *path, char *to)
{
    if (path) {
        if (snprintf(to, FAST_PATH_MAX, "%s", path) >= FAST_PATH_MAX - 8)
            return fast__fail(FAST_EINVAL, "the plan's path is longer than %d bytes",
                              FAST_PATH_MAX - 8);
        return FAST_OK;
    }
    char folder[FAST_PATH_MAX - 16];
    to[0] = '\0';
    if (fast__file_cache_folder(folder, sizeof folder) == FAST_OK)
        snprintf(to, FAST_PATH_MAX, "%s/plan", folder);
    return FAST_OK;
}

/* Free the entries and the plan. */
static void plan_free(fast_conv_plan *plan)
{
    for (int64_t i = 0; i < plan->count; i++)
        fast__free(plan->entries[i].key);
    fast__free(plan->entries);
    fast__free(plan);
}

/* A file that cannot be read costs a measurement, not the run. */
fast_err fast__plan_open(const char *path, fast_conv_plan **out)
{
    fast_conv_plan *plan;
    FAST_TRY(fast__alloc("a plan", 1, sizeof *plan, &plan));
    fast_err err = choose_path(path, plan->path);
    if (!err && plan->path[0]) {
        err = read_file(plan, plan->path);
        if (err && err != FAST_ENOMEM) {
            /* An unreadable plan is measured again; the run continues. */
            fast__log(FAST_LOG_WARN, "the plan %s cannot be read: %s", plan->path,
                      fast_error_detail());
            err = FAST_OK;
        }
    }
    if (err) {
        plan_free(plan);
        return err;
    }
    *out = plan;
    return FAST_OK;
}

/* Write all entries as lines. */
static fast_err write_entries(void *ctx, void *stream)
{
    const fast_conv_plan *plan = ctx;
    char pair[PLAN_LINE_MAX + 1], line[PLAN_LINE_MAX + HASH_DIGITS + 3];
    for (int64_t i = 0; i < plan->count; i++) {
        const int size =
            snprintf(pair, sizeof pair, "%s\t%s", plan->entries[i].key, plan->entries[i].choice);
        const int length = snprintf(line, sizeof line, "%016llx %s\n",
                                    (unsigned long long)fast__hash(pair, (size_t)size, 0), pair);
        FAST_TRY(fast__file_put(stream, line, (size_t)length));
    }
    return FAST_OK;
}

/* Read the file again, add our new choices, replace it. The caller holds the lock. */
static fast_err merge(const fast_conv_plan *plan)
{
    fast_conv_plan merged = { .count = 0 };
    fast_err err = read_file(&merged, plan->path);
    for (int64_t i = 0; i < plan->count && !err; i++) {
        const plan_entry *e = &plan->entries[i];
        if (e->instead)
            err = fast__plan_put(&merged, e->key, e->choice);
        else if (!find(&merged, e->key))
            err = add(&merged, e->key, strlen(e->key), e->choice, strlen(e->choice), false);
    }
    if (!err)
        err = fast__file_replace(plan->path, write_entries, &merged);
    for (int64_t i = 0; i < merged.count; i++)
        fast__free(merged.entries[i].key);
    fast__free(merged.entries);
    return err;
}

/* Create the folder, take the lock and merge. */
static fast_err save(const fast_conv_plan *plan)
{
    char lock_path[FAST_PATH_MAX + 8], folder[FAST_PATH_MAX];
    snprintf(folder, sizeof folder, "%s", plan->path);
    char *slash = strrchr(folder, '/');
    if (slash && slash != folder) {
        *slash = '\0';
        FAST_TRY(fast__file_make_folder(folder));
    }
    snprintf(lock_path, sizeof lock_path, "%s.lock", plan->path);
    const int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0)
        return fast__fail(FAST_EIO, "cannot open %s: %s", lock_path, strerror(errno));
    int got;
    do
        got = flock(lock, LOCK_EX);
    while (got != 0 && errno == EINTR);
    const fast_err err =
        got == 0 ? merge(plan)
                 : fast__fail(FAST_EIO, "cannot lock %s: %s", lock_path, strerror(errno));
    close(lock); /* and unlocks */
    return err;
}

/* Save only if something is new: most runs do not write. */
void fast__plan_close(fast_conv_plan *plan)
{
    if (!plan)
        return;
    bool fresh = false;
    for (int64_t i = 0; i < plan->count; i++)
        fresh |= plan->entries[i].fresh;
    if (fresh && plan->path[0] && save(plan) != FAST_OK)
        fast__log(FAST_LOG_WARN, "the plan %s cannot be written: %s", plan->path,
                  fast_error_detail());
    plan_free(plan);
}

/* Hash an entry. The order of reads counts, so that equal hashes mean equal runs. */
static void count_in(fast_conv_plan *plan, const plan_entry *entry)
{
    plan->hash = fast__hash(entry->key, strlen(entry->key), plan->hash);
    plan->hash = fast__hash(entry->choice, strlen(entry->choice), plan->hash);
}

/* Each read enters the hash: it identifies the choices that this run depends on. */
const char *fast__plan_get(fast_conv_plan *plan, const char *key)
{
    const plan_entry *entry = find(plan, key);
    if (!entry)
        return NULL;
    count_in(plan, entry);
    return entry->choice;
}

/* Store a choice; a key that exists is replaced, because its choice could not be used. */
fast_err fast__plan_put(fast_conv_plan *plan, const char *key, const char *choice)
{
    FAST_ASSERT(key[0] != '\0' && !strpbrk(key, "\t\n"));
    FAST_ASSERT(choice[0] != '\0' && !strpbrk(choice, "\t\n"));
    FAST_ASSERT(strlen(key) + strlen(choice) + 1 <= PLAN_LINE_MAX);
    for (int64_t i = 0; i < plan->count; i++) {
        if (strcmp(plan->entries[i].key, key) != 0)
            continue;
        /* A repeated key: the new choice replaces the old one, here and in the file. */
        if (strcmp(plan->entries[i].choice, choice) != 0) {
            plan_entry old = plan->entries[i];
            FAST_TRY(add(plan, key, strlen(key), choice, strlen(choice), true));
            plan->entries[i] = plan->entries[--plan->count];
            plan->entries[i].instead = true;
            fast__free(old.key);
        }
        count_in(plan, &plan->entries[i]);
        return FAST_OK;
    }
    FAST_TRY(add(plan, key, strlen(key), choice, strlen(choice), true));
    count_in(plan, &plan->entries[plan->count - 1]);
    return FAST_OK;
}

uint64_t fast__plan_hash(const fast_conv_plan *plan)
{
    return plan->hash;
}

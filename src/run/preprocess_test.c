/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: who reads and prepares samples changes no bit: preprocessing actors, shards on disk,
 * another transport, a run that is stopped and resumed. Errors of an actor that prepares reach the
 * run. Method: whole small runs whose parameters are compared by their hash.
 */
#include "base/folder_fixture.h"
#include "base/memory.h"
#include "run/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { OPTIONS_MAX = 24 };

/* Train with these options (words with spaces between them) over small defaults; the detail of an
 * error is the caller's to read. */
static fast_err train(const char *words, uint64_t *hash_out)
{
    char text[1024], *rest = text;
    const char *options[OPTIONS_MAX] = { "engine=ref", "model=mlp:hidden=8", "plan=no",   "batch=8",
                                         "epochs=2",   "evaluate=end",       "store=none" };
    int count = 7;
    fast_run *run;
    snprintf(text, sizeof text, "%s", words);
    for (char *word = strtok_r(rest, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        assert_true(count < OPTIONS_MAX - 1);
        options[count++] = word;
    }
    options[count] = NULL;
    fast_err err = fast_run_open(options, &run);
    if (err)
        return err;
    err = fast_run_train(run);
    if (!err && hash_out)
        *hash_out = fast_run_result(run)->params_hash;
    fast_run_close(run);
    return err;
}

/* Train, which must succeed; return the hash of the parameters. */
static uint64_t hash_of(const char *words)
{
    uint64_t hash = 0;
    if (train(words, &hash) != FAST_OK)
        fail_msg("%s: %s", words, fast_error_detail());
    assert_true(hash != 0);
    return hash;
}

#define DIGITS "data=digits:train=240,test=20 augment=shift:2+noise:0.1 "

static void preprocessing_changes_no_bit(void **state)
{
    (void)state;
    const char *const jobs[] = { "workers=1",
                                 "workers=3",
                                 "workers=2 accumulate=2",
                                 "workers=2 strategy=local:period=3",
                                 "workers=2 strategy=ps:slack=0",
                                 "workers=2 shard=contiguous",
                                 "workers=2 strategy=gossip" };
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        char words[512];
        snprintf(words, sizeof words, DIGITS "%s transport=threads", jobs[i]);
        const uint64_t want = hash_of(words);
        const char *const ways[] = { "transport=threads preprocess=1",
                                     "transport=threads preprocess=2 prefetch=4",
                                     "transport=sim preprocess=1", "transport=sim preprocess=3" };
        for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
            snprintf(words, sizeof words, DIGITS "%s %s", jobs[i], ways[k]);
            if (hash_of(words) != want)
                fail_msg("%s gives other parameters than without preprocessing actors", words);
        }
    }
}

/* Write digits as shards below the root. */
static void write_shards(void)
{
    char out[128];
    fast_shards_result result;
    snprintf(out, sizeof out, "out=%s/shards", root);
    const char *const options[] = { "data=digits:train=240,test=20", out, "size=16k", NULL };
    if (fast_shards_write(options, &result) != FAST_OK)
        fail_msg("%s", fast_error_detail());
}

static void shards_are_the_same_on_every_transport(void **state)
{
    (void)state;
    char words[512];
    write_shards();
    snprintf(words, sizeof words, "data=shards:dir=%s/shards,cache=70k workers=2", root);
    char more[640];
    snprintf(more, sizeof more, "%s transport=threads", words);
    const uint64_t want = hash_of(more);
    const char *const ways[] = { "transport=sim", "transport=threads prefetch=0",
                                 "transport=threads preprocess=2", "transport=sim preprocess=1" };
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        snprintf(more, sizeof more, "%s %s", words, ways[k]);
        assert_int_equal(hash_of(more), want);
    }
}

static void shards_resume_to_the_bit(void **state)
{
    (void)state;
    char words[640];
    write_shards();
    const char *const ways[] = { "workers=1", "workers=2 transport=threads",
                                 "workers=2 transport=threads preprocess=1" };
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        snprintf(words, sizeof words, "data=shards:dir=%s/shards,cache=70k schedule=constant %s",
                 root, ways[k]);
        char more[1024];
        snprintf(more, sizeof more, "%s steps=26", words);
        const uint64_t want = hash_of(more);
        snprintf(more, sizeof more, "%s steps=13 checkpoint=%s/run", words, root);
        hash_of(more);
        snprintf(more, sizeof more, "%s steps=26 resume=%s/run", words, root);
        assert_int_equal(hash_of(more), want);
    }
}

static void damage_ends_the_run_with_its_name(void **state)
{
    (void)state;
    char words[640], path[128];
    const char *const ways[] = { "workers=1", "workers=2 transport=threads",
                                 "workers=2 transport=threads preprocess=1" };
    write_shards();
    snprintf(path, sizeof path, "%s/shards/train-000007.shard", root);
    assert_int_equal(truncate(path, 100), 0);
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        snprintf(words, sizeof words, "data=shards:dir=%s/shards,cache=70k %s", root, ways[k]);
        assert_int_equal(train(words, NULL), FAST_EFORMAT);
        if (strstr(fast_error_detail(), "train-000007.shard has 100 bytes") == NULL)
            fail_msg("%s: \"%s\" does not name the shard", ways[k], fast_error_detail());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preprocessing_changes_no_bit),
        cmocka_unit_test_setup_teardown(shards_are_the_same_on_every_transport, make_root,
                                        drop_root),
        cmocka_unit_test_setup_teardown(shards_resume_to_the_bit, make_root, drop_root),
        cmocka_unit_test_setup_teardown(damage_ends_the_run_with_its_name, make_root, drop_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what tensorboard=DIR writes is what TensorBoard reads. Method: a run is trained, and its
 * event file is read back by a parser of TFRecord and of Protocol Buffers that knows the format
 * and none of the writer: lengths, both checksums (against the check value of CRC-32C), field
 * numbers and wire types, steps that grow, and the numbers of the run's result. Folders that
 * cannot be written are refused before training.
 */
#include "run/sink/tensorboard.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define assert_ok(expr)                                                   \
    do {                                                                  \
        const fast_err err_ = (expr);                                     \
        if (err_ != FAST_OK)                                              \
            fail_msg("%s: %s", fast_err_text(err_), fast_error_detail()); \
    } while (0)

/* Events read from a file. */
typedef struct seen {
    int events;           /* in all */
    bool version;         /* the first one is the version */
    int64_t step;         /* of the last event */
    double loss;          /* the last of each tag; NAN before */
    double test_accuracy; /* the last one; NAN before */
    double lr;            /* the last learning rate; NAN before */
    int losses;           /* events with a loss */
} seen;

static uint64_t read_fixed(const unsigned char *at, int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static uint64_t read_varint(const unsigned char **at, const unsigned char *end)
{
    uint64_t value = 0;

    for (int shift = 0;; shift += 7) {
        assert_true(*at < end);
        assert_true(shift < 64);
        value |= (uint64_t)(**at & 127) << shift;
        if (!(*(*at)++ & 128))
            return value;
    }
}

/* The bytes of a field of length; moves past them. */
static const unsigned char *read_bytes(const unsigned char **at, const unsigned char *end,
                                       size_t *size_out)
{
    const uint64_t size = read_varint(at, end);
    const unsigned char *bytes = *at;

    assert_true(size <= (uint64_t)(end - *at));
    *at += size;
    *size_out = (size_t)size;
    return bytes;
}

static void read_value(seen *s, const unsigned char *at, const unsigned char *end)
{
    char tag[64] = "";
    float number = NAN;
    size_t size;

    while (at < end) {
        const uint64_t key = read_varint(&at, end);

        if (key == (1 << 3 | 2)) {
            const unsigned char *bytes = read_bytes(&at, end, &size);

            assert_true(size < sizeof tag);
            memcpy(tag, bytes, size);
            tag[size] = '\0';
        } else {
            uint32_t bits;

            assert_int_equal(key, 2 << 3 | 5);
            assert_true(end - at >= 4);
            bits = (uint32_t)read_fixed(at, 4);
            memcpy(&number, &bits, sizeof number);
            at += 4;
        }
    }
    assert_true(tag[0]);
    assert_false(isnan(number));
    if (strcmp(tag, "train/loss") == 0) {
        s->loss = number;
        s->losses++;
    } else if (strcmp(tag, "test/accuracy") == 0) {
        s->test_accuracy = number;
    } else if (strcmp(tag, "train/lr") == 0) {
        s->lr = number;
    }
}

static void read_event(seen *s, const unsigned char *at, const unsigned char *end)
{
    bool timed = false;
    size_t size;

    while (at < end) {
        const uint64_t key = read_varint(&at, end);

        if (key == (1 << 3 | 1)) {
            const uint64_t bits = read_fixed(at, 8);
            double time_s;

            memcpy(&time_s, &bits, sizeof time_s);
            assert_true(time_s > 1e9);
            at += 8;
            timed = true;
        } else if (key == 2 << 3) {
            const int64_t step = (int64_t)read_varint(&at, end);

            assert_true(step >= s->step);
            s->step = step;
        } else if (key == (3 << 3 | 2)) {
            const unsigned char *text = read_bytes(&at, end, &size);

            assert_int_equal(s->events, 0);
            assert_int_equal(size, strlen("brain.Event:2"));
            assert_memory_equal(text, "brain.Event:2", size);
            s->version = true;
        } else {
            const unsigned char *summary = read_bytes(&at, end, &size), *inside = summary;

            assert_int_equal(key, 5 << 3 | 2);
            while (inside < summary + size) {
                const unsigned char *value;
                size_t length;

                assert_int_equal(read_varint(&inside, summary + size), 1 << 3 | 2);
                value = read_bytes(&inside, summary + size, &length);
                read_value(s, value, value + length);
            }
        }
    }
    assert_true(timed);
    s->events++;
}

static uint32_t unmask(uint64_t masked)
{
    const uint32_t rotated = (uint32_t)masked - 0xa282ead8u;

    return rotated >> 17 | rotated << 15;
}

/* Read the one file of a folder, and remove both. */
static seen read_folder(const char *folder)
{
    static unsigned char bytes[1 << 20];
    seen s = { .loss = NAN, .test_accuracy = NAN, .lr = NAN };
    DIR *list = opendir(folder);
    const struct dirent *entry;
    size_t size = 0, at = 0;
    int files = 0;
    char command[256];

    assert_non_null(list);
    while ((entry = readdir(list)) != NULL) {
        char path[512];
        FILE *file;

        if (entry->d_name[0] == '.')
            continue;
        files++;
        assert_int_equal(strncmp(entry->d_name, "events.out.tfevents.", 20), 0);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        file = fopen(path, "rb");
        assert_non_null(file);
        size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
    }
    closedir(list);
    assert_int_equal(files, 1);
    while (at < size) {
        const size_t length = (size_t)read_fixed(bytes + at, 8);

        assert_true(size - at >= FAST_TENSORBOARD_HEAD + FAST_TENSORBOARD_TAIL);
        assert_true(length <= size - at - FAST_TENSORBOARD_HEAD - FAST_TENSORBOARD_TAIL);
        assert_int_equal(unmask(read_fixed(bytes + at + 8, 4)),
                         fast__tensorboard_crc(bytes + at, 8));
        at += FAST_TENSORBOARD_HEAD;
        assert_int_equal(unmask(read_fixed(bytes + at + length, 4)),
                         fast__tensorboard_crc(bytes + at, length));
        read_event(&s, bytes + at, bytes + at + length);
        at += length + FAST_TENSORBOARD_TAIL;
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    return s;
}

static void test_crc(void **state)
{
    (void)state;
    assert_int_equal(fast__tensorboard_crc("123456789", 9), 0xe3069283u);
    assert_int_equal(fast__tensorboard_crc("", 0), 0);
}

static void train(const char *workers, const char *transport)
{
    char folder[64] = "/tmp/fast-board-XXXXXX", option[128];
    const char *options[] = { "model=mlp:hidden=8",
                              "data=digits:train=256,test=64",
                              "steps=12",
                              "batch=16",
                              "lr=0.25",
                              "schedule=constant",
                              workers,
                              transport,
                              option,
                              NULL };
    const fast_result *result;
    fast_run *run = NULL;
    seen s;

    assert_non_null(mkdtemp(folder));
    snprintf(option, sizeof option, "tensorboard=%s/new/deep", folder);
    assert_ok(fast_run_open(options, &run));
    assert_ok(fast_run_train(run));
    result = fast_run_result(run);
    snprintf(option, sizeof option, "%s/new/deep", folder);
    s = read_folder(option);
    assert_true(s.version);
    assert_true(s.events >= 2);
    assert_true(s.losses >= 1);
    assert_int_equal(s.step, 12);
    assert_true(fabs(s.loss - result->loss) < 1e-5);
    assert_true(fabs(s.test_accuracy - result->test_accuracy) < 1e-5);
    assert_true(fabs(s.lr - 0.25) < 1e-6);
    fast_run_close(run);
    snprintf(option, sizeof option, "rm -r %s", folder);
    assert_int_equal(system(option), 0);
}

static void test_run(void **state)
{
    (void)state;
    train("workers=1", "timeout=120");
    train("workers=2", "transport=sim");
}

/* A folder that cannot be made. */
static void test_refused(void **state)
{
    const char *options[] = { "model=mlp:hidden=8", "data=digits:train=256,test=64", "steps=1",
                              "tensorboard=/dev/null/here", NULL };
    fast_run *run = NULL;

    (void)state;
    if (fast_run_open(options, &run) == FAST_OK) {
        assert_int_not_equal(fast_run_train(run), FAST_OK);
        fast_run_close(run);
    }
    assert_true(strlen(fast_error_detail()) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_crc), cmocka_unit_test(test_run),
                                        cmocka_unit_test(test_refused) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain text as characters, for language models: sample i is bytes i * T to i * T + T - 1, and the
 * label of each position is the byte that follows it. The alphabet is the bytes that occur, sorted.
 * The end of the text is the test set, so that no tested text was read in training. Memory: five
 * bytes for each of the file.
 */
#include "base/file.h"
#include "base/memory.h"
#include "data/make.h"

#include <string.h>

static const size_t file_size_max = (size_t)1 << 32;

typedef struct text_config {
    char file[FAST_PATH_MAX]; /* path of the text */
    int64_t length;           /* T, characters of a sample */
    double test_fraction;     /* fraction of the text to test on, at its end */
} text_config;

static const fast_option text_options[] = {
    FAST_OPT_TEXT(text_config, file, "", NULL, "the text"),
    FAST_OPT_INT(text_config, length, "64", 1, 65536, "characters of a sample"),
    FAST_OPT_REAL(text_config, test_fraction, "0.1", 0, 0.9, "fraction of the text to test on"),
    FAST_OPT_END,
};

/* Number the bytes that occur; returns how many there are. */
static int64_t find_alphabet(const uint8_t *text, size_t size, uint8_t number[256],
                             char alphabet[256])
{
    bool occurs[256] = { false };
    for (size_t i = 0; i < size; i++)
        occurs[text[i]] = true;
    int64_t count = 0;
    for (int c = 0; c < 256; c++) {
        if (!occurs[c])
            continue;
        number[c] = (uint8_t)count;
        alphabet[count++] = (char)c;
    }
    return count;
}

/* Make the set of all samples of a text. */
static fast_err make_set(const text_config *c, const uint8_t *text, size_t size, fast_data **out)
{
    const int64_t T = c->length;
    if (size < (size_t)T + 1)
        return fast__fail(FAST_EFORMAT, "%s has %zu characters, a sample of length=%lld needs %lld",
                          c->file, size, (long long)T, (long long)T + 1);
    uint8_t number[256];
    char alphabet[256];
    const int64_t vocabulary = find_alphabet(text, size, number, alphabet);
    const fast_data like = { .count = ((int64_t)size - 1) / T,
                             .rank = 1,
                             .shape = { T },
                             .dtype = FAST_U8,
                             .positions = T,
                             .classes = vocabulary,
                             .tokens = true,
                             .vocabulary = vocabulary };
    fast_data *data;
    FAST_TRY(fast__data_make(&like, &data));
    static char recipe[] = "{\"kind\": \"text\"}";
    const fast_data texts = { .vocabulary = vocabulary, .alphabet = alphabet, .recipe = recipe };
    const fast_err err = fast__data_copy_texts(&texts, data);
    if (err) {
        fast_data_free(data);
        return err;
    }
    uint8_t *x = data->x;
    for (int64_t i = 0; i < data->count * T; i++) {
        x[i] = number[text[i]];
        data->labels[i] = number[text[i + 1]];
    }
    *out = data;
    return FAST_OK;
}

/* Read the file and number its characters; the set takes five bytes for each byte of text. */
static fast_err text_open(const void *config, uint64_t seed, fast_data **train_out,
                          fast_data **test_out)
{
    (void)seed;
    const text_config *c = config;
    if (c->file[0] == 0)
        return fast__fail(FAST_EINVAL, "data text needs a file: text:file=FILE");
    uint8_t *text;
    size_t size;
    FAST_TRY(fast__file_read(c->file, file_size_max, &text, &size));
    fast_data *train;
    fast_data *test = NULL;
    fast_err err = make_set(c, text, size, &train);
    fast__free(text);
    FAST_TRY(err);
    return fast__data_finish_split(FAST_NORMALIZE_NONE, c->test_fraction, false, &train, &test,
                                   train_out, test_out);
}

const fast_data_kind fast__data_text = {
    .name = "text",
    .summary = "plain text as characters: predict the next one",
    .options = text_options,
    .config_size = sizeof(text_config),
    .open = text_open,
};

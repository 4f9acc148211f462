/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New text for a model of characters, from a file or from standard input, batch by batch: sample i
 * is characters i T to i T + T - 1, and the answer of each position is the character that follows,
 * as in text.c. The alphabet is the model's; a character outside of it is FAST_EFORMAT with its
 * line. What is left at the end and shorter than T + 1 characters is no sample.
 *
 * Memory: one batch. A pipe is read as it is written.
 */
#include "base/memory.h"
#include "data/recipe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct text_source {
    fast_source base;
    const fast_recipe *recipe; /* borrowed */
    FILE *file;                /* stdin is not closed */
    const char *name;          /* for messages: "standard input", or `path` */
    char *path;                /* of the file; or NULL */
    int number[256];           /* token of each byte; -1: not in the alphabet */
    int last;                  /* token before the next character; -1: the text begins */
    int64_t line;              /* of the next character, from 1 */
} text_source;

/* Read the next character as a token; -1 at the end of the text. Characters are read one by one:
 * the buffer of stdio makes that cheap beside a forward pass, and a pipe may deliver any number. */
static fast_err next_token(text_source *self, int *out)
{
    const int c = fgetc(self->file);

    if (c == EOF && ferror(self->file))
        return fast__fail(FAST_EIO, "cannot read %s: %s", self->name, strerror(errno));
    *out = c == EOF ? -1 : self->number[c];
    if (c != EOF && *out < 0)
        return fast__fail(FAST_EFORMAT,
                          "line %lld of %s has the byte 0x%02x, which is not among the %lld "
                          "characters that the model knows",
                          (long long)self->line, self->name, c,
                          (long long)self->recipe->like->vocabulary);
    self->line += c == '\n';
    return FAST_OK;
}

/* Read one sample of T characters and their answers; *whole_out is false at the end. The last
 * answer is the first character of the next sample. */
static fast_err read_sample(text_source *self, uint8_t *x, int32_t *labels, int64_t T,
                            bool *whole_out)
{
    *whole_out = false;
    if (self->last < 0)
        FAST_TRY(next_token(self, &self->last));
    for (int64_t t = 0; t < T; t++) {
        int next = -1;

        if (self->last < 0)
            return FAST_OK;
        x[t] = (uint8_t)self->last;
        FAST_TRY(next_token(self, &next));
        if (next < 0) {
            self->last = -1;
            return FAST_OK;
        }
        labels[t] = next;
        self->last = next;
    }
    *whole_out = true;
    return FAST_OK;
}

/* Read whole samples until there are `count` of them or the text ends. */
static fast_err text_next(fast_source *source, int64_t count, fast_data **out)
{
    text_source *self = (text_source *)source;
    fast_data *data;
    int64_t done = 0;
    bool whole = true;
    fast_err err = FAST_OK;

    *out = NULL;
    FAST_TRY(fast__recipe_set(self->recipe, FAST_U8, count, &data));
    while (!err && whole && done < count) {
        err = read_sample(self, (uint8_t *)data->x + done * data->features,
                          data->labels + done * data->positions, data->features, &whole);
        done += !err && whole;
    }
    if (err || done == 0) {
        fast_data_free(data);
        return err;
    }
    data->count = done;
    *out = data;
    return FAST_OK;
}

/* Standard input stays open: it is the caller's. */
static void text_close(fast_source *source)
{
    text_source *self = (text_source *)source;

    if (self->file != NULL && self->file != stdin)
        fclose(self->file);
    fast__free(self->path);
    fast__free(self);
}

/* The inverse of the alphabet: at most 256 bytes, each with its place in it. */
void fast__text_numbers(const fast_recipe *recipe, int number[256])
{
    for (int c = 0; c < 256; c++)
        number[c] = -1;
    for (int64_t i = 0; i < recipe->like->vocabulary; i++)
        number[(unsigned char)recipe->like->alphabet[i]] = (int)i;
}

/* Standard input is read as it arrives; a path may also be a pipe. The recipe is hostile, so an
 * alphabet may be missing. */
fast_err fast__text_source_open(const fast_recipe *recipe, const char *path, bool answers,
                                fast_source **out)
{
    const fast_data *like = recipe->like;
    const bool standard = strcmp(path, "-") == 0;
    text_source *self;

    if (!like->alphabet || like->positions != like->features)
        return fast__fail(FAST_EFORMAT, "the model's description of text has no alphabet");
    FAST_TRY(fast__alloc("a source", 1, sizeof *self, &self));
    self->base = (fast_source){ .answers = answers, .next = text_next, .close = text_close };
    self->recipe = recipe;
    self->last = -1;
    self->line = 1;
    fast__text_numbers(recipe, self->number);
    fast_err err = fast__alloc("a name", (int64_t)strlen(path) + 1, 1, &self->path);
    if (!err) {
        memcpy(self->path, path, strlen(path) + 1);
        self->name = standard ? "standard input" : self->path;
        self->file = standard ? stdin : fopen(path, "rbe");
        if (!self->file)
            err = fast__fail(errno == ENOENT ? FAST_ENOENT : FAST_EIO, "cannot read \"%s\": %s",
                             path, strerror(errno));
    }
    if (err) {
        text_close(&self->base);
        return err;
    }
    *out = &self->base;
    return FAST_OK;
}

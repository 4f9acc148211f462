/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"
#include "data/data.h"

/*
 * A recipe: how the inputs of a model are made from a source, without the source. A training set is
 * described as JSON, which a file of a model holds, and new data are opened by that description:
 * the same columns in the same order, the same alphabet, the same constants of normalisation.
 *
 *     {"version": 1, "shape": [1, 28, 28], "dtype": "U8", "channels": 1, "mean": [0],
 *      "scale": [0.00392], "classes": 10, "class_names": ["T-shirt/top", ...], "positions": 1,
 *      "outputs": 10, "source": {"kind": "array"}}
 *
 * Text adds "vocabulary" and "alphabet" (bytes as numbers). "source" is the part that the reader of
 * the set alone knows (fast_data.recipe); its "kind" chooses a row of the table in recipe.c. A
 * description is hostile input: sizes, lengths and numbers are checked before they are used.
 */
enum { FAST_RECIPE_SIZE_MAX = 20 << 20 }; /* bytes of the JSON text */

typedef struct fast_recipe {
    fast_data *like; /* a set of one sample: sizes, constants, texts; its sample is zeros */
    json_t *source;  /* the member "source": an object with a known kind */
} fast_recipe;

/* Describe a training set. The caller frees the text. FAST_ENOTSUP if it is too long, FAST_ENOMEM.
 */
fast_err fast__recipe_write(const fast_data *data, char **out);

/* Read a description. FAST_EFORMAT names `where` and the member that is wrong. */
fast_err fast__recipe_read(const char *where, const char *text, fast_recipe **out);
void fast__recipe_free(fast_recipe *recipe);

/* Make a set of `count` samples of a recipe, with zeroed arrays and its constants. */
fast_err fast__recipe_set(const fast_recipe *recipe, fast_dtype dtype, int64_t count,
                          fast_data **out);

/* A source of new samples. Implementations embed it as the first member. */
typedef struct fast_source fast_source;
struct fast_source {
    bool answers; /* labels or targets of the sets are those of the source, not zeros */
    /* Read the next `count` samples, fewer only at the end and where a record has no answer; *out
     * is NULL if no sample is left. The caller frees the set, whose values were checked. Errors
     * name the place in the source. */
    fast_err (*next)(fast_source *source, int64_t count, fast_data **out);
    /* Return the name of a sample that was read, by its number from 0: its file. Lent until close.
     * NULL where samples have no names of their own. */
    const char *(*name)(const fast_source *source, int64_t sample);
    void (*close)(fast_source *source); /* frees the source */
};

/* Open new samples: a path, "-" for standard input (tables, text), or the name of a data set with
 * its options, of which the test set is taken where it has one. With `answers` the source must have
 * them; without, they are ignored. The recipe is borrowed until the source is closed. */
fast_err fast__source_open(const fast_recipe *recipe, const char *name, bool answers,
                           fast_source **out);

/* One kind of source: a row of the table in recipe.c. */
typedef struct fast_source_kind {
    const char *name;   /* "kind" of the recipe's source */
    const char *expect; /* inputs that it reads, for messages: "an NPY or IDX file" */
    bool by_name;       /* a data set by name is read too: its samples need no encoder */
    /* Open a path or "-". `recipe->source` has this kind, and is otherwise unchecked. */
    fast_err (*open)(const fast_recipe *recipe, const char *path, bool answers, fast_source **out);
} fast_source_kind;

/* The kinds, one line of the table each. */
fast_err fast__array_source_open(const fast_recipe *recipe, const char *path, bool answers,
                                 fast_source **out);
fast_err fast__picture_source_open(const fast_recipe *recipe, const char *path, bool answers,
                                   fast_source **out);
fast_err fast__table_source_open(const fast_recipe *recipe, const char *path, bool answers,
                                 fast_source **out);
fast_err fast__text_source_open(const fast_recipe *recipe, const char *path, bool answers,
                                fast_source **out);

/* Set the token of each byte by a recipe's alphabet; -1: the model does not know it. */
void fast__text_numbers(const fast_recipe *recipe, int number[256]);

/* A source over sets in memory, which are handed out in parts. Takes *move, also when it fails. */
fast_err fast__set_source_open(const fast_recipe *recipe, bool answers, fast_data **move,
                               fast_source **out);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/table.h"

/*
 * The different texts of a column, in a hash table of fields that point into the file's text. At
 * most FAST_CATEGORIES_MAX texts are stored; a set that gets one more, or a text longer than
 * FAST_WORD_MAX, is full and stores nothing from then on: a column of 10^6 texts takes 6 MB.
 */
enum { FAST_CATEGORIES_MAX = 65536 };

typedef struct fast_category_slot {
    uint64_t hash;        /* of the text */
    fast_csv_field field; /* `at` is NULL in a slot that is free */
} fast_category_slot;

typedef struct fast_category_set {
    fast_category_slot *slots; /* [capacity], NULL at first */
    int64_t capacity;          /* a power of two */
    int64_t count;             /* texts in the set */
    int64_t seen;              /* fields that were put, until it was full */
    bool full;                 /* there are more texts than stored ones */
} fast_category_set;

/* Put a field's text into the set. FAST_ENOMEM. */
fast_err fast__category_put(fast_category_set *set, const fast_csv_field *field);

/* Return whether the set is full, or has more than 20 texts and more than half as many as fields:
 * then a text is the record's own, as a name or a number is, and says nothing of other records. */
bool fast__category_unique(const fast_category_set *set);

/* Make sorted words of the set's texts, with "" before them if `empty`. FAST_ENOMEM. */
fast_err fast__category_words(const fast_category_set *set, bool empty, fast_table_words *out);

void fast__category_fini(fast_category_set *set);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of texts by open addressing, at most half full. Slots point into the file's text, so that a
 * column of few categories costs nothing for each further field; where the hashes of two texts are
 * equal, the texts are compared.
 */
#include "data/category_set.h"

#include "base/hash.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { CAPACITY_FIRST = 4, FEW = 20 };

/* Return the slot of a text, or the free one where it belongs. */
static fast_category_slot *find_slot(const fast_category_set *set, uint64_t hash, const char *word)
{
    const uint64_t mask = (uint64_t)set->capacity - 1;
    for (uint64_t i = hash & mask;; i = (i + 1) & mask) {
        fast_category_slot *slot = &set->slots[i];
        char other[FAST_WORD_MAX + 1];
        if (slot->field.at == NULL)
            return slot;
        if (slot->hash == hash && fast__csv_word(&slot->field, other) && strcmp(other, word) == 0)
            return slot;
    }
}

/* Double the number of slots. Amortised over the texts, each is moved twice; hashes are stored, so
 * that no text is read again. */
static fast_err grow(fast_category_set *set)
{
    const fast_category_set old = *set;
    fast_category_slot *slots;
    const int64_t capacity = old.capacity == 0 ? CAPACITY_FIRST : 2 * old.capacity;
    FAST_TRY(fast__alloc("categories", capacity, sizeof *slots, &slots));
    set->slots = slots;
    set->capacity = capacity;
    for (int64_t i = 0; i < old.capacity; i++) {
        /* The texts differ, so that each goes to the first free slot from its own on. */
        uint64_t at = old.slots[i].hash & (uint64_t)(capacity - 1);
        while (old.slots[i].field.at != NULL && slots[at].field.at != NULL)
            at = (at + 1) & (uint64_t)(capacity - 1);
        if (old.slots[i].field.at != NULL)
            slots[at] = old.slots[i];
    }
    fast__free(old.slots);
    return FAST_OK;
}

/* Grow before the search, so that a free slot always exists. */
fast_err fast__category_put(fast_category_set *set, const fast_csv_field *field)
{
    char word[FAST_WORD_MAX + 1];
    if (set->full)
        return FAST_OK;
    set->seen++;
    if (!fast__csv_word(field, word)) {
        set->full = true;
        return FAST_OK;
    }
    if (2 * (set->count + 1) > set->capacity)
        FAST_TRY(grow(set));
    const uint64_t hash = fast__hash(word, strlen(word), 0);
    fast_category_slot *slot = find_slot(set, hash, word);
    if (slot->field.at != NULL)
        return FAST_OK;
    if (set->count == FAST_CATEGORIES_MAX) {
        set->full = true;
        return FAST_OK;
    }
    *slot = (fast_category_slot){ hash, *field };
    set->count++;
    return FAST_OK;
}

/* A full set was filled by different texts, most of them seen once. */
bool fast__category_unique(const fast_category_set *set)
{
    return set->full || (set->count > FEW && 2 * set->count > set->seen);
}

/* Order of texts, for qsort(). */
static int compare_texts(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Measure, copy, sort: the copies outlive the text of the file. */
fast_err fast__category_words(const fast_category_set *set, bool empty, fast_table_words *out)
{
    fast_table_words words = { .count = set->count + empty };
    size_t size = empty;
    for (int64_t i = 0; i < set->capacity; i++)
        size += set->slots[i].field.at != NULL ? (size_t)set->slots[i].field.size + 1 : 0;
    FAST_TRY(fast__alloc("categories", (int64_t)size, 1, &words.text));
    const fast_err err = fast__alloc("categories", words.count, sizeof *words.at, &words.at);
    if (err) {
        fast__free(words.text);
        return err;
    }
    char *at = words.text;
    int64_t count = 0;
    if (empty)
        words.at[count++] = at++; /* the block is zeroed */
    for (int64_t i = 0; i < set->capacity; i++) {
        char word[FAST_WORD_MAX + 1];
        if (set->slots[i].field.at == NULL || !fast__csv_word(&set->slots[i].field, word))
            continue;
        memcpy(at, word, strlen(word) + 1);
        words.at[count++] = at;
        at += strlen(word) + 1;
    }
    FAST_ASSERT(count == words.count);
    qsort(words.at, (size_t)count, sizeof *words.at, compare_texts);
    *out = words;
    return FAST_OK;
}

/* Free the slots; the texts belong to the file. */
void fast__category_fini(fast_category_set *set)
{
    fast__free(set->slots);
    *set = (fast_category_set){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names: search in a list, and the most similar name for a misspelt one.
 *
 * Similarity is the optimal string alignment distance (Damerau 1964): insertions, deletions,
 * replacements and swaps of neighbours,
 *
 *     d[i][j] = min(d[i-1][j] + 1, d[i][j-1] + 1, d[i-1][j-1] + (a[i] != b[j]),
 *                   d[i-2][j-2] + 1 where a[i-1] a[i] = b[j] b[j-1])
 *
 * with three rows of memory and a bound on the lengths. A name is suggested if at most a third of
 * the typed letters are wrong, or if the typed text is a prefix of it. Where neither is close, a
 * name that the typed one begins with as a word is suggested: batch for batch_size.
 */
#include "base/option.h"

#include <stdio.h>
#include <string.h>

enum { NAME_MAX_SIZE = 64 };

/* The smaller of two numbers. */
static int min_of(int a, int b)
{
    return a < b ? a : b;
}

/* Normalise a letter: case is ignored, and a hyphen in a flag is an underscore in a name. */
static char letter(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '-' ? '_' : c;
}

/* Return the distance of two names of fewer than NAME_MAX_SIZE bytes. */
static int distance(const char *a, const char *b)
{
    int rows[3][NAME_MAX_SIZE];
    int *before = rows[0], *above = rows[1], *row = rows[2];
    const int width = (int)strlen(b), height = (int)strlen(a);
    FAST_ASSERT(width < NAME_MAX_SIZE);
    FAST_ASSERT(height < NAME_MAX_SIZE);

    for (int j = 0; j <= width; j++)
        above[j] = before[j] = j;
    for (int i = 1; i <= height; i++) {
        const char c = letter(a[i - 1]);
        row[0] = i;
        for (int j = 1; j <= width; j++) {
            const char d = letter(b[j - 1]);
            int best = min_of(above[j], row[j - 1]) + 1;
            best = min_of(best, above[j - 1] + (c != d));
            if (i > 1 && j > 1 && c == letter(b[j - 2]) && letter(a[i - 2]) == d)
                best = min_of(best, before[j - 2] + 1);
            row[j] = best;
        }
        int *const free_row = before;
        before = above;
        above = row;
        row = free_row;
    }
    return above[width];
}

/* True if a name is another one, an underscore or hyphen, and more. */
static bool is_first_word(const char *name, const char *word)
{
    const size_t length = strlen(word);

    return length >= 3 && strncmp(name, word, length) == 0 && letter(name[length]) == '_';
}

const char *fast_text_nearest(const char *name, const char *(*name_at)(const void *ctx, int64_t i),
                              const void *ctx, int64_t count)
{
    const size_t length = strlen(name);

    FAST_ASSERT(count >= 0);
    if (length == 0 || length >= NAME_MAX_SIZE)
        return NULL;
    const char *found = NULL, *longer = NULL, *word = NULL;
    int found_distance = ((int)length + 2) / 3 + 1;
    for (int64_t i = 0; i < count; i++) {
        const char *candidate = name_at(ctx, i);
        if (strlen(candidate) >= NAME_MAX_SIZE)
            continue;
        const int d = distance(name, candidate);
        if (d < found_distance) {
            found = candidate;
            found_distance = d;
        }
        if (!longer && length >= 2 && strncmp(name, candidate, length) == 0)
            longer = candidate;
        if (is_first_word(name, candidate))
            word = candidate;
    }
    if (word && found_distance > 1)
        return word;
    /* Two wrong letters of four are a guess; a longer name with this prefix is better. */
    return longer && found_distance > 1 ? longer : found;
}

int64_t fast__name_find(const char *name, const char *(*name_at)(const void *ctx, int64_t i),
                        const void *ctx, int64_t count, const char **nearest_out)
{
    FAST_ASSERT(name != NULL);
    FAST_ASSERT(count >= 0);
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(name, name_at(ctx, i)) == 0)
            return i;
    }
    if (nearest_out)
        *nearest_out = fast_text_nearest(name, name_at, ctx, count);
    return -1;
}

fast_err fast__name_unknown(const char *kind, const char *name,
                            const char *(*name_at)(const void *ctx, int64_t i), const void *ctx,
                            int64_t count)
{
    char list[FAST_DETAIL_MAX] = "";
    size_t used = 0;
    for (int64_t i = 0; i < count; i++) {
        const int length =
            snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", name_at(ctx, i));
        FAST_ASSERT(length >= 0);
        used += (size_t)length;
        if (used >= sizeof list)
            break; /* the detail is cut there anyway */
    }
    const char *close_one = NULL;
    fast__name_find(name, name_at, ctx, count, &close_one);
    if (close_one)
        return fast__fail(FAST_EINVAL, "no %s \"%.64s\"; did you mean \"%s\"? (%s)", kind, name,
                          close_one, list);
    return fast__fail(FAST_EINVAL, "no %s \"%.64s\"; there are: %s", kind, name, list);
}

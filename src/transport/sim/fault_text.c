/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fault schedules as canonical text: the text parses to an equal schedule, and two schedules are
 * equal if their texts are. Used for errors, for the command that repeats a failure, and by the
 * shrinker.
 */
#include "base/memory.h"
#include "base/option.h"
#include "transport/sim/fault.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A text in a buffer that may be too small, or NULL. */
typedef struct fault_writer {
    char *text;     /* the buffer, or NULL */
    size_t size;    /* bytes of the buffer */
    int64_t length; /* length of the whole text */
} fault_writer;

/* Append formatted text; counts its length even if it does not fit. */
__attribute__((format(printf, 2, 3))) static void put(fault_writer *w, const char *format, ...)
{
    va_list args;
    const size_t used = (size_t)w->length < w->size ? (size_t)w->length : w->size;
    va_start(args, format);
    const int length = vsnprintf(w->text ? w->text + used : NULL, w->size - used, format, args);
    va_end(args);
    FAST_ASSERT(length >= 0);
    w->length += length;
}

/* Append a clause with a time. */
static void put_time(fault_writer *w, const char *clause, int64_t time)
{
    char text[FAST_TIME_TEXT];
    fast__time_text(time, text);
    put(w, " %s %s", clause, text);
}

/* Append a clause with a number, in the fewest digits that parse to it. */
static void put_real(fault_writer *w, const char *clause, double value)
{
    char text[32];
    fast__real_text(value, text, sizeof text);
    put(w, " %s %s", clause, text);
}

/* Append the sides of a partition, whose rows are in the order of their sides. */
static void put_sides(fault_writer *w, const fast_faults *faults, const fast_fault *fault)
{
    const fast_fault_side *sides = faults->sides + fault->side_first;
    for (int64_t i = 0; i < fault->side_count; i++) {
        const char *before = "";
        if (i > 0 && sides[i].side == sides[i - 1].side)
            before = ",";
        else if (i > 0)
            before = fault->one_way ? ">" : "|";
        put(w, "%s%" PRId64, before, sides[i].node);
    }
}

/* Append a fault in the order in which fault.c documents its clauses. */
static void put_fault(fault_writer *w, const fast_faults *faults, const fast_fault *fault)
{
    put(w, "%s ", fast__fault_kind_name(fault->kind));
    if (fault->kind == FAST_FAULT_PARTITION)
        put_sides(w, faults, fault);
    else
        put(w, "%" PRId64, fault->node);
    if (fault->other >= 0)
        put(w, "%s%" PRId64, fault->one_way ? ">" : "-", fault->other);
    put_time(w, "at", fault->at);
    if (fault->length > 0)
        put_time(w, "for", fault->length);
    if (fault->kind == FAST_FAULT_SLOW)
        put_real(w, "by", fault->by);
    if (fault->kind == FAST_FAULT_LOSSY)
        put_real(w, "loss", fault->by);
    if (fault->kind == FAST_FAULT_JUMP)
        put_time(w, "by", fault->jump);
    if (fault->kind == FAST_FAULT_LIE)
        put(w, " how %s", fast__lie_name(fault->how));
}

int64_t fast__fault_text(const fast_faults *faults, const fast_fault *fault, char *text,
                         size_t size)
{
    fault_writer w = { .text = text, .size = size };
    put_fault(&w, faults, fault);
    return w.length;
}

fast_err fast__faults_text(const fast_faults *faults, char **out)
{
    fault_writer w = { 0 };
    char *text = NULL;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < faults->count; i++) {
            put(&w, "%s", i > 0 ? "; " : "");
            put_fault(&w, faults, &faults->list[i]);
        }
        if (pass == 1)
            break;
        FAST_TRY(fast__alloc("a fault schedule's text", w.length + 1, 1, &text));
        w = (fault_writer){ .text = text, .size = (size_t)w.length + 1 };
    }
    *out = text;
    return FAST_OK;
}

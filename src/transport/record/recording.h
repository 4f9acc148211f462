/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "base/thread.h"

/*
 * A recording: what was not determined in a run of actors, as a file. Each actor has a tape, a
 * sequence of events in the order in which its program met them; the file holds pieces of tapes in
 * the order in which they were full.
 *
 *     header  "FASTREC1" | actors u32 | bytes of text u32 | text | hash u64 of all before
 *     piece   actor u32 | bytes u32 | events | hash u64, chained with that of the piece before
 *     end     ffffffff u32 | 0 u32 | hash u64, chained
 *
 * Numbers are little-endian. The text is lines of name=value: what the run was given. An event is a
 * byte with its kind (3 bits), 4 bits of its value and whether more follow, then 7 bits a byte.
 */
enum {
    FAST_TRACE_PIECE = 1 << 16,       /* bytes of a piece at most */
    FAST_TRACE_EVENT_MAX = 11,        /* bytes of an event at most */
    FAST_TRACE_LOCKS = 16,            /* orders of turns that are kept apart */
    FAST_RECORDING_TEXT_MAX = 1 << 18 /* bytes of the text */
};
#define FAST_RECORDING_MAX ((size_t)1 << 30) /* bytes of a file */

typedef enum fast_trace_kind {
    FAST_TRACE_NOW,     /* the clock: what it moved since it was last read, signed */
    FAST_TRACE_DELIVER, /* the sender of a message that was taken */
    FAST_TRACE_WAIT,    /* a wait came back: 1 if it was brief */
    FAST_TRACE_LOCK,    /* lock + LOCKS * (turns of that lock since the actor's last one) */
    FAST_TRACE_VALUE,   /* something else that was looked at, signed */
    FAST_TRACE_KINDS
} fast_trace_kind;

typedef struct fast_trace_event {
    fast_trace_kind kind;
    uint64_t value; /* as it is stored */
} fast_trace_event;

/* Signed numbers are stored with their sign last. */
static inline uint64_t fast__trace_fold(int64_t value)
{
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}
static inline int64_t fast__trace_unfold(uint64_t value)
{
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* Write an event; returns its bytes. */
size_t fast__trace_put(unsigned char *to, fast_trace_kind kind, uint64_t value);

/* A recording in memory, checked: every event is whole and every turn is taken once. */
typedef struct fast_recording {
    unsigned char *bytes;             /* the file; owned */
    const char *text;                 /* what it belongs to, not ended by a zero byte */
    size_t text_size;                 /* of it */
    int64_t actors;                   /* of the run */
    int64_t pieces;                   /* of all tapes */
    struct fast_trace_piece *piece;   /* them */
    int64_t *first;                   /* [actors]: the first piece of each; -1: none */
    int64_t turns[FAST_TRACE_LOCKS];  /* of each lock */
    int32_t *whose[FAST_TRACE_LOCKS]; /* [turns]: the actor */
} fast_recording;

/* Where a tape is read. */
typedef struct fast_trace_reader {
    const unsigned char *at;  /* the next byte */
    const unsigned char *end; /* of the piece */
    int64_t piece;            /* the next piece; -1: none */
} fast_trace_reader;

/* Check a file's bytes, which are taken in every case. FAST_EFORMAT says what is wrong with it;
 * `path` is for the message. FAST_ENOMEM. */
fast_err fast__recording_parse(const char *path, unsigned char *bytes, size_t size,
                               fast_recording *out);
void fast__recording_fini(fast_recording *recording);

void fast__trace_rewind(const fast_recording *recording, int64_t actor, fast_trace_reader *out);
/* The next event; false at the end, or where the bytes make none. */
bool fast__trace_read(const fast_recording *recording, fast_trace_reader *reader,
                      fast_trace_event *out);
/* True if nothing is left. */
bool fast__trace_is_at_end(const fast_recording *recording, fast_trace_reader *reader);

/* A recording that is being written: to a file beside the one that it becomes at its end. What
 * fails is kept, and the run goes on without it. */
typedef struct fast_recording_writer {
    fast_mutex mutex;          /* guards all */
    void *stream;              /* FILE; NULL: closed, or given up */
    char path[4096];           /* that it becomes */
    char temporary[4096 + 8];  /* that it is until then */
    char why[FAST_DETAIL_MAX]; /* it was given up; "" */
    size_t size;               /* bytes so far */
    size_t size_max;           /* it may become */
    uint64_t hash;             /* of the last piece */
} fast_recording_writer;

/* A failure leaves nothing to free, and no path. */
fast_err fast__recording_create(fast_recording_writer *file, const char *path, int64_t actors,
                                const char *text);
/* Append a piece. [any thread] */
void fast__recording_append(fast_recording_writer *file, int64_t actor, const unsigned char *events,
                            size_t size);
/* End it: the file takes its place. */
void fast__recording_finish(fast_recording_writer *file);
/* Throw away what was not ended. */
void fast__recording_discard(fast_recording_writer *file);

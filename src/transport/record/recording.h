/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "base/thread.h"

/*
 * A recording: all nondeterministic inputs of a run of actors, as a file. Each actor has a trace, a
 * sequence of events in the order in which its program met them; the file holds pieces of traces
 * in the order in which they were full.
 *
 *     header  "FASTREC1" | actors u32 | bytes of text u32 | text | hash u64 of all before
 *     piece   actor u32 | bytes u32 | events | hash u64, chained with that of the piece before
 *     end     ffffffff u32 | 0 u32 | hash u64, chained
 *
 * Numbers are little-endian. The text is lines of name=value: the options of the run. An event is a
 * byte with its kind (3 bits), 4 bits of its value and a continuation bit, then 7 bits a byte.
 */
enum {
    FAST_TRACE_PIECE = 1 << 16,       /* bytes of a piece at most */
    FAST_TRACE_EVENT_MAX = 11,        /* bytes of an event at most */
    FAST_TRACE_LOCKS = 16,            /* locks of critical sections: each has its own order */
    FAST_RECORDING_TEXT_MAX = 1 << 18 /* bytes of the text */
};
#define FAST_RECORDING_MAX ((size_t)1 << 30) /* bytes of a file */

typedef enum fast_trace_kind {
    FAST_TRACE_NOW,     /* the clock: nanoseconds since it was last read, signed */
    FAST_TRACE_DELIVER, /* a message was delivered: its sender */
    FAST_TRACE_WAIT,    /* a wait returned: 1 if it was brief */
    FAST_TRACE_LOCK,    /* a critical section: lock + LOCKS * (sections of that lock since this
                           actor's last one) */
    FAST_TRACE_VALUE,   /* another value from outside, signed */
    FAST_TRACE_KINDS
} fast_trace_kind;

typedef struct fast_trace_event {
    fast_trace_kind kind; /* of the event */
    uint64_t value;       /* as it is stored */
} fast_trace_event;

/* Map signed numbers to unsigned ones with the sign in the lowest bit, and back. */
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

/* A verified recording in memory: every event is complete, and the critical sections of each lock
 * are numbered without gaps. */
typedef struct fast_recording {
    unsigned char *bytes;                /* the file; owned */
    const char *text;                    /* its options, not ended by a zero byte */
    size_t text_size;                    /* bytes of text */
    int64_t actors;                      /* actors of the run */
    int64_t pieces;                      /* pieces of all traces */
    struct fast_trace_piece *piece;      /* [pieces] */
    int64_t *first;                      /* [actors]: first piece of each trace; -1: it is empty */
    int64_t sections[FAST_TRACE_LOCKS];  /* number of critical sections of each lock */
    int32_t *owner_of[FAST_TRACE_LOCKS]; /* [sections]: the actor of each section */
} fast_recording;

/* A position in a trace. */
typedef struct fast_trace_reader {
    const unsigned char *at;  /* the next byte */
    const unsigned char *end; /* end of the piece */
    int64_t piece;            /* the next piece; -1: this is the last */
} fast_trace_reader;

/* Verify the bytes of a file; takes them in every case. FAST_EFORMAT says what is wrong; `path` is
 * for the message. FAST_ENOMEM. */
fast_err fast__recording_parse(const char *path, unsigned char *bytes, size_t size,
                               fast_recording *out);
void fast__recording_fini(fast_recording *recording);

/* Start reading at the first event of an actor's trace. */
void fast__trace_rewind(const fast_recording *recording, int64_t actor, fast_trace_reader *out);
/* Read the next event; false at the end, or if the bytes are no event. */
bool fast__trace_read(const fast_recording *recording, fast_trace_reader *reader,
                      fast_trace_event *out);
/* Return whether all events were read. */
bool fast__trace_is_at_end(const fast_recording *recording, fast_trace_reader *reader);

/* A recording that is being written, to a temporary file that is renamed at the end. After a
 * failure the run continues without it. */
typedef struct fast_recording_writer {
    fast_mutex mutex;          /* guards all fields */
    void *stream;              /* FILE; NULL: closed or abandoned */
    char path[4096];           /* final path */
    char temporary[4096 + 8];  /* path until the end */
    char why[FAST_DETAIL_MAX]; /* why it was abandoned; "": it was not */
    size_t size;               /* bytes so far */
    size_t size_max;           /* bytes at most */
    uint64_t hash;             /* of the last piece */
} fast_recording_writer;

/* Create the temporary file and write the header. A failure leaves nothing to free, and no path. */
fast_err fast__recording_create(fast_recording_writer *file, const char *path, int64_t actors,
                                const char *text);
/* Append a piece. [any thread] */
void fast__recording_append(fast_recording_writer *file, int64_t actor, const unsigned char *events,
                            size_t size);
/* Write the end mark and rename the file. */
void fast__recording_finish(fast_recording_writer *file);
/* Free the writer; delete a file that was not finished. */
void fast__recording_discard(fast_recording_writer *file);

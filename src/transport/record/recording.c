/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a recording: recording.h has its format. It is written piece by piece during the run,
 * to a temporary file that is renamed at the end: so a file of that name is always complete, and a
 * run that crashed or filled the disk leaves the earlier file.
 *
 * A file is not trusted: first its sums are verified, then every event of every trace is decoded
 * once, and the critical sections of each lock must be 0, 1, 2, ... over all traces. A file that
 * passes can still differ from the run, and then the replay stops with the mismatch; but none of
 * its numbers leads to a wrong access. Cost: 4 bytes of memory a section, and the file itself.
 */
#include "transport/record/recording.h"

#include "base/hash.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    MAGIC = 8,           /* bytes of the magic word */
    HEAD = MAGIC + 8,    /* bytes before the text */
    PIECE_HEAD = 8,      /* bytes before a piece's events */
    SUM = 8,             /* bytes of a hash */
    ACTORS_MAX = 1 << 20 /* actors of a world */
};
static const char magic[MAGIC + 1] = "FASTREC1";
static const unsigned char no_events[1]; /* the end has no events */
static const uint32_t END = UINT32_MAX;
static const int64_t CLOCK_MAX = INT64_MAX / 4; /* 73 years: sums with a timeout do not overflow */

/* A piece of a trace. */
typedef struct fast_trace_piece {
    const unsigned char *events; /* in the file's bytes */
    size_t size;                 /* bytes of events */
    int64_t next;                /* next piece of this trace; -1: none */
} fast_trace_piece;

/* Numbers of the file are little-endian on every machine. */
static void put_u32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

static void put_u64(unsigned char *to, uint64_t value)
{
    put_u32(to, (uint32_t)value);
    put_u32(to + 4, (uint32_t)(value >> 32));
}

static uint32_t get_u32(const unsigned char *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static uint64_t get_u64(const unsigned char *from)
{
    return get_u32(from) | (uint64_t)get_u32(from + 4) << 32;
}

/* Return the hash of a header and its payload, chained with the hash before. */
static uint64_t sum_of(const unsigned char *head, size_t head_size, const void *bytes, size_t size,
                       uint64_t before)
{
    return fast__hash(bytes, size, fast__hash(head, head_size, before));
}

size_t fast__trace_put(unsigned char *to, fast_trace_kind kind, uint64_t value)
{
    size_t size = 1;
    to[0] = (unsigned char)(kind | (value & 15) << 3);
    for (value >>= 4; value > 0; value >>= 7) {
        to[size - 1] |= 128;
        to[size++] = (unsigned char)(value & 127);
    }
    return size;
}

void fast__trace_rewind(const fast_recording *recording, int64_t actor, fast_trace_reader *out)
{
    FAST_ASSERT(actor >= 0 && actor < recording->actors);
    *out = (fast_trace_reader){ .piece = recording->first[actor] };
}

bool fast__trace_is_at_end(const fast_recording *recording, fast_trace_reader *reader)
{
    while (reader->at == reader->end && reader->piece >= 0) {
        const fast_trace_piece *piece = &recording->piece[reader->piece];
        reader->at = piece->events;
        reader->end = piece->events + piece->size;
        reader->piece = piece->next;
    }
    return reader->at == reader->end;
}

bool fast__trace_read(const fast_recording *recording, fast_trace_reader *reader,
                      fast_trace_event *out)
{
    if (fast__trace_is_at_end(recording, reader))
        return false;
    unsigned char byte = *reader->at++;
    uint64_t value = byte >> 3 & 15;
    const unsigned kind = byte & 7;
    for (int shift = 4; byte & 128; shift += 7) {
        /* An event is never cut by the end of a piece. */
        if (reader->at == reader->end || shift > 60)
            return false;
        byte = *reader->at++;
        const uint64_t bits = byte & 127;
        if (bits << shift >> shift != bits)
            return false;
        value |= bits << shift;
    }
    if (kind >= FAST_TRACE_KINDS)
        return false;
    *out = (fast_trace_event){ (fast_trace_kind)kind, value };
    return true;
}

/* The state of one pass over a trace. */
typedef struct trace_check {
    int64_t clock;                      /* last time that was read */
    int64_t sections[FAST_TRACE_LOCKS]; /* next section that may be its own */
} trace_check;

/* Return whether an event is possible here. The first pass counts critical sections, the second one
 * sets their actors. */
static bool check_event(fast_recording *r, int64_t actor, trace_check *state,
                        fast_trace_event event, bool second)
{
    switch (event.kind) {
    case FAST_TRACE_NOW: {
        const int64_t moved = fast__trace_unfold(event.value);
        if (moved > CLOCK_MAX || moved < -CLOCK_MAX)
            return false;
        state->clock += moved;
        return state->clock >= 0 && state->clock <= CLOCK_MAX;
    }
    case FAST_TRACE_DELIVER:
        return event.value < (uint64_t)r->actors;
    case FAST_TRACE_WAIT:
        return event.value <= 1;
    case FAST_TRACE_LOCK: {
        const uint64_t lock = event.value % FAST_TRACE_LOCKS;
        const uint64_t skipped = event.value / FAST_TRACE_LOCKS;
        if (!second) {
            r->sections[lock]++;
            return true;
        }
        if (skipped >= (uint64_t)(r->sections[lock] - state->sections[lock]))
            return false;
        int32_t *owner = &r->owner_of[lock][state->sections[lock] + (int64_t)skipped];
        if (*owner >= 0)
            return false;
        *owner = (int32_t)actor;
        state->sections[lock] += (int64_t)skipped + 1;
        return true;
    }
    case FAST_TRACE_VALUE:
        return true;
    case FAST_TRACE_KINDS:
        break;
    }
    return false;
}

/* Decode all traces. Each section is taken once and there are as many as numbers: no gap is left.
 * */
static bool check_traces(fast_recording *r, bool second)
{
    for (int64_t actor = 0; actor < r->actors; actor++) {
        trace_check state = { 0 };
        fast_trace_reader reader;
        fast_trace_event event;
        fast__trace_rewind(r, actor, &reader);
        while (!fast__trace_is_at_end(r, &reader))
            if (!fast__trace_read(r, &reader, &event) ||
                !check_event(r, actor, &state, event, second))
                return false;
    }
    return true;
}

/* Fail with FAST_EFORMAT. */
static fast_err damaged(const char *path, const char *what)
{
    return fast__fail(FAST_EFORMAT, "\"%.200s\" %s; record the run again", path, what);
}

/* Verify the header; reads the text and the number of actors. */
static fast_err parse_head(const char *path, size_t size, fast_recording *r, size_t *at_out)
{
    const unsigned char *b = r->bytes;
    if (size < HEAD + SUM || memcmp(b, magic, MAGIC) != 0)
        return fast__fail(FAST_EFORMAT, "\"%.200s\" is not a recording of this version of FAST",
                          path);
    r->actors = get_u32(b + MAGIC);
    r->text_size = get_u32(b + MAGIC + 4);
    r->text = (const char *)b + HEAD;
    if (r->actors < 1 || r->actors > ACTORS_MAX || r->text_size > FAST_RECORDING_TEXT_MAX ||
        r->text_size > size - HEAD - SUM)
        return damaged(path, "has a damaged header");
    *at_out = HEAD + r->text_size;
    if (get_u64(b + *at_out) != sum_of(b, HEAD, r->text, r->text_size, 0))
        return damaged(path, "has a damaged header");
    return FAST_OK;
}

/* Verify the sums of all pieces; with `last`, also fill the table of pieces. */
static fast_err parse_pieces(const char *path, size_t size, size_t at, fast_recording *r,
                             int64_t *last)
{
    const unsigned char *b = r->bytes;
    uint64_t hash = get_u64(b + at);
    r->pieces = 0;
    for (at += SUM;;) {
        if (size - at < PIECE_HEAD + SUM)
            return damaged(path, "ends too early");
        const uint32_t actor = get_u32(b + at), count = get_u32(b + at + 4);
        if (count > FAST_TRACE_PIECE || count > size - at - PIECE_HEAD - SUM ||
            (actor == END ? count > 0 : actor >= r->actors))
            return damaged(path, "is damaged or ends too early");
        hash = sum_of(b + at, PIECE_HEAD, b + at + PIECE_HEAD, count, hash);
        if (get_u64(b + at + PIECE_HEAD + count) != hash)
            return damaged(path, "is damaged");
        if (actor != END && last) {
            r->piece[r->pieces] = (fast_trace_piece){ b + at + PIECE_HEAD, count, -1 };
            *(last[actor] < 0 ? &r->first[actor] : &r->piece[last[actor]].next) = r->pieces;
            last[actor] = r->pieces;
        }
        at += PIECE_HEAD + count + SUM;
        if (actor == END)
            return at == size ? FAST_OK : damaged(path, "has bytes after its end");
        r->pieces++;
    }
}

/* Verify a whole file. */
static fast_err parse(const char *path, size_t size, fast_recording *r)
{
    size_t at = 0;
    int64_t *last = NULL;
    FAST_TRY(parse_head(path, size, r, &at));
    FAST_TRY(parse_pieces(path, size, at, r, NULL));
    FAST_TRY(fast__alloc("a recording", r->pieces, sizeof *r->piece, &r->piece));
    FAST_TRY(fast__alloc("a recording", r->actors, sizeof *r->first, &r->first));
    FAST_TRY(fast__alloc("a recording", r->actors, sizeof *last, &last));
    for (int64_t i = 0; i < r->actors; i++)
        r->first[i] = last[i] = -1;
    fast_err err = parse_pieces(path, size, at, r, last);
    fast__free(last);
    FAST_TRY(err);
    bool sound = check_traces(r, false);
    for (int i = 0; i < FAST_TRACE_LOCKS && sound; i++) {
        FAST_TRY(fast__alloc("critical sections", r->sections[i], sizeof *r->owner_of[i],
                             &r->owner_of[i]));
        memset(r->owner_of[i], 0xff, (size_t)r->sections[i] * sizeof *r->owner_of[i]);
    }
    sound = sound && check_traces(r, true);
    return sound ? FAST_OK : damaged(path, "has a trace that makes no sense");
}

fast_err fast__recording_parse(const char *path, unsigned char *bytes, size_t size,
                               fast_recording *out)
{
    FAST_ASSERT(path != NULL && bytes != NULL && out != NULL);
    fast_recording recording = { .bytes = bytes };
    const fast_err err = parse(path, size, &recording);
    if (err) {
        fast__recording_fini(&recording);
        return err;
    }
    *out = recording;
    return FAST_OK;
}

void fast__recording_fini(fast_recording *recording)
{
    for (int i = 0; i < FAST_TRACE_LOCKS; i++)
        fast__free(recording->owner_of[i]);
    fast__free(recording->piece);
    fast__free(recording->first);
    fast__free(recording->bytes);
    *recording = (fast_recording){ 0 };
}

/* Abandon the recording: store why, and delete the file. The mutex is held. */
static void give_up(fast_recording_writer *file, const char *why)
{
    snprintf(file->why, sizeof file->why,
             "recording %.200s was given up, and the run continued without it: %s", file->path,
             why);
    fclose(file->stream);
    file->stream = NULL;
    unlink(file->temporary);
}

/* Append bytes, or abandon the recording. The mutex is held. */
static void put(fast_recording_writer *file, const unsigned char *bytes, size_t size)
{
    if (!file->stream)
        return;
    if (size > file->size_max - file->size) {
        char why[96];
        snprintf(why, sizeof why, "it would be larger than %zu bytes", file->size_max);
        give_up(file, why);
        return;
    }
    if (fwrite(bytes, 1, size, file->stream) != size) {
        give_up(file, strerror(errno));
        return;
    }
    file->size += size;
}

/* Append a header, its payload and the chained hash of both. The mutex is held. */
static void put_summed(fast_recording_writer *file, const unsigned char *head, size_t head_size,
                       const void *bytes, size_t size)
{
    unsigned char sum[SUM];
    file->hash = sum_of(head, head_size, bytes, size, file->hash);
    put_u64(sum, file->hash);
    put(file, head, head_size);
    put(file, bytes, size);
    put(file, sum, SUM);
}

fast_err fast__recording_create(fast_recording_writer *file, const char *path, int64_t actors,
                                const char *text)
{
    FAST_ASSERT(path != NULL && actors > 0 && text != NULL);
    unsigned char head[HEAD];
    const size_t size = strlen(text);
    FAST_ASSERT(size <= FAST_RECORDING_TEXT_MAX);
    memset(file, 0, sizeof *file);
    snprintf(file->path, sizeof file->path, "%s", path);
    snprintf(file->temporary, sizeof file->temporary, "%s.part", file->path);
    const int fd = open(file->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        const fast_err err =
            fast__fail(FAST_EIO, "cannot write %.200s: %s", file->temporary, strerror(errno));
        file->path[0] = '\0';
        return err;
    }
    file->stream = fdopen(fd, "wb");
    if (!file->stream) {
        close(fd);
        unlink(file->temporary);
        file->path[0] = '\0';
        return fast__fail(FAST_ENOMEM, "no memory to write %.200s", file->temporary);
    }
    fast__mutex_init(&file->mutex);
    file->size_max = FAST_RECORDING_MAX;
    memcpy(head, magic, MAGIC);
    put_u32(head + MAGIC, (uint32_t)actors);
    put_u32(head + MAGIC + 4, (uint32_t)size);
    put_summed(file, head, HEAD, text, size);
    return FAST_OK;
}

/* Append a piece of an actor, or the end mark. The mutex is held. */
static void put_piece(fast_recording_writer *file, uint32_t actor, const unsigned char *events,
                      size_t size)
{
    unsigned char head[PIECE_HEAD];
    FAST_ASSERT(size <= FAST_TRACE_PIECE);
    put_u32(head, actor);
    put_u32(head + 4, (uint32_t)size);
    put_summed(file, head, PIECE_HEAD, events, size);
}

void fast__recording_append(fast_recording_writer *file, int64_t actor, const unsigned char *events,
                            size_t size)
{
    FAST_ASSERT(actor >= 0 && actor < ACTORS_MAX && size <= FAST_TRACE_PIECE);
    fast__mutex_lock(&file->mutex);
    put_piece(file, (uint32_t)actor, events, size);
    fast__mutex_unlock(&file->mutex);
}

void fast__recording_finish(fast_recording_writer *file)
{
    fast__mutex_lock(&file->mutex);
    put_piece(file, END, no_events, 0);
    if (file->stream && (fflush(file->stream) != 0 || fsync(fileno(file->stream)) != 0 ||
                         rename(file->temporary, file->path) != 0))
        give_up(file, strerror(errno));
    if (file->stream)
        fclose(file->stream);
    file->stream = NULL;
    fast__mutex_unlock(&file->mutex);
}

void fast__recording_discard(fast_recording_writer *file)
{
    if (file->stream) {
        fclose(file->stream);
        file->stream = NULL;
        unlink(file->temporary);
    }
    fast__mutex_fini(&file->mutex);
}

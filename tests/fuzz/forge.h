/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For the fuzz targets of messages: an input becomes messages that an actor sends to others of its
 * run. A forged message is
 *
 *     1 byte to | 1 tag | 1 pause | 6 words | 1 declared | 1 number of parts | their sizes | their
 *     bytes
 *
 * of one byte each: `to` and `tag` are indices that the target resolves; a word is the byte as a
 * signed number, of which the largest and the smallest stand for those of 64 bits; an odd pause is
 * a millisecond before the message; `declared` counts floats, as does the size of a part below 128.
 */
#include "base/err.h"
#include "fast/comm.h"

#include <string.h>

/* The input, as far as it has not been read. */
typedef struct forge {
    const uint8_t *at; /* the next byte */
    size_t left;       /* bytes from there */
} forge;

static inline uint8_t forge_byte(forge *f)
{
    if (f->left == 0)
        return 0;
    f->left--;
    return *f->at++;
}

static inline int64_t forge_word(forge *f)
{
    const int8_t byte = (int8_t)forge_byte(f);

    return byte == INT8_MAX ? INT64_MAX : byte == INT8_MIN ? INT64_MIN : byte;
}

/* Add a part of the size and with the bytes that come next, zeros where the input ends. */
static inline fast_err forge_part(forge *f, fast_actor *actor, uint8_t code, fast_msg *msg)
{
    const size_t size = code < 128 ? code * sizeof(float) : code - 128u;
    const size_t bytes = size < f->left ? size : f->left;
    fast_buffer *buffer = NULL;
    const fast_err err = fast_buffer_new(actor, size, &buffer);

    if (err)
        return err;
    memset(fast_buffer_data(buffer), 0, size);
    memcpy(fast_buffer_data(buffer), f->at, bytes);
    f->at += bytes;
    f->left -= bytes;
    fast_buffer_freeze(buffer);
    fast_msg_add_view(msg, buffer, 0, size);
    fast_buffer_free(buffer);
    return FAST_OK;
}

/* Send the next message of the input. */
static inline fast_err forge_send(forge *f, fast_actor *actor, const int64_t *ids, int64_t id_count,
                                  const uint64_t *tags, int64_t tag_count)
{
    const int64_t to = ids[forge_byte(f) % id_count];
    const uint64_t tag = tags[forge_byte(f) % tag_count];
    fast_msg *msg = NULL;
    uint8_t sizes[FAST_MSG_PARTS_MAX];

    if (forge_byte(f) % 2 == 1) {
        const fast_err err = fast_sleep_until(actor, fast_now(actor) + 1000000);
        if (err)
            return err;
    }
    fast_err err = fast_msg_new(actor, tag, &msg);
    if (err)
        return err;
    for (int i = 0; i < FAST_MSG_WORDS; i++)
        msg->words[i] = forge_word(f);
    msg->declared = forge_byte(f) * sizeof(float);
    const int parts = forge_byte(f) % (FAST_MSG_PARTS_MAX + 1);
    for (int i = 0; i < parts; i++)
        sizes[i] = forge_byte(f);
    for (int i = 0; i < parts && !err; i++)
        err = forge_part(f, actor, sizes[i], msg);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    err = fast_send(actor, to, &msg);
    return err == FAST_EPEER ? FAST_OK : err;
}

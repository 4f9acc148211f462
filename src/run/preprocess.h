/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/loader.h"
#include "fast/comm.h"

/*
 * Preprocessing on actors of their own, as in Project Adam: they read, decode, augment and
 * normalise; a worker asks for its next batches ahead and receives them as messages. The batches
 * are those that the worker would make itself, to the bit. preprocess.c has the messages.
 */
struct fast_team;

/* The side of one worker: what it asked for. Used by its actor alone. */
typedef struct fast_preprocess_client {
    int64_t server;     /* actor that makes its batches; -1: the worker makes them itself */
    int64_t depth;      /* batches that it asks for ahead */
    int64_t next;       /* number of the batch that follows the last one it received */
    int64_t asked;      /* first number that it has not asked for */
    int64_t generation; /* number of times it continued elsewhere: older answers are dropped */
    int64_t pending;    /* batches that it has asked for and not received */
} fast_preprocess_client;

/* Set up the side of worker `rank`. */
void fast__preprocess_init(const struct fast_team *team, int64_t rank,
                           fast_preprocess_client *client);

/* Receive the batches first, ..., first + count - 1 into the loader, which is a remote one. Waits
 * at most the run's timeout for each. FAST_EPEER if the preprocessing actor is gone, or the error
 * that it had. */
fast_err fast__preprocess_fetch(fast_preprocess_client *client, fast_actor *actor,
                                fast_loader *loader, int64_t first, int64_t count);

/* Receive and drop the batches that were asked for ahead, so that no message is on its way; the
 * next fetch asks for its batches again. FAST_ETIMEDOUT. */
fast_err fast__preprocess_drain(fast_preprocess_client *client, fast_actor *actor);

/* Tell the preprocessing actor that this worker needs no more. */
void fast__preprocess_end(fast_preprocess_client *client, fast_actor *actor);

/* The program of a preprocessing actor; `ctx` is the team. */
fast_err fast__team_preprocessor(fast_actor *actor, void *ctx);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preprocessing actors, as in Project Adam (Chilimbi et al. 2014): `preprocess` of them make the
 * batches of all workers. Worker w belongs to preprocessing actor w mod n.
 *
 *   worker                              preprocessing actor
 *   ask: numbers n, n+1, ... ---------> loader of that worker: read, decode, augment, normalise
 *   compute the step before             (the next batch is made meanwhile)
 *   receive batch n <------------------ x, answers, ids
 *   end ------------------------------> leaves when all its workers ended or are gone
 *
 *   ask     words: number, generation
 *   batch   words: number, generation, count, FAST_OK      parts: x, answers, ids
 *           words: number, generation, 0, error            part: its detail
 *   end     words: -1
 *
 * A batch is a pure function of the options and its number (data/loader.h), so it does not matter
 * who makes it, and a lost or repeated request changes nothing. Messages: two a batch; bytes: those
 * of a batch in float. The program waits for requests without an end of its own: a worker may
 * evaluate for a long time; it looks every second whether its workers are still there.
 */
#include "run/preprocess.h"

#include "base/memory.h"
#include "run/team.h"

#include <string.h>

enum { TAG_ASK_BATCH = 0x7ffffff0, TAG_BATCH };
enum { WORD_NUMBER, WORD_GENERATION, WORD_COUNT, WORD_ERR };
enum { PART_X, PART_ANSWERS, PART_IDS, PART_COUNT };

static const int64_t poll_ns = 1000000000; /* between looks at workers that send nothing */

/* The worker's side. */

void fast__preprocess_init(const fast_team *team, int64_t rank, fast_preprocess_client *client)
{
    const fast_run_config *c = &team->run->config;
    const int64_t ahead = c->prefetch_count > 0 ? c->prefetch_count : FAST_PREFETCH_AUTO;

    FAST_ASSERT(rank >= 0 && rank < team->workers);
    *client = (fast_preprocess_client){ .server = -1, .next = -1 };
    if (c->preprocess > 0 && team->run->data.train)
        client->server = team->workers + team->servers + rank % c->preprocess;
    client->depth = ahead * c->accumulate;
}

/* Send a request for one batch, or -1 for the end. */
static fast_err ask(fast_preprocess_client *client, fast_actor *actor, int64_t number)
{
    fast_msg *msg = NULL;

    FAST_ASSERT(client->server >= 0);
    FAST_TRY(fast_msg_new(actor, TAG_ASK_BATCH, &msg));
    msg->words[WORD_NUMBER] = number;
    msg->words[WORD_GENERATION] = client->generation;
    client->pending += number >= 0;
    return fast_send(actor, client->server, &msg);
}

/* Copy a batch that arrived to the loader. Its sizes must be those of the loader's own. */
static fast_err take_batch(const fast_msg *msg, fast_loader *loader)
{
    char text[FAST_DETAIL_MAX];
    fast_batch batch = { .count = msg->words[WORD_COUNT] };

    if (msg->words[WORD_ERR] != FAST_OK) {
        const size_t size = msg->part_count == 1 ? msg->parts[0].size : 0;

        snprintf(text, sizeof text, "%.*s", (int)(size < sizeof text ? size : sizeof text - 1),
                 size > 0 ? (const char *)fast_msg_data(msg, 0) : "");
        return fast__fail((fast_err)msg->words[WORD_ERR], "preprocessing: %s", text);
    }
    if (msg->part_count != PART_COUNT)
        return fast__fail(FAST_EFORMAT, "a batch has %d parts, expected %d", msg->part_count,
                          PART_COUNT);
    batch.x = fast_msg_data(msg, PART_X);
    batch.labels = fast_msg_data(msg, PART_ANSWERS);
    batch.targets = fast_msg_data(msg, PART_ANSWERS);
    batch.ids = fast_msg_data(msg, PART_IDS);
    const size_t sizes[] = { msg->parts[PART_X].size, msg->parts[PART_ANSWERS].size,
                             msg->parts[PART_IDS].size };
    return fast__loader_put(loader, msg->words[WORD_NUMBER], &batch, sizes);
}

/* Receive one batch; answers to requests of an earlier position are dropped. */
static fast_err receive_batch(fast_preprocess_client *client, fast_actor *actor,
                              fast_loader *loader, int64_t number)
{
    for (;;) {
        fast_msg *msg = NULL;
        fast_err err = fast_receive(actor, client->server, TAG_BATCH, FAST_SOON, &msg);

        if (err)
            return err;
        const bool wanted = msg->words[WORD_GENERATION] == client->generation;

        client->pending--;
        FAST_ASSERT(!wanted || msg->words[WORD_NUMBER] == number);
        if (wanted)
            err = take_batch(msg, loader);
        fast_msg_free(msg);
        if (wanted || err)
            return err;
    }
}

fast_err fast__preprocess_fetch(fast_preprocess_client *client, fast_actor *actor,
                                fast_loader *loader, int64_t first, int64_t count)
{
    FAST_ASSERT(first >= 0 && count > 0);
    if (client->server < 0)
        return FAST_OK;
    if (first != client->next) { /* the start, or the worker continues at another step */
        client->generation++;
        client->asked = first;
    }
    for (; client->asked < first + count + client->depth; client->asked++)
        FAST_TRY(ask(client, actor, client->asked));
    for (int64_t i = 0; i < count; i++)
        FAST_TRY(receive_batch(client, actor, loader, first + i));
    client->next = first + count;
    return FAST_OK;
}

fast_err fast__preprocess_drain(fast_preprocess_client *client, fast_actor *actor)
{
    client->next = -1;
    for (; client->pending > 0; client->pending--) {
        fast_msg *msg = NULL;
        const fast_err err = fast_receive(actor, client->server, TAG_BATCH, FAST_SOON, &msg);

        if (err == FAST_EPEER) /* the next request says so */
            client->pending = 1;
        else
            FAST_TRY(err);
        fast_msg_free(msg);
    }
    return FAST_OK;
}

void fast__preprocess_end(fast_preprocess_client *client, fast_actor *actor)
{
    if (client->server < 0)
        return;
    client->next = -1; /* the next world begins with new requests */
    client->pending = 0;
    client->generation++;
    /* An actor that is gone needs no end. */
    const fast_err err = ask(client, actor, -1);
    (void)err;
}

/* The preprocessing actor's side. */

/* Append a copy of an array to a message. */
static fast_err add_part(fast_actor *actor, fast_msg *msg, const void *from, size_t size)
{
    fast_buffer *buffer = NULL;

    FAST_TRY(fast_buffer_new(actor, size, &buffer));
    memcpy(fast_buffer_data(buffer), from, size);
    fast_msg_add(msg, &buffer);
    return FAST_OK;
}

/* Fill an answer with a batch, or with the reason why there is no batch. */
static fast_err fill_answer(fast_actor *actor, fast_loader *loader, const fast_data *data,
                            fast_msg *msg)
{
    const fast_batch *batch = NULL;
    const fast_err err = fast__loader_get(loader, msg->words[WORD_NUMBER], &batch);

    msg->words[WORD_ERR] = err;
    if (err)
        return add_part(actor, msg, fast_error_detail(), strlen(fast_error_detail()) + 1);
    const size_t count = (size_t)batch->count;
    const size_t each = (size_t)(data->labels ? data->positions : data->outputs) * sizeof(float);
    const void *answers = data->labels ? (const void *)batch->labels : (const void *)batch->targets;

    msg->words[WORD_COUNT] = batch->count;
    FAST_TRY(add_part(actor, msg, batch->x, count * (size_t)data->features * sizeof(float)));
    FAST_TRY(add_part(actor, msg, answers, count * each));
    FAST_TRY(add_part(actor, msg, batch->ids, count * sizeof *batch->ids));
    /* Reading, converting and writing each value. */
    const double values = (double)batch->count * (double)data->features;
    return fast_charge(actor, 2 * values, 5 * values);
}

/* Make and send the batch that a worker asks for. A worker that is gone needs no batch. */
static fast_err answer(fast_actor *actor, fast_loader *loader, const fast_data *data,
                       const fast_msg *request)
{
    fast_msg *msg = NULL;

    if (request->words[WORD_NUMBER] < 0 || request->words[WORD_NUMBER] > FAST_STEPS_MAX << 16)
        return fast__fail(FAST_EFORMAT, "a request for batch %lld",
                          (long long)request->words[WORD_NUMBER]);
    FAST_TRY(fast_msg_new(actor, TAG_BATCH, &msg));
    msg->words[WORD_NUMBER] = request->words[WORD_NUMBER];
    msg->words[WORD_GENERATION] = request->words[WORD_GENERATION];
    fast_err err = fill_answer(actor, loader, data, msg);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    err = fast_send(actor, request->from, &msg);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Does any worker of this actor still train? */
static bool is_needed(fast_actor *actor, const fast_team *team, int64_t index, const bool *ended)
{
    for (int64_t w = index; w < team->workers; w += team->run->config.preprocess)
        if (!ended[w] && !fast_member_is_down(actor, w))
            return true;
    return false;
}

/* Serve requests until no worker is left. loaders[w] is made when worker w first asks. */
static fast_err serve(fast_actor *actor, const fast_team *team, fast_loader **loaders, bool *ended)
{
    const int64_t index = fast_actor_index(actor, fast_actor_id(actor));

    FAST_ASSERT(team->run->data.train != NULL);
    while (is_needed(actor, team, index, ended)) {
        fast_msg *msg = NULL;
        fast_err err =
            fast_receive(actor, FAST_ANY, TAG_ASK_BATCH, fast_now(actor) + poll_ns, &msg);

        if (err == FAST_ETIMEDOUT)
            continue;
        if (err == FAST_EPEER) /* no other actor is up */
            return FAST_OK;
        FAST_TRY(err);
        const int64_t w = msg->from;

        if (w < 0 || w >= team->workers || w % team->run->config.preprocess != index)
            err = fast__fail(FAST_EFORMAT, "actor %lld asked for a batch", (long long)w);
        else if (msg->words[WORD_NUMBER] == -1)
            ended[w] = true;
        else if (!loaders[w])
            err = fast__run_loader(team->run, w, false, &loaders[w]);
        if (!err && !ended[w])
            err = answer(actor, loaders[w], team->run->data.train, msg);
        fast_msg_free(msg);
        FAST_TRY(err);
    }
    return FAST_OK;
}

fast_err fast__team_preprocessor(fast_actor *actor, void *ctx)
{
    const fast_team *team = ctx;
    fast_loader **loaders = NULL;
    bool *ended = NULL;

    if (team->place.agreeing)
        return FAST_OK;
    fast_err err = fast__alloc("loaders", team->workers, sizeof *loaders, &loaders);
    if (!err)
        err = fast__alloc("ended workers", team->workers, sizeof *ended, &ended);
    if (!err)
        err = serve(actor, team, loaders, ended);
    for (int64_t w = 0; loaders && w < team->workers; w++)
        fast__loader_free(loaders[w]);
    fast__free(loaders);
    fast__free(ended);
    return err;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the messages of the strategy quorum: three workers and two servers train in the simulator,
 * and one of them first sends the input as messages (forge.h), by all tags of the strategy, to any
 * actor; then it does what it should. The first byte chooses which actor that is, the second the
 * options. Whatever the messages are, the run succeeds or fails with a reason.
 */
#include "fast/strategy.h"
#include "forge.h"
#include "strategy/strategy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORKERS = 3, SERVERS = 2, MESSAGES_MAX = 64 };

static forge input;                   /* the messages */
static int64_t attacker;              /* the actor that sends them */
static const fast_strategy *original; /* the strategy that is attacked */

static fast_err attack(fast_trainer *t)
{
    const uint64_t tags[] = { 1, 2, 3 }; /* up, down, model */
    int64_t ids[WORKERS + SERVERS];

    for (int i = 0; i < WORKERS; i++)
        ids[i] = t->worker_ids[i];
    for (int i = 0; i < SERVERS; i++)
        ids[WORKERS + i] = t->server_ids[i];
    if (fast_actor_id(t->actor) != ids[attacker])
        return FAST_OK;
    for (int i = 0; input.left > 0 && i < MESSAGES_MAX; i++)
        FAST_TRY(forge_send(&input, t->actor, ids, WORKERS + SERVERS, tags, 3));
    return FAST_OK;
}

static fast_err worker(fast_trainer *t, const void *config)
{
    FAST_TRY(attack(t));
    return original->worker(t, config);
}

static fast_err server(fast_trainer *t, const void *config)
{
    FAST_TRY(attack(t));
    return original->server(t, config);
}

static const fast_strategy *find_quorum(void)
{
    const fast_strategy *const *found = fast__strategies;

    while (*found && strcmp((*found)->name, "quorum") != 0)
        found++;
    FAST_ASSERT(*found != NULL);
    return *found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const specs[] = { "strategy=attacked:servers=2,quorum=2",
                                         "strategy=attacked:servers=2,quorum=2,late=add",
                                         "strategy=attacked:servers=2,quorum=2,partial=yes",
                                         "strategy=attacked:servers=2,quorum=1,lag=1" };
    static const char *const codecs[] = { "codec=none", "codec=topk:ratio=0.1", "codec=int8" };
    fast_run *run = NULL;

    original = find_quorum();
    input = (forge){ data, size };
    attacker = forge_byte(&input) % (WORKERS + SERVERS);
    const int form = forge_byte(&input);
    fast_strategy attacked = *original;
    attacked.name = "attacked";
    attacked.worker = worker;
    attacked.server = server;
    const char *const options[] = { "model=mlp:hidden=2",
                                    "data=blobs:train=24,test=8",
                                    "engine=ref",
                                    "plan=no",
                                    "transport=sim",
                                    "timeout=5",
                                    "batch=2",
                                    "steps=3",
                                    "evaluate=end",
                                    "workers=3",
                                    "accumulate=2",
                                    specs[form % 4],
                                    codecs[form / 4 % 3],
                                    NULL };
    fast_err err = fast_run_open_strategy(options, &attacked, &run);
    FAST_ASSERT(err == FAST_OK);
    err = fast_run_train(run);
    FAST_ASSERT(!err || fast_error_detail()[0] != '\0');
    fast_run_close(run);
    return 0;
}

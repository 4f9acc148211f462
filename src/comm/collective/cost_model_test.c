/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: `auto` takes the algorithm that is really the fastest, all members the same one, and a fit
 * costs little and is not repeated.
 * Method: in simulation, on clusters without random delays, every algorithm with the canonical
 * order is timed; the chosen one is the fastest or within 10% of it, and its time is within 20% of
 * the model's. Members tell each other their choices. A second group of the same actors sends only
 * the messages that tell all members the costs. Before a fit, the choice is assumed but equal.
 */
#include "base/err.h"
#include "comm/cost_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ACTORS_MAX = 64, NAME_MAX_SIZE = 32 };

static const int64_t counts[] = { 0, 1, 64, 2048, 16384, 131072, 1 << 20, 1 << 23 };
enum { COUNTS = sizeof counts / sizeof counts[0] };

/* State that the actors of a run share: in `sim` they run one at a time. */
typedef struct shared {
    int64_t ends[ACTORS_MAX];                        /* of one call */
    char choices[ACTORS_MAX][COUNTS][NAME_MAX_SIZE]; /* of each actor */
} shared;

/* Seconds of one allreduce that all begin at once. */
static fast_err time_one(fast_actor *actor, fast_group *group, shared *s, int64_t count,
                         double *out)
{
    int64_t begin = fast_now(actor) + 1000000000;
    FAST_TRY(fast_broadcast(group, 0, &begin, sizeof begin, FAST_SOON));
    FAST_TRY(fast_sleep_until(actor, begin));
    FAST_TRY(fast_allreduce(group, NULL, count, FAST_SOON));
    s->ends[fast_group_rank(group)] = fast_now(actor);
    FAST_TRY(fast_barrier(group, FAST_SOON));
    int64_t end = begin;
    for (int64_t i = 0; i < fast_group_size(group); i++)
        end = s->ends[i] > end ? s->ends[i] : end;
    *out = (double)(end - begin) * 1e-9;
    return fast_barrier(group, FAST_SOON);
}

static fast_err check_count(fast_actor *actor, fast_group *group, shared *s, int at)
{
    const int64_t count = counts[at];
    double best = INFINITY, chosen = 0, predicted = 0;
    FAST_TRY(fast_group_algorithm(group, "auto"));
    FAST_TRY(time_one(actor, group, s, count, &chosen));
    const char *name = fast_group_choice(group, count, &predicted);
    snprintf(s->choices[fast_group_rank(group)][at], NAME_MAX_SIZE, "%s", name);
    for (int i = 0; fast__allreduces[i]; i++) {
        double seconds = 0;
        if (!fast__allreduces[i]->canonical ||
            fast_group_algorithm(group, fast__allreduces[i]->name))
            continue;
        FAST_TRY(time_one(actor, group, s, count, &seconds));
        best = seconds < best ? seconds : best;
    }
    if (count > 0 && chosen > 1.1 * best)
        return fast__fail(FAST_EINVAL, "%s takes %g s for %lld floats; the best %g s", name, chosen,
                          (long long)count, best);
    if (count > 0 && fabs(predicted - chosen) > 0.2 * chosen)
        return fast__fail(FAST_EINVAL, "%s for %lld floats takes %g s, predicted were %g s", name,
                          (long long)count, chosen, predicted);
    return FAST_OK;
}

static fast_err choice_main(fast_actor *actor, void *ctx)
{
    fast_group *group = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = FAST_OK;
    for (int i = 0; i < COUNTS && !err; i++)
        err = check_count(actor, group, ctx, i);
    fast_group_free(group);
    return err;
}

static void run(const char *cluster, int64_t actors, fast_actor_fn *program, void *ctx)
{
    char option[64];
    snprintf(option, sizeof option, "cluster=%s", cluster);
    const char *options[] = { "transport=sim", "timeout=1000", option, NULL };
    const fast_role roles[] = { { "worker", actors, program, ctx } };
    const fast_err err = fast_actors_run(options, roles, 1, NULL);
    if (err)
        print_error("%s, %lld actors: %s\n", cluster, (long long)actors, fast_error_detail());
    assert_int_equal(err, FAST_OK);
}

static void test_choice(void **state)
{
    (void)state;
    static const char *const clusters[] = { "ethernet-1g", "ethernet-10g", "infiniband" };
    static const int64_t sizes[] = { 1, 2, 3, 5, 6, 8, 13, 16, 24 };
    for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++)
        for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
            static shared s;
            memset(&s, 0, sizeof s);
            run(clusters[c], sizes[n], choice_main, &s);
            for (int64_t rank = 1; rank < sizes[n]; rank++)
                assert_memory_equal(s.choices[rank], s.choices[0], sizeof s.choices[0]);
        }
}

/* A schedule that is played takes what the closed form says, for powers of two. */
static void test_predict(void **state)
{
    (void)state;
    static const fast_algorithm *const algorithms[] = {
        &fast__allreduce_tree,
        &fast__allreduce_butterfly,
        &fast__allreduce_rabenseifner,
    };
    const fast_comm_cost cost = { .alpha = 2e-6, .beta = 3e-10, .gamma = 7e-10 };
    for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++)
        for (int64_t n = 1; n <= FAST_PREDICT_MAX; n *= 2)
            for (int64_t count = n; count < 10000000; count *= 32) {
                const fast_ask ask = { .size = n, .count = count };
                const double closed = algorithms[a]->seconds(&cost, &ask);
                double played = -1;
                assert_true(fast__schedule_predict(&cost, &ask, algorithms[a]->rounds, &played));
                assert_true(fabs(played - closed) <= 1e-9 * closed);
            }
    const fast_ask large = { .size = FAST_PREDICT_MAX + 1, .count = 1 };
    double untouched = -1;
    assert_false(fast__schedule_predict(&cost, &large, fast__allreduce_tree.rounds, &untouched));
    assert_true(untouched < 0);
}

/* Near members take what needs no messages, without a fit. */
static fast_err near_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_group *group = NULL;
    float x[300] = { 0 };
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = fast_allreduce(group, x, 300, FAST_SOON);
    if (!err && actor->counters.messages_sent != 0)
        err = fast__fail(FAST_EINVAL, "%lld messages", (long long)actor->counters.messages_sent);
    if (!err && strcmp(fast_group_choice(group, 300, NULL), "direct") != 0)
        err = fast__fail(FAST_EINVAL, "%s", fast_group_choice(group, 300, NULL));
    fast_group_free(group);
    return err;
}

static void test_near(void **state)
{
    (void)state;
    run("laptop", 6, near_main, NULL);
}

/* A second group reuses the fit: rank 0 sends its broadcast and the sums, and no pings. */
static fast_err again_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t ids[] = { 0, 1, 2, 3 };
    int64_t sent[2] = { 0, 0 };
    for (uint32_t generation = 1; generation <= 2; generation++) {
        fast_group *group = NULL;
        FAST_TRY(fast_group_new(actor, ids, 4, generation, &group));
        const int64_t before = actor->counters.messages_sent;
        /* Until there is a fit everyone assumes the same; a start cannot wait for one. */
        const fast_err err = fast__model_fit(group, FAST_SOON);
        sent[generation - 1] = actor->counters.messages_sent - before;
        double first = 0;
        (void)fast_group_choice(group, 1000, &first);
        fast_group_free(group);
        FAST_TRY(err);
        if (!(first > 0))
            return fast__fail(FAST_EINVAL, "no prediction");
    }
    /* Once, costs are told; at the first time a question and the pings came before. */
    if (sent[1] > 2 || (actor->id == 0 && sent[0] < 40))
        return fast__fail(FAST_EINVAL, "%lld messages, then %lld", (long long)sent[0],
                          (long long)sent[1]);
    return FAST_OK;
}

static void test_again(void **state)
{
    (void)state;
    run("ethernet-10g", 4, again_main, NULL);
}

/* Starting without a fit: everyone assumes the same, and the sum is right. */
static fast_err start_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    float x[5] = { 1, 2, 3, 4, 5 };
    fast_group *group = NULL;
    fast_request *request = NULL;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = fast_allreduce_start(group, x, 5, &request);
    if (!err)
        err = fast_request_wait(&request, FAST_SOON);
    if (!err && x[4] != 15)
        err = fast__fail(FAST_EINVAL, "the sum is %g", (double)x[4]);
    fast_group_free(group);
    return err;
}

static void test_start(void **state)
{
    (void)state;
    run("ethernet-1g", 3, start_main, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice), cmocka_unit_test(test_predict), cmocka_unit_test(test_near),
        cmocka_unit_test(test_again),  cmocka_unit_test(test_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

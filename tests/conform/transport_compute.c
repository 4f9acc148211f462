/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transports, computing: work runs once, its reports come in order with their ranges, may send and
 * post, its errors come back, and charging is counted; on a virtual clock it takes time.
 */
#include "conform/transport_suite.h"

#include <string.h>

enum { SEGMENTS = 8, WIDTH = 100 };

/* A piece of work that fills a vector from its end, as gradients come. */
typedef struct job {
    fast_work work;
    fast_actor *actor;              /* whose work it is */
    int64_t runs;                   /* of run() */
    int64_t reports;                /* so far */
    bool disordered;                /* a report came out of order, or before its values */
    fast_err sent;                  /* the result of sending in reports */
    float values[SEGMENTS * WIDTH]; /* the result */
} job;

static fast_err job_run(fast_work *work)
{
    job *j = (job *)work;
    j->runs++;
    for (int64_t s = SEGMENTS - 1; s >= 0; s--) {
        for (int64_t i = 0; i < WIDTH; i++)
            j->values[s * WIDTH + i] = (float)(s * WIDTH + i);
        fast_work_report(work, work->operations * (double)(SEGMENTS - s) / SEGMENTS, s * WIDTH,
                         WIDTH);
    }
    return FAST_OK;
}

/* Sends the segment's number to the next actor: reports may post. */
static void job_report(void *ctx, int64_t offset, int64_t count)
{
    job *j = ctx;
    const int64_t segment = SEGMENTS - 1 - j->reports;
    j->reports++;
    if (offset != segment * WIDTH || count != WIDTH || j->values[offset] != (float)offset)
        j->disordered = true;
    const int64_t to = (fast_actor_id(j->actor) + 1) % fast_actor_count(j->actor);
    const fast_err err = suite_send(j->actor, to, 1, segment);
    j->sent = j->sent ? j->sent : err;
}

static fast_err work_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    job j = { .work = { .run = job_run,
                        .report = job_report,
                        .name = "gradient",
                        .operations = 1e6,
                        .bytes = 1e5 },
              .actor = actor };
    j.work.ctx = &j;
    for (int64_t round = 0; round < 3; round++) {
        const int64_t begin = fast_now(actor);
        j.reports = 0;
        FAST_TRY(fast_compute(actor, &j.work));
        FAST_TRY(EXPECT(j.runs == round + 1));
        FAST_TRY(EXPECT(j.reports == SEGMENTS));
        FAST_TRY(EXPECT(!j.disordered));
        FAST_TRY(j.sent);
        FAST_TRY(EXPECT(fast_now(actor) >= begin));
        FAST_TRY(EXPECT(!actor->world->inner->virtual_clock || fast_now(actor) > begin));
        for (int64_t s = SEGMENTS - 1; s >= 0; s--)
            FAST_TRY(suite_receive(actor, (id + count - 1) % count, 1, s));
    }
    return EXPECT(actor->counters.compute_ns > 0);
}

static fast_err run_work(const suite *on)
{
    fast_actors_result result;
    FAST_TRY(suite_run(on, work_main, NULL, on->count, NULL, &result));
    return EXPECT(result.compute_ns > 0);
}

/* Work without reports, work that sets its cost itself, and work that fails. */
static fast_err set_cost(fast_work *work)
{
    work->operations = 5e5;
    work->bytes = 10;
    fast_work_report(work, 0, 0, 1); /* nobody listens */
    return FAST_OK;
}

static fast_err fail_work(fast_work *work)
{
    (void)work;
    return fast__fail(FAST_EFORMAT, "the batch is empty");
}

static fast_err cost_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_work work = { .run = set_cost };
    const int64_t begin = fast_now(actor);
    FAST_TRY(fast_compute(actor, &work));
    FAST_TRY(EXPECT(!actor->world->inner->virtual_clock || fast_now(actor) > begin));
    work.run = fail_work;
    FAST_TRY(EXPECT_ERR(fast_compute(actor, &work), FAST_EFORMAT));
    FAST_TRY(EXPECT(strcmp(fast_error_detail(), "the batch is empty") == 0));
    return suite_barrier(actor);
}

static fast_err run_cost(const suite *on)
{
    return suite_run(on, cost_main, NULL, on->count, NULL, NULL);
}

/* Charges: none, little, much; time does not go back, and passes on a virtual clock. */
static fast_err charge_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    static const double costs[] = { 0, 1, 1e3, 1e6, 1e9 };
    for (int i = 0; i < 5; i++) {
        const int64_t begin = fast_now(actor);
        FAST_TRY(fast_charge(actor, costs[i], costs[4 - i]));
        FAST_TRY(EXPECT(fast_now(actor) >= begin));
        FAST_TRY(EXPECT(!actor->world->inner->virtual_clock || fast_now(actor) > begin));
    }
    return suite_barrier(actor);
}

static fast_err run_charge(const suite *on)
{
    return suite_run(on, charge_main, NULL, on->count, NULL, NULL);
}

const suite_case suite_compute[] = {
    { "work, its reports, and sends in them", run_work, true },
    { "work with its own cost, and work that fails", run_cost, true },
    { "charges", run_charge, true },
    { NULL, NULL, false },
};

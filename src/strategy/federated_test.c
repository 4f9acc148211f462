/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Federated rounds. Goal: with everyone they are `local`; the number of devices, the window and the
 * least number of reports do what they say; reports weigh as many samples as their devices have,
 * and epochs are of those samples; devices come back at the pace of the rounds, and may crash.
 * Method: small runs on the simulator with slow and crashing devices, beside runs without, and
 * beside the formula as a strategy of its own.
 */
#include "replicas.h"
#include "small_run.h"
#include "tensor/vector.h"
#include "trainer/own_data.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static fast_result train(const char *strategy, const char *more)
{
    const char *const list[] = { more, NULL };

    return test_small_run(strategy, 4, list);
}

static void everyone_is_local(void **state)
{
    static const char *const more[] = { NULL, "transport=threads", "optimizer=momentum", "steps=22",
                                        "codec=none+lz4" };

    (void)state;
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        const fast_result a = train("federated:period=4,over=1", more[i]),
                          b = train("local:period=4,state=reset", more[i]);

        assert_true(fabs(a.test_loss - b.test_loss) < 1e-5);
        assert_true(a.steps == b.steps && a.completeness == 1 && a.divergence == 0);
    }
#ifndef FAST_SANITIZED
    /* State that is not trained is averaged as well. */
    static const char *const norms[] = { "model=resnet8:width=1", "steps=4", "batch=2",
                                         "data=digits:train=16,test=4", NULL };
    const fast_result a = test_small_run("federated:period=2,over=1", 2, norms),
                      b = test_small_run("local:period=2,state=reset", 2, norms);
    assert_true(fabs(a.test_loss - b.test_loss) < 1e-3);
#endif
}

/* A round of two of four devices sends half as much, and takes half of the steps. */
static void few_are_chosen(void **state)
{
    const fast_result all = train("federated:period=4,over=1", NULL),
                      half = train("federated:period=4,over=1,part=0.5", NULL),
                      more = train("federated:period=4,over=1.5,part=0.5", NULL);

    (void)state;
    assert_true(half.bytes_sent < 0.7 * (double)all.bytes_sent);
    assert_true(half.bytes_sent < more.bytes_sent && more.bytes_sent < all.bytes_sent);
    assert_true(half.samples > 0 && half.samples < 0.6 * (double)all.samples);
    assert_true(half.params_hash == train("federated:period=4,over=1,part=0.5", NULL).params_hash);
    assert_true(half.params_hash !=
                train("federated:period=4,over=1,part=0.5", "seed=2").params_hash);
}

/* Who is slow is not waited for where more are chosen than needed, or by the window. */
static void the_slow_are_left_out(void **state)
{
    static const char *const slow = "faults=slow 3 at 0s by 1000";
    const double waits = train("federated:period=4,over=1", slow).virtual_time_s;

    (void)state;
    assert_true(train("federated:period=4,part=0.75,over=1.4", slow).virtual_time_s < 0.7 * waits);
    assert_true(train("federated:period=4,over=1,window=0.002", slow).virtual_time_s < 0.7 * waits);
}

/* Rounds without enough reports change nothing. */
static void rounds_are_given_up(void **state)
{
    static const char *const slow[] = { "faults=slow 3 at 0s by 1000", "lr=0", NULL };
    const uint64_t first = test_small_run("local", 4, slow).params_hash;

    (void)state;
    assert_true(train("federated:period=24,over=1,window=0.003,least=1", slow[0]).params_hash ==
                first);
    assert_true(train("federated:period=24,over=1,window=0.003,least=0.75", slow[0]).params_hash !=
                first);
    assert_true(train("federated:period=24,over=1,least=1", slow[0]).params_hash != first);
}

/* FedAvg, written down plainly: E = 1 epoch of each device's own samples, then the mean of all
 * models, weighted by their samples. */
static fast_err plain_fedavg(fast_trainer *t, const void *config)
{
    const fast_own_data own = fast__trainer_own_data(t);
    int64_t batch = 0;

    (void)config;
    while (fast_trainer_next(t)) {
        for (int64_t i = 0; i < (own.samples + own.batch - 1) / own.batch; i++) {
            FAST_TRY(fast_trainer_micro_gradient(t, batch++));
            FAST_TRY(fast_trainer_update(t, t->g, 1));
        }
        while (t->step < t->step_count && (t->step + 1) % t->epoch_steps != 0)
            fast_trainer_count_step(t);
        fast_trainer_count_step(t);
        float all = (float)own.samples;
        FAST_TRY(fast_allreduce(t->group, &all, 1, FAST_SOON));
        fast__vector_scale(t->count, (float)own.samples / all, t->w);
        FAST_TRY(fast_allreduce(t->group, t->w, t->count, FAST_SOON));
        fast_trainer_reset_rule(t);
    }
    return fast_trainer_end(t);
}

/* Rounds on unequal devices are those of the formula, and their plain mean is another model. */
static void reports_weigh_their_samples(void **state)
{
    static const fast_strategy plain = { .name = "plain", .worker = plain_fedavg };
    const char *options[] = { "strategy=plain",
                              "workers=4",
                              "model=mlp:hidden=12",
                              "data=digits:train=160,test=32",
                              "engine=ref",
                              "plan=no",
                              "transport=sim",
                              "batch=4",
                              "steps=30",
                              "evaluate=end",
                              "optimizer=momentum",
                              "lr=0.05",
                              "schedule=constant",
                              "shard=dirichlet",
                              NULL };
    double loss[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        fast_run *run = NULL;

        options[0] = i == 0 ? "strategy=plain" : "strategy=federated:epochs=1,over=1";
        if (fast_run_open_strategy(options, &plain, &run) || fast_run_train(run))
            fail_msg("%s: %s", options[0], fast_error_detail());
        loss[i] = fast_run_result(run)->test_loss;
        fast_run_close(run);
    }
    if (!(fabs(loss[0] - loss[1]) < 1e-5))
        fail_msg("the formula has the loss %g, federated %g", loss[0], loss[1]);
}

/* Epochs of one device that has all samples are plain SGD, and those of equal devices are rounds
 * of as many steps. */
static void epochs_of_equal_devices_are_steps(void **state)
{
    static const char *const long_run[] = { "steps=80", "shard=contiguous", NULL };
    const fast_result one = test_small_run("federated:epochs=1,over=1", 1, long_run),
                      sgd = test_small_run("allreduce", 1, long_run),
                      epochs = test_small_run("federated:epochs=1,over=1", 4, long_run),
                      steps = test_small_run("federated:period=10,over=1", 4, long_run),
                      twice = test_small_run("federated:epochs=2,over=1", 4, long_run);

    (void)state;
    assert_true(fabs(one.test_loss - sgd.test_loss) < 1e-5);
    assert_true(one.samples == sgd.samples && epochs.samples == steps.samples);
    assert_true(epochs.params_hash == steps.params_hash);
    assert_true(twice.samples == steps.samples &&
                twice.bytes_sent < 0.6 * (double)steps.bytes_sent);
}

/* Pace steering: about as many devices check in for a round as it selects, rounds do not wait for
 * long, and few devices come back to every round. */
static void devices_come_back_in_time(void **state)
{
    static const char *const more[] = { "steps=80", "batch=2", NULL };
    const double rounds = 40, selected = 4; /* of 32 devices */
    const fast_result stay = test_small_run("federated:period=2,part=0.125,over=1", 32, more),
                      pace =
                          test_small_run("federated:period=2,part=0.125,over=1,pace=yes", 32, more),
                      all = test_small_run("federated:period=2,over=1", 4, more),
                      small = test_small_run("federated:period=2,over=1,pace=yes", 4, more);
    /* Besides a model and a report of each selected device: `come back` and `here I am`. */
    const double checked = (double)(pace.messages_sent - stay.messages_sent) / 2 / rounds;

    (void)state;
    if (!(checked > 0.75 * selected && checked < 2 * selected))
        fail_msg("%g devices check in for a round that selects %g", checked, selected);
    assert_true(pace.samples == stay.samples);
    assert_true(pace.virtual_time_s < 2 * stay.virtual_time_s);
    assert_true(small.samples == all.samples && fabs(small.test_loss - all.test_loss) < 1e-5);
}

/* Counts the notes that have a text in them. */
typedef struct notes {
    const char *text; /* that is looked for */
    int64_t count;    /* of notes that have it */
} notes;

static void watch(void *ctx, const fast_event *event)
{
    notes *n = ctx;

    n->count += event->kind == FAST_EVENT_NOTE && strstr(event->text, n->text);
}

/* `n` may be NULL. */
static fast_err try_with(const char *strategy, const char *faults, const char *codec, notes *n)
{
    const char *options[] = { strategy,
                              faults,
                              codec,
                              "workers=4",
                              "model=mlp:hidden=12",
                              "data=digits:train=160,test=32",
                              "engine=ref",
                              "plan=no",
                              "transport=sim",
                              "timeout=5",
                              "batch=4",
                              "steps=60",
                              "evaluate=end",
                              "optimizer=sgd",
                              NULL };
    fast_run *run = NULL;
    fast_err err = fast_run_open(options, &run);

    if (!err && n)
        fast_run_watch(run, watch, n);
    if (!err)
        err = fast_run_train(run);
    fast_run_close(run);
    return err;
}

static fast_err try(const char *strategy, const char *faults)
{
    return try_with(strategy, faults, "codec=none", NULL);
}

static void devices_come_and_go(void **state)
{
    static const char *const faults[] = {
        "faults=crash 2 at 2ms",
        "faults=crash 2 at 2ms; restart 2 at 3ms",
        "faults=crash 1 at 1ms; crash 2 at 2ms; crash 3 at 3ms",
        "faults=pause 1 at 1ms for 20ms; crash 3 at 1ms; restart 3 at 5ms",
    };
    static const char *const members[] = { "strategy=federated:period=4",
                                           "strategy=federated:period=4,part=0.5,window=0.004",
                                           "strategy=federated:period=3,part=0.5,over=1",
                                           "strategy=federated:epochs=0.4,part=0.25,pace=yes" };

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        for (size_t k = 0; k < sizeof members / sizeof members[0]; k++)
            if (try(members[k], faults[i]) != FAST_OK)
                fail_msg("%s, %s: %s", members[k], faults[i], fast_error_detail());
    assert_true(try(members[0], "faults=crash 0 at 2ms") != FAST_OK); /* the server's node */
    assert_int_equal(try("strategy=federated:part=0", "seed=2"), FAST_EINVAL);
    assert_int_equal(try("strategy=federated:epochs=1,period=3", "seed=2"), FAST_EINVAL);
    assert_int_equal(try("strategy=federated:epochs=1", "accumulate=2"), FAST_EINVAL);
    assert_int_equal(try("strategy=federated:part=0.01", "seed=2"), FAST_OK); /* one */
}

/* Devices that come back hold nothing of what the server sent before. */
static void codecs_survive_that(void **state)
{
    static const char *const codecs[] = { "codec=int8", "codec_down=topk:ratio=0.1", NULL };
    const char *const more[] = { codecs[0], codecs[1], "faults=crash 2 at 2ms; restart 2 at 2500us",
                                 NULL };

    (void)state;
    test_small_run("federated:period=2,part=0.75", 4, codecs);
    test_small_run("federated:period=2,part=0.75", 4, more);
}

/* One that waits, and is back so soon that the server has not seen it go, is sent a model that only
 * its last life could read: it waits for the next. */
static void nobody_stumbles_over_its_last_life(void **state)
{
#ifdef FAST_SANITIZED
    const int stride = 300;
#else
    const int stride = 50;
#endif

    (void)state;
    for (int at = 400; at < 2000; at += stride) {
        notes n = { .text = "did not come to the end" };
        char faults[200];

        snprintf(faults, sizeof faults,
                 "faults=crash 1 at %dus; restart 1 at %dus; crash 2 at %dus; restart 2 at %dus",
                 at, at + 1, at + 20, at + 25);
        assert_int_equal(try_with("strategy=federated:period=2,part=0.25,over=1", faults,
                                  "codec_down=topk:ratio=0.1", &n),
                         FAST_OK);
        if (n.count > 0)
            fail_msg("%s: a device did not come to the end", faults);
    }
}

/* A model that no round has changed is not handed over in silence. */
static void rounds_in_vain_are_told(void **state)
{
    notes n = { .text = "no round" };

    (void)state;
    assert_int_equal(
        try_with("strategy=federated:period=4,window=1e-9", "seed=1", "codec=none", &n), FAST_OK);
    assert_int_equal(n.count, 1);
    assert_int_equal(try_with("strategy=federated:period=4,part=0.5", "seed=1", "codec=none", &n),
                     FAST_OK);
    assert_int_equal(n.count, 1);
}

/* The weights after two rounds of two devices, with gradients that are made up. */
static float *weights_after(const char *strategy, const char *codec, const char *lr,
                            test_replicas *r)
{
    const test_replicas_options o = {
        .strategy = strategy, .codec = codec, .lr = lr, .workers = 2, .steps = 6
    };

    test_replicas_run(&o, r);
    if (r->err)
        fail_msg("%s: %s", strategy, fast_error_detail());
    return r->last[0];
}

/* True if x is the mean of what two devices report: of each the gradients of round 1 (bit 0 of a
 * choice), of round 2 (bit 1), both or none. The choice 2 alone counts if `alone`. */
static bool is_mean(float x, int64_t i, bool alone)
{
    for (int choice = 0; choice < 16; choice++) {
        float sum = 0;

        if (!alone && ((choice & 3) == 2 || choice >> 2 == 2))
            continue;
        for (int64_t step = 0; step < 6; step++)
            for (int device = 0; device < 2; device++)
                if (choice >> 2 * device & (step < 3 ? 1 : 2))
                    sum += test_replicas_gradient(device, step, i);
        if (fabsf(x + 0.125f * sum / 2) < 1e-5f)
            return true;
    }
    return false;
}

/* Trained in its space, an update has nothing outside: rounds are sent or not, each by itself. A
 * whole update loses the rest, which error feedback adds to the next report. */
static void structured_updates_are_trained(void **state)
{
    static const char *const members[] = { "federated:period=3,over=1",
                                           "federated:period=3,over=1,subspace=yes" };
    int alone[2] = { 0, 0 };
    test_replicas first, last;

    (void)state;
    for (int m = 0; m < 2; m++) {
        const float *z = weights_after(members[m], "structured:ratio=0.5", "0", &first);
        const float *w = weights_after(members[m], "structured:ratio=0.5", "0.125", &last);

        for (int64_t i = 0; i < last.count; i++) {
            assert_true(is_mean(w[i] - z[i], i, m == 1));
            alone[m] += !is_mean(w[i] - z[i], i, false);
        }
        test_replicas_free(&first);
        test_replicas_free(&last);
    }
    assert_true(alone[0] == 0 && alone[1] > 50);
    assert_true(train(members[1], "codec=structured:kind=lowrank,ratio=0.5").test_loss <
                train(members[1], "codec=structured:kind=lowrank,ratio=0.01").test_loss);
    assert_int_equal(
        try_with("strategy=federated:period=4,subspace=yes", "seed=1", "codec=sketch", NULL),
        FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "codec=structured"));
}

/* Devices that do not answer are given up after four timeouts. The server looks less and less often
 * meanwhile: every 5 ms, this run would look 80 million times. */
static void long_waits_are_short(void **state)
{
    static const char *const more[] = { "faults=random", "seed=48", "timeout=100000", NULL };

    (void)state;
    alarm(120);
    const fast_result r = test_small_run("federated:period=4,pace=yes", 4, more);
    alarm(0);
    assert_true(r.virtual_time_s > 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everyone_is_local),
        cmocka_unit_test(few_are_chosen),
        cmocka_unit_test(the_slow_are_left_out),
        cmocka_unit_test(rounds_are_given_up),
        cmocka_unit_test(reports_weigh_their_samples),
        cmocka_unit_test(epochs_of_equal_devices_are_steps),
        cmocka_unit_test(devices_come_back_in_time),
        cmocka_unit_test(devices_come_and_go),
        cmocka_unit_test(codecs_survive_that),
        cmocka_unit_test(nobody_stumbles_over_its_last_life),
        cmocka_unit_test(rounds_in_vain_are_told),
        cmocka_unit_test(structured_updates_are_trained),
        cmocka_unit_test(long_waits_are_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

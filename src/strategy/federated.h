/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/strategy.h"

/*
 * Inside the family federated: federated.c has the options and the server, federated_device.c the
 * device.
 */
enum { FEDERATED_UP = 1, FEDERATED_DOWN = 2 };
enum {
    FEDERATED_KIND_HELLO,
    FEDERATED_KIND_REPORT,
    FEDERATED_KIND_MODEL,
    FEDERATED_KIND_OVER,
    FEDERATED_KIND_BACK,
    FEDERATED_KIND_LATER
};
/* Words of a message. The version counts rounds that were merged. The life counts the device's
 * restarts: a model that was sent to an earlier life may be a difference to its copy. A report has
 * its device's samples instead of a version; KIND_LATER has, instead of a step, the ns after which
 * the device is to send KIND_BACK. */
enum {
    FEDERATED_WORD_KIND,
    FEDERATED_WORD_STEP,
    FEDERATED_WORD_VERSION,
    FEDERATED_WORD_LIFE,
    FEDERATED_WORDS
};
enum {
    FEDERATED_WORD_SAMPLES = FEDERATED_WORD_VERSION,
    FEDERATED_WORD_DELAY = FEDERATED_WORD_STEP
};

enum { FEDERATED_POLL_NS = 5000000 }; /* between checks of which devices are up */

/* The options. */
typedef struct federated_config {
    double part;    /* fraction of all devices whose reports a round waits for: K devices */
    double over;    /* devices that are selected for each awaited report */
    double window;  /* seconds of each phase of a round; 0: unlimited */
    double least;   /* fraction of K that a round needs */
    int64_t period; /* steps of a round */
    double epochs;  /* instead: passes of a device over its own samples; 0: `period` steps */
    bool pace;      /* devices leave between rounds, and are told when to come back */
    bool subspace;  /* devices train in the space of their codec's next encoding */
} federated_config;

/* A model or report that may go to several receivers. */
typedef struct federated_vector {
    const float *x;       /* its values */
    const double *shares; /* its contributions */
    fast_buffer *packed;  /* the message without codecs, once it is packed; else NULL */
} federated_vector;

/* Return the run's steps of a round: of E epochs of a device of mean size. */
int64_t fast__federated_steps(const federated_config *c, const fast_trainer *t);
/* Return the bytes of a message before the model: contributions and the state. */
size_t fast__federated_head(const fast_trainer *t);
/* Send words alone. */
fast_err fast__federated_tell(fast_trainer *t, int64_t to, uint64_t tag,
                              const int64_t words[FEDERATED_WORDS]);
/* Send a vector, the state and words. Without a flow the buffer is shared by all messages of v. */
fast_err fast__federated_send(fast_trainer *t, int64_t to, uint64_t tag,
                              const int64_t words[FEDERATED_WORDS], fast_flow *flow,
                              federated_vector *v);
/* FAST_EFORMAT unless the message has a model of the right size. */
fast_err fast__federated_check(const fast_trainer *t, const fast_msg *msg, bool coded);
/* Open a flow of a device at either end: of z (`down`), or of reports. NULL without codecs. */
fast_err fast__federated_flow(fast_trainer *t, int64_t worker, bool down, bool decodes,
                              fast_flow **out);
/* The device's program. */
fast_err fast__federated_device(fast_trainer *t, const void *config);

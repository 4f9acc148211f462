/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Bells of the ranks of one machine: a rank that waits sleeps on its own, and a rank that has sent
 * to it rings. MPI can only be polled, and polling takes the processor from those that are waited
 * for when a machine has more work than cores.
 *
 * A bell is a page of memory of its rank, which the others map through /proc. Ranks whose pages
 * cannot be mapped (another machine, another container) are silent: who waits for them wakes up by
 * itself, so a bell that is never heard costs time and nothing else.
 */
typedef struct fast_bells fast_bells;

/* Address of a rank's bell, for the others. */
typedef struct fast_bell_card {
    int64_t pid;    /* of the process */
    int64_t fd;     /* of its page; -1: it has none */
    uint64_t token; /* at the start of the page, so that a wrong page is recognised */
} fast_bell_card;

/* Make this rank's bell and its card. Without memory or memfd_create() the card has no page.
 * FAST_ENOMEM. */
fast_err fast__bells_new(int ranks, fast_bell_card *card, fast_bells **out);
/* Map the bell of a rank of this machine by its card, if that is possible; the own one too. */
void fast__bells_add(fast_bells *bells, int rank, const fast_bell_card *card);
/* Return whether the bells of all ranks could be mapped: then all can ring this one's. */
bool fast__bells_are_all(const fast_bells *bells);
void fast__bells_free(fast_bells *bells);

/* Wake a rank, if it sleeps, after something was sent to it. */
void fast__bells_ring(fast_bells *bells, int rank);
/* Return the number of rings so far: read before the last look at what may have arrived. */
unsigned fast__bells_heard(const fast_bells *bells);
/* Sleep until this rank's bell has rung more often than `heard`, at most `time_ns`. */
void fast__bells_sleep(fast_bells *bells, unsigned heard, int64_t time_ns);

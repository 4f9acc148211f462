/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Threads on the cores or NUMA nodes of the machine, by hwloc. Thread i of n goes to place
 * i places / n, so that neighbours by number share a place: with as many clusters of workers as
 * NUMA nodes, or a multiple of them, no cluster is on two nodes.
 */
typedef struct fast_binding fast_binding;

typedef enum fast_bind_mode {
    FAST_BIND_NONE, /* the system places threads */
    FAST_BIND_CORE, /* a core for each thread */
    FAST_BIND_NUMA, /* a NUMA node for neighbouring threads */
} fast_bind_mode;

/* Read the machine, or the one that hwloc's synthetic description says ("numa:2 core:4 pu:1"), on
 * which nothing can be bound. FAST_ENOTSUP in a build without hwloc, FAST_EINVAL, FAST_ENOMEM. */
fast_err fast__binding_new(fast_bind_mode mode, const char *synthetic, fast_binding **out);
void fast__binding_free(fast_binding *binding); /* NULL is allowed */
/* Return the number of places, at least 1: cores or NUMA nodes. */
int64_t fast__binding_places(const fast_binding *binding);
/* Return the place of thread i of n. */
int64_t fast__binding_place(const fast_binding *binding, int64_t i, int64_t n);
/* Return the NUMA node of a place. */
int64_t fast__binding_node(const fast_binding *binding, int64_t place);
/* Bind the calling thread to a place until it ends; false if the system does not let it. */
bool fast__binding_apply(const fast_binding *binding, int64_t place);

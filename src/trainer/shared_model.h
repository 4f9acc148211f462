/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/thread.h"
#include "rule/rule.h"

/*
 * A model that all workers of a process share; shared_model.c says how. All 0 but for the mutex:
 * nobody shares it yet.
 */
typedef struct fast_shared_model {
    fast_mutex mutex;     /* guards the fields below */
    float *w;             /* parameters; NULL: never shared */
    fast_optimizer *rule; /* the rule's state; NULL: never shared */
    int64_t sharers;      /* workers that share it now */
} fast_shared_model;

void fast__shared_model_init(fast_shared_model *shared);
void fast__shared_model_fini(fast_shared_model *shared);
